#!/usr/bin/env python3
"""Runs the commands that the documentation shows, and compares what they print with what it says.

Usage: doc_commands.py [PAGE...]

Each page is one session of bash, unless its marks say otherwise, in order, at what looks like the root of the checkout: a folder of links to it, so that what a
command writes beside them goes with the folder. The simulated driver stands for the card, and `doc_launchers.py` for the launchers
of a cluster. What is marked `not run` is only read: every `lazyguard` command, wherever it stands, has to be one, with options that
it has. doc_blocks.py says how a page marks its blocks, doc_compare.py what counts as the same.

Must not: leave anything behind, or reach for a network or a card.
"""

import contextlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import doc_blocks
import doc_compare
import guard
import processes
from tools import ROOT, TARGET

COMMAND_LIMIT_S = 30
PAGE_LIMIT_S = 120
# The time that a person who types takes until the next command.
NEXT_COMMAND_S = 1.0
# What a shell says of a command that SIGKILL has ended, and how long the killed program is waited for.
KILLED = 128 + signal.SIGKILL
GONE_WITHIN_S = 10
# Of the flags in proc(5)'s stat.
PF_EXITING = 0x4
SESSIONS_AT_A_TIME = 4
LAUNCHERS = ("srun", "sbatch", "mpirun", "torchrun")
# The CI system or launcher of this run itself must not matter.
SURROUNDINGS = re.compile(r"(?:CI|GITHUB_|GITLAB_|TF_BUILD|TEAMCITY_|BUILD_|SLURM_|OMPI_|PMIX?_|RANK$|LOCAL_RANK$|WORLD_SIZE$)")
HOST = "node7"


class Outcome:
    def __init__(self, page):
        self.page, self.ran, self.read, self.checked, self.faults = page, 0, 0, 0, []

    def add(self, session):
        self.ran += session.ran
        self.faults += session.faults

    def fault(self, line, text, details=()):
        self.faults.append("\n".join([f"{self.page}:{line}: {text}", *(f"    {detail}" for detail in details)]))


def pages():
    folders = [ROOT.glob("*.md"), (ROOT / "docs").glob("*.md"), (ROOT / "testapps").glob("*.md"), (ROOT / "kernels").glob("*.md")]
    return [page for folder in folders for page in sorted(folder)]


