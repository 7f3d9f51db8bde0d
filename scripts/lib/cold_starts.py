"""Cold starts of a program in several modes, measured in turn, without what comes before: one process a mode imports all, and forks a child for each start.

A start takes half a second and the import before it ten: so twenty rounds fit where two did. All modes have a start in each round, in a random order;
what drifts on a machine is the same in one round, so that modes are compared round by round.

Must not: compare starts of different rounds, or leave a process behind.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile

import processes
from tools import ROOT

# PyTorch's, a start for each line of standard input.
TORCH = [sys.executable, ROOT / "scripts" / "gpu" / "torch_starts.py"]
IMPORT_LIMIT_S = 300.0
START_LIMIT_S = 60.0


class Failed(Exception):
    """A start that did not end as one does; what is said of it."""


class Starter:
    """The process of one mode. It answers a line on standard input with the line of a child, and a line with the child's status."""

    def __init__(self, command, environment):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, start_new_session=True)
        self.answers = processes.Answers(self.process.stdout.fileno())

    def is_ready(self):
        self.answer(IMPORT_LIMIT_S)

    def start(self):
        """What one start says of itself."""
        try:
            self.process.stdin.write(b"start\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        said = self.answer(START_LIMIT_S)
        # A child that dies before it has said anything leaves the line about its end alone.
        ended = said if "status" in said else self.answer(START_LIMIT_S)
        if said is ended or ended["status"] != 0:
            raise Failed(f"a start ended with {ended['status']}: {self.said_on_stderr()[-300:]}")
        return {**said, "stderr": self.said_on_stderr()[-1000:]}

    def answer(self, limit_s):
        try:
            line = self.answers.next(limit_s)
        except TimeoutError:
            raise Failed(f"no answer within {limit_s:g} s: {self.said_on_stderr()[-300:]}") from None
        except EOFError:
            raise Failed(f"ended: {self.said_on_stderr()[-300:]}") from None
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError):
            raise Failed(f"an answer that means nothing: {line[:100]!r}") from None

    def said_on_stderr(self):
        return processes.text(self.errors)

    def end(self):
        self.process.stdin.close()
        processes.kill_group(self.process.pid)
        self.process.wait(timeout=processes.CLEAN_UP_S)
        self.process.stdout.close()
        self.errors.close()


def in_rounds(commands, prepare, most_rounds, is_over, progress):
    """Starts of each mode by round. commands: command and environment of each mode; prepare(mode) is called before each start. A first round, in which
    each mode pays for what the machine has not in memory, counts for nothing."""
    starters = {}
    found = {mode: [] for mode in commands}
    try:
        for mode, (command, environment) in commands.items():
            starters[mode] = Starter(command, environment)
        for starter in starters.values():
            starter.is_ready()
        for number in range(most_rounds + 1):
            if number > 1 and is_over():
                break
            round_of = {}
            for mode in random.sample(list(commands), len(commands)):
                prepare(mode)
                round_of[mode] = starters[mode].start()
            if number:
                for mode, data in round_of.items():
                    found[mode].append(data)
                progress(number, round_of)
    finally:
        for starter in starters.values():
            try:
                starter.end()
            except BrokenPipeError:
                pass
    return found


def quartiles(values):
    """The first, the median and the third; of one value that one."""
    if len(values) < 2:
        return [*values] * 3
    return statistics.quantiles(values, method="inclusive")
