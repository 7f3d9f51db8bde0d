"""A compiler for aarch64, that machine's libraries, an emulator, and Rust's library for it.

What is on PATH is used. Where it is not, and the machine has Debian's package tools, the packages are unpacked into
target/tools/aarch64. Rust's library is the exception: rustup adds it to the toolchain.

Must not: install a package on the machine, or need root.
"""

import os
import shutil
import subprocess
from collections import namedtuple

import debian
import fetching
from tools import ROOT

TRIPLE = "aarch64-unknown-linux-gnu"
PREFIX = "aarch64-linux-gnu"
FOLDER = ROOT / "target" / "tools" / "aarch64"
UNPACKED = FOLDER / "root"
EMULATOR = "qemu-aarch64-static"
# The programs, each with the package that has it.
PACKAGES = {f"{PREFIX}-gcc": f"gcc-{PREFIX}", f"{PREFIX}-g++": f"g++-{PREFIX}", f"{PREFIX}-objcopy": f"binutils-{PREFIX}",
            EMULATOR: "qemu-user-static"}
WRAPPED = (f"{PREFIX}-gcc", f"{PREFIX}-g++", f"{PREFIX}-objcopy")

# libraries: the folder beneath which lie lib/ld-linux-aarch64.so.1 and what programs need.
Tools = namedtuple("Tools", "c_compiler cxx objcopy emulator libraries")


def find():
    """The tools, fetched where they were not there; a fetching.Failure says what the machine lacks."""
    rust_library()
    if all(shutil.which(name) for name in PACKAGES):
        return tools([shutil.which(name) for name in PACKAGES], f"/usr/{PREFIX}")
    fetched = [*(FOLDER / "bin" / name for name in WRAPPED), UNPACKED / "usr" / "bin" / EMULATOR]
    if not all(program.is_file() for program in fetched):
        fetch()
    return tools(fetched, UNPACKED / "usr" / PREFIX)


def tools(programs, libraries):
    if not os.path.isfile(f"{libraries}/lib/ld-linux-aarch64.so.1"):
        raise fetching.Failure(5, f"{libraries} has no ld-linux-aarch64.so.1")
    return Tools(*map(str, programs), str(libraries))


def rust_library(triple=TRIPLE):
    """Has rustup add the standard library for a target where it is not there."""
    if triple not in output(["rustup", "target", "list", "--installed"]).split():
        fetching.persistently(["rustup", "target", "add", triple], f"rustup could not add {triple}")


def output(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise fetching.Failure(3, f"{command[0]} is not there")
    except subprocess.CalledProcessError as failure:
        raise fetching.Failure(3, f"{' '.join(command[:2])} failed: {failure.stderr.strip().splitlines()[-1:]}")


def fetch():
    if not debian.is_there():
        raise fetching.Failure(3, f"{', '.join(PACKAGES)} are not there, nor Debian's package tools to fetch them with")
    shutil.rmtree(FOLDER, ignore_errors=True)
    debian.unpack(list(PACKAGES.values()), UNPACKED, "the compiler for aarch64")
    (FOLDER / "bin").mkdir(parents=True)
    for name in WRAPPED:
        wrap(name)


def wrap(name):
    """A program in bin/ that starts the unpacked one with the libraries that were unpacked beside it."""
    program = UNPACKED / "usr" / "bin" / name
    beside = UNPACKED / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    options = "" if name.endswith("objcopy") else f" --sysroot='{UNPACKED}'"
    wrapper = FOLDER / "bin" / name
    wrapper.write_text(f"#!/bin/sh\nLD_LIBRARY_PATH='{beside}' exec '{program}'{options} \"$@\"\n")
    wrapper.chmod(0o755)
