"""Builds the two Rust artefacts, liblazyguard.so and lazyguard, in one of two ways.

everyday   target/debug     cargo's dev profile: no optimisation, overflow checks, debug assertions. The unit tests and the end-to-end
                            harness share it, so nothing is compiled twice. `cargo build` makes
                            the same files: .cargo/config.toml holds the flags that the library needs.
released   target/release   what ships: the command optimised, the library optimised as a whole (fat link-time optimisation) and
                            linked against the glibc floor (glibc_floor.py). The command takes most of the time.
packed     target/dist      the released library and a static command (target/x86_64-unknown-linux-musl), without debug information: dist.py. A
                            toolchain without musl makes a command that needs the glibc floor (target/old-glibc).
tested     target/tested    the released library beside the everyday command, which is what scripts/test tests. What the tests' build
                            compiles is linted meanwhile: rustc-with-lints.

Why so: the library is what must not harm a program, so the file that ships is the one that is tested. It also has to be fast:
unoptimised, it reads a recording so slowly that a hang is reported half a second late. The command is the same code either way,
has its unsafe calls in one file (cli/src/machine/system.rs), and is tested with its assertions on; optimised, it would take longer to build
than everything else of Rust together. LAZYGUARD_TEST_LONG=1 tests the released pair. The everyday library is for the demo and for the inner loop.

Why no cargo-zigbuild: it comes with a 100 MB compiler and links with another linker. The floor's stand-ins are made in a second
from the machine's own glibc, and check-library reads the versions that the linked file asks for.

The released flags are arguments to the library's own crate. A plain `cargo build --release` therefore replaces the library with one that
needs the build machine's glibc; the next `scripts/build --release` puts the released one back.
"""

import os
import platform
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import build_note
import glibc_floor
from tools import MACHINE, ROOT, TARGET, Failure, c_compiler

JOBS = "2"
EVERYDAY, RELEASED, TESTED, ONE_READING, OLD_GLIBC = "debug", "release", "tested", "one-reading", "old-glibc"
# How often a build that takes long says how far it is.
SAY_EVERY_S = 10
LIBRARY = "liblazyguard.so"
ARTEFACTS = ("lazyguard", LIBRARY)
# The command in packages: it needs no C library, so that one file does for every machine and for an image that holds nothing else.
STATIC = f"{MACHINE or platform.machine()}-unknown-linux-musl"
TRIPLE = f"{MACHINE or platform.machine()}-unknown-linux-gnu"
# A build for another machine names it (`--target`), and cargo puts what it makes into a folder of that machine.
FOR_ANOTHER = ["--target", TRIPLE] if MACHINE else []
OF_CARGO = ROOT / "target"
NOT_INHERITED = ("CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER")

# The exports find their caller by the frame pointer; the second option announces that there is one.
FRAMES = ["-C", "force-frame-pointers=yes", "--cfg", "lazyguard_frames"]
# With the limit of 225 instructions that is usual, the library has 300 KB more, none of it for the path of a launch: what that needs is marked
# `#[inline]`, for which another limit holds. testapps/bench/warm_path counts as many instructions with one as with the other.
AS_A_WHOLE = ["-C", "lto=fat", "-C", "llvm-args=-inline-threshold=30"]


def cargo(*arguments, under_way=None, **environment):
    """Runs cargo; `under_way(text)` is called every few seconds with what it does."""
    command = ["cargo", *arguments]
    inherited = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    environment = {**inherited, **linkers(), "CARGO_TERM_COLOR": "never", **environment}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, over = [], threading.Event()
    if under_way:
        threading.Thread(target=say_how_far, args=(output, over, under_way), daemon=True).start()
    for line in process.stdout:
        output.append(line)
    over.set()
    if process.wait() != 0:
        raise Failure(f"{' '.join(command)} failed (exit {process.returncode}):\n{''.join(output)}")


