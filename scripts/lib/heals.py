"""A job of two ranks whose step has a fault, once, under each act for a hang: PyTorch's own time limit, `fail`, `kill` and `revoke`. How does it end, and
how long after the report?

testapps/frameworks/heals/fault_in_step.py makes a step that fails again in a new group. `--retry 1` makes a job again that an act has ended.

Must not: call it a success that a rank printed a wrong sum, under any act.
"""

import json
import re
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import frameworks
import guard
import ranks
import spare_time
from checks import Scratch, as_data, judge

PROGRAM = ranks.SOURCES / "heals" / "fault_in_step.py"
FAULTS = {"skipped": "skipped collective", "jiterator": "jiterator under a collective", "cold": "cold kernel under a collective",
          "order": "two groups in another order", "sleep": "rank sleeps 20 s"}
# PyTorch's limit is 10 minutes by default: with the shortest that a training could use, it is compared at its best.
LIMIT_S, NEVER_S = 30, 600
ACTS = {"limit": [], **{act: ["--on-hang", act, "--retry", "1"] for act in ("fail", "kill", "revoke")}}
Row = namedtuple("Row", "fault limit fail kill revoke verdict")
HEADER = Row("fault", f"PyTorch's limit of {LIMIT_S} s", "`fail`", "`kill`", "`revoke`", "result")
RUN_LIMIT_S = 150.0
# A job that hangs waits most of the time.
AT_A_TIME = 5
MOST_S = 20.0

Ended = namedtuple("Ended", "how seconds right wrong outcome")


def has_hung(out):
    for path in out.rglob("hang.json"):
        try:
            if json.loads(path.read_text())["status"] == "hang":
                return True
        except (ValueError, KeyError, OSError):
            continue
    return False


def how_it_ended(outcome, since):
    """`since`: seconds from the start to the report, or None."""
    right = len(set(re.findall(r"^rank (\d): right ", outcome.stdout, re.M))) == ranks.RANKS
    made_again = "lazyguard: attempt 1 hung (" in outcome.stderr
    goes_on = right and outcome.code == 0
    how = ("made again" if made_again else "goes on") if goes_on else frameworks.of_text(outcome).partition(",")[0]
    seconds = None if since is None else outcome.seconds - since
    return Ended(how, seconds, goes_on, "WRONG" in outcome.stdout, outcome)


def run(fault, act):
    environment = guard.clean_environment()
    environment["STEP_LIMIT_S"] = str(LIMIT_S if act == "limit" else NEVER_S)
    # Longer than the limit; and under an act as long as a rank that comes back in time.
    environment["STANDS_S"] = "60" if act == "limit" else "15"
    with Scratch() as scratch:
        out, started, reported = scratch.path / "run", time.monotonic(), []

        def look():
            if not reported and has_hung(out):
                reported.append(time.monotonic() - started)
            return False

        options = ["--out", out, "--keep", "--hang-after", frameworks.HANG_AFTER, "--kill-after", "20s", *ACTS[act]]
        command = [guard.COMMAND, "run", *options, "--", *ranks.job(PROGRAM, fault)]
        outcome = scratch.run(command, frameworks.with_own_caches(environment, scratch), RUN_LIMIT_S, look)
    return how_it_ended(outcome, reported[0] if reported else None)


def in_words(ended):
    return ended.how + (", no report" if ended.seconds is None else f", {ended.seconds:.1f} s")


def faults_of(by_act):
    """What is not as promised, in words: of `revoke` that the job goes on soon, of each act that no sum is wrong."""
    found = [f"{act}: a wrong sum" for act, ended in by_act.items() if ended.wrong]
    revoked = by_act["revoke"]
    if revoked.how != "goes on" or revoked.seconds is None or revoked.seconds > MOST_S:
        found.append(f"revoke: {in_words(revoked)}, expected to go on within {MOST_S:g} s")
    return found


def row_of(fault, by_act):
    faults = faults_of(by_act)
    data = {"fault": fault, "faults": faults, **{act: {"how": ended.how, "seconds": ended.seconds, **as_data(ended.outcome)} for act, ended in by_act.items()}}
    return Row(FAULTS[fault], *(in_words(by_act[act]) for act in ACTS), judge(not faults)), data


def check(progress, wanted):
    """The rows and data: of each fault, under each act. The acts of a fault run after each other, and some faults at a time."""
    unknown = [name for name in wanted or () if name not in FAULTS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not in {', '.join(FAULTS)}")

    def one(fault):
        if spare_time.is_over():
            return None
        by_act = {}
        for act in ACTS:
            by_act[act] = run(fault, act)
            progress(f"{FAULTS[fault]}, {act}: {in_words(by_act[act])}")
        return row_of(fault, by_act)

    with ThreadPoolExecutor(AT_A_TIME) as several:
        results = list(filter(None, several.map(one, wanted or FAULTS)))
    return [row for row, _ in results], [data for _, data in results]
