"""Jobs of two ranks on two GPUs with PyTorch and NCCL: does the end of the run name the rank that is to blame?

The first lines of each program in testapps/frameworks state what is expected:

    # code: LG208         the code that one of the ranks is given, or `none`: the job ends well and nothing is said
    # blame: TEXT         how the sentence about the ranks begins
    # doing: TEXT         what that sentence says the odd rank does
    # blocked: TEXT       why a rank that has joined is blocked by itself

Must not: use NVLink multicast, which not every shared machine allows.
"""

import json
import re
import shlex
import socket
import sys

import guard
from checks import Row, Scratch
from processes import run
from tools import ROOT

SOURCES = ROOT / "testapps" / "frameworks"
RANKS = 2
LIMIT_S = 75.0
HANG_AFTER = "2s"


def programs():
    return sorted(path for path in SOURCES.glob("*.py") if path.name != "job.py")


def expected(path):
    """The statements in a program's first lines, by their names."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        statement = re.fullmatch(r"# (code|blame|doing|blocked): (.*)", line)
        if statement:
            found[statement.group(1)] = statement.group(2)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def job(path):
    """A shell that starts all ranks and waits for them."""
    python, program = shlex.quote(sys.executable), shlex.quote(str(path))
    start = f"for rank in $(seq 0 {RANKS - 1}); do RANK=$rank LOCAL_RANK=$rank {python} {program} & done; wait"
    return ["sh", "-c", f"export WORLD_SIZE={RANKS} MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} NCCL_NVLS_ENABLE=0; {start}"]


def of_text(outcome):
    return f"exit {outcome.code}, {outcome.seconds:.1f} s"


def said_of_ranks(found):
    ranks = found.get("ranks") or {}
    codes = [verdict["code"] for process in found["processes"] for verdict in (process.get("hang") or {}).get("verdicts", [])[:1]]
    return codes, ranks


def wrong(statement, codes, ranks):
    """What is not as the program states it, in words."""
    sentence = ranks.get("sentence", "")
    blocked = [rank["why"] for rank in ranks.get("blocked", [])]
    missing = []
    if statement["code"] not in codes:
        missing.append(f"code {statement['code']} is not among {codes}")
    if not sentence.startswith(statement.get("blame", "")):
        missing.append(f"the ranks: {sentence!r}")
    if statement.get("doing", "") not in sentence:
        missing.append(f"what it does: {sentence!r}")
    if "blocked" in statement and not any(why.startswith(statement["blocked"]) for why in blocked):
        missing.append(f"blocked: {blocked}")
    return missing


def check_one(path):
    statement, hangs = expected(path), expected(path)["code"] != "none"
    with Scratch() as scratch:
        folder = scratch.path
        out = folder / "run"
        options = ["--out", str(out), "--keep", "--hang-after", HANG_AFTER, "--on-hang", "kill", "--timeout", "60s"]
        bare = None if hangs else run(job(path), guard.bare(), LIMIT_S, folder)
        outcome = run([guard.COMMAND, "run", *options, "--", *job(path)], guard.clean_environment(), LIMIT_S, folder)
        report = run([guard.COMMAND, "report", "--format", "json", out], guard.clean_environment(), LIMIT_S, folder)
        text = run([guard.COMMAND, "report", out], guard.clean_environment(), LIMIT_S, folder)
    data = {"program": path.stem, "expected": statement, "exit": outcome.code, "seconds": round(outcome.seconds, 1)}
    try:
        codes, ranks = said_of_ranks(json.loads(report.stdout))
    except ValueError:
        codes, ranks = [], {}
        data["unread"] = report.stderr[-500:]
    data.update(codes=codes, ranks=ranks)
    if hangs:
        faults = wrong(statement, codes, ranks) + ([] if outcome.code == 117 else [of_text(outcome)])
        note = ranks.get("sentence", "")
    else:
        same = sorted(bare.stdout.splitlines()) == sorted(outcome.stdout.splitlines()) and bare.code == outcome.code == 0
        faults = ([] if same else [f"bare {of_text(bare)}, guarded {of_text(outcome)}"]) + [f"said {code}" for code in codes]
        note = "same output, nothing said"
    if faults:
        data.update(faults=faults, stdout=outcome.stdout[-1000:], stderr=outcome.stderr[-6000:], report=text.stdout[:6000])
        if bare:
            data.update(bare={"stdout": bare.stdout[-1000:], "stderr": bare.stderr[-3000:]})
    verdict = "FAIL" if faults else "PASS"
    return Row(f"ranks: {path.stem}", of_text(bare) if bare else "", of_text(outcome), "; ".join(faults) or note, verdict), data


def check(progress):
    rows, all_data = [], []
    for path in programs():
        row, data = check_one(path)
        progress(f"{row.what}: {row.verdict}")
        rows.append(row)
        all_data.append(data)
    return rows, all_data
