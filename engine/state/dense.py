"""Rows that are one integer each, close to each other: their weights in an array, by value.

What a join needs of a side of which it takes nothing but the key, what DISTINCT, IN and EXISTS
count, and the sums of groups by an integer are such rows. To find one, or to change its weight,
takes one access, where a spine searches several runs, and there is nothing to sort or to merge.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidewheel.engine.state.columns import Index, Mask
from tidewheel.engine.state.delta import Int64s, unique
from tidewheel.engine.state.run import Layout, Rows

LEAST: Final = 4096
"""Fewer rows stay in runs."""
_CLOSE: Final = 2  # places for each row
_FEW: Final = 16
_LIMITS: Final = np.iinfo(np.int64)


class Dense:
    """The weights of the integers from `low` on. `parts` has shape (parts of a weight, places)."""

    def __init__(self, layout: Layout, low: int, parts: Int64s, flat: bool) -> None:
        self._layout = layout
        self._low = low
        self._parts = parts
        self._flat = flat
        self._count = self._there(slice(None))

    @staticmethod
    def of(rows: Rows) -> Dense | None:
        """Rows in any order; None where they are not of this kind."""
        layout, weights = rows.layout, rows.weights
        plain = layout.whole and layout.rank is None and not layout.depth and layout.key.integer
        if not plain or len(layout.schema) != 1 or not layout.key.exact(rows.cols):
            return None
        low, high = int(rows.keys.min()), int(rows.keys.max())
        span = high - low + 1
        if span > _CLOSE * len(rows):
            return None
        index = rows.keys - low
        often = np.bincount(index, minlength=span)
        there = np.count_nonzero(often)
        if span > _CLOSE * there + LEAST:
            return None
        flat = weights.ndim == 1
        if flat and (weights == weights[0]).all():
            return Dense(layout, low, (often * weights[0])[None], flat)
        parts = np.zeros((1 if flat else weights.shape[1], span), np.int64)
        _add(parts, index, weights, there == len(rows))
        return Dense(layout, low, parts, flat)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._parts.nbytes

    def add(self, rows: Rows) -> bool:
        """Add rows in any order; False, and nothing is done, if they are not of this kind."""
        if not self._layout.key.exact(rows.cols):
            return False
        keys, n = rows.keys, len(rows)
        if n <= _FEW:
            places = [key - self._low for key in keys.tolist()]
            low, high = min(places), max(places)
        else:
            low, high = int(keys.min()) - self._low, int(keys.max()) - self._low
        if (low < 0 or high >= self._parts.shape[1]) and not self._reach(low, high, n):
            return False
        if n <= _FEW:
            self._add_few(keys.tolist(), rows.weights)
            return True
        index = keys - self._low
        places_ = unique(index)
        before = self._there(places_)
        _add(self._parts, index, rows.weights, len(places_) == n)
        self._count += self._there(places_) - before
        return True

    def add_one(self, key: int | None, weight: int) -> bool:
        """`add` for one row; False, too, where it is beyond the places that there are."""
        if key is None or not self._flat:
            return False
        place = key - self._low
        if not 0 <= place < self._parts.shape[1]:
            return False
        self._add_at(place, weight)
        return True

    def _add_at(self, place: int, weight: int) -> None:
        """Add to a place, where a weight has one part."""
        part = self._parts[0]
        before = int(part[place])
        part[place] = before + weight
        self._count += bool(before + weight) - bool(before)

    def _add_few(self, keys: list[int], weights: Int64s) -> None:
        parts, low = self._parts, self._low
        if len(parts) == 1:
            for key, weight in zip(keys, weights.ravel().tolist(), strict=True):
                self._add_at(key - low, weight)
            return
        for key, several in zip(keys, weights, strict=True):
            column = parts[:, key - low]
            there = bool(column.any())
            column += several
            self._count += bool(column.any()) - there

    def _there(self, places: Index | slice) -> int:
        """How many of these places hold a row."""
        return int(np.count_nonzero(_any(self._parts[:, places])))

    def _reach(self, low: int, high: int, more: int) -> bool:
        """Make room for places from `low` to `high`, if rows are still close to each other then."""
        parts = self._parts
        used = _any(parts).nonzero()[0]
        begin, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        first, last = min(low, begin), max(high + 1, end)
        span = last - first
        if span > _CLOSE * (self._count + more) + LEAST:
            return False
        # half as much again on the side that grows, so that this does not come often
        if low < 0 and self._low + first - span // 2 >= _LIMITS.min:
            first -= span // 2
        if high >= parts.shape[1] and self._low + last + span // 2 <= _LIMITS.max:
            last += span // 2
        grown = np.zeros((len(parts), last - first), np.int64)
        grown[:, begin - first : end - first] = parts[:, begin:end]
        self._parts, self._low = grown, self._low + first
        return True

    def find(self, probes: Int64s) -> tuple[Index, Rows] | None:
        """See `Spine.lookup`."""
        index = probes - self._low  # what overflows is no place
        within = index.view(np.uint64) < self._parts.shape[1]
        every = within.all()
        at = None if every else within.nonzero()[0]
        weights = self._weights(index if at is None else index[at])
        there = _any(weights.T)
        if not there.all():
            weights = weights[there]
            at = there.nonzero()[0] if at is None else at[there]
        if not len(weights):
            return None
        found = probes if at is None else probes[at]
        return np.arange(len(probes)) if at is None else at, self._rows(found, weights)

    def weight(self, key: int) -> int | None:
        """The weight of one key's row, 0 if there is none; None where it has several parts."""
        if not self._flat:
            return None
        place = key - self._low
        return int(self._parts[0, place]) if 0 <= place < self._parts.shape[1] else 0

    def row(self, key: int) -> list[Rows]:
        """The row of one key, if there is one."""
        place = key - self._low
        if not 0 <= place < self._parts.shape[1]:
            return []
        weights = self._weights(slice(place, place + 1))
        return [self._rows(np.array([key]), weights)] if weights.any() else []

    def between(self, low: int, high: int) -> tuple[int, Rows]:
        """The rows from `low` to `high`, in order, and how many places were looked at."""
        begin = max(low - self._low, 0)
        end = max(min(high - self._low + 1, self._parts.shape[1]), begin)
        weights = self._weights(slice(begin, end))
        there = _any(weights.T).nonzero()[0]
        return end - begin, self._rows(there + (begin + self._low), weights[there])

    def all(self) -> Rows:
        """All rows, in order."""
        return self.between(self._low, self._low + self._parts.shape[1])[1]

    def _weights(self, places: Index | slice) -> Int64s:
        """A copy, as rows are not to change after they were given."""
        if not self._flat:
            return np.array(self._parts[:, places].T, order="C")
        found = self._parts[0, places]
        return found.copy() if isinstance(places, slice) else found

    def _rows(self, keys: Int64s, weights: Int64s) -> Rows:
        dtype = self._layout.key.kinds[0].dtype
        assert dtype is not None
        column = keys.astype(dtype, copy=False)
        return Rows(self._layout, keys, None, None, None, weights, [column])


def _any(parts: Int64s) -> Mask:
    """Where any part of a weight is not zero."""
    if parts.ndim == 1 or len(parts) == 1:
        return np.asarray(parts.reshape(-1) != 0)
    return np.asarray(parts.any(axis=0))


def _add(parts: Int64s, index: Index, weights: Int64s, distinct: bool) -> None:
    for part, weight in zip(parts, weights[None] if weights.ndim == 1 else weights.T, strict=True):
        if distinct:
            part[index] += weight
        else:
            np.add.at(part, index, weight)
