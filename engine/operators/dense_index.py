"""Numbers for keys of integers that lie close together: a table with a place for each key."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from tidewheel.engine.state.columns import Array, Index, Mask
from tidewheel.engine.state.delta import Int64s

MOST: Final = 1 << 26  # places of a table: 256 MB
SPARSE: Final = 16  # places for each key that is there
_LEAST: Final = 1 << 12  # places that are always worth it
_ROOM: Final = 8  # a column's range gets an eighth more room: larger keys come later

_LOWEST: Final = int(np.iinfo(np.int64).min)

Range = tuple[int, int]
"""The least and the greatest value of a column."""


def range_of(values: Array, known: Range | None = None) -> Range:
    """The range of some values, one at least, and of another range."""
    low, high = int(values.min()), int(values.max())
    return (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


class DenseIndex:
    """Keys, columns of integers without NULL, ↔ 0, 1, 2 …; a key has its place by its values."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self._lows = [low for low, _ in ranges]
        self._sizes = [_room(r) for r in ranges]
        self._numbers = np.zeros(prod(self._sizes), np.int32)  # one more than the number

    @staticmethod
    def worth(ranges: Sequence[Range], keys: int) -> bool:
        """Is a table for so many keys in these ranges no larger than it should be?"""
        return prod(map(_room, ranges)) <= min(MOST, max(_LEAST, SPARSE * keys))

    def widened(self, cols: Sequence[Array]) -> list[Range]:
        """The ranges with some more keys; below a new least one there is room too."""
        found: list[Range] = []
        for values, known in zip(cols, self.ranges, strict=True):
            low, high = range_of(values, known)
            if low < known[0]:
                low = max(low - (high - low) // _ROOM, _LOWEST)
            found.append((low, high))
        return found

    def places(self, cols: Sequence[Array]) -> tuple[Int64s, Mask | None]:
        """The places of keys, and which have one; None if all do."""
        place: Int64s | None = None
        inside: Mask | None = None
        for col, low, size in zip(cols, self._lows, self._sizes, strict=True):
            part = np.subtract(col, low, dtype=np.int64)
            within = part.view(np.uint64) < np.uint64(size)
            if not within.all():
                inside = within if inside is None else inside & within
            place = part if place is None else place * size + part
        assert place is not None
        return place, inside

    def find(self, cols: Sequence[Array], nulls: Mask | None = None) -> Int64s:
        """The numbers of keys, -1 for one that has none, as those that are NULL."""
        place, inside = self.places(cols)
        if nulls is not None:
            inside = ~nulls if inside is None else inside & ~nulls
        if inside is None:
            return np.subtract(self._numbers[place], 1, dtype=np.int64)
        found = np.full(len(place), -1, np.int64)
        found[inside] = self._numbers[place[inside]] - 1
        return found

    def add(self, places: Int64s, size: int) -> tuple[Int64s, Index]:
        """The numbers of the keys at some places, and the positions of those that are new.

        Each of these once; they get the numbers from `size` on.
        """
        numbers = self._numbers
        found = np.subtract(numbers[places], 1, dtype=np.int64)
        missing = (found < 0).nonzero()[0]
        if not len(missing):
            return found, missing
        wanted = places[missing]
        # Of equal keys the one that is written last is it.
        numbers[wanted] = missing
        fresh = missing[numbers[wanted] == missing]
        numbers[places[fresh]] = np.arange(size + 1, size + 1 + len(fresh))
        found[missing] = numbers[wanted] - 1
        return found, fresh

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._numbers.nbytes


def _room(r: Range) -> int:
    span = r[1] - r[0] + 1
    return span + span // _ROOM + _ROOM
