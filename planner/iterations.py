"""What the iterations of maintained recursions changed, kept for those who watch them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewheel.engine.state.delta import Int64s

KEPT = 10_000
"""Iterations that are kept of a view."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """Of one recursive table, in one step: the rows that came or went at each counter.

    `outer` are the counters of the loops around it, `first` is the counter of ``changes[0]``.
    """

    table: str
    outer: tuple[int, ...]
    first: int
    changes: Int64s


class History:
    """The last iterations of a view, by epoch."""

    def __init__(self) -> None:
        self._parts: deque[tuple[int, Iterations]] = deque()
        self._held = 0

    def add(self, epoch: int, parts: Sequence[Iterations]) -> None:
        """What an epoch changed; the oldest is forgotten."""
        for part in parts:
            self._parts.append((epoch, part))
            self._held += len(part.changes)
        while self._parts and self._held - len(self._parts[0][1].changes) >= KEPT:
            self._held -= len(self._parts.popleft()[1].changes)

    def __iter__(self) -> Iterator[tuple[int, str, tuple[int, ...], int]]:
        """Epoch, table, counters, changed rows."""
        found = [
            (epoch, part.table, (*part.outer, counter), int(rows))
            for epoch, part in list(self._parts)
            for counter, rows in enumerate(part.changes, part.first)
            if rows
        ]
        return iter(found[-KEPT:])
