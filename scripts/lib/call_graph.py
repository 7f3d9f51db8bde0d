"""Which functions of a built library call which, read off its disassembly.

Follows direct calls and jumps, and calls of other libraries through the procedure linkage or the
global offset table. A call through any other pointer is seen as such (`indirect`) and not
followed. Needs objdump and readelf. x86-64 only. Must not load the library.
"""

import re
import subprocess
from collections import namedtuple

# calls: function -> functions of the library it calls; imports: function -> names it calls in others;
# indirect: functions that call through a pointer; landing_pads: functions that an unwinder stops in.
Graph = namedtuple("Graph", "calls imports indirect landing_pads")

FUNCTION = re.compile(r"^([0-9a-f]+) <(.*)>:$")
TRANSFER = re.compile(r"^(call|jmp|j\w+) +(.*)$")
THROUGH_TABLE = re.compile(r"^\*0x[0-9a-f]+\(%rip\) +# ([0-9a-f]+)")
DIRECT = re.compile(r"^[0-9a-f]+ <([^>+]+)(\+0x[0-9a-f]+)?>")
SLOT = re.compile(r"^([0-9a-f]+) +[0-9a-f]+ +R_X86_64_(?:GLOB_DAT|JUMP_SLOT|64) +\S+ +(\S+)")
CIE = re.compile(r"^([0-9a-f]+) .* CIE$")
FDE = re.compile(r"^[0-9a-f]+ .* FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.")
AUGMENTATION = re.compile(r'^ +Augmentation: +"(.*)"$')


def output(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise OSError(f"{command[0]} failed: {result.stderr.strip()}")
    return result.stdout.splitlines()


def of_library(path):
    return build(output("objdump", "-d", "--no-show-raw-insn", str(path)), output("readelf", "-rW", str(path)),
                 output("readelf", "--debug-dump=frames", str(path)))


def build(listing, relocations, frames):
    slots = {int(found.group(1), 16): found.group(2).split("@")[0] for found in map(SLOT.match, relocations) if found}
    calls, imports, indirect, starts, function = {}, {}, set(), {}, None
    for line in listing:
        if begins := FUNCTION.match(line):
            function = begins.group(2)
            starts[int(begins.group(1), 16)] = function
            continue
        if "\t" not in line or function is None:
            continue
        transfer = TRANSFER.match(line.split("\t")[1])
        if not transfer:
            continue
        what, target = transfer.groups()
        if table := THROUGH_TABLE.match(target):
            name = slots.get(int(table.group(1), 16))
            if name:
                imports.setdefault(function, set()).add(name)
            else:
                indirect.add(function)
        elif target.startswith("*"):
            # A jump through a register is a switch; the naked functions that jump into the real one are no hooks.
            if what == "call":
                indirect.add(function)
        elif direct := DIRECT.match(target):
            name = direct.group(1)
            if name.endswith("@plt"):
                imports.setdefault(function, set()).add(name[:-len("@plt")])
            elif name != function:
                calls.setdefault(function, set()).add(name)
    return Graph(calls, imports, indirect, with_landing_pads(frames, starts))


def with_landing_pads(frames, starts):
    """The functions whose frames name a personality: only those have landing pads."""
    kinds, current, found = {}, None, set()
    for line in frames:
        if begins := CIE.match(line):
            current = begins.group(1)
        elif augmentation := AUGMENTATION.match(line):
            kinds[current] = augmentation.group(1)
        elif frame := FDE.match(line):
            if "P" in kinds.get(frame.group(1), ""):
                found.add(starts.get(int(frame.group(2), 16)))
    return found - {None}


def reached(graph, roots, stops_at=lambda name: False):
    """Every function that the roots reach, with the one it is reached from; those that it stops at are among them, what they call is not."""
    origin, todo = {}, [(root, None) for root in roots]
    while todo:
        name, caller = todo.pop()
        if name in origin:
            continue
        origin[name] = caller
        if not stops_at(name):
            todo += [(callee, name) for callee in graph.calls.get(name, ())]
    return origin


def way(origin, name):
    """The calls that lead to a function, from the root."""
    names = []
    while name is not None:
        names.append(readable(name))
        name = origin[name]
    return " -> ".join(reversed(names))


def readable(name):
    """A mangled name without its hash: the path that the source has."""
    if not name.startswith("_ZN"):
        return name
    parts, rest = [], name[3:]
    while rest[:1].isdigit():
        length = re.match(r"\d+", rest).group()
        parts.append(rest[len(length):len(length) + int(length)])
        rest = rest[len(length) + int(length):]
    return "::".join(part for part in parts if not re.fullmatch(r"h[0-9a-f]{16}", part))
