"""The archive: a prefix with `bin`, `lib` and `share`, to be unpacked anywhere."""

import dist_archive as archive
from tools import ROOT

# Where a shell looks for completions, below `share`.
COMPLETIONS = {"bash": "bash-completion/completions/lazyguard", "zsh": "zsh/site-functions/_lazyguard",
               "fish": "fish/vendor_completions.d/lazyguard.fish"}
DOCUMENTS = ("README.md", "CHANGELOG.md", "docs/INSTALL.md")


def write(content, folder):
    name = f"lazyguard-{content.version}-linux-{content.architecture.name}"
    path = folder / f"{name}.tar.gz"
    share = f"{name}/share"
    entries = [
        archive.file(f"{name}/bin/lazyguard", content.command, 0o755),
        archive.file(f"{name}/lib/liblazyguard.so", content.library, 0o755),
        *(archive.file(f"{share}/man/man1/{page}", source) for page, source in content.man.items()),
        *(archive.text(f"{share}/{COMPLETIONS[shell]}", script) for shell, script in content.completions.items()),
        *(archive.file(f"{share}/doc/lazyguard/{licence}", source) for licence, source in content.licences.items()),
        *(archive.file(f"{share}/doc/lazyguard/{document.split('/')[-1]}", ROOT / document) for document in DOCUMENTS),
    ]
    path.write_bytes(archive.compressed(archive.tar(entries, content.epoch), content.level))
    return path


def write_debug(content, folder):
    """The debug information of both files, as it lies beside them."""
    name = f"lazyguard-{content.version}-linux-{content.architecture.name}-debug"
    path = folder / f"{name}.tar.gz"
    entries = [archive.file(f"{name}/{source.name}", source) for source in sorted(content.debug.iterdir())]
    path.write_bytes(archive.compressed(archive.tar(entries, content.epoch), content.level))
    return path
