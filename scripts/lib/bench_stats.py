"""The arithmetic of scripts/bench: what one mode adds to another, from rounds that were taken side by side.

A run is a list of generations (a fresh set of processes each), a generation a list of rounds, a round
one number of each mode. Two modes are compared round by round, so what drifts cancels; an interval
comes from drawing generations and rounds anew, so that the luck of a process's layout in memory
counts as what it is, one draw for all its rounds.

Must not know what is measured.
"""

import random
from collections import namedtuple

# added: median over all rounds of the difference; low, high: where it lies at 95 %; ratio likewise.
# undisturbed: the difference of the fifth percentiles, which hold the rounds without interrupts.
Comparison = namedtuple("Comparison", "base value added low high ratio ratio_low ratio_high undisturbed quartiles rounds generations")
DRAWS = 1000
UNDISTURBED = 5
SEED = 20


def percentile(values, percent):
    """By straight lines between the closest ranks."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def median(values):
    return percentile(values, 50)


def pooled(generations):
    return [value for generation in generations for value in generation]


def pairwise(function, base, other):
    """`function(base, other)` of each round; both must have the same generations and rounds."""
    if [len(rounds) for rounds in base] != [len(rounds) for rounds in other]:
        raise ValueError("the modes were not measured in the same rounds")
    return [[function(a, b) for a, b in zip(*rounds)] for rounds in zip(base, other)]


def interval(generations, draws=DRAWS, seed=SEED):
    """Where the median lies at 95 %: the 2.5th and the 97.5th percentile over draws with replacement."""
    source = random.Random(seed)
    medians = []
    for _ in range(draws):
        drawn = [source.choice(generations) for _ in generations]
        medians.append(median([value for rounds in drawn for value in source.choices(rounds, k=len(rounds))]))
    return percentile(medians, 2.5), percentile(medians, 97.5)


def compare(base, other, draws=DRAWS):
    added = pairwise(lambda a, b: b - a, base, other)
    ratios = pairwise(lambda a, b: b / a, base, other)
    # Of each generation by itself: the quietest process of all would stand for its layout, not for the code.
    quiet = [percentile(b, UNDISTURBED) - percentile(a, UNDISTURBED) for a, b in zip(base, other)]
    everything = pooled(added)
    low, high = interval(added, draws)
    ratio_low, ratio_high = interval(ratios, draws)
    return Comparison(median(pooled(base)), median(pooled(other)), median(everything), low, high, median(pooled(ratios)), ratio_low,
                      ratio_high, median(quiet), (percentile(everything, 25), percentile(everything, 75)), len(everything), len(base))
