"""Random programs of testapps/oracle on a card, bare and guarded, beside what the simulated driver knows of their end.

A program that completes in each order on the simulated driver completes on the card, with the same results; one that is stuck in each order does not
complete. One that does either is not judged by its end. The guard keeps all that, reports those that are stuck in a call, and calls nothing
a hang that lasts shorter than the threshold.

Must not: take the guard's word for the end of a program.
"""

import json
import os
import re
import subprocess
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor

import corpus
import guard
import spare_time
from checks import Scratch, as_data, judge
from tools import TARGET

# The command is the everyday build's: it makes programs, and measures nothing.
MAKER, PLAYER = TARGET / "debug" / "lazyguard-oracle", TARGET / "oracle" / "player"
Row = namedtuple("Row", "what bare guarded note verdict")
HEADER = Row("programs of the oracle", "bare", "guarded", "note", "result")
SEED, PROGRAMS, ORDERS = 1, 200, 40
# A call that hangs spins on a processor, and the driver makes the contexts of all programs one after the other.
AT_A_TIME = 10
THRESHOLD_MS = 500
# From the first step on; the program's own time comes on top.
STANDS_S = 4.0
# Until the first step, beside other programs' contexts; and the last verdict, which comes after ten thresholds, with the driver's answers.
START_S, VERDICT_S = 60.0, 11 * THRESHOLD_MS / 1000 + 5.0
TRUTH_LIMIT_S = 60.0
ALWAYS, NEVER, EITHER = "completes in each order", "is stuck in each order", "completes or is stuck, by its order"

Truth = namedtuple("Truth", "kind in_a_call end")
Played = namedtuple("Played", "outcome end stuck hang")


def files():
    """What is needed beside the guard."""
    return [MAKER, PLAYER, guard.SIMULATED_DRIVER / "libcuda.so.1", *(TARGET / "kernels" / f"oracle.{kind}" for kind in ("host.so", "fatbin"))]


def lacking():
    return [str(path) for path in files() if not path.is_file()]


def text_of(number):
    return subprocess.run([MAKER, "--seed", str(SEED), "--show", str(number)], capture_output=True, text=True, check=True).stdout


def own_time_s(text):
    """The time that a program's kernels and sleeps last, one after the other."""
    return sum(int(ms) for ms in re.findall(r" (?:busy|ms)=(\d+)", text)) / 1000


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def stands_in_a_call(truth):
    return any(line.split()[3] == "call" for line in truth.splitlines() if line.startswith("thread "))


def end_of(outcome, truth):
    """What a program that has completed says of itself; None of another."""
    said = read(truth)
    return (outcome.stdout, "code " + str(outcome.code)) if said.startswith("completed") else None


def truth_of(text):
    """What the simulated driver knows of a program; None where it neither ends nor is stuck."""
    environment = guard.bare(None, True)
    with Scratch() as scratch:
        program, truth, orders = (scratch.path / name for name in ("program", "truth", "orders"))
        program.write_text(text)
        plain = scratch.run([PLAYER, program, truth], environment, TRUTH_LIMIT_S, lambda: read(truth).startswith("stuck"))
        scratch.run([PLAYER, program, orders, 0, ORDERS, "all"], environment, TRUTH_LIMIT_S)
        counts = dict(line.split() for line in read(orders).splitlines() if " " in line)
        end, first, of_order = end_of(plain, truth), read(truth), read(orders.with_suffix(".stuck"))
    if counts.get("neither") != "0" or not first:
        return None
    stuck = [said for said in (first, of_order) if said.startswith("stuck")]
    kind = ALWAYS if end and counts["stuck"] == "0" else NEVER if not end and counts["completed"] == "0" else EITHER
    return Truth(kind, bool(stuck) and all(map(stands_in_a_call, stuck)), end)


def play(text, is_guarded, simulated):
    with Scratch() as scratch:
        program, truth, run = (scratch.path / name for name in ("program", "truth", "run"))
        program.write_text(text)
        environment = guard.guarded(simulated, HANG_AFTER=f"{THRESHOLD_MS}ms", OUT=str(run)) if is_guarded else guard.bare(None, simulated)
        stands_s = STANDS_S + own_time_s(text) + (VERDICT_S if is_guarded else 0.0)
        ends = []

        def is_over():
            if not ends and truth.with_suffix(".begun").exists():
                ends.append(spare_time.now() + stands_s)
            # What has completed may take its time to exit.
            completed = read(truth).startswith("completed")
            reported = is_guarded and corpus.is_final(corpus.report(run)) and spare_time.now() >= ends[0] - VERDICT_S if ends else False
            return bool(ends) and (reported or spare_time.now() >= ends[0] + (STANDS_S if completed else 0.0))

        outcome = scratch.run([PLAYER, program, truth], environment, START_S + 2 * stands_s, is_over)
        longest = re.search(r"^longest (\d+)$", read(truth), re.M)
        hang = corpus.report(run) if is_guarded else {}
        return Played(outcome, end_of(outcome, truth), not longest and bool(ends), {**hang, "longest": int(longest.group(1)) if longest else None} if hang else {})


