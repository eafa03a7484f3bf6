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


class Alarm:
    """Calls `ring`, in another thread, if the block takes longer; it may still run at the end."""

    __slots__ = ("_ring", "_seconds")

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self._seconds = seconds
        self._ring = ring

    def __enter__(self) -> Alarm:
        self._set(time.monotonic() + self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        with _changed:
            _due.pop(self, None)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A part of the block whose time does not count."""
        began = time.monotonic()
        with _changed:
            at, _ = _due.pop(self, (None, None))
        try:
            yield
        finally:
            if at is not None:  # (it has not rung)
                self._set(at + time.monotonic() - began)

    def _set(self, at: float) -> None:
        global _waiting
        with _changed:
            _due[self] = at, self._ring
            if _waiting is None or not _waiting.is_alive():  # (a fork has no threads)
                _waiting = threading.Thread(target=_wait, name="tidewheel-alarm", daemon=True)
                _waiting.start()
            elif _wakes is None or at < _wakes:
                _changed.notify()


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