def read_page(path):
    """The faults that a page shows without running anything, and its sessions: the blocks of each, with their commands."""
    outcome = Outcome(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    text = path.read_text()
    try:
        found = [(block, doc_blocks.commands(block)) for block in doc_blocks.blocks(text)]
    except doc_blocks.Unreadable as fault:
        outcome.faults.append(f"{outcome.page}:{fault}")
        return outcome, []
    for line, span in doc_blocks.spans(text):
        check_mention(outcome, line, span)
    for block, commands in found:
        if "not run" in block.marks and not block.marks["not run"]:
            outcome.fault(block.line, "`not run` without a reason")
        for command in commands:
            check_syntax(outcome, command)
            check_mention(outcome, command.line, command.text)
        if not commands:
            for n, line in enumerate(block.lines):
                check_mention(outcome, block.line + n, line)
    outcome.read = sum(len(commands) for block, commands in found if "not run" in block.marks)
    sessions = [[]]
    for block, commands in found:
        if "not run" in block.marks:
            continue
        if "new session" in block.marks:
            sessions.append([])
        sessions[-1].append((block, commands))
    return outcome, [session for session in sessions if any(commands for _, commands in session)]


def try_session(page, blocks):
    outcome = Outcome(page)
    with Session() as session:
        for block, commands in blocks:
            try_block(outcome, session, block, commands)
    return outcome


def try_block(outcome, session, block, commands):
    session.prepare(block)
    for command in commands:
        outcome.ran += 1
        status, printed = session.run(command.text)
        lines = doc_compare.lines_of(printed)
        shown = ["$ " + command.text, *lines]
        if status is None:
            outcome.fault(command.line, f"not over after {COMMAND_LIMIT_S} s", shown)
        elif status != command.exits:
            outcome.fault(command.line, f"exit status {status} instead of {command.exits}", shown)
        elif any(line.strip() for line in command.output):
            missing = doc_compare.difference(command.output, lines)
            if missing is not None:
                outcome.fault(command.line, f"it does not print: {missing}", shown)


def check_syntax(outcome, command):
    read = subprocess.run(["bash", "-n", "-c", command.text], capture_output=True, text=True)
    if read.returncode:
        outcome.fault(command.line, f"bash cannot read it: {read.stderr.strip()}", [command.text])


def check_mention(outcome, line, text):
    """Every `lazyguard` command in the text is one, and has the options that it is given."""
    for arguments in calls_in(text):
        outcome.checked += 1
        fault = fault_of(arguments)
        if fault:
            outcome.fault(line, f"{fault}: {text.strip()}")
    for script in re.findall(r"(?<![\w/.-])(?:\./)?(scripts/[\w/.-]+\w)", text):
        outcome.checked += 1
        if not (ROOT / script).exists():
            outcome.fault(line, f"{script} is not there: {text.strip()}")


def calls_in(text):
    """The arguments of each `lazyguard` command in a command line, or in a span of one."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        # A span that quotes half a word is no command.
        return []
    calls, current = [], None
    for word in words:
        if word == "|" or set(word) <= set(";&"):
            current = None
        elif current is None and (word == "lazyguard" or word.endswith("/lazyguard")):
            current = []
            calls.append(current)
        elif current is not None:
            # Behind `--` is the command line of the program, which may run another `lazyguard`.
            current = None if word == "--" else current
            if current is not None:
                current.append(word)
    return [call for call in calls if call and re.fullmatch(r"-{0,2}[a-z][a-z-]*", call[0])]


def fault_of(arguments):
    command, options = arguments[0], arguments[1:]
    if command.startswith("-"):
        return None if command in help_of("") else f"no option {command}"
    if command not in commands_of_lazyguard():
        return f"no command {command}"
    known = help_of(options.pop(0) if command == "help" and options else command)
    for option in options:
        name = option.split("=")[0]
        if re.match(r"--?[a-z]", name) and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", known):
            return f"lazyguard {command} has no option {name}"
    return None


@lru_cache(maxsize=None)
def help_of(command):
    asked = [guard.COMMAND, *([command] if command else []), "--help"]
    return subprocess.run(asked, env=guard.clean_environment(), capture_output=True, text=True, check=True).stdout


def commands_of_lazyguard():
    section = help_of("").split("Commands:")[1].split("\n\n")[0]
    return re.findall(r"^  (\w[\w-]*)", section, re.M)


class Session:
    """One bash, in a folder that looks like the root of the checkout."""

    def __enter__(self):
        self.before = names_in_the_checkout()
        # As the checkout may be: a path of an ordinary length, without links in it.
        self.folder = Path(tempfile.mkdtemp(prefix="lazyguard-pages-")).resolve()
        self.root, self.steps = self.folder / "checkout", self.folder / "steps"
        for folder in (self.root, self.steps, self.folder / "tmp", self.folder / "bin"):
            folder.mkdir()
        for entry in ROOT.iterdir():
            if entry != TARGET:
                (self.root / entry.name).symlink_to(entry)
        # The pages name what ships; the tested build takes its place.
        (self.root / "target").mkdir()
        for name, place in {**{entry.name: entry for entry in TARGET.iterdir()}, "release": guard.LIBRARY.parent}.items():
            (self.root / "target" / name).symlink_to(place)
        for name in LAUNCHERS:
            (self.folder / "bin" / name).symlink_to(ROOT / "scripts" / "lib" / "doc_launchers.py")
        environment = {key: value for key, value in guard.clean_environment(simulated=True).items() if not SURROUNDINGS.match(key)}
        environment["PATH"] = f"{self.folder}/bin:{guard.LIBRARY.parent}:{environment['PATH']}"
        environment["TMPDIR"] = environment["HOME"] = str(self.folder / "tmp")
        self.begun, self.count = time.monotonic(), 0
        self.bash = subprocess.Popen(["bash", "--norc"], cwd=self.root, env=environment, stdin=subprocess.PIPE, text=True,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return self

    def __exit__(self, *_):
        processes.kill_group(self.bash.pid)
        self.bash.wait()
        with contextlib.suppress(BrokenPipeError):
            self.bash.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        left = names_in_the_checkout() - self.before
        if left:
            raise SystemExit(f"doc_commands: left in the checkout: {', '.join(sorted(left))}")

    def prepare(self, block):
        """What the marks of a block say has to be there."""
        if "program" in block.marks:
            name, _, path = block.marks["program"].partition(" = ")
            link = self.root / name
            link.unlink(missing_ok=True)
            link.symlink_to(ROOT / path)
        if "file" in block.marks:
            file = self.root / block.marks["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(block.lines) + "\n")

    def run(self, command):
        """(status, output), the status None when it did not end."""
        self.count += 1
        step, out, over = (self.steps / f"{self.count}.{end}" for end in ("sh", "out", "over"))
        step.write_text(command + "\n")
        try:
            self.bash.stdin.write(f". {step} >{out} 2>&1 </dev/null; echo $? >{over}.new; mv {over}.new {over}\n")
            self.bash.stdin.flush()
        except BrokenPipeError:
            return None, "the session is over\n"
        deadline = min(time.monotonic() + COMMAND_LIMIT_S, self.begun + PAGE_LIMIT_S)
        while not over.exists():
            if time.monotonic() > deadline or self.bash.poll() is not None:
                # The next command would wait for it.
                processes.kill_group(self.bash.pid)
                return None, self.printed(out)
            time.sleep(0.01)
        status = int(over.read_text())
        if command.rstrip().endswith("&"):
            time.sleep(NEXT_COMMAND_S)
        elif status == KILLED:
            self.wait_for_the_killed()
        return status, self.printed(out)

    def wait_for_the_killed(self):
        """`timeout -s KILL` kills itself with its program, which may take a moment longer to go."""
        deadline = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < deadline and any(is_killed(process) for process in processes.of_session(self.bash.pid)):
            time.sleep(0.02)

    def printed(self, out):
        """What was printed, with the names that the documentation uses for this machine's."""
        text = out.read_text(errors="replace") if out.exists() else ""
        text = text.replace(str(guard.LIBRARY.parent), "target/release")
        return text.replace(str(self.root) + "/", "").replace(str(ROOT) + "/", "").replace(socket.gethostname(), HOST)


def is_killed(process):
    """Whether SIGKILL has been sent to a process that is still there, or it is ending."""
    try:
        status, stat = (Path(f"/proc/{process}/{name}").read_text() for name in ("status", "stat"))
    except OSError:
        return False
    pending = re.findall(r"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)", status, re.M)
    flags = int(stat.rsplit(")", 1)[1].split()[6])
    return flags & PF_EXITING != 0 or any(int(signals, 16) >> (signal.SIGKILL - 1) & 1 for signals in pending)


def names_in_the_checkout():
    """A session has a `target` of its own, and other steps write into this one meanwhile."""
    return {path.name for path in ROOT.iterdir()}


def main():
    wanted = [Path(argument).resolve() for argument in sys.argv[1:]] or pages()
    with ThreadPoolExecutor(SESSIONS_AT_A_TIME) as pool:
        read = [read_page(page) for page in wanted]
        # The order in which they are begun makes no difference to what they find.
        running = [(outcome, pool.submit(try_session, outcome.page, blocks)) for outcome, sessions in read for blocks in sessions]
        for outcome, session in running:
            outcome.add(session.result())
    outcomes = [outcome for outcome, _ in read]
    passed = failed = 0
    for outcome in outcomes:
        passed, failed = passed + max(0, outcome.ran + outcome.checked - len(outcome.faults)), failed + len(outcome.faults)
        print(f"{outcome.page}: {outcome.ran} commands run, {outcome.read} read, {outcome.checked} mentions looked up")
    print("".join(f"FAILED: {fault}\n" for outcome in outcomes for fault in outcome.faults), end="")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
