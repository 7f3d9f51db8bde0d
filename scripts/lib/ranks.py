"""Jobs of two ranks on two GPUs with PyTorch and NCCL: does the end of the run name the rank that is to blame?

The first lines of each program in testapps/frameworks state what is expected, as scripts/lib/frameworks.py reads it.

Must not: use NVLink multicast, which not every shared machine allows.
"""

import random
import re
import shlex
import socket
import sys

import frameworks
import recordings
from tools import ROOT

SOURCES = ROOT / "testapps" / "frameworks"
RANKS = 2
# Jobs that hang wait most of the time. One that ends has the devices for itself.
HANGING_AT_A_TIME = 3
REVOKE = ("--on-hang", "revoke", "--profile", "profile")


def free_port():
    """A port that is free, below those that the system gives to connections: NCCL of another job takes many of them."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def job(path, torchrun=None, arguments=()):
    """A shell that starts all ranks, waits for them, and fails where one does; or that has torchrun do so, with these options."""
    python, program = shlex.quote(sys.executable), shlex.join([str(path), *arguments])
    start = f"for rank in $(seq 0 {RANKS - 1}); do RANK=$rank LOCAL_RANK=$rank {python} {program} & pids=\"$pids $!\"; done"
    wait = "for pid in $pids; do wait $pid || failed=1; done; exit ${failed:-0}"
    port = free_port()
    if torchrun is not None:
        # The agent's store outlives an attempt, and has the former one's id of NCCL.
        return ["env", "NCCL_NVLS_ENABLE=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}", f"--master-port={port}",
                *torchrun.split(), path]
    return ["sh", "-c", f"export WORLD_SIZE={RANKS} MASTER_ADDR=127.0.0.1 MASTER_PORT={port} NCCL_NVLS_ENABLE=0; {start}; {wait}"]


def sources():
    """The programs of one GPU and those of two ranks, by name."""
    return {**frameworks.programs(frameworks.SOURCES), **frameworks.programs(SOURCES)}


def command_of(program):
    """A job, or the program alone: a job of ranks states which one is to blame."""
    return job(program.path, program.torchrun) if program.blame else [sys.executable, program.path]


def without_names(sentence):
    """Which communicators PyTorch names, and how, differs by its release."""
    return re.sub(r'(communicator \d+) "[^"]*"', r"\1", sentence)


def faults_of_ranks(program, codes, sentence):
    """What is not as the program states it, in words."""
    faults = [] if program.code in codes else [f"code {program.code} is not among {codes}"]
    if not re.match(program.blame, without_names(sentence)):
        faults.append(f"the ranks: {sentence!r}, expected {program.blame}")
    return faults


def codes_of(report):
    return [verdict["code"] for verdict in frameworks.first_verdicts(report)]


def judged(program, report):
    """What is expected of the recordings of a job that hangs, and what is not as it states it."""
    ranks = report.get("ranks") or {}
    stated = program._replace(blame=recordings.of_recordings(program.blame))
    return {"ranks": recordings.of_ranks(ranks)}, faults_of_ranks(stated, codes_of(report), ranks.get("sentence", ""))


def faults_of_healing(program, outcome, report):
    """Why a run under `--on-hang revoke` has not healed, in words."""
    revoked = [(process.get("run") or {}).get("revoked", []) for process in report["processes"]]
    done = [process for process in revoked if any(one["communicators"] for one in process)]
    faults = [] if len(done) == RANKS else [f"{len(done)} processes have revoked, expected {RANKS}"]
    lines = [line for line in outcome.stdout.splitlines() if re.fullmatch(program.heals, line)]
    return faults + ([] if len(set(lines)) == RANKS else [f"{len(set(lines))} ranks print {program.heals}, expected {RANKS}"])


def check_one(program, keep):
    if program.code == "none":
        return frameworks.ending("ranks", program, lambda: job(program.path), 1, keep)
    action = REVOKE if program.heals else frameworks.KILL
    seen = frameworks.hang(program, command_of(program), keep, lambda report: judged(program, report), action)
    codes = codes_of(seen.report)
    ranks = seen.report.get("ranks") or {}
    sentence = ranks.get("sentence", "")
    faults = faults_of_ranks(program, codes, sentence)
    data = {"codes": codes, "ranks": ranks}
    if program.heals is None:
        return frameworks.hang_row("ranks", program, seen, sentence, faults, data)
    faults += faults_of_healing(program, seen.outcome, seen.report)
    return frameworks.hang_row("ranks", program, seen, f"healed; {sentence}", faults, {**data, "stdout": seen.outcome.stdout[-2000:]}, code=0)


def check(progress, wanted=None, keep=None):
    chosen = frameworks.chosen_of(frameworks.programs(SOURCES), wanted)
    rows, data = frameworks.each(chosen, lambda program: check_one(program, keep), (HANGING_AT_A_TIME, 1), progress)
    return sorted(rows), data
