"""Shared by the scripts that fetch packages: fetches wheels with pip, and unpacks them.

Must not: install anything on the machine.
"""

import shutil
import subprocess
import sys
import time
import zipfile

ATTEMPTS = 3
PAUSE_S = 5


class Failure(Exception):
    """Something that could not be fetched; `code` is the exit status it ends with."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def python_with_pip():
    """This interpreter when it has pip, else another python3 on PATH that has it."""
    candidates = [sys.executable] + [shutil.which(name) for name in ("python3", "python")]
    for candidate in filter(None, candidates):
        probe = subprocess.run([candidate, "-m", "pip", "--version"], capture_output=True)
        if probe.returncode == 0:
            return candidate
    raise Failure(3, "pip is missing: install it (Debian and Ubuntu: apt install python3-pip; elsewhere: python3 -m ensurepip)")


def persistently(command, what, folder=None):
    """Run a command that needs the network, again where it fails; what it says last is the reason."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_S)
        result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if result.returncode == 0:
            return
    lines = result.stderr.strip().splitlines()
    errors = [line for line in lines if line.lower().startswith("error")] or lines or ["no reason given"]
    raise Failure(4, f"{what} ({errors[-1]}); the network or the package index cannot be reached")


def download_wheels(packages, folder, what, machine=""):
    """Fetch wheels, `name==version` each, without what they depend on; those for another machine where one is named."""
    command = [python_with_pip(), "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += [f"--platform={tag}_{machine}" for tag in ("manylinux2014", "manylinux_2_27", "manylinux_2_28") if machine]
    command += ["--only-binary=:all:", "--dest", str(folder), *packages]
    persistently(command, f"pip could not download {what}")


def unpack(wheel, inside, destination):
    """Unpack what lies in a folder of a wheel, with the permissions it was packed with."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(inside):
                continue
            path = destination / member.filename[len(inside):]
            if not path.resolve().is_relative_to(destination.resolve()):
                raise Failure(5, f"{wheel.name} holds a path that leaves its folder: {member.filename}")
            path.parent.mkdir(parents=True, exist_ok=True)
            # The file there may be a link to one that is in use.
            path.unlink(missing_ok=True)
            with archive.open(member) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
            mode = (member.external_attr >> 16) & 0o777
            # pip makes the files of a bin folder executable whatever the archive says.
            executable = mode & 0o111 or "bin" in path.parent.parts[-2:]
            path.chmod(0o755 if executable else 0o644)
