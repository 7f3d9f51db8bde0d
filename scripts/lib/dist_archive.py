"""Archives whose bytes follow from their content alone: sorted, of one time, of one owner.

Must not: read the file system for anything but the content of files.
"""

import gzip
import io
import tarfile
import zipfile
from collections import namedtuple
from datetime import datetime, timezone

# data: bytes. link: where a symbolic link leads; the entry is one then.
Entry = namedtuple("Entry", "path data mode link", defaults=(0o644, None))


def file(path, source, mode=0o644):
    return Entry(path, source.read_bytes(), mode)


def text(path, content, mode=0o644):
    return Entry(path, content.encode(), mode)


def folders_of(entries):
    """Every folder above an entry, the outer before the inner."""
    found = set()
    for entry in entries:
        parts = entry.path.split("/")[:-1]
        found |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return sorted(found - {".", ""})


def tar(entries, epoch):
    """An archive in the format of `ustar`, with the folders above the entries."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in folders_of(entries):
            archive.addfile(about(folder, 0o755, epoch, tarfile.DIRTYPE))
        for entry in sorted(entries, key=lambda entry: entry.path):
            if entry.link is not None:
                info = about(entry.path, 0o777, epoch, tarfile.SYMTYPE)
                info.linkname = entry.link
                archive.addfile(info)
            else:
                info = about(entry.path, entry.mode, epoch, tarfile.REGTYPE)
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return sink.getvalue()


def about(path, mode, epoch, kind):
    info = tarfile.TarInfo(path)
    info.mode, info.mtime, info.type = mode, epoch, kind
    info.uname = info.gname = "root"
    return info


def compressed(data, level):
    """With gzip; its header has neither a time nor a name. The level is that of a Content."""
    sink = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=level, mtime=0) as stream:
        stream.write(data)
    return sink.getvalue()


def zipped(entries, epoch, level):
    """A zip archive, in the order that is given: a reader of wheels looks at the end first."""
    sink = io.BytesIO()
    time = datetime.fromtimestamp(epoch, timezone.utc)
    with zipfile.ZipFile(sink, "w") as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.path, (time.year, time.month, time.day, time.hour, time.minute, time.second))
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, (0o100000 | entry.mode) << 16
            archive.writestr(info, entry.data, compresslevel=level)
    return sink.getvalue()


def ar(members, epoch):
    """An archive of `ar`, as a .deb is one; members: (name, bytes) in their order."""
    parts = [b"!<arch>\n"]
    for name, data in members:
        parts.append(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2))
    return b"".join(parts)
