"""Reads what the scripts need of an ELF file: its dynamic symbols with versions, and its dynamic section.

Reads 64-bit little-endian ELF through the program headers alone, as the loader does, so a
stripped file reads the same. Needs no binutils. Must not change a file.
"""

import struct
from collections import namedtuple

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 6, 14, 15, 29
DT_HASH, DT_GNU_HASH, DT_FLAGS_1 = 4, 0x6FFFFEF5, 0x6FFFFFFB
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF)
DF_1_NODELETE = 0x8
# The largest pages that kernels for a machine are built with: x86-64, AArch64.
PAGES = {62: 4 << 10, 183: 64 << 10}
HIDDEN = 0x8000
KINDS = {0: "NOTYPE", 1: "OBJECT", 2: "FUNC", 6: "TLS", 10: "IFUNC"}

# version: the version's name or None; default: whether an unversioned reference binds to it;
# library: for an undefined symbol, the file its version is asked of.
Symbol = namedtuple("Symbol", "name kind size defined weak version default library")


class Elf:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
        self.machine, = struct.unpack_from("<H", self.data, 18)
        program_headers, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments, self.alignments, self.dynamic, self.mapped = [], [], [], 0
        for index in range(count):
            kind, _, offset, address, _, in_file, in_memory, alignment = struct.unpack_from(
                "<IIQQQQQQ", self.data, program_headers + index * size)
            if kind == PT_LOAD:
                self.segments.append((address, offset, in_file))
                self.alignments.append(alignment)
                # Bytes of address space, from the first segment's begin to the last one's end.
                self.mapped = max(self.mapped, address + in_memory)
            elif kind == PT_DYNAMIC:
                self.dynamic = self._read_dynamic(offset, in_file)
        self.strings = self._offset(self._entry(DT_STRTAB)) if self._entry(DT_STRTAB) else 0

    def _read_dynamic(self, offset, size):
        entries = []
        for at in range(offset, offset + size, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == 0:
                break
            entries.append((tag, value))
        return entries

    def _entry(self, tag):
        return next((value for key, value in self.dynamic if key == tag), None)

    def _offset(self, address):
        for start, offset, size in self.segments:
            if start <= address < start + size:
                return address - start + offset
        raise ValueError(f"address {address:#x} lies in no segment")

    def _string(self, at):
        start = self.strings + at
        return self.data[start:self.data.index(b"\0", start)].decode()

    @property
    def largest_pages(self):
        """The largest pages, in bytes, on which a loader can map each part of the file where it belongs."""
        return min(self.alignments, default=0)

    @property
    def needed(self):
        return [self._string(value) for tag, value in self.dynamic if tag == DT_NEEDED]

    @property
    def soname(self):
        value = self._entry(DT_SONAME)
        return None if value is None else self._string(value)

    @property
    def run_paths(self):
        return [self._string(value) for tag, value in self.dynamic if tag in (DT_RPATH, DT_RUNPATH)]

    @property
    def flags_1(self):
        return self._entry(DT_FLAGS_1) or 0

    def _symbol_count(self):
        """No table says how many symbols there are; both hash tables imply it."""
        table = self._entry(DT_HASH)
        if table is not None:
            return struct.unpack_from("<I", self.data, self._offset(table) + 4)[0]
        table = self._offset(self._entry(DT_GNU_HASH))
        buckets, first, bloom, _ = struct.unpack_from("<IIII", self.data, table)
        bucket_at = table + 16 + bloom * 8
        last = max(struct.unpack_from(f"<{buckets}I", self.data, bucket_at), default=0)
        if last < first:
            return first
        chain_at = bucket_at + buckets * 4
        while not struct.unpack_from("<I", self.data, chain_at + (last - first) * 4)[0] & 1:
            last += 1
        return last + 1

    def _versions(self):
        """Index of the version table -> (version name, file it is asked of or None)."""
        found = {}
        if self._entry(DT_VERDEF):
            at = self._offset(self._entry(DT_VERDEF))
            for _ in range(self._entry(DT_VERDEFNUM)):
                _, _, index, _, _, first, following = struct.unpack_from("<HHHHIII", self.data, at)
                found[index & ~HIDDEN] = (self._string(struct.unpack_from("<I", self.data, at + first)[0]), None)
                at += following
        if self._entry(DT_VERNEED):
            at = self._offset(self._entry(DT_VERNEED))
            for _ in range(self._entry(DT_VERNEEDNUM)):
                _, count, file, first, following = struct.unpack_from("<HHIII", self.data, at)
                inner = at + first
                for _ in range(count):
                    _, _, index, name, step = struct.unpack_from("<IHHII", self.data, inner)
                    found[index & ~HIDDEN] = (self._string(name), self._string(file))
                    inner += step
                at += following
        return found

    @property
    def needed_versions(self):
        """Every (file, version) the loader will insist on, weak ones included."""
        return sorted((library, name) for name, library in self._versions().values() if library)

    def symbols(self):
        versions = self._versions()
        table = self._offset(self._entry(DT_SYMTAB))
        version_table = self._entry(DT_VERSYM) and self._offset(self._entry(DT_VERSYM))
        for index in range(1, self._symbol_count()):
            name, info, _, section, _, size = struct.unpack_from("<IBBHQQ", self.data, table + index * 24)
            if info >> 4 == 0:
                continue
            raw = struct.unpack_from("<H", self.data, version_table + index * 2)[0] if version_table else 1
            version, library = versions.get(raw & ~HIDDEN, (None, None)) if raw & ~HIDDEN > 1 else (None, None)
            yield Symbol(self._string(name), KINDS.get(info & 15, str(info & 15)), size, section != 0,
                         info >> 4 == 2, version, not raw & HIDDEN, library)


def version_key(version):
    """(2, 17) of GLIBC_2.17, None of a version that is no number (GLIBC_PRIVATE)."""
    prefix, _, digits = version.partition("_")
    if prefix != "GLIBC" or not digits.replace(".", "").isdigit():
        return None
    return tuple(int(part) for part in digits.split("."))
