"""Measures modes side by side: a process for each, started once, asked in turn for one batch at a time.

The processes are testapps/bench/worker.hpp's: they say `ready`, answer each line with one line, and
end when their input ends. In every round each is asked once, in a fresh random order; nothing else
runs meanwhile. A set of processes is one generation: several generations are measured, because the
memory layout of a process can cost more nanoseconds than the difference to be measured.

A worker that does not start, answer or end loses its mode, with one line that says why, and costs
the others nothing. Nothing of a worker outlives the measurement. Loops of one command are measured
in turn by the same processes.
"""

import random
import subprocess
import tempfile
import time
from collections import namedtuple

import processes

START_LIMIT_S = 120
ANSWER_LIMIT_S = 60
END_LIMIT_S = 60
SEED = 20
# Processes of a mode at least: an interval of fewer says nothing.
FEWEST = 3

# environment: of the worker; check(stderr, launches): what is wrong with a run that ended, "" when nothing;
# settle: launches of the worker's first batch, which counts for nothing.
Mode = namedtuple("Mode", "key title environment check settle")
# command: of every worker; launches: of one batch, a thread; threads: that launch; settled: whether modes settle first;
# kernels: as many at least as one of the launches has, 0 where it is of a graph, whose kernels watchers do not count;
# call: which of the worker's calls, where it has several.
Loop = namedtuple("Loop", "key title unit command launches threads settled kernels call", defaults=(True, 1, ""))
# samples: {mode: [[answer of a round]]}; lost: {mode: why}
Outcome = namedtuple("Outcome", "samples lost")


class Lost(Exception):
    """A worker that failed; the text says why."""


def answer_of(line):
    """`name=value ...` as {name: value}."""
    try:
        return {name: float(value) for name, value in (word.split("=") for word in line.split())}
    except ValueError:
        raise Lost(f"answered {line!r}") from None


class Worker:
    """One process. Its folder is working folder and TMPDIR, and its own."""

    def __init__(self, command, environment):
        self.folder = tempfile.TemporaryDirectory(prefix="lazyguard-bench-")
        self.stderr = tempfile.TemporaryFile()
        self.kernels = 0
        try:
            self.process = subprocess.Popen([str(word) for word in command], env=dict(environment, TMPDIR=self.folder.name), cwd=self.folder.name,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, start_new_session=True)
        except OSError as error:
            self.stderr.close()
            self.folder.cleanup()
            raise Lost(str(error)) from None
        self.answers = processes.Answers(self.process.stdout.fileno())

    def line(self, limit_s):
        try:
            return self.answers.next(limit_s).decode(errors="replace")
        except TimeoutError:
            raise Lost(f"no answer in {limit_s} s") from None
        except EOFError:
            raise Lost(f"ended early: {self.last_words()}") from None

    def until_ready(self):
        if self.line(START_LIMIT_S) != "ready":
            raise Lost("did not say ready")

    def ask(self, what, loop, launches, limit_s=ANSWER_LIMIT_S):
        try:
            self.process.stdin.write(f"{what} {launches} {loop.call}".rstrip().encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Lost(f"ended early: {self.last_words()}") from None
        self.kernels += launches * loop.threads * loop.kernels
        return answer_of(self.line(limit_s))

    def end(self):
        """Lets it end by itself; returns what it said on standard error."""
        self.process.stdin.close()
        try:
            code = self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Lost(f"did not end in {END_LIMIT_S} s") from None
        if code != 0:
            raise Lost(f"exit {code}: {self.last_words()}")
        return self.said()

    def said(self):
        return processes.text(self.stderr)

    def last_words(self):
        lines = self.said().strip().splitlines()
        return lines[-1] if lines else "no word on standard error"

    def kill(self):
        processes.kill_group(self.process.pid)
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.stderr):
            try:
                file.close()
            except OSError:
                # Unwritten input of a process that has ended.
                continue
        self.folder.cleanup()


class Generation:
    """A worker of every mode, for a `with`, which ends them all in any case."""

    def __init__(self, loop, modes, lost):
        self.loop, self.lost, self.workers = loop, lost, {}
        self.modes = {mode.key: mode for mode in modes if mode.key not in lost}

    def __enter__(self):
        for mode in self.modes.values():
            self.attempt(mode.key, lambda mode=mode: self.workers.__setitem__(mode.key, Worker(self.loop.command, mode.environment)))
        for key in list(self.workers):
            self.attempt(key, lambda key=key: self.settle(key))
        return self

    def settle(self, key):
        self.workers[key].until_ready()
        launches = self.modes[key].settle // self.loop.threads // max(self.loop.kernels, 1)
        if self.loop.settled and launches:
            self.workers[key].ask("settle", self.loop, launches)

    def __exit__(self, *_):
        for worker in self.workers.values():
            worker.kill()

    def attempt(self, key, action):
        try:
            return action()
        except Lost as why:
            self.lost[key] = str(why)
            worker = self.workers.pop(key, None)
            if worker:
                worker.kill()
            return None

    def round(self, loop, order):
        """The answer of each mode, asked in this order."""
        return {key: self.attempt(key, lambda key=key: self.workers[key].ask("batch", loop, loop.launches)) for key in order if key in self.workers}

    def close(self):
        for key in list(self.workers):
            worker = self.workers[key]
            said = self.attempt(key, worker.end)
            fault = self.modes[key].check(said, worker.kernels) if said is not None else ""
            if fault:
                self.lost[key] = fault


def lockstep(loops, modes, generations, rounds, until=None, seed=SEED):
    """Asks a worker of each mode in turn, round by round, of each of the loops, which have one command. No generation begins that would not end by `until`,
    a time of the monotonic clock, but for the first `FEWEST`. Returns the outcome of each loop."""
    source = random.Random(seed)
    samples, lost = [{mode.key: [] for mode in modes} for _ in loops], {}
    for number in range(generations):
        began = time.monotonic()
        with Generation(loops[0], modes, lost) as generation:
            for of_loop in samples:
                for answers in of_loop.values():
                    answers.append([])
            for _ in range(rounds):
                for loop, of_loop in zip(loops, samples):
                    order = list(generation.workers)
                    source.shuffle(order)
                    for key, answer in generation.round(loop, order).items():
                        if answer is not None:
                            of_loop[key][-1].append(answer)
            generation.close()
        now = time.monotonic()
        if until is not None and number + 1 >= FEWEST and now + (now - began) > until:
            break
    return [Outcome({key: answers for key, answers in of_loop.items() if key not in lost}, lost) for of_loop in samples]


def steps(loop, mode, launches, limit_s):
    """What one launch of the first thread executes, counted an instruction at a time; raises Lost."""
    worker = Worker(loop.command, mode.environment)
    try:
        worker.until_ready()
        return worker.ask("steps", loop, launches, limit_s)
    finally:
        worker.kill()
