"""How far the running statement is, for whoever looks on from another thread."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """What a statement is at.

    `fraction` of DuckDB's present kernel, 0 to 1, if DuckDB knows. Of the recursion that runs:
    its table, the loop counters, the rows that the last iteration added. `rows`: of all
    iterations, or of the result as far as it was read. `seconds` since the statement began.
    """

    epoch: int
    fraction: float | None
    table: str | None
    counters: tuple[int, ...]
    delta: int
    rows: int
    seconds: float


class Activity:
    """Written by the thread that runs a statement, without a lock: a reader may see it half new."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A statement begins."""
        self.since = time.monotonic()
        self.table: str | None = None
        self.counters: tuple[int, ...] = ()
        self.delta = 0
        self.rows = 0

    def iterated(self, table: str, counters: tuple[int, ...], rows: int) -> None:
        """A recursive table has got `rows` rows more (or rows changed, for a maintained one)."""
        self.table, self.counters, self.delta = table, counters, rows
        self.rows += rows

    def read(self, rows: int) -> None:
        """Rows of the result have been read; they count where there is no recursion."""
        if self.table is None:
            self.rows += rows

    def progress(self, epoch: int, fraction: float | None) -> Progress:
        """What can be said now."""
        seconds = time.monotonic() - self.since
        return Progress(epoch, fraction, self.table, self.counters, self.delta, self.rows, seconds)
