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
        with _changed:
            now = time.monotonic()
            late = [key for key, (at, _) in _due.items() if at <= now]
            rings = [_due.pop(key)[1] for key in late]
            if not rings:
                if _ended:
                    return
                _wakes = min((at for at, _ in _due.values()), default=None)
                _changed.wait(None if _wakes is None else _wakes - now)
        while rings:
            rings.pop()()


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
