"""Builds what ships, and all packages of it: scripts/dist.

Each package has a module of its own; dist_content.py has what all of them hold. SHA256SUMS lists the files.

Must not: leave a package of an earlier version beside those of this one.
"""

import argparse
import fcntl
import hashlib
import sys
import time

import build
import dist_content
import dist_deb
import dist_image
import dist_sbom
import dist_tarball
import dist_wheel
import rust_build
from tools import ROOT, TARGET, Failure

# In bytes. docs/SPECIFICATION.md promises them of the files that ship; the everyday command is no such file.
MOST_LIBRARY = 3_600_000
MOST_COMMAND = 6_000_000
# One that needs a C library has relocations, which a static one has not.
MOST_COMMAND_WITH_GLIBC = 7_000_000
FOLDERS = {dist_content.SHIPPED: TARGET / "dist", dist_content.TESTED: TARGET / "dist-tested"}


def compile_all():
    """The library, in target/release, and the command, in a folder of its own."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / ".build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rust_build.library(build.say, build.under_way)
        rust_build.packed_command(build.say, build.under_way)


def packed(of):
    """Writes the packages of what is built; returns the content and the files, of which the image's is None where its command would need a C library."""
    folder = dist_content.fresh(FOLDERS[of])
    content = dist_content.built(of, folder / "content")
    check_sizes(content)
    has_image = content.is_static or not content.ships
    files = [write(content, folder) if has_image or write != dist_image.write else None for write in
             (dist_wheel.write, dist_tarball.write, dist_deb.write, dist_image.write, dist_sbom.write, dist_tarball.write_debug)]
    if has_image:
        dist_image.write_recipe(content, folder)
    else:
        print(f"dist: no container image, which needs a static command: rustup target add {rust_build.STATIC}")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(filter(None, files)))
    (folder / "SHA256SUMS").write_text(sums)
    return content, files


def check_sizes(content):
    most = MOST_COMMAND if content.is_static else MOST_COMMAND_WITH_GLIBC
    limits = [(content.library, MOST_LIBRARY)] + [(content.command, most)] * content.ships
    for path, most in limits:
        size = path.stat().st_size
        if size > most:
            raise Failure(f"{path.name} has {size} bytes, and {most} are the most")


def main():
    parser = argparse.ArgumentParser(prog="scripts/dist", description="Build the packages into target/dist.")
    parser.add_argument("--tested", action="store_true", help="pack what scripts/build --tested has made, into target/dist-tested; compiles nothing")
    arguments = parser.parse_args()
    of = dist_content.TESTED if arguments.tested else dist_content.SHIPPED
    if of == dist_content.SHIPPED:
        compile_all()
    started = time.monotonic()
    content, files = packed(of)
    for path in (content.library, content.command, *filter(None, files)):
        print(f"dist: {path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    build.say("packages", "written", time.monotonic() - started)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"dist: {failure}")
