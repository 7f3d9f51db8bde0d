"""Trainings of which rank 1 stands still, or is late, on the host: is that rank named first, with its reason, and is a late one left alone?

The programs of testapps/frameworks/on_host state what is expected, as scripts/lib/frameworks.py reads it. One that hangs prints `fault` where
it begins to; its report has to name the rank and the reason within the first lines. One that ends is run under each action of --on-hang.

Must not: use NVLink multicast, which not every shared machine allows.
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import frameworks
import guard
import ranks
import spare_time
from all_gpus import between, first, timed
from checks import Row, Scratch, judge

SOURCES = ranks.SOURCES / "on_host"
AT_A_TIME = 5
ACTIONS = ("kill", "fail", "revoke", "abort")
HANG_AFTER_S, MAX_LATE_S, LIMIT_S = 3, 12, 110.0
# From the threshold to the sentence, in seconds; and the lines of a report in which it has to stand.
NAMED_WITHIN_S, FIRST_LINES = 10.0, 10
HEADER = Row("job", "from fault to the rank's name", "ends, lines of the report", "what is said of the ranks, or why not", "result")


def options(out, action):
    return ["--out", out, "--keep", "--hang-after", f"{HANG_AFTER_S}s", "--max-late", f"{MAX_LATE_S}s", "--on-hang", action, "--kill-after", "3s", "--timeout",
            f"{LIMIT_S - 10:g}s"]


def played(program, action, count, scratch):
    """The job under `lazyguard run`: its exit status, its lines with their times, and its report as text and as data."""
    out = scratch.path / "run"
    environment = frameworks.with_own_caches({**guard.clean_environment(), "OMP_NUM_THREADS": "1"}, scratch)
    command = [guard.COMMAND, "run", *options(out, action), "--",
               *ranks.job(program.path, torchrun=program.torchrun or "", count=count)]
    code, ended, lines = timed(command, environment, scratch, LIMIT_S)
    text = scratch.run([guard.COMMAND, "report", out], guard.clean_environment(), LIMIT_S).stdout
    try:
        report = json.loads(scratch.run([guard.COMMAND, "report", "--format", "json", out], guard.clean_environment(), LIMIT_S).stdout)
    except ValueError:
        report = {"processes": []}
    return code, lines, text, report


def faults_of_text(program, text):
    """What is wrong with the first lines of the report."""
    head = text.splitlines()[:FIRST_LINES]
    named = next((number for number, line in enumerate(head) if re.search(program.blame, ranks.without_names(line))), None)
    if named is None:
        return [f"the report's first {FIRST_LINES} lines do not have {program.blame}: {head}"]
    before = [line for line in head[:named] if re.search(r"\brank 0\b", line)]
    return [f"rank 0 is named first: {before[0]}"] if before else []


def hangs(program, count):
    with Scratch() as scratch:
        code, lines, text, report = played(program, "kill", count, scratch)
    sentence = (report.get("ranks") or {}).get("sentence", "")
    faults = ranks.faults_of_ranks(program, ranks.codes_of(report), sentence) + faults_of_text(program, text)
    if code != frameworks.OF_A_HANG:
        faults.append(f"exit {code}")
    fault = first(lines, "^fault$", "out")
    # The lines about a process begin with its rank as well.
    said = first(lines, r"\brank 1 (\(process|has not called|was|has ended)", "err")
    if None in (fault, said) or said - fault > HANG_AFTER_S + NAMED_WITHIN_S:
        faults.append(f"rank 1 was named after {between(fault, said)}")
    own = [line for _, name, line in lines if name == "err" and "lazyguard" in line]
    cells = f"exit {code}; {len(text.splitlines())}, {len(own)} on standard error"
    data = {"program": program.path.stem, "exit": code, "fault_to_name": between(fault, said), "lines": len(text.splitlines()), "on_standard_error": len(own),
            "ranks": {"sentence": sentence}, "first_lines": text.splitlines()[:FIRST_LINES]}
    if faults:
        data.update(faults=faults, codes=ranks.codes_of(report), report=text[:6000], lines_of_all=[f"{at - lines[0][0]:.1f} {line[:300]}" for at, _, line in lines][-120:])
    return Row(program.path.stem, between(fault, said), cells, "; ".join(faults) or sentence, judge(not faults)), data


def goes_on(program, action, count):
    """A job whose late rank comes: it ends as without the guard."""
    begun = time.monotonic()
    with Scratch() as scratch:
        code, lines, text, report = played(program, action, count, scratch)
    done = {line for _, name, line in lines if name == "out" and re.fullmatch(r"rank \d+: done", line)}
    faults = ([] if code == 0 else [f"exit {code}"]) + ([] if len(done) == count else [f"{len(done)} ranks are done"])
    faults += [line for _, name, line in lines if name == "err" and re.search(r"lazyguard.*\bHANG\b", line)][:2]
    slow = [line for _, name, line in lines if name == "err" and re.search("lazyguard.*(SLOW|rank 1|rank 0)", line)]
    data = {"program": program.path.stem, "action": action, "exit": code, "seconds": round(time.monotonic() - begun, 1), "said": slow[:4]}
    if faults:
        data.update(faults=faults, report=text[:4000], lines_of_all=[f"{at - lines[0][0]:.1f} {line[:300]}" for at, _, line in lines][-80:])
    return Row(f"{program.path.stem}, {action}", "", f"exit {code}", "; ".join(faults) or (slow or ["nothing said"])[0], judge(not faults)), data


def check(progress, wanted, count):
    """Every training that hangs, then those that are late under each action, a few at a time. Rows and data."""
    programs = frameworks.programs(SOURCES)
    chosen = frameworks.chosen_of(programs, wanted)
    lacks = frameworks.lacking(chosen)
    rows = [Row(name, "", "", what, "SKIP") for name, what in lacks.items()]
    chosen = [program for program in chosen if program.path.stem not in lacks]
    jobs = [lambda one=one: hangs(one, count) for one in chosen if one.code != "none"]
    jobs += [lambda one=one, action=action: goes_on(one, action, count) for one in chosen if one.code == "none" for action in ACTIONS]
    found = []

    def run(job):
        if spare_time.is_over():
            return
        found.append(job())
        progress(f"on-host: {'; '.join(found[-1][0])}")

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(run, jobs))
    left = len(jobs) - len(found)
    rows += [row for row, _ in found]
    rows += [Row(f"{left} jobs", "", "", "not begun: --within is over", "SKIP")] if left else []
    return sorted(rows), [data for _, data in found]