def of_the_tests():
    """The environment of the tests' build; all that shares it needs the same one. cargo lints what it compiles, where the toolchain has clippy."""
    there = shutil.which("clippy-driver") and subprocess.run(["clippy-driver", "--version"], capture_output=True).returncode == 0
    linting = {"RUSTC_WORKSPACE_WRAPPER": str(ROOT / "scripts" / "lib" / "rustc-with-lints")} if there else {}
    # What a later build could take over costs the first one a sixth of its time, and gigabytes.
    return {"CARGO_INCREMENTAL": "0", **linting}


def linkers():
    """What cargo has to be told of the compiler for another machine."""
    of_triple = {triple.replace("-", "_"): c_compiler() for triple in (TRIPLE, STATIC) if MACHINE}
    return {name: compiler for triple, compiler in of_triple.items() for name in (f"CARGO_TARGET_{triple.upper()}_LINKER", f"CC_{triple}")}


def say_how_far(output, over, under_way):
    while not over.wait(SAY_EVERY_S):
        crates = [line.split()[1] for line in list(output) if line.lstrip().startswith("Compiling ")]
        if crates:
            under_way(f"cargo compiles {crates[-1]}, package {len(crates)}")


def there(folder):
    for artefact in ARTEFACTS:
        if not (TARGET / folder / artefact).is_file():
            raise Failure(f"cargo succeeded and target/{folder}/{artefact} is not there")


def commit():
    """What --version says of a released build: the commit, with a plus where files differ from it; nothing outside of a checkout."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def everyday(say, under_way=None):
    started = time.monotonic()
    cargo("build", "-j", JOBS, "-p", "lazyguard-shim", "-p", "lazyguard-cli", under_way=under_way)
    there(EVERYDAY)
    say("target/debug/liblazyguard.so and lazyguard", "built", time.monotonic() - started)


def released(say, under_way=None):
    library(say, under_way)
    # Cargo puts its own file back before it builds again, so a commit that is no longer true does not stay.
    build_note.stamp(TARGET / RELEASED / LIBRARY, commit())
    started = time.monotonic()
    cargo("build", "--release", "-j", JOBS, "-p", "lazyguard-cli", under_way=under_way, CARGO_ENCODED_RUSTFLAGS=remapped(), LAZYGUARD_COMMIT=commit())
    there(RELEASED)
    say("target/release/lazyguard", "built", time.monotonic() - started)


def can_be_static():
    """Whether the toolchain has the standard library of the static command."""
    result = subprocess.run(["rustc", "--print", "target-libdir", "--target", STATIC], capture_output=True, text=True)
    return result.returncode == 0 and Path(result.stdout.strip()).is_dir()


def packed_folder():
    """The folder of the command that packages have."""
    return OF_CARGO / STATIC / RELEASED if can_be_static() else TARGET / OLD_GLIBC


def packed_command(say, under_way=None):
    if can_be_static():
        return static_command(say, under_way)
    return command_of_old_glibc(say, under_way)


def command_of_old_glibc(say, under_way=None):
    """The command for a toolchain without the static C library: it needs glibc, of the floor's version, and nothing else."""
    started = time.monotonic()
    floor = glibc_floor.ensure(TARGET / "glibc-floor", of_program=True)
    # In a folder of its own: `scripts/build --release` makes the other one.
    cargo("rustc", "--release", *FOR_ANOTHER, "-j", JOBS, "-p", "lazyguard-cli", "--bin", "lazyguard", "--target-dir", TARGET / OLD_GLIBC / "cargo", "--", *floor,
          under_way=under_way, CARGO_ENCODED_RUSTFLAGS=remapped(), LAZYGUARD_COMMIT=commit(), CARGO_PROFILE_RELEASE_LTO="fat")
    made = TARGET / OLD_GLIBC / "cargo" / (TRIPLE if MACHINE else "") / RELEASED / "lazyguard"
    shutil.copy2(made, TARGET / OLD_GLIBC / "lazyguard")
    say(f"target/{OLD_GLIBC}/lazyguard, because the Rust toolchain lacks {STATIC}", "built", time.monotonic() - started)
    return TARGET / OLD_GLIBC / "lazyguard"


