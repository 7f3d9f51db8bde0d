"""Does a profile make the next run of a program safe that hangs because something is loaded, and what does a profile cost?

The programs of testapps/frameworks and testapps/corpus that state `with-profile: completes` run bare, with CUDA_MODULE_LOADING=EAGER, and then
guarded, again and again with one profile, until a run completes. PyTorch's cold start is measured bare, guarded, with a profile, and with an empty one.

Must not: call it a success that a program ended which does not hang bare, or that it printed something else.
"""

import shutil
import statistics
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import checks
import cold_starts
import corpus
import frameworks
import guard
import ranks
import spare_time
from checks import Scratch, as_data, describe, judge
from frameworks import of_text

Row = namedtuple("Row", "what bare eager first later verdict")
HEADER = Row("check", "bare", "EAGER", "guard, first run", "guard, with the profile of the runs before", "result")
MOST_RUNS = 5
AT_A_TIME = 5
# What has not ended by then hangs, bare and with EAGER: most of the time is the import of a framework; two ranks start NCCL as well.
LIMITS_S, LIMITS_OF_RANKS_S, LIMITS_OF_CORPUS_S = (25.0, 35.0), (35.0, 45.0), (8.0, 8.0)
COUNTS = ("modules_ahead", "modules_handed_over", "libraries_ahead", "libraries_handed_over")
MOST_ROUNDS = 40
COLD_START = "cold_start"
# again: a second bare process. writing: the profile is empty, as in a first run.
MODES = ("bare", "again", "guard", "writing", "profile")
MOST_RATIO = 1.02
MOST_ADDED_BY_WRITING = 1.01


def new_profile(folder):
    folder.mkdir(mode=0o700)
    return folder


def unguarded(command, loading, limit_s):
    with Scratch() as scratch:
        return scratch.run(command, frameworks.with_own_caches(guard.bare(loading), scratch), limit_s)


def until_it_completes(command, hang_after):
    """Guarded runs with one profile until one ends with status 0. They share their compilation caches as well, as those of a user do."""
    seen = []
    with Scratch() as scratch:
        settings = {"LAZYGUARD_PROFILE": str(new_profile(scratch.path / "profile"))}
        environment = frameworks.with_own_caches({**guard.clean_environment(), **settings}, scratch)
        while len(seen) < MOST_RUNS and not (seen and seen[-1].outcome.code == 0):
            seen.append(frameworks.under_run(command(), hang_after, scratch.path / f"run{len(seen)}", environment, scratch))
    return seen


def handed_over(report):
    """What the profile has loaded ahead in the processes of a run, and what of it they have got."""
    preloads = [(process.get("run") or {}).get("preload") or {} for process in report["processes"]]
    return {name: sum(preload.get(name, 0) for preload in preloads) for name in COUNTS}


def faults_of(bare, eager, seen):
    """What is not as a program states it that completes with a profile."""
    faults = [] if bare.code is None else [f"bare it does not hang: {of_text(bare)}"]
    *before, last = seen
    faults += [f"run {number}: {of_text(run.outcome)}" for number, run in enumerate(before, 1) if run.outcome.code != frameworks.OF_A_HANG]
    if last.outcome.code != 0:
        faults.append(f"run {len(seen)}: {of_text(last.outcome)}")
    else:
        faults += frameworks.says_nothing(last.report)[1]
        if eager.code == 0 and sorted(eager.stdout.splitlines()) != sorted(last.outcome.stdout.splitlines()):
            faults.append("prints something else than with EAGER")
    return faults + [fault for run in seen for fault in run.faults]


def in_words(counts):
    return ", ".join(f"{counts[f'{what}_handed_over']} of {counts[f'{what}_ahead']} {what}" for what in ("modules", "libraries")) + " handed over"


def judged(program, bare, eager, seen):
    faults = faults_of(bare, eager, seen)
    counts = [handed_over(run.report) for run in seen]
    runs = [{"exit": run.outcome.code, "seconds": round(run.outcome.seconds, 1), **count} for run, count in zip(seen, counts)]
    later = "; ".join(faults) or f"completes in run {len(seen)}, {seen[-1].outcome.seconds:.1f} s: {in_words(counts[-1])}"
    data = {"program": program.path.stem, "bare": describe(bare), "eager": describe(eager), "runs": runs}
    if faults:
        data.update(faults=faults, outcomes=[as_data(outcome) for outcome in (bare, eager, *(run.outcome for run in seen))])
    return Row(program.path.stem, describe(bare), describe(eager), of_text(seen[0].outcome), later, judge(not faults)), data


def check_one(program):
    command = lambda: command_of(program)
    limits = LIMITS_OF_RANKS_S if program.blame else LIMITS_S if program.needs else LIMITS_OF_CORPUS_S
    # Both hang, most of them, and wait.
    with ThreadPoolExecutor() as both:
        bare, eager = both.map(lambda loading, limit_s: unguarded(command(), loading, limit_s), ("LAZY", "EAGER"), limits)
    return judged(program, bare, eager, until_it_completes(command, program.hang_after))


def taught(profile, scratch):
    """Two runs of PyTorch's cold start that fill a profile."""
    environment = {**guard.clean_environment(), "LAZYGUARD_PROFILE": str(profile)}
    return [frameworks.under_run(checks.TORCH_CHECK, frameworks.HANG_AFTER, scratch.path / f"run{number}", environment, scratch) for number in range(2)]


