"""Programs of real frameworks on a card: PyTorch, CuPy, Triton and JAX. Does a program that hangs get the code and the culprit that it
states, and does one that ends give the same results with the guard as without?

The programs of testapps/frameworks/one_gpu are run here; scripts/lib/ranks.py runs the jobs of two ranks in the folder above. The first
lines of each say what it does, and what is expected of it:

    # code: LG202           the code of the hang, or `none`: the program ends well and nothing is said
    # culprit: REGEX        of a program that hangs: the whole name of what the first verdict blames, a kernel or a call
    # blame: REGEX          of a job of ranks that hangs: how the sentence about the ranks begins; names of communicators are left out
    # needs: cupy jax       the packages without which it is not tried; `torch` where it is not stated
    # hang-after: 20s       the guard's threshold, where it is not that of the others
    # with-profile: completes   it hangs because something is loaded and for no other reason: scripts/lib/profiles.py
    # heals: REGEX          of a job of ranks that hangs: under `--on-hang revoke` it ends with status 0, and each rank prints such a line
    # torchrun: OPTIONS     torchrun starts the ranks, with these options
    # arguments: A B        of a job of a rank on each GPU that ends: it is run with each of them

Must not: know of one program by its name.
"""

import json
import os
import re
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import guard
import hazards
import recordings
import spare_time
from checks import Row, Scratch, as_data, judge, verdict_codes
from tools import ROOT

SOURCES = ROOT / "testapps" / "frameworks" / "one_gpu"
SHARED = ("job.py", "persistent.py", "training.py")
LIMIT_S = 90.0
HANG_AFTER = "2s"
# A rank that computes for ever is to blame after this time, in place of ten minutes.
MAX_LATE = "20s"
OF_A_HANG = 117
# Most of a program's time is the import of its framework. Those that end are fewer at a time: one that waits for a processor is slow.
HANGING_AT_A_TIME, ENDING_AT_A_TIME = 6, 3
ROUNDS = 2
CACHES = ("CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")

# What ends a program that hangs.
KILL = ("--on-hang", "kill")

Program = namedtuple("Program", "path code culprit blame needs hang_after completes_with_profile heals torchrun arguments", defaults=(None, None, None))


def stated(path, text):
    """The program with the statements of its first lines; ValueError where they cannot be meant so."""
    known = {"code": None, "culprit": None, "blame": None, "needs": "torch", "hang-after": HANG_AFTER, "with-profile": None, "heals": None, "torchrun": None,
             "arguments": None}
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        statement = re.fullmatch(r"# ([a-z-]+): (.*)", line)
        if statement and statement.group(1) not in known:
            raise ValueError(f"{path.name}: `{statement.group(1)}` is no statement")
        if statement:
            known[statement.group(1)] = statement.group(2)
    if not re.fullmatch(r"LG2\d\d|none", known["code"] or ""):
        raise ValueError(f"{path.name} does not state its code")
    named = [regex for regex in (known["culprit"], known["blame"]) if regex is not None]
    if len(named) != (known["code"] != "none"):
        raise ValueError(f"{path.name}: a program that hangs states a culprit or a rank to blame, and no other one does")
    if known["heals"] is not None and known["blame"] is None:
        raise ValueError(f"{path.name}: a job of ranks that hangs heals, and no other program does")
    for regex in filter(None, (*named, known["heals"])):
        re.compile(regex)
    if known["with-profile"] not in (None, "completes") or known["with-profile"] and known["code"] == "none":
        raise ValueError(f"{path.name}: `with-profile` is `completes`, of a program that hangs")
    return Program(path, known["code"], known["culprit"], known["blame"], known["needs"].split(), known["hang-after"],
                   known["with-profile"] is not None, known["heals"], known["torchrun"], known["arguments"])


def programs(folder):
    """The programs of a folder by name, without what they share."""
    paths = sorted(path for path in folder.glob("*.py") if path.name not in SHARED)
    return {path.stem: stated(path, path.read_text()) for path in paths}


def chosen_of(programs, wanted):
    """Those that are wanted, or all; ValueError where one is not there."""
    unknown = [name for name in wanted or () if name not in programs]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not in testapps/frameworks")
    return [programs[name] for name in wanted or programs]


def with_own_caches(environment, scratch):
    """Compilation caches in a folder of their own, so that each run is a first one."""
    return {**environment, **{name: str(scratch.path / name.lower()) for name in CACHES}}


