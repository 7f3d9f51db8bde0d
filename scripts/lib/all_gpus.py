"""Jobs of a rank on each GPU of the machine, PyTorch and NCCL: is the right rank named, how soon, and what does each action do?

The first lines of each program in testapps/frameworks/all_gpus state what is expected, as scripts/lib/frameworks.py reads it, and `arguments`: with
each of these a program that ends is run. A program that hangs prints `fault` where it begins to.
"""

import json
import queue
import random
import re
import shlex
import statistics
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import frameworks
import guard
import processes
import ranks
import spare_time
from checks import Row, Scratch, judge

SOURCES = ranks.SOURCES / "all_gpus"
LEAST_GPUS = 4
AT_A_TIME = 4
ACTIONS = ("kill", "fail", "revoke")
HANG_AFTER, KILL_AFTER, LIMIT_S = "2s", "6s", 75.0
ROUNDS = 2
HEADER = Row("job", "from fault to report, from act to end", "ends", "what is said of the ranks, or why not", "result")


def timed(command, environment, scratch, limit_s):
    """Runs the command; its exit status, None at the limit, and its lines with the time of each."""
    lines, ended = queue.SimpleQueue(), None
    process = subprocess.Popen([str(part) for part in command], env=dict(environment, TMPDIR=str(scratch.path)), cwd=scratch.path, text=True,
                               errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def read(stream, name):
        for line in stream:
            lines.put((time.monotonic(), name, line.rstrip("\n")))

    readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in ((process.stdout, "out"), (process.stderr, "err"))]
    for reader in readers:
        reader.start()
    try:
        process.wait(timeout=limit_s)
        ended = time.monotonic()
    except subprocess.TimeoutExpired:
        pass
    finally:
        processes.kill_group(process.pid)
    process.wait(timeout=processes.CLEAN_UP_S)
    for reader in readers:
        reader.join(timeout=5)
    return (process.returncode if ended else None), ended or time.monotonic(), [lines.get() for _ in range(lines.qsize())]


def first(lines, regex, name=None):
    """When the first line came that matches, or None."""
    return next((at for at, of, line in lines if name in (None, of) and re.search(regex, line)), None)


def between(before, after):
    return "?" if None in (before, after) else f"{after - before:.1f} s"


def hangs(program, action, count):
    with Scratch() as scratch:
        out = scratch.path / "run"
        environment = {**frameworks.with_own_caches(guard.clean_environment(), scratch), "PYTHONPATH": str(ranks.SOURCES)}
        options = ["--out", out, "--keep", "--hang-after", HANG_AFTER, "--on-hang", action, "--kill-after", KILL_AFTER, "--timeout", f"{LIMIT_S - 10:g}s"]
        code, ended, lines = timed([guard.COMMAND, "run", *options, "--", *ranks.job(program.path, count=count)], environment, scratch, LIMIT_S)
        text = scratch.run([guard.COMMAND, "report", "--format", "json", out], guard.clean_environment(), LIMIT_S)
    try:
        report = json.loads(text.stdout)
    except ValueError:
        report = {"processes": []}
    sentence = (report.get("ranks") or {}).get("sentence", "")
    faults = ranks.faults_of_ranks(program, ranks.codes_of(report), sentence)
    if code in (0, None) or first(lines, "over --timeout|of --timeout are over"):
        faults.append(f"exit {code}")
    fault, said, act = first(lines, "^fault$", "out"), first(lines, r"\bHANG\b", "err"), first(lines, f"--on-hang is {action}", "err")
    own = [line for _, name, line in lines if name == "err" and "lazyguard" in line]
    cells = f"{between(fault, said)}, {between(act, ended)}"
    data = {"program": program.path.stem, "action": action, "exit": code, "fault_to_report": between(fault, said), "act_to_end": between(act, ended),
            "lines": len(own), "ranks": {"sentence": sentence}}
    if faults:
        data.update(faults=faults, codes=ranks.codes_of(report), lines_of_all=[f"{at - lines[0][0]:.1f} {line}" for at, _, line in lines][-150:])
    return Row(f"{program.path.stem}, {action}", cells, f"exit {code}, {len(own)} lines", "; ".join(faults) or sentence, judge(not faults)), data


def trained(program, kind, count):
    """A training bare and guarded in turn: the same losses; the seconds of a step and to the first one beside each other."""
    seen, faults = {"bare": [], "guarded": []}, []
    for _ in range(ROUNDS):
        for how in random.sample(list(seen), len(seen)):
            with Scratch() as scratch:
                out = scratch.path / "run"
                options = {"bare": [], "guarded": [guard.COMMAND, "run", "--out", out, "--hang-after", "10s", "--"]}[how]
                environment = {**frameworks.with_own_caches(guard.clean_environment(), scratch), "PYTHONPATH": str(ranks.SOURCES)}
                outcome = scratch.run([*options, *ranks.job(f"{program.path}", kind, count=count)], environment, LIMIT_S)
            seen[how].append(outcome)
            faults += [f"{how}: {frameworks.of_text(outcome)}"] if outcome.code != 0 else []
            faults += [line for line in outcome.stderr.splitlines() if "lazyguard" in line and re.search("HANG|SLOW", line)]
    losses = {tuple(sorted(re.findall("rank .*", outcome.stdout))) for outcomes in seen.values() for outcome in outcomes}
    faults += [] if len(losses) == 1 and losses != {()} else [f"{len(losses)} different results"]
    figures = {how: [[float(number) for number in re.findall(r"[\d.]+", line)] for outcome in outcomes for line in re.findall("seconds .*", outcome.stdout)]
               for how, outcomes in seen.items()}
    middle = lambda how, which: statistics.median(one[which] for one in figures[how]) if figures[how] else 0.0
    words = [f"first step {middle(how, 0):.2f} s, an early one {middle(how, 1) * 1e3:.2f} ms, a late one {middle(how, 2) * 1e3:.2f} ms" for how in seen]
    data = {"program": program.path.stem, "kind": kind, "figures": figures}
    if faults:
        data.update(faults=faults, stderr=[outcome.stderr[-1500:] for outcomes in seen.values() for outcome in outcomes])
    return Row(f"{program.path.stem}, {kind}", f"bare: {words[0]}", f"guarded: {words[1]}", "; ".join(faults) or "same results, nothing said", judge(not faults)), data


def check(progress, wanted, count):
    """Every program that hangs under each action, a few at a time; then those that end, one after the other. Rows and data."""
    if count < LEAST_GPUS:
        raise ValueError(f"{count} GPUs, and a rank is to blame among at least {LEAST_GPUS}")
    chosen = frameworks.chosen_of(frameworks.programs(SOURCES), wanted)
    jobs = [lambda one=one, action=action: hangs(one, action, count) for one in chosen if one.code != "none" for action in ACTIONS]
    ends = [lambda one=one, kind=kind: trained(one, kind, count) for one in chosen if one.code == "none" for kind in shlex.split(one.arguments)]
    found = []

    def run(job):
        if spare_time.is_over():
            return
        found.append(job())
        progress(f"all-gpus: {'; '.join(found[-1][0])}")

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(run, jobs))
    # Figures of time, while nothing else runs.
    for job in ends:
        run(job)
    rows = [row for row, _ in found]
    left = len(jobs) + len(ends) - len(rows)
    rows += [Row(f"{left} jobs", "", "", "not begun: --within is over", "SKIP")] if left else []
    return sorted(rows), [data for _, data in found]
