"""The wheel: the library in the Python package `lazyguard`, the command among the scripts.

The command is no script of Python that starts the real one: the interpreter would change what the guarded program inherits (how SIGPIPE and
SIGXFSZ are handled, LC_CTYPE), and take its time. It finds the library from where a script is installed: cli/src/machine/library.rs.

Must not: claim a tag that is not true; `check_tag` reads the files.
"""

import base64
import hashlib

import dist_archive as archive
from dist_content import SUMMARY
from elf import Elf, version_key
from tools import ROOT, Failure

FLOOR = (2, 17)
# What the tags let a file of a wheel need: PEP 599 and PEP 600.
ALLOWED = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libgcc_s.so.1",
           "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
PYTHON = ROOT / "scripts" / "lib" / "wheel"


def write(content, folder):
    tags = content.architecture.wheel
    if content.ships:
        check_tag(content)
    else:
        # The everyday command is linked with this machine's C library, and says so.
        tags = (f"linux_{content.architecture.name}",)
    name = f"lazyguard-{content.version}"
    path = folder / f"{name}-py3-none-{'.'.join(tags)}.whl"
    entries = [
        *(archive.file(f"lazyguard/{source.name}", source) for source in sorted(PYTHON.glob("*.py"))),
        archive.file("lazyguard/liblazyguard.so", content.library, 0o755),
        archive.file(f"{name}.data/scripts/lazyguard", content.command, 0o755),
        *(archive.file(f"{name}.dist-info/licenses/{licence}", source) for licence, source in content.licences.items()),
        archive.text(f"{name}.dist-info/METADATA", metadata(content)),
        archive.text(f"{name}.dist-info/WHEEL", about(tags)),
    ]
    record = f"{name}.dist-info/RECORD"
    lines = [f"{entry.path},sha256={digest(entry.data)},{len(entry.data)}" for entry in entries]
    entries.append(archive.text(record, "\n".join([*lines, f"{record},,", ""])))
    path.write_bytes(archive.zipped(entries, content.epoch, content.level))
    return path


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def metadata(content):
    licences = "".join(f"License-File: {name}\n" for name in content.licences)
    return (
        "Metadata-Version: 2.4\n"
        "Name: lazyguard\n"
        f"Version: {content.version}\n"
        f"Summary: {SUMMARY}\n"
        "License-Expression: MIT OR Apache-2.0\n"
        f"{licences}"
        "Classifier: Environment :: GPU :: NVIDIA CUDA\n"
        "Classifier: Operating System :: POSIX :: Linux\n"
        "Requires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n"
        f"\n{(PYTHON / 'README.md').read_text()}"
    )


def about(tags):
    lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    return f"Wheel-Version: 1.0\nGenerator: lazyguard scripts/dist\nRoot-Is-Purelib: false\n{lines}"


def check_tag(content):
    """Whether the files are what the tag says: of this machine, at home on its glibc, without other libraries."""
    for path in (content.command, content.library):
        problems = untrue(Elf(path), content.architecture.machine)
        if problems:
            raise Failure(f"{path.name}: the wheel's tag would not be true: {'; '.join(problems)}")


def untrue(elf, machine):
    problems = [f"needs {name}" for name in elf.needed if name not in ALLOWED]
    problems += [f"needs {version} of {file}" for file, version in elf.needed_versions
                 if version_key(version) is None or version_key(version) > FLOOR]
    problems += [f"has a run path {path}" for path in elf.run_paths]
    if elf.machine != machine:
        problems.append(f"is for machine {elf.machine}")
    return problems
