"""Compares a command's output with the documentation, except for what differs from run to run.

Any number, with its unit, equals any other; so do addresses, the folders of a path, and the bars of histograms. `...` as a line
matches any lines, and within a line anything.

Must not: know any command.
"""

import re

ANY = "..."
UNIT = r"(?: ?(?:ns|us|ms|s|min|KiB|MiB|GiB|kB|MB|GB|%)\b)?"
# A shell says on standard error that a child was killed: no output of the command's.
OF_THE_SHELL = re.compile(r"^\S+: line \d+:\s+\d+ (?:Killed|Terminated|Aborted)\b")


def blanked(line):
    """The line without what differs from run to run."""
    # The bar of a histogram.
    line = re.sub(r"(?<=\s)#+(?=\s|$)", "", line)
    line = re.sub(r"\b0x[0-9a-f]+\b", "#", line)
    line = re.sub(r"(?:(?<![\w.])/|\b)(?:[\w.@+=,-]+/)+(?=[\w.@])", "", line)
    # Not the digits of a name: LG201, k2, cuMemFree_v2, SIGUSR1.
    line = re.sub(r"(?<![\w.])[-+]?\d+(?:\.\d+)?" + UNIT, "#", line)
    return " ".join(line.split())


def pattern(line):
    """The expected line as an expression; None for any lines."""
    if line.strip() == ANY:
        return None
    return re.compile(".*".join(re.escape(part) for part in blanked(line).split(ANY)))


def lines_of(text):
    return [line for line in text.rstrip("\n").split("\n") if not OF_THE_SHELL.match(line)] if text.strip() else []


def difference(expected, printed):
    """The first expected line that is not there, or None where all is as shown."""
    wanted = [pattern(line) for line in expected]

    def with_skipped(states):
        """What may come next also where `...` stands for no line."""
        more = list(states)
        for state in more:
            if state < len(wanted) and wanted[state] is None and state + 1 not in more:
                more.append(state + 1)
        return set(more)

    states = with_skipped({0})
    for line in map(blanked, printed):
        stay = {state for state in states if state < len(wanted) and wanted[state] is None}
        go_on = {state + 1 for state in states - stay if state < len(wanted) and wanted[state].fullmatch(line)}
        reached, states = max(states), with_skipped(stay | go_on)
        if not states:
            return expected[reached] if reached < len(expected) else f"nothing more, and not: {line}"
    return None if len(wanted) in states else expected[max(states)]