def environments(own):
    """Of each mode. The guard reads its settings when a process begins, so each mode has one folder for all its starts, and what is in it changes."""
    with_profile = lambda mode: guard.guarded(PROFILE=str(own[mode]))
    return {"bare": guard.bare("LAZY"), "again": guard.bare("LAZY"), "guard": guard.guarded(), "writing": with_profile("writing"), "profile": with_profile("profile")}


def renewed(folder, profile=None):
    """An empty profile, or a copy of one: each start may add to it."""
    shutil.rmtree(folder, ignore_errors=True)
    new_profile(folder) if profile is None else shutil.copytree(profile, folder)


def cold_start(progress):
    if not checks.torch_is_there():
        return [Row("PyTorch cold start", "", "", "", "no torch on this machine", "SKIP")], None
    failed = lambda why, data: ([Row("PyTorch cold start", "", "", "", why, "FAIL")], {"failed": data})
    with Scratch() as scratch:
        profile = new_profile(scratch.path / "taught")
        runs = taught(profile, scratch)
        for run in runs:
            if run.outcome.code != 0:
                return failed(describe(run.outcome), as_data(run.outcome))
        own = {mode: scratch.path / mode for mode in ("writing", "profile")}

        def prepare(mode):
            if mode in own:
                renewed(own[mode], profile if mode == "profile" else None)

        def say(number, data):
            seconds = ", ".join(f"{mode} {data[mode]['cold_start_s']:.3f} s" for mode in MODES)
            progress(f"PyTorch cold start, round {number} of {MOST_ROUNDS}: {seconds}")

        for mode in own:
            prepare(mode)
        commands = {mode: (cold_starts.TORCH, environment) for mode, environment in environments(own).items()}
        try:
            found = cold_starts.in_rounds(commands, prepare, MOST_ROUNDS, spare_time.is_over, say)
        except cold_starts.Failed as failure:
            return failed(str(failure), str(failure))
    counts = handed_over(runs[-1].report)
    same = checks.torch_results_row({"LAZY": found["bare"] + found["again"], "guard": found["guard"] + found["writing"] + found["profile"]})
    rows = [figure_row("PyTorch cold start", "cold_start_s", "{:.3f} s", found), figure_row("PyTorch device memory", "device_memory_mb", "{:.0f} MB", found),
            Row(same.what, same.bare, "", "", "; ".join(filter(None, (same.guard, same.third, in_words(counts)))), same.verdict)]
    return rows, {"rounds": found, **counts}


def ratios(found, key, mode, to):
    """Round by round, as what drifts is the same in one round."""
    return [one[key] / other[key] for one, other in zip(found[mode], found[to])]


def figure_row(what, key, form, found):
    """Judged by the median of the rounds' ratios. Beside it is what a second bare process has: so much is the machine's."""
    middles = {mode: form.format(statistics.median(run[key] for run in found[mode])) for mode in MODES}
    of = {(mode, to): cold_starts.quartiles(ratios(found, key, mode, to))
          for mode, to in (("again", "bare"), ("guard", "bare"), ("writing", "guard"), ("profile", "bare"))}

    def beside(mode, to):
        first, median, third = of[mode, to]
        return f"x{median:.3f} (quartiles {first:.3f} and {third:.3f})"

    good = of["profile", "bare"][1] <= MOST_RATIO and of["writing", "guard"][1] <= MOST_ADDED_BY_WRITING
    first = (f"no profile: {middles['guard']}, {beside('guard', 'bare')} of bare; "
             f"an empty one: {middles['writing']}, {beside('writing', 'guard')} of no profile")
    return Row(f"{what}, median of {len(found['bare'])}", f"{middles['bare']}, again {beside('again', 'bare')}", "", first,
               f"{middles['profile']}, {beside('profile', 'bare')} of bare", "PASS" if good else "MISS")


def of_corpus():
    """Those of the corpus, as those of frameworks are stated; they need no package."""
    return {name: frameworks.Program(corpus.path_of(program), program.code, program.culprit, None, [], frameworks.HANG_AFTER, True)
            for name, program in corpus.programs().items() if program.completes_with_profile}


def command_of(program):
    return ranks.command_of(program) if program.needs else [program.path]


def programs():
    """Those of one GPU, those of two ranks and those of the corpus, by name."""
    return {**{name: program for name, program in ranks.sources().items() if program.completes_with_profile}, **of_corpus()}


def check(progress, wanted, cards):
    """The rows and data. The cold start is measured last, alone; among chosen programs it has a name like theirs."""
    names = [name for name in wanted or [] if name != COLD_START]
    chosen = frameworks.chosen_of(programs(), names) if names or not wanted else []
    lacks = frameworks.lacking(chosen)
    if cards < ranks.RANKS:
        lacks.update({program.path.stem: f"needs {ranks.RANKS} GPUs" for program in chosen if program.blame})
    # The longest first.
    found = sorted((program for program in chosen if program.path.stem not in lacks), key=lambda program: program.blame is None)
    rows, data = frameworks.each(found, check_one, (AT_A_TIME, 1), progress)
    rows += [Row(name, "", "", "", what, "SKIP") for name, what in lacks.items()]
    of_torch, start = cold_start(progress) if not wanted or COLD_START in wanted else ([], None)
    return sorted(rows) + of_torch, {"programs": data, "cold_start": start}
