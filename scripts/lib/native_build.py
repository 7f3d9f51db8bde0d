"""Builds what is not Rust by CMake and Ninja: testapps/CMakeLists.txt says what, and where to.

    python3 scripts/lib/native_build.py [TARGET...]

A TARGET is a group (simdriver, kernels, apps, corpus, ...) or a file beneath target/ (apps/lazy_pair); without one everything is built.
target/cuda has to be there; where it has the headers alone, what needs nvcc is left out.

Must not: print anything when nothing goes wrong beyond one line.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time

from tools import MACHINE, ROOT, TARGET, TOOLS, Failure, c_compiler, cxx

STATE = TARGET / "native"
# One architecture is enough to see that the device code compiles: nvcc takes most of the time of a build, and as much for each of them.
OF_THE_TESTS = ("90",)
# What CMake has to be told of another machine.
FOR_ANOTHER = ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={MACHINE}", f"-DTARGET_DIR={TARGET}", f"-DCUDA_DIR={TARGET / 'cuda'}"]


def compilers():
    """Changes when a compiler does. Ninja does not know that, so everything has to be built anew."""
    versions = [subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout for compiler in (c_compiler(), cxx())]
    return "\n".join([c_compiler(), cxx(), *versions])


def run(command):
    """The command's output; the text of a failure is the output from the first failed step on."""
    environment = dict(os.environ, CC=c_compiler(), CXX=cxx(), NINJA_STATUS="[%f/%t] ")
    result = subprocess.run([str(part) for part in command], cwd=ROOT / "testapps", env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise Failure(reason(result.stdout) + f"\n{command[0].name} ended with exit status {result.returncode}")
    return result.stdout


def reason(output):
    """A build's output without the steps that went well."""
    failed = re.search(r"^(FAILED|ninja: error|CMake Error)", output, re.M)
    lines = output[failed.start() if failed else 0:].splitlines()
    return "\n".join(line for line in lines if not re.match(r"\[\d+/\d+\] ", line)).strip()


def steps(output):
    """How many steps Ninja ran, without its look at what there is to do."""
    return len(re.findall(r"^\[\d+/\d+\] (?!Re-)", output, re.M))


def configure(architectures=()):
    fetched = subprocess.run([sys.executable, str(ROOT / "scripts" / "fetch-cmake")])
    if fetched.returncode != 0:
        sys.exit(fetched.returncode)
    record = STATE / "compilers"
    wanted = compilers()
    if not record.is_file() or record.read_text() != wanted:
        shutil.rmtree(STATE, ignore_errors=True)
    chosen = ";".join(architectures)
    if as_it_is(otherwise=None) != tuple(architectures):
        choice = [f"-DARCHITECTURES={chosen}"] if chosen else ["-U", "ARCHITECTURES"]
        another = FOR_ANOTHER if MACHINE else []
        run([TOOLS / "cmake", "--preset", "default", "-B", STATE, f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", *another, *choice])
        made_for().write_text(chosen)
        record.write_text(wanted)


def made_for():
    """Says the architectures that machine code is made for, where they are not the usual ones of testapps/nvcc.cmake."""
    return STATE / "architectures"


def as_it_is(otherwise=()):
    """The architectures of the build that is there."""
    return tuple(filter(None, made_for().read_text().split(";"))) if made_for().is_file() else otherwise


def build(say, targets=(), architectures=()):
    """Builds the targets; `say(title, outcome, seconds)` is called once, when all is well.

    `architectures`: those of the cards that machine code is made for, as numbers; the usual ones where none are named.
    """
    started = time.monotonic()
    configure(architectures)
    ran = steps(run([TOOLS / "ninja", "-C", STATE, *(TARGET / name if "/" in name else name for name in targets)]))
    say(" ".join(targets) or "simulated driver, kernels, test programs", f"{ran} steps run" if ran else "up to date", time.monotonic() - started)


def main():
    TARGET.mkdir(exist_ok=True)
    # The lock of scripts/build: two builds at a time would write the same files.
    with open(TARGET / ".build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build(lambda title, outcome, seconds: print(f"build: {title}: {outcome} ({seconds:.1f} s)", flush=True), sys.argv[1:], as_it_is())


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"build: {failure}")
