"""Builds the two Rust artefacts: target/release/lazyguard and target/release/liblazyguard.so.

The library alone is linked against the glibc floor (see glibc_floor.py) and optimised as a whole, by
arguments that cargo hands to that one crate, so that nothing else is compiled twice and a plain
`cargo build` goes on working. A plain `cargo build --release` therefore replaces the library with one that needs the
build machine's glibc; the next scripts/build puts the released one back.
"""

import os
import subprocess
import time

import glibc_floor
from tools import ROOT, TARGET, Failure

JOBS = "2"

# The exports find their caller by the frame pointer; the second option tells them that there is one.
FRAMES = ["-C", "force-frame-pointers=yes", "--cfg", "lazyguard_frames"]

AS_A_WHOLE = ["-C", "lto=fat"]


def cargo(*arguments):
    command = ["cargo", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "CARGO_TARGET_DIR"}
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise Failure(f"{' '.join(command)} failed (exit {result.returncode}):\n{result.stdout}")


def build(say):
    if not (ROOT / "Cargo.toml").is_file():
        raise Failure("Cargo.toml is missing: there is no Rust workspace to build")
    started = time.monotonic()
    cargo("build", "--release", "--quiet", "-j", JOBS, "-p", "lazyguard-cli")
    say("lazyguard", "built", time.monotonic() - started)
    started = time.monotonic()
    floor = glibc_floor.ensure(TARGET / "glibc-floor")
    cargo("rustc", "--release", "--quiet", "-j", JOBS, "-p", "lazyguard-shim", "--lib", "--", *floor, *FRAMES, *AS_A_WHOLE)
    say("liblazyguard.so", "built", time.monotonic() - started)
    for artefact in ("lazyguard", "liblazyguard.so"):
        if not (TARGET / "release" / artefact).is_file():
            raise Failure(f"cargo succeeded and target/release/{artefact} is not there")
