"""Deadlines, nearly all of which are met: one thread waits for whichever is next.

A `threading.Timer` starts a thread for every deadline, which costs a short statement a tenth of its
time, and much more where the cores are busy.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_due: dict[object, tuple[float, Callable[[], None]]] = {}
_waiting: threading.Thread | None = None
_wakes: float | None = None
"""When the thread looks again by itself; None: not before it is told."""
_ended = False


@contextmanager
def alarm(seconds: float, ring: Callable[[], None]) -> Iterator[None]:
    """Call `ring`, in another thread, if the block takes longer; it may still run at the end."""
    global _waiting
    key, at = object(), time.monotonic() + seconds
    with _changed:
        _due[key] = at, ring
        if _waiting is None or not _waiting.is_alive():  # (a fork has no threads)
            _waiting = threading.Thread(target=_wait, name="tidewheel-alarm", daemon=True)
            _waiting.start()
        elif _wakes is None or at < _wakes:
            _changed.notify()
    try:
        yield
    finally:
        with _changed:
            _due.pop(key, None)


def _wait() -> None:
    global _wakes
    while True:
        ring = None
        with _changed:
            key = min(_due, key=lambda k: _due[k][0], default=None)
            _wakes = None if key is None else _due[key][0]
            left = None if _wakes is None else _wakes - time.monotonic()
            if left is not None and left <= 0:
                ring = _due.pop(key)[1]
            elif _ended:
                return
            else:
                _changed.wait(left)
        if ring is not None:
            ring()
            ring = None  # it may hold a connection


def _end() -> None:
    """A thread that outlives the interpreter keeps what it refers to."""
    global _ended
    with _changed:
        _ended = True
        _due.clear()
        _changed.notify()
    if _waiting is not None:
        _waiting.join()


atexit.register(_end)
