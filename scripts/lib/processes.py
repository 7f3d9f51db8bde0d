"""Runs one program with a time limit and leaves nothing of it behind.

A program that hangs in the driver ignores everything but SIGKILL, and its children hold the pipes
open; so each program is a session of its own, and the whole session's group is killed.
"""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections import namedtuple

# code is None when the limit (or `stop`) ended the program. left: the processes of its session that go on behind it, and are killed.
Outcome = namedtuple("Outcome", "code seconds stdout stderr left", defaults=((),))
POLL_S = 0.05
# A machine that runs this no more often stands still, as virtual ones do; the program could do nothing either, and gets that time back.
STANDSTILL_S = 1.0
# A killed process that holds a GPU is gone once the driver has cleaned up after it.
CLEAN_UP_S = 30


def run(command, environment, limit_s, folder, stop=None):
    """Runs `command` in `folder`. `stop`, when given, is called now and then; the run ends when it returns true."""
    # Files, not pipes: they need no reader while the program runs, and a killed child cannot hold them open.
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        started = time.monotonic()
        process = subprocess.Popen([str(part) for part in command], env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=stdout, stderr=stderr, start_new_session=True)
        left = ()
        try:
            ended = wait(process, started + limit_s, stop)
            seconds = time.monotonic() - started
            left = tuple(of_session(process.pid)) if ended else ()
        finally:
            kill_group(process.pid)
        process.wait(timeout=CLEAN_UP_S)
        return Outcome(process.returncode if ended else None, seconds, text(stdout), text(stderr), left)


def wait(process, deadline, stop):
    """True when the program ended by itself before the deadline."""
    while True:
        asked = time.monotonic()
        try:
            # A short wait returns at once when the program ends, so fast programs are timed well.
            process.wait(timeout=max(0.0, min(POLL_S, deadline - time.monotonic())))
            return True
        except subprocess.TimeoutExpired:
            late = time.monotonic() - asked - POLL_S
            deadline += late if late > STANDSTILL_S else 0.0
            if time.monotonic() >= deadline or (stop is not None and stop()):
                return False


def of_session(session):
    """The processes of a session, but for its first."""
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and int(entry.name) != session and os.getsid(int(entry.name)) == session:
                yield int(entry.name)
        except OSError:
            continue


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


class Answers:
    """What is written to the other end of a pipe, one message after the other; `end` is behind each."""

    def __init__(self, descriptor, end=b"\n"):
        self.descriptor, self.end, self.unread = descriptor, end, b""
        self.poll = select.poll()
        self.poll.register(descriptor, select.POLLIN)

    def next(self, limit_s):
        """The next message, without its end. TimeoutError where it has not come whole by then, EOFError where the other end is closed before."""
        deadline = time.monotonic() + limit_s
        while self.end not in self.unread:
            if not self.poll.poll(1e3 * max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            more = os.read(self.descriptor, 1 << 20)
            if not more:
                raise EOFError
            self.unread += more
        message, _, self.unread = self.unread.partition(self.end)
        return message


def text(file):
    file.seek(0)
    return file.read().decode(errors="replace")
