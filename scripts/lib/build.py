"""The single build behind scripts/build, scripts/test and scripts/gpu-kit.

What is Rust and what is native are built side by side: each has stretches that keep one processor
busy, and the other one is free meanwhile.
"""

import argparse
import fcntl
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import native_build
import rust_build
from tools import ROOT, TARGET, Failure


def say(title, outcome, seconds):
    print(f"build: {title}: {outcome} ({seconds:.1f} s)", flush=True)


def under_way(text):
    print(f"build: {text} ...", flush=True)


def fetch_cuda(say, *options):
    started = time.monotonic()
    result = subprocess.run([sys.executable, str(ROOT / "scripts" / "fetch-cuda"), *options])
    if result.returncode != 0:
        sys.exit(result.returncode)
    say("CUDA headers" if options else "CUDA headers and nvcc", "there", time.monotonic() - started)


def native(say):
    fetch_cuda(say)
    native_build.build(say)


def native_for_tests(say):
    rust_build.give_way_to_the_library()
    fetch_cuda(say)
    native_build.build(say, architectures=native_build.as_it_is(native_build.OF_THE_TESTS))


def everyday(say):
    rust_build.everyday(say, under_way)


def tested(say):
    rust_build.tested(say, under_way)


def released(say):
    rust_build.released(say, under_way)
    check_library(say)


def check_library(say):
    """The file that ships, before anything ships it."""
    started = time.monotonic()
    environment = dict(os.environ, GUARD_BUILD=rust_build.RELEASED)
    result = subprocess.run([sys.executable, str(ROOT / "scripts" / "check-library")], env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"scripts/check-library:\n{result.stdout}{result.stderr}")
    say("target/release/liblazyguard.so", "checked", time.monotonic() - started)


PARTS = {"native": (native, "the simulated driver and the test programs; with --tested alone, device code for one architecture"),
         "rust": (everyday, "target/debug/liblazyguard.so and lazyguard: the inner loop's"),
         "tested": (tested, "target/tested/liblazyguard.so as it ships and lazyguard, and all tests: what scripts/test runs"),
         "one-reading": (rust_build.one_reading, "target/one-reading/liblazyguard.so, to measure what a submission's second reading of the clock costs"),
         "release": (released, "target/release/liblazyguard.so and lazyguard, as they ship")}
USUAL = ("native", "rust")


def main():
    parser = argparse.ArgumentParser(prog="scripts/build", description="Build into target/. Without an option: what the tests need, native and Rust.")
    for name, (_, what) in PARTS.items():
        parser.add_argument(f"--{name}", action="append_const", const=name, dest="parts", help=what)
    parts = parser.parse_args().parts or USUAL
    of_tests = {"native": native_for_tests} if "tested" in parts and "release" not in parts else {}
    run([of_tests.get(name, PARTS[name][0]) for name in parts])


def run(sides):
    """Builds the sides beside each other, and ends the process where one fails."""
    TARGET.mkdir(exist_ok=True)
    # Two builds at a time would write the same files.
    with open(TARGET / ".build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failures = build(sides)
    if failures:
        sys.exit("\n".join(f"build: {failure}" for failure in failures))


def build(sides):
    """What failed, of each side the first thing."""
    with ThreadPoolExecutor(len(sides)) as pool:
        outcomes = [pool.submit(side, say) for side in sides]
    # An error that is no failed build is shown as it is: the exit of a script, or a fault in one.
    faults = [outcome.exception() for outcome in outcomes if outcome.exception()]
    others = [fault for fault in faults if not isinstance(fault, Failure)]
    failures = [fault for fault in faults if isinstance(fault, Failure)]
    if others:
        print("\n".join(f"build: {failure}" for failure in failures), file=sys.stderr)
        raise others[0]
    return failures


if __name__ == "__main__":
    main()