def of_text(outcome):
    ended = "killed" if outcome.code is None else f"exit {outcome.code}"
    return f"{ended}, {outcome.seconds:.1f} s"


GuardedRun = namedtuple("GuardedRun", "outcome report faults")
Hang = namedtuple("Hang", "outcome report text faults")


def under_run(command, hang_after, out, environment, scratch, action=KILL):
    """The command under `lazyguard run`, with these options for a hang, and the report of the run, which is in the folder `out`."""
    options = ["--out", out, "--keep", "--hang-after", hang_after, "--max-late", MAX_LATE, *action, "--timeout", "75s"]
    outcome = scratch.run([guard.COMMAND, "run", *options, "--", *command], environment, LIMIT_S)
    report = scratch.run([guard.COMMAND, "report", "--format", "json", out], guard.clean_environment(), LIMIT_S)
    try:
        return GuardedRun(outcome, json.loads(report.stdout), [])
    except ValueError:
        return GuardedRun(outcome, {"processes": []}, [report.stderr[-500:]])


def hang(program, command, keep, judge, action=KILL):
    """The program under `lazyguard run`, and what is said of it; its recordings are kept in the folder `keep`, if there is one."""
    with Scratch() as scratch:
        out = scratch.path / "run"
        seen = under_run(command, program.hang_after, out, with_own_caches(guard.clean_environment(), scratch), scratch, action)
        text = scratch.run([guard.COMMAND, "report", out], guard.clean_environment(), LIMIT_S)
        faults = recordings.keep(program, out, keep, scratch, judge) if keep else []
    return Hang(seen.outcome, seen.report, text.stdout, faults + seen.faults)


def first_verdicts(report):
    """The first verdict of each process that has one."""
    verdicts = [(process.get("hang") or {}).get("verdicts", []) for process in report["processes"]]
    return [one[0] for one in verdicts if one]


def hang_row(title, program, seen, note, faults, data, code=OF_A_HANG):
    """The row and the data of a program that hangs, whose run ends with this code."""
    faults = faults + ([] if seen.outcome.code == code else [of_text(seen.outcome)]) + seen.faults
    data = {"program": program.path.stem, "expected": expected(program), "exit": seen.outcome.code, "seconds": round(seen.outcome.seconds, 1), **data}
    if faults:
        data.update(faults=faults, stdout=seen.outcome.stdout[-1000:], stderr=seen.outcome.stderr[-6000:], report=seen.text[:6000])
    return Row(f"{title}: {program.path.stem}", "", of_text(seen.outcome), "; ".join(faults) or note, judge(not faults)), data


def expected(program):
    return {name: value for name, value in (("code", program.code), ("culprit", program.culprit), ("blame", program.blame), ("heals", program.heals)) if value}


def says_nothing(report):
    """What is expected of the recordings of a program that ends, and what is said all the same."""
    return {}, [f"said {verdict['code']}" for verdict in first_verdicts(report)]


def hazards_that_fail(folder):
    """The hazards of a run for which `--fail-on hazard` would fail a program that ends well; none of one that has not been recorded."""
    if not any(folder.rglob("trace.lgt")):
        return []
    found = hazards.reported(folder)
    if found is None:
        return ["no report of hazards"]
    return [f"{hazard['code']} ({hazard['confidence']}) {hazard['kernel'] or hazard['call']}: {hazard['because']}" for hazard in found
            if hazard["confidence"] != "possible" and not hazard["prevented"]]


def ending(title, program, command, rounds, keep):
    """A program that ends, bare and guarded in turn: the same output and status each time, nothing said, and no hazard that would fail a run. Of the first
    guarded run the recordings are kept in the folder `keep`, if there is one."""
    faults, bare, kept = [], [], []
    for round_ in range(rounds):
        with Scratch() as scratch:
            bare.append(scratch.run(command(), with_own_caches(guard.bare(), scratch), LIMIT_S))
        with Scratch() as scratch:
            out = scratch.path / "run"
            # A folder for each process.
            settings = guard.guarded(HANG_AFTER=program.hang_after, OUT=str(out / "%p") if keep else str(out))
            kept.append(scratch.run(command(), with_own_caches(settings, scratch), LIMIT_S))
            faults += [f"said {code}" for code in verdict_codes(out)] + hazards_that_fail(out)
            if keep and round_ == 0:
                faults += recordings.keep(program, out, keep, scratch, says_nothing)
    printed = [(sorted(outcome.stdout.splitlines()), outcome.code) for outcome in bare + kept]
    if not bare[0].stdout or any(one != printed[0] for one in printed) or bare[0].code != 0:
        faults.append(f"bare {', '.join(map(of_text, bare))}; guarded {', '.join(map(of_text, kept))}; not the same output and status 0")
    faults += [line for outcome in kept for line in outcome.stderr.splitlines() if "lazyguard" in line][:3]
    fastest = lambda outcomes: of_text(min(outcomes, key=lambda outcome: outcome.seconds))
    data = {"program": program.path.stem, "expected": expected(program), "bare_s": [round(outcome.seconds, 1) for outcome in bare],
            "guarded_s": [round(outcome.seconds, 1) for outcome in kept], "stdout": bare[0].stdout[-1000:]}
    if faults:
        data.update(faults=faults, bare=[as_data(outcome) for outcome in bare], guarded=[as_data(outcome) for outcome in kept])
    note = "; ".join(faults) or "same output, nothing said"
    return Row(f"{title}: {program.path.stem}", fastest(bare), fastest(kept), note, judge(not faults)), data


