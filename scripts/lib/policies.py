"""What do `auto` and `eager` cost a PyTorch program and a job of two ranks, and which programs do they save?

Each policy and the driver's own EAGER are measured beside bare, in rounds with an order of their own. The programs of testapps/frameworks run under
each policy whose first run hangs because a CUDA runtime loads something.

Must not: judge a figure: the table is there to choose a default by. What is judged is that PyTorch computes the same.
"""

import random
import statistics
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import checks
import cold_starts
import frameworks
import guard
import ranks
import spare_time
from checks import Scratch, describe

Row = namedtuple("Row", "policy start memory ranks programs verdict")
HEADER = Row("policy", "PyTorch start", "device memory", "training of two ranks", "programs that hang in a load", "result")
POLICIES = ("auto", "eager")
MODES = ("bare", "EAGER", *POLICIES)
ROUNDS = 8
ROUNDS_OF_RANKS = 2
# Programs that hang wait most of the time.
POLICIES_AT_A_TIME = 2
JOB = "healthy_training"
# A CUDA runtime loads their kernels, beside a collective and beside a kernel that waits for the host.
HANGING = ("cold_kernel_under_all_reduce", "torch_first_use_of_operation")
NO_JOBS = "not measured: needs two GPUs, and time"
LIMIT_S = 60.0


def environment(mode):
    if mode in ("bare", "EAGER"):
        return guard.bare("LAZY" if mode == "bare" else "EAGER")
    return guard.guarded(PRELOAD=mode)


def training(mode):
    """Seconds of one job, from the start of its processes to their end."""
    with Scratch() as scratch:
        outcome = scratch.run(ranks.job(ranks.sources()[JOB].path), environment(mode), LIMIT_S)
    if outcome.code != 0:
        raise ValueError(f"{JOB} under {mode}: {describe(outcome)}")
    return outcome.seconds


def starts_of(progress):
    """Starts of PyTorch of each mode: their seconds, device memory and results."""
    commands = {mode: (cold_starts.TORCH, environment(mode)) for mode in MODES}
    return cold_starts.in_rounds(commands, lambda mode: None, ROUNDS, spare_time.is_over, lambda number, _: progress(f"PyTorch, round {number} of {ROUNDS}"))


def jobs_of(progress):
    """Seconds of the job of each mode, a value for each round; None where there was no time for one round."""
    found = {mode: [] for mode in MODES}
    for number in range(1, ROUNDS_OF_RANKS + 1):
        of_round = {}
        for mode in random.sample(MODES, len(MODES)):
            if spare_time.is_over():
                return found if number > 1 else None
            of_round[mode] = training(mode)
            progress(f"{JOB}, round {number} of {ROUNDS_OF_RANKS}: {mode} {of_round[mode]:.1f} s")
        for mode, seconds in of_round.items():
            found[mode].append(seconds)
    return found


def end(program, policy):
    """How the program ends."""
    with Scratch() as scratch:
        own = frameworks.with_own_caches({**guard.clean_environment(), "LAZYGUARD_PRELOAD": policy}, scratch)
        seen = frameworks.under_run(ranks.command_of(program), program.hang_after, scratch.path / "run", own, scratch)
    codes = ranks.codes_of(seen.report)
    return frameworks.of_text(seen.outcome) + (f" {' '.join(codes)}" if codes else "")


def ends_of(programs, progress):
    """How each program ends under each policy."""
    def of_policy(policy):
        if spare_time.is_over():
            return {}
        with ThreadPoolExecutor() as several:
            found = list(several.map(lambda program: end(program, policy), programs))
        progress(f"{policy}: {', '.join(found)}")
        return dict(zip((program.path.stem for program in programs), found))

    with ThreadPoolExecutor(POLICIES_AT_A_TIME) as several:
        return dict(zip(POLICIES, several.map(of_policy, POLICIES)))


def beside(values, bare, form):
    ratios = [one / other for one, other in zip(values, bare)]
    return f"{form.format(statistics.median(values))}, x{statistics.median(ratios):.2f}"


def check(progress, wanted, cards):
    """The rows and data."""
    *hanging, _ = frameworks.chosen_of(ranks.sources(), (*HANGING, JOB))
    chosen = [program for program in hanging if not wanted or program.path.stem in wanted]
    chosen = [program for program in chosen if cards >= ranks.RANKS or not program.blame]
    ended = ends_of(chosen, progress)
    try:
        starts = starts_of(progress)
        # Last, as two rounds of it take as long as all of the rest.
        jobs = jobs_of(progress) if cards >= ranks.RANKS else None
    except (cold_starts.Failed, ValueError) as failure:
        return [Row("", str(failure), "", "", "", "FAIL")], {"failed": str(failure), "programs": ended}
    return [row(mode, starts, jobs, ended.get(mode, {})) for mode in MODES], {"starts": starts, "jobs": jobs, "programs": ended}


def row(mode, starts, jobs, ended):
    figure = lambda key, form: beside(*([run[key] for run in starts[one]] for one in (mode, "bare")), form)
    of_ranks = beside(jobs[mode], jobs["bare"], "{:.1f} s") if jobs else NO_JOBS
    same = checks.torch_results_row({"LAZY": starts["bare"], "guard": starts[mode]})
    in_words = "; ".join(f"{name}: {how}" for name, how in ended.items())
    return Row(mode, figure("cold_start_s", "{:.2f} s"), figure("device_memory_mb", "{:.0f} MB"), of_ranks, in_words, same.verdict)
