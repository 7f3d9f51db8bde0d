"""Reads the documentation: which commands a page shows, what it says they print, and the marks beside them.

A block is indented by four columns or fenced. In a block that shows commands, each begins with `$ `; a line that ends in `\\` goes on
in the next; what follows, up to the next command, is what it prints. In a CI system's file, a fenced block marked `yaml`, a step
whose command is `lazyguard` is a command as well.

A mark is a comment right before a block:

    <!-- not run: WHY -->        its commands need what a test lacks: a card, a cluster, a program of the reader
    <!-- exits: 0, 117 -->       the exit status of each of its commands, where that is not 0
    <!-- compare: 2 -->          only so many lines of what each prints are compared: the rest is an example of what it may be
    <!-- new session -->         another session begins, which knows nothing of what came before
    <!-- program: NAME = PATH -->  NAME is this program of the checkout, from here on
    <!-- file: NAME -->          the block is a file of this name, which later commands use

Must not: run anything.
"""

import re
from collections import namedtuple

# language: of a fence, "" without one; line: where the block begins.
Block = namedtuple("Block", "line language lines marks")
# output: the lines shown below it; exits: the status that it is to end with.
Command = namedtuple("Command", "line text output exits")

MARKS = ("not run", "exits", "compare", "new session", "program", "file")
# What is no session of a shell. Everything else is looked at for `$ `.
OTHER_LANGUAGES = ("dockerfile", "json", "xml", "cpp", "cuda", "python", "rust")
CONTINUED = "\\"


class Unreadable(Exception):
    """A page that breaks the form; the text begins with the number of the line."""


def blocks(text):
    """The blocks of a page, each with the marks right before it."""
    found, marks, marked_at = [], {}, 0
    lines = text.split("\n")
    n, after_blank = 0, True
    while n < len(lines):
        line = lines[n]
        fence = re.match(r"( *)```(\w*)", line)
        if fence:
            end = next((m for m in range(n + 1, len(lines)) if lines[m].strip() == "```"), None)
            if end is None:
                raise Unreadable(f"{n + 1}: a fence that does not end")
            inside = [one[len(fence.group(1)):] for one in lines[n + 1:end]]
            found.append(Block(n + 2, fence.group(2), inside, marks))
            marks, n, after_blank = {}, end + 1, True
            continue
        if line.startswith("    ") and after_blank:
            end = n
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inside = [one[4:] for one in lines[n:end]]
            while inside and not inside[-1].strip():
                inside.pop()
            found.append(Block(n + 1, "", inside, marks))
            marks, n, after_blank = {}, end, True
            continue
        mark = mark_of(line)
        if mark:
            if mark[0] in marks:
                raise Unreadable(f"{n + 1}: the mark `{mark[0]}` twice")
            marks, marked_at = {**marks, mark[0]: mark[1]}, n + 1
        elif line.strip() and marks:
            raise Unreadable(f"{marked_at}: a mark without a block below it")
        after_blank = not line.strip() or bool(mark)
        n += 1
    if marks:
        raise Unreadable(f"{marked_at}: a mark without a block below it")
    return found


def mark_of(line):
    """(name, value) where the line is one of these marks; other comments are left alone."""
    comment = re.fullmatch(r"\s*<!-- ([a-z ]+?)(?::\s*(.*?))?\s*-->\s*", line)
    if not comment or comment.group(1) not in MARKS:
        return None
    return comment.group(1), comment.group(2) or ""


def commands(block):
    """The commands of a block, in order."""
    if "file" in block.marks or block.language in OTHER_LANGUAGES:
        return []
    found = steps(block) if block.language == "yaml" else shown(block)
    statuses = exits_of(block, len(found))
    most = compared_of(block)
    return [Command(line, text, output if most is None or len(output) <= most else output[:most] + ["..."], status)
            for (line, text, output), status in zip(found, statuses)]


def shown(block):
    """(line, text, output) of each command that begins with `$ `."""
    found, n = [], 0
    while n < len(block.lines):
        line = block.lines[n]
        at = block.line + n
        if line.startswith("$ "):
            text = line[2:]
            while text.endswith(CONTINUED) and n + 1 < len(block.lines):
                n += 1
                text += "\n" + block.lines[n]
            found.append((at, text, []))
        elif found:
            found[-1][2].append(line)
        elif looks_like_a_command(line):
            raise Unreadable(f"{at}: a command without `$ `: {line.strip()}")
        n += 1
    if found:
        # A blank line between a command's output and the next command is no output.
        for _, _, output in found:
            while output and not output[-1].strip():
                output.pop()
    return found


def steps(block):
    """(line, text, []) of each `lazyguard` command in a file of a CI system."""
    found, n = [], 0
    while n < len(block.lines):
        begin = re.match(r"\s*(?:- )?(?:run: )?(lazyguard .*)$", block.lines[n])
        if begin:
            at, text = block.line + n, begin.group(1)
            while text.endswith(CONTINUED) and n + 1 < len(block.lines):
                n += 1
                text += "\n" + block.lines[n]
            found.append((at, text, []))
        n += 1
    return found


def looks_like_a_command(line):
    """A synopsis, with its `[OPTIONS]`, is none."""
    if "[OPTIONS]" in line:
        return False
    return bool(re.match(r"(?:[A-Z_]+=\S+ )*(?:\./scripts/|\./app\b|target/|lazyguard |srun |sbatch |mpirun |torchrun |docker |cargo |export )|LD_PRELOAD=", line))


def exits_of(block, count):
    if "exits" not in block.marks:
        return [0] * count
    try:
        statuses = [int(status) for status in block.marks["exits"].split(",")]
    except ValueError:
        raise Unreadable(f"{block.line}: exits: {block.marks['exits']}: not numbers") from None
    if len(statuses) != count:
        raise Unreadable(f"{block.line}: {len(statuses)} exit statuses for {count} commands")
    return statuses


def compared_of(block):
    if "compare" not in block.marks:
        return None
    try:
        return int(block.marks["compare"])
    except ValueError:
        raise Unreadable(f"{block.line}: compare: {block.marks['compare']}: not a number") from None


def spans(text):
    """(line, text) of each inline code span outside of blocks."""
    taken = set()
    for block in blocks(text):
        taken.update(range(block.line - 1, block.line + len(block.lines) + 1))
    found, prose = [], []
    for n, line in enumerate(text.split("\n"), 1):
        prose.append("" if n in taken else line)
    # A span may go over the end of a line.
    for match in re.finditer(r"`([^`\n]+(?:\n[^`\n]+)?)`", "\n".join(prose)):
        line = "\n".join(prose).count("\n", 0, match.start()) + 1
        found.append((line, match.group(1).replace("\n", " ").replace("\\|", "|")))
    return found
