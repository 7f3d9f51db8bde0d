"""Does `lazyguard run` by itself, which keeps a profile, change a program that ends, and what do the profile and `--on-hang revoke` cost?

Each program of testapps/frameworks that ends runs twice in one folder, bare and under plain `lazyguard run`, in turn: first runs are compared with
first runs, second with second ones, as the frameworks' own caches are warm in a second run too. A job of two ranks that ends runs bare, without profile
and revoke, and with both, side by side.

Must not: call it the same where another output, a process that goes on, or a file outside of the run's folders and the cache is left.
"""

import random
import subprocess
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import bench_stats
import frameworks
import guard
import profiles
import ranks
import spare_time
from checks import Scratch, as_data, judge

Row = namedtuple("Row", "what bare one other verdict")
HEADER = Row("check", "bare", "first run; a job: --profile off", "second run; a job: --on-hang revoke", "result")
LIMIT_S = 90.0
MOST_ROUNDS, ROUNDS_OF_A_JOB = 5, 20
LOOK_EVERY = 10
JOB = "healthy_training"
PLAIN = [guard.COMMAND, "run", "--"]
# Of a job: the options of `lazyguard run`.
MODES = {"bare": None, "off": ["--profile", "off", "--on-hang", "report"], "default": ["--on-hang", "revoke"]}
OWN = {".cache", "home", *(name.lower() for name in frameworks.CACHES)}


def environment_of(devices):
    return {**guard.clean_environment(), **({"CUDA_VISIBLE_DEVICES": devices} if devices else {})}


