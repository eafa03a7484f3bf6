"""How long a statement may take: `statement_timeout`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from ..engine.alarm import Alarm
from ..engine.operators.budget import BOUNDS
from . import errors

_NONE: Final[AbstractContextManager[None]] = nullcontext()


class TimeLimit:
    """The present statement's; `interrupt` ends it when it is late."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._alarm: Alarm | None = None
        self.milliseconds: int | None = None
        self.deadline: float | None = None
        """In monotonic seconds."""
        self.passed = False

    def begin(self, milliseconds: int | None) -> AbstractContextManager[object]:
        """A block that is one statement.

        It is interrupted if it is not at its end, or gives its first rows, in time. Loops look at
        the clock themselves, as they can say more, so they are given a little longer.
        """
        self.milliseconds, self.passed = milliseconds, False
        self._alarm, self.deadline = None, None
        if milliseconds is None:
            return _NONE
        seconds = milliseconds / 1000
        self.deadline = time.monotonic() + seconds
        self._alarm = Alarm(seconds + 0.25 + seconds / 20, self.end)
        return self._alarm

    def end(self) -> None:
        """The time is over."""
        self.passed = True
        self._interrupt()

    def late(self) -> bool:
        """Has the statement taken longer than it may?"""
        return self.passed or (self.deadline is not None and time.monotonic() > self.deadline)

    def longer(self, milliseconds: int) -> bool:
        """May the statement take longer than that?"""
        return self.milliseconds is None or self.milliseconds > milliseconds

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A part of the statement whose time is not its own."""
        before = self.deadline
        if self._alarm is None or before is None:
            yield
            return
        began, budget = time.monotonic(), BOUNDS.get()
        self._bound(None)
        try:
            with self._alarm.stopped():
                yield
        finally:
            BOUNDS.set(budget)
            self._bound(before + time.monotonic() - began)

    def _bound(self, deadline: float | None) -> None:
        self.deadline = deadline
        BOUNDS.set(replace(BOUNDS.get(), deadline=deadline))

    def error(self) -> errors.Error:
        """What a statement ends with that took longer."""
        return errors.OperationalError(
            f"the statement took longer than statement_timeout = {self.milliseconds} ms",
            hint="SET statement_timeout to more, or to none",
        )
