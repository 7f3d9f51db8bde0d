"""Shared by the scripts: paths, compilers, and the form of a failure."""

import os
import shlex
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# The machine that is built for, where it is another than this one. scripts/aarch64 sets it, with CC and CXX.
MACHINE = os.environ.get("LAZYGUARD_MACHINE", "")
TARGET = ROOT / "target" / MACHINE
# What starts a program of that machine here, where something has to.
RUNNER = shlex.split(os.environ.get("LAZYGUARD_RUNNER", ""))
# What builds: programs of this machine.
TOOLS = ROOT / "target" / "tools" / "bin"


class Failure(Exception):
    """A failed step; the text is for the person who started the script."""


def cxx():
    return os.environ.get("CXX") or "g++"


def c_compiler():
    """The C compiler that belongs to the C++ one: $CC, else gcc, else the C++ compiler's driver."""
    return os.environ.get("CC") or ("gcc" if shutil.which("gcc") else "cc")
