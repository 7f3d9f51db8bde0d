"""The package for Debian and Ubuntu. It has no scripts and no configuration files: unpacking it is all of its installation.

It is written here, and not by dpkg-deb: its bytes are the same on every machine, also on one that has no dpkg.
"""

import hashlib
from email.utils import formatdate

import dist_archive as archive
from dist_content import OTHERS, SUMMARY
from tools import ROOT

COMPLETIONS = {"bash": "bash-completion/completions/lazyguard", "zsh": "zsh/vendor-completions/_lazyguard",
               "fish": "fish/vendor_completions.d/lazyguard.fish"}
PACKAGER = "The LazyGuard project <lazyguard@localhost>"


def write(content, folder):
    path = folder / f"lazyguard_{content.version}_{content.architecture.deb}.deb"
    files = entries(content)
    control = [
        archive.text("./control", fields(content, files)),
        archive.text("./md5sums", "".join(f"{hashlib.md5(entry.data).hexdigest()}  {entry.path[2:]}\n" for entry in files)),
    ]
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", archive.compressed(archive.tar(control, content.epoch), content.level)),
        ("data.tar.gz", archive.compressed(archive.tar(files, content.epoch), content.level)),
    ]
    path.write_bytes(archive.ar(members, content.epoch))
    return path


def entries(content):
    share = "./usr/share"
    documents = f"{share}/doc/lazyguard"
    packed = [archive.Entry(f"{share}/man/man1/{page}.gz", archive.compressed(source.read_bytes(), content.level)) for page, source in content.man.items()]
    found = [
        archive.file("./usr/bin/lazyguard", content.command, 0o755),
        archive.file("./usr/lib/lazyguard/liblazyguard.so", content.library),
        *packed,
        *(archive.text(f"{share}/{COMPLETIONS[shell]}", script) for shell, script in content.completions.items()),
        archive.text(f"{documents}/copyright", copyright_of(content)),
        archive.file(f"{documents}/{OTHERS}", content.licences[OTHERS]),
        archive.Entry(f"{documents}/changelog.gz", archive.compressed(history(content).encode(), content.level)),
        archive.Entry(f"{documents}/NEWS.gz", archive.compressed((ROOT / "CHANGELOG.md").read_bytes(), content.level)),
    ]
    return sorted(found, key=lambda entry: entry.path)


def fields(content, files):
    size = -(-sum(len(entry.data) for entry in files) // 1024)
    needs = "" if content.ships else ", libgcc-s1"
    return (
        "Package: lazyguard\n"
        f"Version: {content.version}\n"
        f"Architecture: {content.architecture.deb}\n"
        f"Maintainer: {PACKAGER}\n"
        f"Installed-Size: {size}\n"
        f"Depends: libc6 (>= 2.17){needs}\n"
        "Section: devel\n"
        "Priority: optional\n"
        f"Description: {SUMMARY}\n"
        " The library is preloaded into unmodified programs. It loads kernels early, to\n"
        " prevent a deadlock, reports who waits for whom when a program still hangs, and\n"
        " lists the hangs that a passing run came near.\n"
    )


def history(content):
    """What Debian's policy asks for: the version and its time. NEWS has the changes."""
    return (f"lazyguard ({content.version}) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n"
            f" -- {PACKAGER}  {formatdate(content.epoch)}\n")


def copyright_of(content):
    """In the machine-readable form of Debian."""
    mit = content.licences["LICENSE-MIT"].read_text()
    apache = content.licences["LICENSE-APACHE"].read_text()
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: LazyGuard\n\n"
        "Files: *\n"
        "Copyright: The LazyGuard authors\n"
        "License: Apache-2.0 or Expat\n"
        f"Comment: {OTHERS} has the licences of the packages that are linked.\n\n"
        f"License: Apache-2.0\n{indented(apache)}\n\n"
        f"License: Expat\n{indented(mit)}\n"
    )


def indented(text):
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.strip("\n").splitlines())
