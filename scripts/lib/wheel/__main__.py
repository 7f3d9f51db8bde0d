"""`python -m lazyguard ...` is `lazyguard ...`."""

import os
import signal
import sys

from lazyguard import command


def main():
    try:
        path = command()
    except FileNotFoundError as error:
        sys.exit(f"lazyguard: {error}")
    # Python ignores these two signals, and may have set LC_CTYPE. The guarded program would inherit both.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, ["lazyguard", *sys.argv[1:]], environment())


def environment():
    """The environment that this process was started with."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = [(entry, entry.find(b"=", 1)) for entry in file.read().split(b"\0")]
    except OSError:
        return os.environb
    return {entry[:at]: entry[at + 1:] for entry, at in entries if at > 0}


main()
