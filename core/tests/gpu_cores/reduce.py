#!/usr/bin/env python3
"""Makes a fixture of a GPU core dump: leaves out what is not ours, and what the reader does not look at.

Left out: images that neither a grid is of nor have a line table, which are the driver's own kernels; predicates, parameters and memory;
registers, except with --inside: then those of a warp stay, those of one thread at each address, and shared memory; empty tables of blocks.
Of an image, the sections stay that have functions, symbols and lines. Equal contents lie in the file once. A text can be replaced by one of the
same length, as in paths.

Usage: reduce.py [--inside] CORE FIXTURE [OLD=NEW]...
"""

import struct
import sys
from pathlib import Path

HEADER, SECTION, SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"
IMAGE, GRIDS, MODULES = 0x80000007, 0x8000000C, 0x80000010
KEPT = {0x80000000 + kind for kind in (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 22)}
BLOCKS, CALLERS, LANES = 0x8000000D, 0x80000008, 0x8000000F
SHARED, REGISTERS, UNIFORM = 0x80000004, 0x80000005, 0x80000013
SYMBOLS, STRINGS = 2, 3


class Elf:
    def __init__(self, data):
        self.header = list(struct.unpack_from(HEADER, data))
        start, count, names = self.header[6], self.header[12], self.header[13]
        self.sections = [list(struct.unpack_from(SECTION, data, start + 64 * at)) for at in range(count)]
        self.content = [b"" if s[1] in (0, 8) else data[s[4] : s[4] + s[5]] for s in self.sections]
        self.names = names

    def name(self, at):
        return self.content[self.names][self.sections[at][0] :].split(b"\0")[0]

    def keep(self, wanted):
        """Leaves the sections that are wanted, in their order; links, and the sections of symbols, follow."""
        kept = [at for at in range(len(self.sections)) if at in (0, self.names) or wanted(at)]
        new = {old: at for at, old in enumerate(kept)}
        names = b"\0"
        for at in kept:
            section, name = self.sections[at], self.name(at)
            section[6] = new.get(section[6], 0)
            if section[1] == SYMBOLS:
                rows = []
                for row in struct.iter_unpack(SYMBOL, self.content[at]):
                    # A symbol of a section that is left out stays, as one without.
                    rows.append(struct.pack(SYMBOL, *row[:3], row[3] if row[3] >= 0xFF00 else new.get(row[3], 0), *row[4:]))
                self.content[at] = b"".join(rows)
            section[0] = 0 if at == 0 else len(names)
            names += name + b"\0" if at else b""
        self.content[self.names] = names
        self.sections = [self.sections[at] for at in kept]
        self.content = [self.content[at] for at in kept]
        self.names = new[self.names]

    def bytes(self):
        out, known = bytearray(64), {}
        for section, content in zip(self.sections[1:], self.content[1:]):
            out += bytes(-len(out) % 8)
            section[4], section[5] = known.setdefault(content, len(out)), len(content) if section[1] != 8 else section[5]
            if section[4] == len(out):
                out += content
        out += bytes(-len(out) % 8)
        # Segments are not looked at.
        self.header[5] = self.header[9] = self.header[10] = 0
        self.header[6], self.header[12], self.header[13] = len(out), len(self.sections), self.names
        for section in self.sections:
            out += struct.pack(SECTION, *section)
        out[:64] = struct.pack(HEADER, *self.header)
        return bytes(out)


def reduced_image(data):
    image = Elf(data)
    loaded = {at for at, s in enumerate(image.sections) if image.name(at).startswith(b".text.") and s[3] != 0}
    tables = (b".symtab", b".strtab", b".debug_line", b".debug_str")
    image.keep(lambda at: at in loaded or image.name(at) in tables)
    return image.bytes()


def one_thread_at_each_address(core):
    """The sections with registers of these threads, by their lane tables."""
    kept = set()
    for at, section in enumerate(core.sections):
        rows = range(0, len(core.content[at]), section[9]) if section[1] == LANES else ()
        first = {core.content[at][row : row + 8]: row // section[9] for row in reversed(rows)}
        kept |= {(at, row) for row in first.values()}
    return {at for at, s in enumerate(core.sections) if s[1] == REGISTERS and (s[6], s[7]) in kept}


def main(inside, source, fixture, *replacements):
    core = Elf(Path(source).read_bytes())
    entries = {kind: [at for at, s in enumerate(core.sections) if s[1] == kind] for kind in (GRIDS, MODULES)}
    of_grids = set()
    for at in entries[GRIDS]:
        size = core.sections[at][9]
        of_grids |= {core.content[at][row + 32 : row + 40] for row in range(0, len(core.content[at]), size)}

    def is_ours(at):
        link, info = core.sections[at][6], core.sections[at][7]
        handle = core.content[link][8 * info : 8 * info + 8] if link in entries[MODULES] else None
        return handle in of_grids or b".debug_line" in core.content[at]

    registers = one_thread_at_each_address(core) if inside else set()

    def wanted(at):
        kind = core.sections[at][1]
        if at in registers or inside and kind in (SHARED, UNIFORM):
            return True
        if kind == IMAGE:
            return is_ours(at)
        return kind == STRINGS or kind in KEPT and not (kind in (BLOCKS, CALLERS) and not core.content[at])

    for at, section in enumerate(core.sections):
        if section[1] == IMAGE and is_ours(at):
            core.content[at] = reduced_image(core.content[at])
    core.keep(wanted)
    data = core.bytes()
    for old, new in (replacement.split("=") for replacement in replacements):
        assert len(old) == len(new), (old, new)
        data = data.replace(old.encode(), new.encode())
    Path(fixture).write_bytes(data)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--inside"]
    if len(arguments) < 2:
        sys.exit(__doc__)
    main("--inside" in sys.argv, *arguments)
