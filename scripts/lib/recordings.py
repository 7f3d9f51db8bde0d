"""Recordings of real runs as fixtures: testapps/frameworks/recordings/NAME has what one run has left, anonymised, and `expected.json`:

    program     the program of testapps/frameworks
    code        the first code of a process, or `none`: no process hangs
    culprit     where the program states one: what the first verdict with that code blames
    ranks       where the program states a rank to blame: the ranks that are behind, differ or are blocked, and the number of the collective
    differs     only where the recording says something else than the program states: why

cli/tests/reading/real_runs.rs reads every folder there, and scripts/tests/test_frameworks.py compares it with the program's statements.

Must not: leave what a run is to say to what it says. An expectation is written only where the statements of the program hold.
"""

import json
import re
import shutil

import guard
from tools import ROOT

FOLDER = ROOT / "testapps" / "frameworks" / "recordings"
EXPECTED = "expected.json"
LIMIT_S = 60.0
# Records of each kind: the first of these from which the statements of the program follow, else all of them.
LAST = (300, 2000, None)
OF_RANKS = ("behind", "different", "blocked")
# What a rank does that is behind is in its stacks and its answers, which are no part of a recording.
BESIDE_RECORDINGS = re.compile(r", and (its main thread|did not answer|was stopped|was killed).*")


def of_recordings(blame):
    """The part of a statement about ranks that recordings alone show."""
    return BESIDE_RECORDINGS.sub("", blame)


def of_ranks(ranks):
    """The ranks that are to blame, and the collective."""
    return {"number": ranks.get("number"), **{name: [one["rank"] for one in ranks.get(name, [])] for name in OF_RANKS}}


def keep(program, run, into, scratch, judge):
    """Puts the recordings of a run into a folder of the program's name, with what is expected of them; returns what is wrong, in words.

    judge: of a report, what is expected, and what is not as the program states it."""
    # The commands run in the scratch folder.
    to = into.resolve() / program.path.stem
    if to.exists():
        return [f"not kept: {to} is there already"]
    to.parent.mkdir(parents=True, exist_ok=True)
    for last in LAST:
        shutil.rmtree(to, ignore_errors=True)
        faults, expected = copied(run, to, last, scratch, judge)
        if not faults:
            (to / EXPECTED).write_text(json.dumps({"program": program.path.stem, "code": program.code, **expected}, indent=1) + "\n")
            return []
    return faults


def copied(run, to, last, scratch, judge):
    """Copies so many records of each kind; returns what is wrong with them, and what is expected."""
    # The programs are ours: their kernels may be named.
    options = ["--keep-kernel-names", *(["--last", str(last)] if last else [])]
    copy = scratch.run([guard.COMMAND, "anonymise", *options, run, to], guard.clean_environment(), LIMIT_S)
    if copy.code != 0:
        return [f"not kept: {copy.stderr[-500:].strip()}"], None
    read = scratch.run([guard.COMMAND, "report", "--format", "json", to], guard.clean_environment(), LIMIT_S)
    try:
        expected, faults = judge(json.loads(read.stdout))
    except ValueError:
        return [f"kept, and cannot be read: {read.stderr[-500:].strip()}"], None
    return [f"from the kept recordings: {fault}" for fault in faults], expected
