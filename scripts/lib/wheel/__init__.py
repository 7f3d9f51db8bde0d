"""LazyGuard: where this package has its command and its library. `lazyguard run -- PROGRAM` guards a program.

In a guarded program, `lazyguard.ready()` says that what it loads from then on comes too late.

Must not: load the library. It is preloaded into a program that starts, and useless in one that runs.
"""

import ctypes
import os
import sysconfig
from importlib.metadata import PackageNotFoundError, files

__all__ = ["command", "library", "ready"]

_FOLDER = os.path.dirname(os.path.realpath(__file__))


def library() -> str:
    """The path of the library, for LD_PRELOAD."""
    return os.path.join(_FOLDER, "liblazyguard.so")


def command() -> str:
    """The path of the command.

    Raises FileNotFoundError where it was removed.
    """
    # The first is that of `pip install --target`, of which the installer's record is wrong.
    places = [os.path.join(os.path.dirname(_FOLDER), "bin", "lazyguard"), *_recorded(),
              os.path.join(sysconfig.get_path("scripts"), "lazyguard")]
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return os.path.realpath(place)
    raise FileNotFoundError(f"the command of LazyGuard is in none of {', '.join(places)}")


def ready() -> None:
    """Says that this process has loaded what it needs: later loads are LG110. Does nothing in a process without the guard."""
    function = getattr(ctypes.CDLL(None), "lazyguard_ready", None)
    if function is not None:
        function()


def _recorded():
    """Where the installer has put it."""
    try:
        installed = files("lazyguard") or []
    except PackageNotFoundError:
        return []
    return [str(file.locate()) for file in installed if file.parts[-2:] == ("bin", "lazyguard")]
