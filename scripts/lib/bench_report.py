"""Turns the measurements of scripts/bench into rows, verdicts and tables.

A row is one mode of one loop beside bare. Only the guard with its default settings is judged by
the promises; the other rows are for comparison. PASS and MISS judge the median: a MISS is a figure
worse than promised, and no failure.
"""

from bench_plan import AGAIN, BARE, CLOCK, GUARD, of_library, of_torch
from bench_stats import compare, median, pairwise, pooled

MOST_ADDED_NS = 30.0
MOST_VARIED_NS = 60.0
MOST_CALL_NS = 60.0
MOST_TORCH_RATIO = 1.005
MOST_REPLAY_RATIO = 1.01
MOST_ADDED_START_NS = 120e3
PROMISES = ("of `guarded`: at most 30 ns a launch, 60 ns where functions and streams are many, 60 ns another call, under 0.5 % of the PyTorch loops, under 1 % of replays, under 0.12 ms at the start; "
            "the vendor's callbacks are said to cost 300 to 450 ns")
HEADER = ["loop", "mode", "bare", "with it", "added (95 %)", "ratio", "undisturbed", "instructions added", "result"]


def figure(loop):
    """The answer's field with the cost: several threads have to share processors, so theirs is their own time."""
    return "cpu_ns" if loop.threads > 1 else "wall_ns"


def series(generations, value):
    return [[value(answer) for answer in rounds] for rounds in generations]


def row(loop, title, mode, base, other, instructions):
    found = compare(base, other)
    return {"loop": loop.key, "title": title, "unit": loop.unit, "mode": mode.key, "mode_title": mode.title, "bare_ns": found.base,
            "ns": found.value, "added_ns": found.added, "low_ns": found.low, "high_ns": found.high, "ratio": found.ratio,
            "ratio_low": found.ratio_low, "ratio_high": found.ratio_high, "undisturbed_ns": found.undisturbed,
            "quartiles_ns": list(found.quartiles), "rounds": found.rounds, "generations": found.generations,
            "instructions_added": instructions, "verdict": ""}


def rows_of(loop, modes, outcome, stepped):
    """stepped: {mode: instructions of a launch} where they had to be counted by themselves."""
    if BARE not in outcome.samples:
        return []
    base, field = outcome.samples[BARE], figure(loop)
    title = loop.title + (", processor time" if field == "cpu_ns" else "")
    found = []
    for mode in modes:
        if mode.key == BARE or mode.key not in outcome.samples:
            continue
        other = outcome.samples[mode.key]
        one = row(loop, title, mode, series(base, lambda a: a[field]), series(other, lambda a: a[field]), instructions(base, other, mode, stepped))
        found.append(judged(one))
        if of_torch(loop.key):
            # The host's loop and the wait after it: the elapsed time.
            def whole(answer):
                return answer["wall_ns"] + answer["closing_ns"]
            found.append(judged(row(loop, f"{title}, to the end of the card's work", mode, series(base, whole), series(other, whole), None)))
    return found + [judged(one) for one in beside_clock(loop, title, modes, outcome) + beside_direct(loop, title, modes, outcome)]


def beside_clock(loop, title, modes, outcome):
    """The guard beside the clock's two readings: what a machine's clock takes, no code of the guard can save."""
    if CLOCK not in outcome.samples or GUARD not in outcome.samples:
        return []
    clock, guarded = (series(outcome.samples[key], lambda answer: answer[figure(loop)]) for key in (CLOCK, GUARD))
    return [row(loop, f"{title}, beside two readings of the clock", next(mode for mode in modes if mode.key == GUARD), clock, guarded, None)]


def beside_direct(loop, title, modes, outcome):
    """Launches beside those that the same process has made past the library: what two processes differ by is not in them."""
    found = []
    for mode in modes:
        answers = outcome.samples.get(mode.key, [])
        if mode.key == BARE or not of_library(mode) or not answers or any(answer.get("direct_ns", -1) < 0 for rounds in answers for answer in rounds):
            continue
        past, through = (series(answers, lambda answer, of=of: answer[of]) for of in ("direct_ns", "wall_ns"))
        found.append(row(loop, f"{title}, beside launches of the same process past the library", mode, past, through, None))
    return found


def instructions(base, other, mode, stepped):
    """By the processor's counter where it may be read, else as counted one at a time, else None."""
    if all(answer["instructions"] > 0 for answers in base + other for answer in answers):
        return median(pooled(pairwise(lambda a, b: b["instructions"] - a["instructions"], base, other)))
    if mode.key in stepped and BARE in stepped:
        return stepped[mode.key]["instructions"] - stepped[BARE]["instructions"]
    return None


def judged(one):
    if one["mode"] != GUARD:
        return one
    if of_torch(one["loop"]):
        good = one["ratio"] < (MOST_REPLAY_RATIO if one["unit"] == "replay" else MOST_TORCH_RATIO)
    elif one["loop"] == "start":
        good = one["added_ns"] < MOST_ADDED_START_NS
    else:
        of_loop = MOST_VARIED_NS if one["loop"] == "varied" else MOST_ADDED_NS
        good = one["added_ns"] <= (MOST_CALL_NS if one["unit"] == "call" else of_loop)
    return dict(one, verdict="PASS" if good else "MISS")


def time(nanoseconds, sign=""):
    """Nanoseconds as people read them, with `sign` as in a format."""
    if abs(nanoseconds) >= 100e3:
        return f"{nanoseconds / 1e3:{sign}.0f} us"
    return f"{nanoseconds:{sign}.0f} ns" if abs(nanoseconds) >= 1000 else f"{nanoseconds:{sign}.1f} ns"


def cells(one):
    added = f"{time(one['added_ns'], '+')} ({time(one['low_ns'], '+')} to {time(one['high_ns'], '+')})"
    counted = "" if one["instructions_added"] is None else f"{one['instructions_added']:+.0f}"
    ratio = f"x{one['ratio']:.4f}" if one["ratio"] < 1.1 else f"x{one['ratio']:.2f}"
    return [one["title"], one["mode_title"], time(one["bare_ns"]), time(one["ns"]), added, ratio, time(one["undisturbed_ns"], "+"), counted,
            one["verdict"]]


def table(rows):
    """Cells, without the header."""
    return [cells(one) for one in rows]


def as_text(header, body):
    lines = [header] + body
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([padded[0], "  ".join("-" * width for width in widths), *padded[1:]])


def noise(rows):
    """The difference of two bare processes: a smaller difference is noise."""
    found = [abs(one["added_ns"]) for one in rows if one["mode"] == AGAIN and one["loop"] != "start"]
    return max(found, default=None)


def counts(rows):
    return {verdict: sum(one["verdict"] == verdict for one in rows) for verdict in ("PASS", "MISS")}