def memory_used(devices):
    """MB of these devices; of all where they are None."""
    only = ["-i", devices] if devices else []
    asked = subprocess.run(["nvidia-smi", *only, "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return sum(int(line) for line in asked.stdout.split() if line.isdigit())


class Peak:
    """The most memory of the devices during a run, above that before it."""

    def __init__(self, devices):
        self.devices = devices
        self.before, self.most, self.looks = memory_used(devices), 0, 0

    def look(self):
        self.looks += 1
        if self.looks % LOOK_EVERY == 1:
            self.most = max(self.most, memory_used(self.devices) - self.before)
        return False


Seen = namedtuple("Seen", "outcome memory written")


def runs(command, prefix, number, scratch, devices):
    """Runs of a program in one folder; each with what it has left there."""
    environment = {**frameworks.with_own_caches(environment_of(devices), scratch), "HOME": str(scratch.path / "home")}
    (scratch.path / "home").mkdir()
    found = []
    for _ in range(number):
        peak = Peak(devices)
        outcome = scratch.run([*prefix, *command()], environment, LIMIT_S, peak.look)
        found.append(Seen(outcome, peak.most, written(scratch)))
    return found


def written(scratch):
    """The names in the working folder, in the user's, and in the cache."""
    names = {f"{folder}/{path.name}" for folder in (".", "home", ".cache") for path in scratch.path.glob(f"{folder}/*")}
    return names - {f"./{name}" for name in OWN} - {".cache/lazyguard"}


def round_of(program, devices):
    """Two runs bare and two guarded, in an order of their own."""
    def pair(prefix):
        with Scratch() as scratch:
            return runs(lambda: ranks.job(program.path) if is_job(program) else ranks.command_of(program), prefix, 2, scratch, devices)

    order = random.sample(("bare", "guarded"), 2)
    found = {mode: pair(PLAIN if mode == "guarded" else []) for mode in order}
    return found["bare"], found["guarded"]


def is_job(program):
    return program.path.parent == ranks.SOURCES


def names(paths):
    return {path for path in paths if not path.split("/")[-1].startswith("tmp")}


def faults_of(rounds):
    """What a guarded run has done otherwise than the bare ones, in words."""
    (first, _), _ = rounds[0]
    expected = (first.outcome.code, sorted(first.outcome.stdout.splitlines()))
    faults = []
    for bare, guarded in rounds:
        for number, seen in enumerate([*bare, *guarded]):
            if (seen.outcome.code, sorted(seen.outcome.stdout.splitlines())) != expected or seen.outcome.code != 0:
                faults.append(f"{'guarded' if number > 1 else 'bare'}: another output or status")
        for seen, beside in zip(guarded, bare):
            faults += [line for line in seen.outcome.stderr.splitlines() if "lazyguard" in line][:3]
            faults += [f"{len(seen.outcome.left)} processes go on"] if len(seen.outcome.left) > len(beside.outcome.left) else []
            faults += [f"left {name}" for name in sorted(names(seen.written) - names(beside.written))]
    return faults


def beside(values, bare):
    """`x1.004 (0.98 to 1.02)`: the median of the ratios in the same round and its interval, and where that begins."""
    ratios = [[one / max(other, 1e-9) for one, other in zip(values, bare)]]
    low, high = bench_stats.interval(ratios)
    return f"x{bench_stats.median(ratios[0]):.3f} ({low:.2f} to {high:.2f})", low


def compared(rounds, number):
    """The run of this number, guarded beside bare, in words; and whether time and memory are within noise."""
    of = lambda which, figure: [figure(pair[which][number]) for pair in rounds]
    seconds, memory = (lambda seen: seen.outcome.seconds), (lambda seen: max(seen.memory, 1))
    time_in_words, least = beside(of(1, seconds), of(0, seconds))
    memory_in_words, least_memory = beside(of(1, memory), of(0, memory))
    text = f"{bench_stats.median(of(1, seconds)):.2f} s, {time_in_words}; {bench_stats.median(of(1, memory)):.0f} MB, {memory_in_words}"
    return text, max(least, least_memory) <= profiles.MOST_RATIO


def row_of(program, rounds):
    faults = faults_of(rounds)
    (first, is_good), (second, is_good_again) = (compared(rounds, number) for number in (0, 1))
    bare = [bench_stats.median([pair[0][number].outcome.seconds for pair in rounds]) for number in (0, 1)]
    verdict = judge(False) if faults else "PASS" if is_good and is_good_again else "MISS"
    data = {"program": program.path.stem, "faults": faults,
            "rounds": [[[{"seconds": seen.outcome.seconds, "memory_mb": seen.memory} for seen in pair] for pair in one] for one in rounds]}
    if faults:
        data["outcomes"] = [as_data(seen.outcome) for pair in rounds[-1] for seen in pair]
    return Row(program.path.stem, " and ".join(f"{seconds:.2f} s" for seconds in bare), "; ".join(faults) or first, second, verdict), data


def job_once(program, options, devices):
    prefix = [] if options is None else [guard.COMMAND, "run", *options, "--"]
    with Scratch() as scratch:
        outcome = scratch.run([*prefix, *ranks.job(program.path)], environment_of(devices), LIMIT_S)
    if outcome.code != 0:
        raise ValueError(f"{program.path.stem}: {frameworks.of_text(outcome)}: {outcome.stderr[-300:]}")
    return outcome.seconds


def cost_of_a_job(program, progress, devices):
    """Seconds of the job in each mode, in rounds; each has a row's cell with an interval. A round runs all modes side by side: the rest of the machine
    treats them alike, and twenty rounds fit in the time of seven."""
    found = {mode: [] for mode in MODES}
    while len(found["bare"]) < ROUNDS_OF_A_JOB and not (spare_time.is_over() and found["bare"]):
        with ThreadPoolExecutor(len(MODES)) as lanes:
            begun = {mode: lanes.submit(job_once, program, MODES[mode], devices) for mode in random.sample(list(MODES), len(MODES))}
        of_round = {mode: job.result() for mode, job in begun.items()}
        for mode, seconds in of_round.items():
            found[mode].append(seconds)
        progress(f"{program.path.stem}, round {len(found['bare'])}: " + ", ".join(f"{mode} {seconds:.2f} s" for mode, seconds in of_round.items()))
    cells = {mode: beside(found[mode], found["bare"]) for mode in MODES}
    middle = {mode: f"{bench_stats.median(values):.2f} s" for mode, values in found.items()}
    verdict = "PASS" if all(low <= 1.0 for _, low in cells.values()) else "MISS"
    words = [f"{middle[mode]}, {cells[mode][0]}" for mode in ("off", "default")]
    return Row(f"{program.path.stem}, median of {len(found['bare'])}", middle["bare"], *words, verdict), found


def rounds_of_all(programs, progress, devices):
    """Each program and its rounds: the first of all, then the second, as time allows."""
    found = [(program, []) for program in programs]
    for number in range(MOST_ROUNDS):
        for program, rounds in found:
            if spare_time.is_over():
                break
            rounds.append(round_of(program, devices))
            progress(f"{program.path.stem}, round {number + 1}")
    return found


def check(progress, wanted, cards):
    """The rows and data. The job, which has two ranks, comes before the programs; on four cards, beside them."""
    ending = {name: program for name, program in ranks.sources().items() if program.code == "none"}
    chosen = [program for program in frameworks.chosen_of(ending, wanted) if cards >= ranks.RANKS or not is_job(program)]
    lacks = frameworks.lacking(chosen)
    rows, data, cost = [Row(name, "", "", what, "SKIP") for name, what in lacks.items()], [], None
    of_job, of_programs = ("0,1", "2,3") if cards >= 2 * ranks.RANKS else (None, None)
    with ThreadPoolExecutor(2 if of_job else 1) as lanes:
        has_job = cards >= ranks.RANKS and (not wanted or JOB in wanted)
        job = lanes.submit(cost_of_a_job, ending[JOB], progress, of_job) if has_job else None
        found = lanes.submit(rounds_of_all, [program for program in chosen if program.path.stem not in lacks], progress, of_programs)
    if job:
        row, cost = job.result()
        rows.append(row)
    for program, rounds in found.result():
        if rounds:
            row, about = row_of(program, rounds)
            rows.append(row)
            data.append(about)
        else:
            rows.append(Row(program.path.stem, "", "", "not begun: --within is over", "SKIP"))
    return rows, {"programs": data, "job": cost}
