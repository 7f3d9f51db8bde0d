"""The single build behind scripts/build, scripts/test, scripts/demo and scripts/gpu-kit.

What is Rust and what is native are built side by side: link-time optimisation keeps one processor
busy for a minute and more, and the other one is free meanwhile.
"""

import argparse
import fcntl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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
        failures = build(options)
    if failures:
        sys.exit("\n".join(f"build: {failure}" for failure in failures))


def build(options):
    """What failed, of each side the first thing."""
    sides = []
    if not options.native_only:
        sides.append(rust_build.build)
    if not options.rust_only:
        sides.append(native_side)
    with ThreadPoolExecutor(len(sides)) as pool:
        outcomes = [pool.submit(side, say) for side in sides]
    # Whatever is no failure of a build is shown as it is: the exit of a script, or a fault of these.
    faults = [outcome.exception() for outcome in outcomes if outcome.exception()]
    others = [fault for fault in faults if not isinstance(fault, Failure)]
    failures = [fault for fault in faults if isinstance(fault, Failure)]
    if others:
        print("\n".join(f"build: {failure}" for failure in failures), file=sys.stderr)
        raise others[0]
    return failures


def native_side(say):
    fetch_cuda()
    native_build.build(say)


main()
