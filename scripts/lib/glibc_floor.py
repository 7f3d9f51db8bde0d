"""Link-time stand-ins for glibc, so that a library, or a program, built on a new machine loads on an old one.

The linker binds each reference to the newest version of a symbol that the build machine has, so
what it makes refuses to load on an older glibc although nothing it uses is new. The stand-ins made
here (target/glibc-floor) define every symbol at its newest version not above the floor, in the
library where it lived then: before glibc 2.34 pthread_* were in libpthread.so.0 and dl* in
libdl.so.2. They are read from the machine's own libraries. A symbol that is newer altogether is
absent: a weak reference to it stays unversioned and is settled when the program runs, a strong one
fails the link, which is what is wanted.

Two archives complete them: the functions that a C library links into every object, and those that are looked up
when they are called (see glibc_nonshared.c), and gcc's unwinder, linked in so that libgcc_s.so.1 is not needed.

A program needs one thing more: from glibc 2.34 on, a machine's own start file leaves a program's constructors to the C library, which an older
one does not run (glibc_start.c).

Must not: be searched when anything but liblazyguard.so and the command of a package is linked. The stand-ins hold no code.

Usage: glibc_floor.py FOLDER   prints the arguments that rustc needs.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from elf import Elf, version_key  # noqa: E402
from tools import Failure, cxx, c_compiler  # noqa: E402

FLOOR = (2, 17)
START = "start.o"
LOADERS = {62: "ld-linux-x86-64.so.2", 183: "ld-linux-aarch64.so.1"}
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")
# glibc 2.34 moved these into libc.so.6 and gave each a new version there. What is named like them
# and has no new version was in libc.so.6 all along.
MOVED = (
    ("libpthread.so.0", re.compile(r"_*(pthread_|sem_)")),
    ("libdl.so.2", re.compile(r"dl(open|sym|vsym|close|error|addr1?|mopen|info)$")),
    ("librt.so.1", re.compile(r"(aio_|lio_|mq_|shm_|timer_)")),
    ("libutil.so.1", re.compile(r"(openpty|forkpty|login_tty|login|logout|logwtmp)$")),
)
# Defined in glibc_nonshared.c. Older libraries export some of them for old programs only.
LINKED_IN = {"atexit", "pthread_atfork", "mknod", "stat", "lstat", "fstat", "fstatat",
             "stat64", "lstat64", "fstat64", "fstatat64",
             "dlopen", "dlclose", "dladdr1", "pthread_attr_setstacksize", "pthread_create", "pthread_detach",
             "pthread_key_create", "pthread_key_delete", "pthread_setspecific", "pthread_setname_np", "pthread_sigmask"}
# Looked up when they are called where the process has none of them when it starts.
WRAPPED = ("pthread_attr_setstacksize", "pthread_create", "pthread_detach", "pthread_key_create", "pthread_key_delete",
           "pthread_setspecific", "pthread_setname_np")
# Weak references, for which no library is needed: the shim's own, and those of gcc's unwinder, which does without threads where it finds none
# of them.
WEAK = {"dlvsym", "__pthread_key_create", "pthread_once", "pthread_mutex_lock", "pthread_mutex_unlock"}


def system_library(name):
    """The path of one of the machine's libraries, as the compiler finds it."""
    answer = subprocess.run([cxx(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(answer.stdout.strip())
    return path if path.is_absolute() else None


def floor_symbols(files):
    """Library name -> list of (symbol, version) at or under the floor."""
    placed = defaultdict(dict)
    for library, path in files.items():
        versions = defaultdict(list)
        for symbol in Elf(path).symbols():
            key = symbol.defined and symbol.version and version_key(symbol.version)
            if key and symbol.kind in ("FUNC", "IFUNC", "OBJECT", "NOTYPE") and symbol.name != symbol.version:
                versions[symbol.name].append((key, symbol))
        for name, found in versions.items():
            old = [entry for entry in found if entry[0] <= FLOOR]
            if not old or name in LINKED_IN | WEAK or name.endswith("version_placeholder"):
                continue
            key, symbol = max(old, key=lambda entry: entry[0])
            home = library
            if library == "libc.so.6" and max(entry[0] for entry in found) > FLOOR:
                home = next((moved for moved, pattern in MOVED if pattern.match(name)), library)
            placed[home].setdefault(name, (symbol, symbol.version))
    return placed


def write_stand_in(folder, library, symbols):
    by_version = defaultdict(list)
    assembly = [".text"]
    for name, (symbol, version) in sorted(symbols.items()):
        kind = "object" if symbol.kind == "OBJECT" else "function"
        assembly += [f".globl {name}", f".type {name},%{kind}", f"{name}:", f".zero {max(symbol.size, 1) if kind == 'object' else 1}",
                     f".size {name}, .-{name}"]
        by_version[version].append(name)
    assembly.append('.section .note.GNU-stack,"",%progbits')
    script, previous = [], ""
    for version in sorted(by_version, key=version_key):
        names = " ".join(f'"{name}";' for name in by_version[version])
        local = " local: *;" if not previous else ""
        script.append(f"{version} {{ global: {names}{local} }}{previous};")
        previous = f" {version}"
    if not script:
        script = ["{ local: *; };"]
    source = folder / f"{library}.s"
    versions = folder / f"{library}.map"
    source.write_text("\n".join(assembly) + "\n")
    versions.write_text("\n".join(script) + "\n")
    run([c_compiler(), "-shared", "-nostdlib", "-Wl,-soname," + library, f"-Wl,--version-script={versions}",
         "-o", str(folder / library), str(source)])


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"glibc floor: {' '.join(command)}\n{result.stderr}")


def fingerprint(paths):
    digest = hashlib.sha256()
    for path in paths:
        state = path.stat()
        digest.update(f"{path} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def ensure(folder, of_program=False):
    """Make the stand-ins in `folder` unless they are there; returns the linker arguments of a library, or of a program."""
    folder = Path(folder).resolve()
    here = Path(__file__).resolve().parent
    libc = system_library("libc.so.6")
    if libc is None:
        raise Failure("glibc floor: the compiler knows no libc.so.6; liblazyguard.so needs a glibc machine to build")
    loader = LOADERS.get(Elf(libc).machine)
    if loader is None:
        raise Failure("glibc floor: only x86-64 and 64-bit Arm are supported")
    files = {name: system_library(name) for name in LIBRARIES + (loader,)}
    files = {name: path for name, path in files.items() if path is not None}
    stamp = folder / "stamp"
    wanted = fingerprint(sorted(files.values()) + [here / "glibc_floor.py", here / "glibc_nonshared.c", here / "glibc_start.c", here / "elf.py"])
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder, files, loader, here)
        stamp.write_text(wanted)
    wrapped = [argument for name in WRAPPED for argument in ("-C", f"link-arg=-Wl,--wrap={name}")]
    start = ["-C", f"link-arg={folder / START}"] if of_program else []
    return ["-L", f"native={folder}", "-C", "link-arg=-Wl,-z,defs", "-C", "link-arg=-nostartfiles", *wrapped, *start]


def build(folder, files, loader, here):
    placed = floor_symbols(files)
    for library in LIBRARIES + (loader,):
        write_stand_in(folder, library, placed.get(library, {}))
    for source, compiled in (("glibc_nonshared.c", "nonshared.o"), ("glibc_start.c", START)):
        run([c_compiler(), "-O2", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-fPIC", "-fno-plt", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector", "-ffunction-sections", "-c",
             str(here / source), "-o", str(folder / compiled)])
    run(["ar", "rcs", str(folder / "libglibc_nonshared.a"), str(folder / "nonshared.o")])
    (folder / "libc.so").write_text(
        f"GROUP ( {folder}/libc.so.6 {folder}/libglibc_nonshared.a AS_NEEDED ( {folder}/{loader} ) )\n")
    for name in LIBRARIES:
        short = name.split(".so")[0]
        if short != "libc":
            (folder / f"{short}.so").symlink_to(name)
    (folder / "libgcc_s.so").write_text("GROUP ( libgcc_eh.a libgcc.a )\n")


if __name__ == "__main__":
    try:
        print(" ".join(ensure(sys.argv[1])))
    except Failure as failure:
        sys.exit(str(failure))
