"""Damages the folders of runs of several ranks, and has each command read them: no damage may cost a crash, much time or much memory.

Usage: fuzz_folders.py SECONDS COMMAND [SEED]. scripts/fuzz starts it, and builds the command that reads with checks for overflow. The runs are jobs of NCCL on the simulated driver, which `scripts/build` builds.

Exit codes: 0 nothing found, or the programs are not built; 1 found: the folder stays in target/fuzz/folders, and a line says which command failed.
"""

import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

from tools import ROOT

OUT = ROOT / "target" / "fuzz" / "folders"
JOB = ROOT / "target" / "ranks" / "nccl_job"
RANKS = 3
FAULTS = ("skip", "init", "order", "no_receive")
# What a command may need, whatever a folder holds.
MOST_BYTES = 1 << 30
MOST_S = 5.0
WORDS = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFF00, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
OF_A_RUN = (
    "report RUN",
    "report RUN --hazards",
    "report RUN --format json",
    "report RUN --hazards --format json",
    "report RUN --hazards --format sarif",
    "report RUN --cold-start",
    "report RUN --blocking",
    "report RUN --html OUT/page.html",
    "top RUN",
    "health RUN",
    "metrics RUN",
    "anonymise RUN OUT/copy",
)
OF_A_PROCESS = ("report PROCESS", "log PROCESS", "log PROCESS --format json", "export PROCESS --to perfetto -o OUT/timeline")


def recorder():
    """The command that was built last, which has its library beside it."""
    found = [path for kind in ("release", "debug") if (path := ROOT / "target" / kind / "lazyguard").is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def record(lazyguard, fault, into):
    """The folder of a job with this fault."""
    libraries = ":".join(str(ROOT / "target" / name) for name in ("simdriver", "simnccl"))
    line = f'for r in $(seq 0 {RANKS - 1}); do RANK=$r WORLD_SIZE={RANKS} "{JOB}" "{into}.id" steps {fault} & done; wait'
    subprocess.run(
        [lazyguard, "run", "--record", "1MiB", "--hang-after", "500ms", "--on-hang", "kill", "--timeout", "8s", "--out", into, "--", "sh", "-c", line],
        env={**os.environ, "LD_LIBRARY_PATH": libraries, "LAZYGUARD_PROFILE": "off"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return next(path for path in into.iterdir() if path.is_dir())


def damage(rng, path):
    """Puts a number in the place of another, in a recording mostly in its header and its tables; returns how."""
    content = bytearray(path.read_bytes())
    value = rng.choice(WORDS)
    if path.suffix in (".lgt", ".dmp"):
        size = rng.choice((4, 8))
        used = [at for at in range(0, min(len(content), 1 << rng.randrange(12, 19)) - 8, 4) if any(content[at : at + 4])]
        at = rng.choice(used)
        content[at : at + size] = struct.pack("<Q", value)[:size]
    else:
        numbers = list(re.finditer(rb"\d+", content))
        if not numbers:
            return f"{path.name}: nothing"
        number = rng.choice(numbers)
        at, content[number.start() : number.end()] = number.start(), str(value).encode()
    path.chmod(0o600)
    path.write_bytes(content)
    return f"{path.parent.name}/{path.name} at {at:#x}: {value:#x}"


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def fault_of(lazyguard, words):
    """What is wrong with a command's end, or `None`."""
    try:
        ended = subprocess.run([lazyguard, *words], capture_output=True, preexec_fn=limited, timeout=MOST_S, env={**os.environ, "RUST_BACKTRACE": "0"})
    except subprocess.TimeoutExpired:
        return f"takes more than {MOST_S:g} s"
    errors = ended.stderr.decode(errors="replace")
    if ended.returncode < 0 or ended.returncode == 101 or "panicked at" in errors or "memory allocation" in errors:
        return f"ends with {ended.returncode}: {errors.strip()[-300:]}"
    return None


def main(seconds, lazyguard, seed):
    if recorder() is None or not JOB.is_file():
        print("fuzz: folders: skipped: scripts/build builds what this needs")
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    seeds = [record(recorder(), fault, OUT / fault) for fault in FAULTS]
    rng, end, damaged, commands = random.Random(seed), time.monotonic() + seconds, 0, 0
    work = OUT / "damaged"
    while time.monotonic() < end:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(rng.choice(seeds), work / "run")
        files = sorted(path for path in work.rglob("*") if path.is_file() and path.stat().st_size)
        traces = [path for path in files if path.suffix == ".lgt"]
        how = [damage(rng, rng.choice(traces if rng.random() < 0.7 else files)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        process = rng.choice(traces).parent
        damaged += 1
        # The slowest two wait before they look: not for each.
        of_a_run = [line for line in OF_A_RUN if rng.random() < 0.2 or line.split()[0] not in ("top", "health", "metrics")]
        for line in (*of_a_run, *OF_A_PROCESS):
            words = [word.replace("RUN", str(work / "run")).replace("PROCESS", str(process)).replace("OUT", str(work)) for word in line.split()]
            commands += 1
            if fault := fault_of(lazyguard, words):
                print(f"fuzz: FOUND that `lazyguard {' '.join(words)}` {fault}\n  {'; '.join(how)}", file=sys.stderr)
                return 1
    print(f"fuzz: folders: {commands} commands on {damaged} damaged folders in {seconds} s, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
