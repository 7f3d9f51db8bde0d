"""Reads and completes the note in which the library says of which build it is: core/src/build_note.rs.

The commit is not compiled in: it would have the whole library compiled and linked again for every commit, whatever that changes.
It is written into the note of the file that ships. Every other byte stays, the build id as well: it names the code.

Must not: change a file that is not the library.
"""

import os
from collections import namedtuple
from pathlib import Path

from tools import Failure

# As core/src/build_note.rs has them: the size of the owner's name, the size of the text, the kind; the owner.
ROOM = 128
HEAD = (10).to_bytes(4, "little") + ROOM.to_bytes(4, "little") + (1).to_bytes(4, "little") + b"LazyGuard\0\0\0"
LINES = 4

# commit: "" where none is written.
Note = namedtuple("Note", "version format cuda_headers commit")


def place(data, path):
    """Where the text begins."""
    at = data.find(HEAD)
    if at < 0 or data.find(HEAD, at + 1) >= 0:
        raise Failure(f"{path}: the note of the build is not there, or not once")
    return at + len(HEAD)


def read(path):
    data = Path(path).read_bytes()
    at = place(data, path)
    lines = data[at:at + ROOM].rstrip(b"\0").decode().split("\n")
    if len(lines) != LINES:
        raise Failure(f"{path}: the note of the build has {len(lines)} lines, and not {LINES}")
    return Note(*lines)


def stamp(path, commit):
    """Writes the commit. The file is replaced, not written to: one that is mapped stays as it is."""
    path = Path(path)
    note, data = read(path), path.read_bytes()
    text = "\n".join([*note[:-1], commit]).encode()
    if len(text) >= ROOM:
        raise Failure(f"{path}: there is no room for the commit {commit!r} in the note of the build")
    at = place(data, path)
    stamped = path.with_name(path.name + ".stamped")
    stamped.write_bytes(data[:at] + text.ljust(ROOM, b"\0") + data[at + ROOM:])
    stamped.chmod(path.stat().st_mode & 0o777)
    os.replace(stamped, path)
