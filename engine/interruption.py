"""Has somebody interrupted the statement that this thread works for?

Asked before pieces of work that take long; what can be stopped while it runs says how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

MANY: Final = 1 << 20
"""Rows from which on one pass over them is a piece of work."""
LONG: Final = 0.01
"""Seconds from which on a step was one."""


class Interrupted(Exception):
    """The statement was interrupted."""


class Stop(NamedTuple):
    """`asked` is set to stop a statement, and then each of `calls` is called, in any thread."""

    asked: threading.Event
    calls: set[Callable[[], None]]


STOP: ContextVar[Stop | None] = ContextVar("stop", default=None)
"""How the present statement is stopped; None: it is not."""


def stop_if_set(asked: threading.Event | None) -> None:
    """Raise Interrupted if `asked` is set."""
    if asked is not None and asked.is_set():
        raise Interrupted("the statement was interrupted")


def stop_if_asked() -> None:
    """Raise Interrupted if the present statement is to stop."""
    stop = STOP.get()
    if stop is not None:
        stop_if_set(stop.asked)


@contextmanager
def unbroken() -> Iterator[None]:
    """A block that is not stopped half way: what it changes belongs together."""
    token = STOP.set(None)
    try:
        yield
    finally:
        STOP.reset(token)


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """A block that `interrupt` ends early: called if the statement is to stop, and never after it.

    Raises Interrupted if it was to stop before.
    """
    stop = STOP.get()
    if stop is None:
        yield
        return
    running = threading.Lock()
    over = False

    def call() -> None:
        with running:
            if not over:
                interrupt()

    stop.calls.add(call)
    try:
        stop_if_asked()
        yield
    finally:
        stop.calls.discard(call)
        with running:
            over = True
