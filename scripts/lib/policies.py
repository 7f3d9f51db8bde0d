"""What do the policies for large CUDA runtimes cost a PyTorch program and a job of two ranks, and which programs do they save?

Each policy and the driver's own EAGER are measured beside bare, in rounds with an order of their own. Then the programs of testapps/frameworks run
under each whose first run hangs because a CUDA runtime loads something.

Must not: judge a figure: the table is there to choose a default by. What is judged is that PyTorch computes the same.
"""

import random
import statistics
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import checks
import frameworks
import guard
import ranks
import spare_time
from checks import Scratch, describe

Row = namedtuple("Row", "policy start memory ranks programs verdict")
HEADER = Row("policy", "PyTorch start", "device memory", "training of two ranks", "programs that hang in a load", "result")
POLICIES = ("auto", "modules", "auto,danger=modules", "auto,danger=eager", "eager")
MODES = ("bare", "EAGER", *POLICIES)
ROUNDS = 3
ROUNDS_OF_RANKS = 2
JOB = "healthy_training"
# A CUDA runtime loads their kernels, beside a collective and beside a kernel that waits for the host.
HANGING = ("cold_kernel_under_all_reduce", "torch_first_use_of_operation")
LIMIT_S = 60.0


def environment(mode):
    if mode in ("bare", "EAGER"):
        return guard.bare("LAZY" if mode == "bare" else "EAGER")
    return guard.guarded(PRELOAD=mode)


def start(mode):
    """One start: its seconds, device memory and results."""
    data, outcome = checks.torch_run(environment(mode))
    if data is None:
        raise ValueError(f"PyTorch under {mode}: {describe(outcome)}")
    return data


def training(mode):
    """Seconds of one job, from the start of its processes to their end."""
    with Scratch() as scratch:
        outcome = scratch.run(ranks.job(ranks.sources()[JOB].path), environment(mode), LIMIT_S)
    if outcome.code != 0:
        raise ValueError(f"{JOB} under {mode}: {describe(outcome)}")
    return outcome.seconds


def in_rounds(measure, rounds, told):
    """What `measure` gives of each mode, a value for each round."""
    found = {mode: [] for mode in MODES}
    for number in range(rounds):
        if number and spare_time.is_over():
            break
        for mode in random.sample(MODES, len(MODES)):
            found[mode].append(measure(mode))
        told(f"round {number + 1} of {rounds}")
    return found


def end(program, policy):
    """How the program ends."""
    with Scratch() as scratch:
        own = frameworks.with_own_caches({**guard.clean_environment(), "LAZYGUARD_PRELOAD": policy}, scratch)
        seen = frameworks.under_run(ranks.command_of(program), program.hang_after, scratch.path / "run", own, scratch)
    codes = ranks.codes_of(seen.report)
    return frameworks.of_text(seen.outcome) + (f" {' '.join(codes)}" if codes else "")


def ends(programs, policy):
    with ThreadPoolExecutor() as several:
        return list(several.map(lambda program: end(program, policy), programs))


def beside(values, bare, form):
    ratios = [one / other for one, other in zip(values, bare)]
    return f"{form.format(statistics.median(values))}, x{statistics.median(ratios):.2f}"


def check(progress, wanted, cards):
    """The rows and data."""
    *hanging, _ = frameworks.chosen_of(ranks.sources(), (*HANGING, JOB))
    chosen = [program for program in hanging if not wanted or program.path.stem in wanted]
    chosen = [program for program in chosen if cards >= ranks.RANKS or not program.blame]
    starts = in_rounds(start, ROUNDS, lambda told: progress(f"PyTorch, {told}"))
    jobs = in_rounds(training, ROUNDS_OF_RANKS, lambda told: progress(f"{JOB}, {told}")) if cards >= ranks.RANKS else None
    ended = {}
    for policy in POLICIES:
        if spare_time.is_over():
            break
        ended[policy] = dict(zip((program.path.stem for program in chosen), ends(chosen, policy)))
        progress(f"{policy}: {', '.join(ended[policy].values())}")
    return [row(mode, starts, jobs, ended.get(mode, {})) for mode in MODES], {"starts": starts, "jobs": jobs, "programs": ended}


def row(mode, starts, jobs, ended):
    figure = lambda key, form: beside(*([run[key] for run in starts[one]] for one in (mode, "bare")), form)
    of_ranks = beside(jobs[mode], jobs["bare"], "{:.1f} s") if jobs else "needs two GPUs"
    same = checks.torch_results_row({"LAZY": starts["bare"], "guard": starts[mode]})
    in_words = "; ".join(f"{name}: {how}" for name, how in ended.items())
    return Row(mode, figure("cold_start_s", "{:.2f} s"), figure("device_memory_mb", "{:.0f} MB"), of_ranks, in_words, same.verdict)