def static_command(say, under_way=None):
    """The command without a C library, as packages have it."""
    started = time.monotonic()
    folder = f"{STATIC}/release"
    # One dependency has a file in C. It takes constants and the layout of siginfo_t from the headers, which are the kernel's in every C
    # library, and calls nothing; so the machine's own compiler and headers do for it.
    suffix = STATIC.replace("-", "_")
    # Optimised as a whole: 400 KB less, for a minute.
    cargo("build", "--release", "-j", JOBS, "-p", "lazyguard-cli", "--target", STATIC, under_way=under_way, CARGO_ENCODED_RUSTFLAGS=remapped(),
          LAZYGUARD_COMMIT=commit(), CARGO_PROFILE_RELEASE_LTO="fat", **{f"CC_{suffix}": c_compiler(), f"CFLAGS_{suffix}": "-g0"})
    say(f"target/{folder}/lazyguard", "built", time.monotonic() - started)
    return OF_CARGO / folder / "lazyguard"


def remapped():
    """The flags by which no path of this machine gets into a file: the same sources make the same bytes in any folder."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    # The last that fits is taken. Between them the byte that CARGO_ENCODED_RUSTFLAGS is divided at: a path may have blanks.
    return "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in ((home, "/cargo"), (ROOT, "/lazyguard")))


def compile_library(*flags, under_way=None, **environment):
    floor = glibc_floor.ensure(TARGET / "glibc-floor")
    # In place of the flags of .cargo/config.toml, which are for everything: only the exports need a frame pointer.
    cargo("rustc", "--release", *FOR_ANOTHER, "-j", JOBS, "-p", "lazyguard-shim", "--lib", "--", *floor, *FRAMES, *flags, *AS_A_WHOLE,
          under_way=under_way, CARGO_ENCODED_RUSTFLAGS=remapped(), **environment)


def library(say, under_way=None):
    started = time.monotonic()
    compile_library(under_way=under_way)
    if MACHINE:
        (TARGET / RELEASED).mkdir(parents=True, exist_ok=True)
        shutil.copy2(OF_CARGO / TRIPLE / RELEASED / LIBRARY, TARGET / RELEASED)
    say("target/release/liblazyguard.so", "built", time.monotonic() - started)


def one_reading(say, under_way=None):
    """The released library, but submissions on the fast path read the clock once, not twice: `scripts/bench --beside` shows what the second reading costs."""
    started = time.monotonic()
    # In a folder of its own: the library that ships stays as it is.
    folder = TARGET / ONE_READING
    compile_library("--cfg", "lazyguard_one_reading", under_way=under_way, CARGO_TARGET_DIR=str(folder / "build"))
    shutil.copy2(folder / "build" / RELEASED / LIBRARY, folder / LIBRARY)
    say("target/one-reading/liblazyguard.so", "built", time.monotonic() - started)


def give_way_to_the_library():
    """What this thread starts from now on is less urgent; Linux keeps a priority for each thread. The library's build is a chain of
    compilers that keep one processor busy each. Slowed down by everything else, it ends last, and the other processor is idle meanwhile."""
    os.nice(5)


def tested(say, under_way=None):
    """Builds the library beside the tests: the end of its build keeps one processor busy, for a minute. All tests are one call of cargo, so
    that they agree on what they need of each package."""
    with ThreadPoolExecutor(1) as beside:
        of_library = beside.submit(library, say, under_way)
        give_way_to_the_library()
        started = time.monotonic()
        cargo("test", "--no-run", "-j", JOBS, "--workspace", under_way=under_way, **of_the_tests())
        say("target/debug/lazyguard and the tests", "built", time.monotonic() - started)
        of_library.result()
    (TARGET / TESTED).mkdir(exist_ok=True)
    for folder, artefact in ((EVERYDAY, "lazyguard"), (RELEASED, "liblazyguard.so")):
        # Copies: what is built later is not tested meanwhile.
        shutil.copy2(TARGET / folder / artefact, TARGET / TESTED / artefact)
    there(TESTED)