def blamed(verdict):
    operations = [culprit["operation"] for culprit in verdict.get("culprits", [])]
    return [operation.get("function") or operation.get("call") or "" for operation in operations]


def faults_of_verdict(program, verdicts):
    """What is not as the program states it, and the first verdict in words."""
    if not verdicts:
        return ["no verdict"], "no verdict"
    first = next((verdict for verdict in verdicts if verdict["code"] == program.code), verdicts[0])
    culprit = (blamed(first) or ["nothing"])[0]
    good = first["code"] == program.code and re.fullmatch(program.culprit, culprit)
    words = f"{first['code']} {culprit}"
    return ([] if good else [f"{words}, expected {program.code} {program.culprit}"]), f"{words}: {first['sentence']}"


def judged(program, report):
    """What is expected of the recordings of a program that hangs, and what is not as it states it."""
    verdicts = first_verdicts(report)
    culprits = [blamed(verdict)[:1] for verdict in verdicts if verdict["code"] == program.code]
    return {"culprit": culprits[0][0] if culprits and culprits[0] else None}, faults_of_verdict(program, verdicts)[0]


def check_one(program, keep):
    command = [sys.executable, program.path]
    if program.code == "none":
        return ending("frameworks", program, lambda: command, ROUNDS, keep)
    seen = hang(program, command, keep, lambda report: judged(program, report))
    verdicts = first_verdicts(seen.report)
    faults, words = faults_of_verdict(program, verdicts)
    return hang_row("frameworks", program, seen, words, faults, {"verdicts": verdicts})


def each(chosen, check_one, at_a_time, progress):
    """The rows and data of these programs: first of those that hang, so many at a time, then of those that end."""
    left_out = []

    def one(program):
        if spare_time.is_over():
            left_out.append(program.path.stem)
            return None
        row, about = check_one(program)
        # All of it: a run that its limit ends has no table.
        progress(f"{row.what}: {row.verdict}" + (f" ({row[-2]})" if row[-2] else ""))
        return row, about

    results = []
    for hangs, most in zip((True, False), at_a_time):
        with ThreadPoolExecutor(min(most, os.cpu_count() or 1)) as pool:
            results += filter(None, pool.map(one, [program for program in chosen if (program.code != "none") is hangs]))
    if left_out:
        progress(f"no time was left for {', '.join(sorted(left_out))}")
    return [row for row, _ in results], [about for _, about in results]


def absent(packages):
    """Those of the packages that this machine does not have."""
    question = "import importlib.util, sys; print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])"
    with Scratch() as scratch:
        return scratch.run([sys.executable, "-c", question, *packages], guard.bare(), LIMIT_S).stdout.split()


def lacking(programs):
    """What those of the programs lack that cannot be tried on this machine, by program."""
    missing = absent(sorted({package for program in programs for package in program.needs}))
    lacks = {program.path.stem: [package for package in program.needs if package in missing] for program in programs}
    return {name: f"no {', '.join(packages)} on this machine" for name, packages in lacks.items() if packages}


def check(progress, wanted=None, keep=None):
    chosen = chosen_of(programs(SOURCES), wanted)
    lacks = lacking(chosen)
    rows = [Row(f"frameworks: {name}", "", "", what, "SKIP") for name, what in lacks.items()]
    found = [program for program in chosen if program.path.stem not in lacks]
    done, data = each(found, lambda program: check_one(program, keep), (HANGING_AT_A_TIME, ENDING_AT_A_TIME), progress)
    return sorted(rows + done), data
