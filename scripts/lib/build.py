"""The single build behind scripts/build, scripts/test, scripts/demo and scripts/gpu-kit."""

import argparse
import fcntl
import subprocess
import sys
import time

import native_build
import rust_build
from tools import ROOT, TARGET, Failure


def say(title, outcome, seconds):
    print(f"build: {title}: {outcome} ({seconds:.1f} s)", flush=True)


def fetch_cuda():
    started = time.monotonic()
    result = subprocess.run([sys.executable, str(ROOT / "scripts" / "fetch-cuda")])
    if result.returncode != 0:
        sys.exit(result.returncode)
    say("CUDA headers and nvcc", "there", time.monotonic() - started)


def main():
    parser = argparse.ArgumentParser(prog="scripts/build", description="Build everything into target/.")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--native-only", action="store_true", help="the simulated driver and the test programs")
    only.add_argument("--rust-only", action="store_true", help="liblazyguard.so and lazyguard")
    options = parser.parse_args()
    TARGET.mkdir(exist_ok=True)
    # Two builds at a time would write the same files.
    with open(TARGET / ".build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not options.native_only:
                rust_build.build(say)
            if not options.rust_only:
                fetch_cuda()
                native_build.build(say)
        except Failure as failure:
            sys.exit(f"build: {failure}")


main()
