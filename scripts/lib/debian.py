"""Packages of the machine's own Debian or Ubuntu, unpacked into a folder of target/.

Lists of packages are fetched once for all users, into target/tools/debian: the machine's may be old, or missing, and only root may write them.

Must not: install a package on the machine, or need root.
"""

import fcntl
import re
import shutil
import subprocess
from contextlib import contextmanager

import fetching
from tools import ROOT

FOLDER = ROOT / "target" / "tools" / "debian"
PROGRAMS = ("apt-get", "dpkg-deb")


def is_there():
    """Whether the machine has Debian's package tools."""
    return all(shutil.which(program) for program in PROGRAMS)


def unpack(names, destination, what):
    """Unpacks packages, and what they need and the machine lacks; their versions by name. A fetching.Failure says why that cannot be done."""
    if not is_there():
        raise fetching.Failure(3, f"Debian's package tools ({', '.join(PROGRAMS)}) are not there to fetch {what} with")
    with alone():
        has_lists = (FOLDER / "complete").is_file()
        if not has_lists:
            update()
        try:
            return fetch(names, destination, what)
        except fetching.Failure:
            if not has_lists:
                raise
            # The lists may be so old that their packages are gone.
            update()
            return fetch(names, destination, what)


@contextmanager
def alone():
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def apt(*arguments):
    # Debug::NoLocking: apt's own locks are those of the machine.
    own = [f"Dir::State::Lists={FOLDER / 'lists'}", f"Dir::Cache={FOLDER / 'cache'}", "Debug::NoLocking=1"]
    return ["apt-get", "-qq", *(word for option in own for word in ("-o", option)), *arguments]


def update():
    for folder in ("lists", "cache"):
        shutil.rmtree(FOLDER / folder, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (FOLDER / folder).mkdir(parents=True)
    fetching.persistently(apt("update"), "apt-get could not fetch the lists of packages")
    (FOLDER / "complete").touch()


def fetch(names, destination, what):
    question = apt("--no-install-recommends", "--print-uris", "install", *names)
    answer = subprocess.run(question, capture_output=True, text=True)
    if answer.returncode != 0:
        raise fetching.Failure(4, f"{what}: {(answer.stderr.strip().splitlines() or ['apt-get gives no reason'])[-1]}")
    # What the machine has installed is not in the answer.
    wanted = absent(answer.stdout)
    there = [name for name in names if not any(one.startswith(f"{name}=") for one in wanted)]
    packages = destination.with_name(destination.name + ".packages")
    for folder in (packages, destination):
        shutil.rmtree(folder, ignore_errors=True)
    packages.mkdir(parents=True)
    fetching.persistently(apt("download", *wanted, *there), f"apt-get could not fetch {what}", packages)
    versions = {}
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, destination], check=True)
        fields = subprocess.run(["dpkg-deb", "-W", "--showformat=${Package} ${Version}", package], capture_output=True, text=True, check=True)
        name, version = fields.stdout.split()
        versions[name] = version
    shutil.rmtree(packages)
    return versions


def absent(uris):
    """The packages, `name=version`, of lines like `'http://.../gcc_12%3a12.2_amd64.deb' gcc_12%3a12.2_amd64.deb 123 SHA256:...`."""
    found = re.findall(r"^'[^']*' ([^_ ]+)_([^_ ]+)_[^ ]* ", uris, re.M)
    return [f"{name}={version.replace('%3a', ':')}" for name, version in found]
