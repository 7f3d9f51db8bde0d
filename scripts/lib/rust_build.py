"""Builds the two Rust artefacts: target/release/lazyguard and target/release/liblazyguard.so.

Each has a profile of its own. The command is built in target/command and put beside the library,
which is where it looks for it. The library alone is linked against the glibc floor (see
glibc_floor.py), by arguments that cargo hands to that one crate, so that a plain `cargo build` goes
on working. A plain `cargo build --release` therefore replaces the library with one that needs the
build machine's glibc; the next scripts/build puts the released one back.
"""

import filecmp
import os
import shutil
import subprocess
import time

import glibc_floor
from tools import ROOT, TARGET, Failure

JOBS = "2"

# The exports find their caller by the frame pointer; the second option tells them that there is one.
FRAMES = ["-C", "force-frame-pointers=yes", "--cfg", "lazyguard_frames"]


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
    cargo("build", "--profile", "command", "--quiet", "-j", JOBS, "-p", "lazyguard-cli")
    put(TARGET / "command" / "lazyguard", TARGET / "release" / "lazyguard")
    say("lazyguard", "built", time.monotonic() - started)
    started = time.monotonic()
    floor = glibc_floor.ensure(TARGET / "glibc-floor")
    cargo("rustc", "--release", "--quiet", "-j", JOBS, "-p", "lazyguard-shim", "--lib", "--", *floor, *FRAMES)
    say("liblazyguard.so", "built", time.monotonic() - started)
    if not (TARGET / "release" / "liblazyguard.so").is_file():
        raise Failure("cargo succeeded and target/release/liblazyguard.so is not there")


def put(built, place):
    """A copy in one step: who runs the old one goes on with it."""
    if not built.is_file():
        raise Failure(f"cargo succeeded and {built.relative_to(ROOT)} is not there")
    if place.is_file() and filecmp.cmp(built, place, shallow=False):
        return
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_name(place.name + ".new")
    shutil.copy2(built, fresh)
    os.replace(fresh, place)
