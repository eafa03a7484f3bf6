"""Accumulated progress updates ⟨pointstamp, δ⟩."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidewheel.engine.progress.timestamp import Timestamp

Location = int
"""The number of an edge or of a stage in the logical graph (see `reachability.Topology`)."""


class Pointstamp(NamedTuple):
    """A time at a place: an outstanding message on an edge, or a notification at a stage."""

    location: Location
    time: Timestamp


class ChangeBatch:
    """Updates of occurrence counts; those of one pointstamp add up and vanish at zero.

    >>> changes = ChangeBatch()
    >>> changes.update(Pointstamp(1, Timestamp(0)), -1)
    >>> changes.update(Pointstamp(2, Timestamp(0)), +1)
    >>> [(p.location, delta) for p, delta in changes.drain()]
    [(2, 1), (1, -1)]
    >>> bool(changes)
    False
    """

    __slots__ = ("_deltas",)

    def __init__(self, updates: Iterable[tuple[Pointstamp, int]] = ()) -> None:
        self._deltas: dict[Pointstamp, int] = {}
        for p, delta in updates:
            self.update(p, delta)

    def update(self, p: Pointstamp, delta: int) -> None:
        """Add `delta` to the count of `p`."""
        count = self._deltas.get(p, 0) + delta
        if count:
            self._deltas[p] = count
        else:
            self._deltas.pop(p, None)

    def extend(self, updates: Iterable[tuple[Pointstamp, int]]) -> None:
        """Add several updates."""
        for p, delta in updates:
            self.update(p, delta)

    def get(self, p: Pointstamp) -> int:
        """The accumulated change of `p`."""
        return self._deltas.get(p, 0)

    def drain(self) -> list[tuple[Pointstamp, int]]:
        """Take everything out, positives before negatives (Naiad, section 3.3)."""
        out = sorted(self._deltas.items(), key=lambda item: -item[1])
        self._deltas = {}
        return out

    def __iter__(self) -> Iterator[tuple[Pointstamp, int]]:
        return iter(self._deltas.items())

    def __len__(self) -> int:
        return len(self._deltas)