def wrong_end(truth, played):
    """What is wrong with a program's end, in words."""
    if not played.end and not played.stuck:
        return f"did not play: exit {played.outcome.code}, {played.outcome.stderr[-200:].strip()}"
    if truth.kind == ALWAYS and not played.end:
        return "does not complete"
    if truth.kind == ALWAYS and played.end != truth.end:
        return f"ends otherwise: {' '.join(played.end).split()} where simulated {' '.join(truth.end).split()}"
    return "completes" if truth.kind == NEVER and played.end else None


def codes(hang):
    return ",".join(sorted({verdict["code"] for verdict in hang.get("verdicts", [])}))


def wrong_guarded(truth, played):
    # The guard prevents hangs: a program that is stuck without it may complete.
    end = wrong_end(truth._replace(kind=EITHER) if truth.kind == NEVER else truth, played)
    if end:
        return end
    said = played.hang.get("status")
    certain = any(verdict["confidence"] == "certain" for verdict in played.hang.get("verdicts", []))
    if played.end and said == "hang" and (certain or (played.hang["longest"] or 0) < THRESHOLD_MS):
        return f"called a hang: {codes(played.hang)}"
    if played.stuck and truth.in_a_call and said != "hang":
        return f"stuck, and called {said or 'nothing'}"
    return None


def one(number, simulated):
    text = text_of(number)
    truth = truth_of(text)
    if truth is None:
        return {"number": number, "kind": None, "program": text}
    bare, guarded = play(text, False, simulated), play(text, True, simulated)
    return {"number": number, "kind": truth.kind, "in_a_call": truth.in_a_call, "program": text,
            "bare": as_data(bare.outcome, completes=bool(bare.end)), "guarded": as_data(guarded.outcome, completes=bool(guarded.end)),
            "bare_wrong": wrong_end(truth, bare), "guarded_wrong": wrong_guarded(truth, guarded),
            "status": guarded.hang.get("status"), "codes": codes(guarded.hang)}


def row_of_kind(kind, found):
    of_kind = [data for data in found if data["kind"] == kind]
    completed = lambda how: f"{sum(data[how]['completes'] for data in of_kind)} of {len(of_kind)} completed"
    said = Counter(data["codes"] for data in of_kind if data["status"] == "hang" and not data["guarded"]["completes"])
    note = ", ".join(f"{count} {code}" for code, count in said.most_common())
    bad = [data for data in of_kind if data["bare_wrong"] or data["guarded_wrong"]]
    return Row(kind, completed("bare"), completed("guarded"), note, judge(not bad))


def rows_of(found):
    rows = [row_of_kind(kind, found) for kind in (ALWAYS, NEVER, EITHER)]
    for data in found:
        name = f"program {data['number']} of seed {SEED}"
        if data["kind"] is None:
            rows.append(Row(name, "", "", "the simulated driver does not know its end", "FAIL"))
        elif data["bare_wrong"] or data["guarded_wrong"]:
            rows.append(Row(name, data["bare_wrong"] or "", data["guarded_wrong"] or "", data["kind"], "FAIL"))
    return rows


def check(progress, wanted, simulated):
    """Rows and data of the programs of the seed, or of the numbers that are wanted."""
    absent = lacking()
    if absent:
        raise ValueError("not built: " + ", ".join(absent))
    numbers = [int(number) for number in wanted] if wanted else list(range(PROGRAMS))

    def begun(number):
        if spare_time.is_over():
            return None
        data = one(number, simulated)
        wrong = "; ".join(filter(None, (data.get("bare_wrong") and f"bare {data['bare_wrong']}", data.get("guarded_wrong") and f"guarded {data['guarded_wrong']}")))
        progress(f"program {number}: {data['kind']}" + (f": FAIL: {wrong}" if wrong else f" {data.get('codes', '')}"))
        return data

    with ThreadPoolExecutor(min(AT_A_TIME, os.cpu_count() or 1)) as pool:
        found = list(pool.map(begun, numbers))
    left = found.count(None)
    found = [data for data in found if data]
    rows = rows_of(found) + ([Row(f"{left} more programs", "", "", "not begun: --within is over", "SKIP")] if left else [])
    return rows, found
