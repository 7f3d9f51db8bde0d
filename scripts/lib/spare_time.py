"""How long a check of a card may go on: what has not begun by then is left out, and the table is written of what is there.

A machine with a card is often lent for minutes. A command that its limit ends writes nothing.
"""

import time

_ends = None


def allow(seconds):
    """From now on; None: without an end."""
    global _ends
    _ends = None if seconds is None else time.monotonic() + seconds


def now():
    return time.monotonic()


def is_over():
    return _ends is not None and now() >= _ends


def at_most(seconds):
    """That, or the seconds that are left, of which there is at least one."""
    return seconds if _ends is None else min(seconds, max(1.0, _ends - time.monotonic()))
