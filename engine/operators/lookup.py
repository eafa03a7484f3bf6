"""A relation that a loop joins, sorted by its key once: a lookup is an index into offsets.

Where the keys are sparse it is a binary search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidewheel.engine.operators.step_program import NULL, Ints, Unfit
from tidewheel.engine.state import radix
from tidewheel.engine.state.order import ascends, begins

MOST = 1 << 27
"""Rows that one step may make: their arrays take some gigabytes."""
SPARE = 1 << 16
"""A span of keys that always gets offsets, however few the keys."""
FIRST = np.arange(SPARE, dtype=np.int64)


class Relation:
    """A relation that does not change, by its first column. `lookup` joins."""

    def __init__(self, columns: Sequence[Ints]) -> None:
        key = columns[0]
        high = int(key.max()) if len(key) else -1
        if high == NULL:
            kept = key != NULL
            columns = [c[kept] for c in columns]
            key = columns[0]
            high = int(key.max()) if len(key) else -1
        self.low = int(key.min()) if len(key) else 0
        self.span = high - self.low + 1
        self.columns = _by_key(columns, self.low, high)
        self.keys: Ints | None = None
        self.covers = False
        """Has every value that is looked up a place in `starts`?"""
        if self.span <= 4 * len(key) + SPARE:
            counts = np.bincount(key - self.low, minlength=max(self.span, 1))
            self.starts = np.zeros(len(counts) + 1, dtype=np.int64)
            np.cumsum(counts, out=self.starts[1:])
            self.counts: Ints = counts.astype(np.int64, copy=False)
        else:
            self.keys, self.counts = np.unique(key, return_counts=True)
            self.starts = np.zeros(len(self.keys) + 1, dtype=np.int64)
            np.cumsum(self.counts, out=self.starts[1:])

    def cover(self, low: int, high: int) -> None:
        """Make a place for each of low … high, the values that are looked up, if these are few."""
        below, above = max(self.low - low, 0), max(high - self.low - self.span + 1, 0)
        if self.keys is not None or below + self.span + above > 4 * len(self) + SPARE:
            return
        if below or above:
            self.low -= below
            self.span += below + above
            self.counts = np.pad(self.counts, (below, above))
            self.starts = np.pad(self.starts, (below, above), "edge")
        self.covers = True

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def degree(self) -> float:
        """How many rows a key has, on average; 1 if there are none."""
        return max(1.0, len(self) / max(1, int(np.count_nonzero(self.counts))))

    def told_by(self, columns: Iterable[int]) -> bool:
        """Is one of the columns beside the key different in each row?"""
        return any(_differ(self.columns[i]) for i in columns)

    def lookup(self, values: Ints, positions: bool = True) -> tuple[Ints | None, list[Ints]]:
        """Per match: the position in `values` (None if not asked for), and the other columns.

        Raises Unfit for more than `MOST` matches.
        """
        inside = None
        if self.covers:
            at = values - self.low if self.low else values
        elif self.keys is None:
            at = values - self.low
            inside = (at >= 0) & (at < self.span)
        else:
            at = np.searchsorted(self.keys, values)
            inside = at < len(self.keys)
            at[~inside] = 0
            inside &= self.keys[at] == values if len(self.keys) else False
        kept = inside.nonzero()[0] if inside is not None and not inside.all() else None
        if kept is not None:
            at = at[kept]
        first, count = self.starts[at], self.counts[at]
        where: Ints | None = None
        if len(count) == 1:
            total = int(count[0])
            rows = slice(int(first[0]), int(first[0]) + total)
            found = [c[rows] for c in self.columns]
            if positions:
                where = np.zeros(total, dtype=np.int64)
        else:
            ends = count.cumsum()
            total = int(ends[-1]) if len(ends) else 0
            if total > MOST:
                raise Unfit("a step makes too many rows")
            first -= ends
            first += count
            index = first.repeat(count)
            index += FIRST[:total] if total <= SPARE else np.arange(total, dtype=np.int64)
            found = [c[index] for c in self.columns]
            if positions:
                where = np.arange(len(count), dtype=np.int64).repeat(count)
        if kept is not None and where is not None:
            where = kept[where]
        return where, found


def _differ(values: Ints) -> bool:
    """Is each value another one?"""
    some = np.sort(values[:_SOME])
    if not ascends(some):
        return False
    if len(some) == len(values):
        return True
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span < len(values):
        return False
    if span <= 4 * len(values) + SPARE:
        there = np.zeros(span, dtype=bool)
        there[values - low] = True
        return int(np.count_nonzero(there)) == len(values)
    return ascends(np.sort(values))


_SOME = 1 << 12  # values of which two are mostly equal if any are


def _by_key(columns: Sequence[Ints], low: int, high: int) -> list[Ints]:
    """The columns behind the first one, in the order of the first, which is in low … high."""
    key, rest = columns[0], columns[1:]
    if len(rest) == 1 and len(key):
        # Packed into one word with its key a column is in order when the words are.
        least = int(rest[0].min())
        bits = (int(rest[0].max()) - least).bit_length()
        every = (high - low).bit_length() + bits
        if every < 63:
            packed = key - low
            packed <<= bits
            packed |= rest[0] - least
            packed = radix.ordered(packed, every)
            packed &= (1 << bits) - 1
            packed += least
            return [packed]
    order = order_of(key, low, high)
    return [c[order] for c in rest]


def order_of(key: Ints, low: int, high: int) -> Ints:
    """The stable order of `key`; packed with the positions into one word where they fit."""
    bits = max(len(key) - 1, 1).bit_length()
    spread = (high - low).bit_length()
    if len(key) >= radix.FEWEST and spread <= radix.BITS:
        return radix.order(key - low, spread)
    if spread + bits < 63:
        packed = ((key - low) << bits) | np.arange(len(key), dtype=np.int64)
        packed.sort()
        packed &= (1 << bits) - 1
        return packed
    return np.argsort(key, kind="stable")


def distinct(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct values of `keys`, which are not negative, in order, and where each stands."""
    order = order_of(keys, 0, int(keys.max()))
    ordered = keys[order]
    first = begins(ordered)
    return ordered[first], order[first]
