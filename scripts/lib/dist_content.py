"""What goes into a package: the library and the command as they ship, and what comes with them.

Of the library and the command, a package has copies without debug information. That lies in a file beside the packages, which
debuggers find by the build id or the name (`.gnu_debuglink`).

Must not: depend on the time, on the folder it is built in, or on the order in which a file system lists files.
"""

import os
import platform
import re
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import build_note
import dist_sbom
import rust_build
from tools import MACHINE, ROOT, RUNNER, TARGET, Failure

# machine: of ELF files. deb, oci: what these packages call the architecture. wheel: what its tag says, newest first.
Architecture = namedtuple("Architecture", "name machine deb oci wheel")
ARCHITECTURES = {
    "x86_64": Architecture("x86_64", 62, "amd64", "amd64", ("manylinux_2_17_x86_64", "manylinux2014_x86_64")),
    "aarch64": Architecture("aarch64", 183, "arm64", "arm64", ("manylinux_2_17_aarch64", "manylinux2014_aarch64")),
}
OBJCOPY = os.environ.get("OBJCOPY") or "objcopy"

# command, library: stripped files. debug: their debug information. man: {name: path}. completions: {shell: text}.
# licences: {name: path}. epoch: the time of all files, in seconds since 1970. ships: no command of a test. is_static: of the command.
# level: how much archives are compressed; one that ships as much as can be, one that is only tested as fast as can be.
Content = namedtuple("Content", "architecture version commit epoch command library debug man completions licences ships is_static level")

COMPLETIONS = ("bash", "zsh", "fish")
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
# The licences of the packages that are linked.
OTHERS = "LICENSES-THIRD-PARTY"
SHIPPED, TESTED = "shipped", "tested"
SUMMARY = "Keeps CUDA programs from deadlocking on lazy loading, and reports why they hang"
# The earliest time that a zip archive can hold.
EARLIEST = 315532800


def architecture():
    """That of what is built."""
    name = MACHINE or platform.machine()
    if name not in ARCHITECTURES:
        raise Failure(f"there is no build for {name}; there is one for {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def built(of, folder):
    """The content of a package, put into `folder`.

    of: `shipped`, the library of target/release and the command for packages; or `tested`, the same library with the everyday command, which
    the suite has built anyway.
    """
    command, library = files_of(of)
    # The commit is compiled into a command that ships. The everyday one has none.
    commit = commit_of(command) if of == SHIPPED else rust_build.commit()
    folder = fresh(folder)
    debug = fresh(folder / "debug")
    library = without_debug(library, folder, debug, commit)
    command = without_debug(command, folder, debug)
    version = build_note.read(library).version
    licences = {name: ROOT / name for name in LICENCES}
    licences[OTHERS] = folder / OTHERS
    licences[OTHERS].write_text(dist_sbom.notices())
    return Content(architecture(), version, commit, epoch(commit), command, library, debug, manual_pages(command, folder / "man"),
                   {shell: answer(command, "completions", shell) for shell in COMPLETIONS}, licences, of == SHIPPED, of == SHIPPED and rust_build.can_be_static(), 9 if of == SHIPPED else 1)


def files_of(of):
    """The command and the library, with their debug information."""
    places = {SHIPPED: (rust_build.packed_folder(), TARGET / "release"), TESTED: (TARGET / "tested", TARGET / "tested")}
    command, library = (folder / name for folder, name in zip(places[of], rust_build.ARTEFACTS))
    for path in (command, library):
        if not path.is_file():
            raise Failure(f"{path.relative_to(ROOT)} is not there; scripts/dist makes it, or scripts/build --tested")
    return command, library


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def without_debug(path, folder, debug, commit=None):
    """A copy without debug information and without the table of symbols for debuggers, which go into a file of their own."""
    kept, copy = debug / f"{path.name}.debug", folder / path.name
    run(OBJCOPY, "--only-keep-debug", path, kept)
    kept.chmod(0o644)
    run(OBJCOPY, "--strip-all", "--remove-section=.comment", f"--add-gnu-debuglink={kept}", path, copy)
    copy.chmod(0o755)
    if commit is not None:
        build_note.stamp(copy, commit)
    return copy


def manual_pages(command, folder):
    run(*RUNNER, command, "man", "--out", folder)
    return {path.name: path for path in sorted(folder.iterdir())}


def answer(command, *arguments):
    return run(*RUNNER, command, *arguments).stdout


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} failed (exit {result.returncode}): {result.stderr.strip()}")
    return result


def commit_of(command):
    """The commit in the first line of a command's version; nothing where it was built outside of a checkout."""
    found = re.match(r"lazyguard \S+ \(commit (\w+\+?),", answer(command, "--version"))
    return found.group(1) if found else ""


def epoch(commit):
    """The time of every file in a package: SOURCE_DATE_EPOCH, else that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        if not given.isdigit():
            raise Failure(f"SOURCE_DATE_EPOCH is {given!r}, and no number of seconds since 1970")
        return max(int(given), EARLIEST)
    named = [commit.rstrip("+")] if commit else []
    result = subprocess.run(["git", "log", "-1", "--format=%ct", *named], cwd=ROOT, capture_output=True, text=True)
    return max(int(result.stdout), EARLIEST) if result.returncode == 0 and result.stdout.strip() else EARLIEST
