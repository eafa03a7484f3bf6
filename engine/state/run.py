"""Rows of an arrangement with their keys, loop counters and weights; immutable once made.

A *run* is `Rows` sorted by key, in which the same row is not both added and taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, Index, Mask
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema
from tidewheel.engine.state.order import begins
from tidewheel.engine.state.table_columns import nbytes, ordered, sliced, taken

_LARGE: Final = 4096
_WORTH: Final = 32  # probes times this are worth a directory

Rank = Callable[[Sequence[Col], int], Int64s]
"""Gives each row a 64-bit place within its key: runs are sorted by it (see `ordered.py`)."""


class Layout:
    """What all runs of an arrangement share: columns, key, number of counters, rank.

    `rest` are the columns of fixed width that the key does not tell, `texts` the others: to hash
    them takes long, and few rows share all the rest. A key finds rows by equality, unless it is to
    tell them apart `exactly`; what is equal in it and does not look the same is told by the rest.
    """

    __slots__ = ("depth", "key", "loose", "rank", "rest", "schema", "texts")

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        depth: int = 0,
        rank: Rank | None = None,
        exactly: bool = False,
    ) -> None:
        self.schema = schema
        self.key = KeySpec(schema, key, exactly)
        kinds = schema.kinds
        self.loose = not exactly and any(kind.loose for kind in self.key.kinds)
        told = {i for i in self.key.indices if exactly or not kinds[i].loose}
        others = [i for i in range(len(schema)) if i not in told]
        fixed = [i for i in others if kinds[i].dtype is not None]
        texts = [i for i in others if kinds[i].dtype is None]
        self.rest = KeySpec(schema, fixed, exactly=True) if fixed else None
        self.texts = KeySpec(schema, texts, exactly=True) if texts else None
        self.depth = depth
        self.rank = rank

    @property
    def whole(self) -> bool:
        """Is the whole row the key?"""
        return self.rest is None and self.texts is None

    def exact(self, cols: Sequence[Col]) -> bool:
        """True if rows of these columns are equal where their key and rest are."""
        if self.texts is not None or not self.key.exact(cols):
            return False
        return self.rest is None or self.rest.exact(cols)

    def rows(self, delta: Delta, times: Int64s | None = None, keys: Int64s | None = None) -> Rows:
        """The rows of a delta (or of cols with weights of several parts), not yet sorted."""
        n = len(delta)
        return Rows(
            self,
            self.key.keys(delta.cols, n) if keys is None else keys,
            None,
            self.rank(delta.cols, n) if self.rank is not None else None,
            times,
            delta.weights,
            delta.cols,
        )


class Rows:
    """Rows with keys. `weights` has shape (n,) or, for running sums, (n, parts).

    `times` has shape (n, depth), None outside loops. `rest` is the layout's rest as one number; it
    is made when it is asked for, as most rows are never compared with others of their key.
    """

    __slots__ = (
        "_directory", "_rest", "_sums", "cols", "keys", "layout", "rank", "times", "weights",
    )  # fmt: skip

    def __init__(
        self,
        layout: Layout,
        keys: Int64s,
        rest: Int64s | None,
        rank: Int64s | None,
        times: Int64s | None,
        weights: Int64s,
        cols: Sequence[Col],
    ) -> None:
        self.layout = layout
        self.keys = keys
        self._rest = rest
        self.rank = rank
        self.times = times
        self.weights = weights
        self.cols = cols
        self._directory: tuple[int, Int64s] | None = None
        self._sums: Int64s | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def rest(self) -> Int64s | None:
        """A key of the layout's `rest`; None where it has none."""
        spec = self.layout.rest
        if self._rest is None and spec is not None:
            self._rest = spec.keys(self.cols, len(self.keys))
        return self._rest

    @property
    def sums(self) -> Int64s:
        """What the rows before each place weigh, (n + 1,); made when first asked for."""
        if self._sums is None:
            self._sums = np.zeros(len(self.keys) + 1, np.int64)
            self.weights.cumsum(out=self._sums[1:])
        return self._sums

    def find(self, probes: Int64s, ordered_keys: Int64s | None = None) -> tuple[Index, Index]:
        """In sorted rows, where the rows of each key begin, and how many there are.

        Of rows that are not sorted the keys are given in their order. For many probes of keys that
        lie close together a directory of all keys is made once: that costs about as much as the
        probes themselves.
        """
        if ordered_keys is not None:
            return search(ordered_keys, probes)
        keys, directory = self.keys, self._directory
        if directory is None and len(probes) * _WORTH >= len(keys) >= _LARGE:
            first = int(keys[0])
            span = int(keys[-1]) - first + 1
            if span <= 4 * max(len(keys), len(probes)):
                ends: Int64s = np.bincount(keys - first, minlength=span).cumsum()
                starts = np.empty(span + 2, np.int64)  # the last but one: keys that are not there
                starts[0], starts[1:-1], starts[-1] = 0, ends, len(keys)
                directory = self._directory = first, starts
        if directory is None:
            return search(keys, probes)
        first, starts = directory
        place = probes - first
        place[place.view(np.uint64) >= np.uint64(len(starts) - 2)] = len(starts) - 2
        low: Index = starts[place]
        place += 1
        counts: Index = starts[place] - low
        return low, counts

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = None if self._directory is None else self._directory[1]
        arrays = (self.keys, self._rest, self._sums, self.rank, self.times, self.weights, index)
        return sum(a.nbytes for a in arrays if a is not None) + nbytes(self.cols)

    def take(self, index: Index, cols: Sequence[Col] | None = None) -> Rows:
        """Rows by position. `cols`: their columns, if they are at hand."""
        return Rows(
            self.layout,
            self.keys[index],
            None if self._rest is None else self._rest[index],
            None if self.rank is None else self.rank[index],
            None if self.times is None else self.times[index],
            picked(self.weights, index),
            taken(self.cols, index) if cols is None else cols,
        )

    def ordered(self, index: Index) -> Rows:
        """Rows by position, which are kept like that: their columns may follow later."""
        return self.take(index, ordered(self.cols, index))

    def where(self, mask: Mask) -> Rows:
        """Rows by mask."""
        return self if mask.all() else self.take(mask.nonzero()[0])

    def slice(self, begin: int, end: int) -> Rows:
        """Rows `begin` to `end`, without copying."""
        return Rows(
            self.layout,
            self.keys[begin:end],
            None if self._rest is None else self._rest[begin:end],
            None if self.rank is None else self.rank[begin:end],
            None if self.times is None else self.times[begin:end],
            self.weights[begin:end],
            sliced(self.cols, begin, end),
        )

    def delta(self) -> Delta:
        """As a delta, without the counters."""
        return Delta(self.layout.schema, self.cols, self.weights)

    def untimed(self) -> Rows:
        """The same rows without counters: what they add up to once all of them count."""
        return Rows(self.layout, self.keys, self._rest, self.rank, None, self.weights, self.cols)


def stretches(low: Index, counts: Index, total: int) -> tuple[Index, Index]:
    """Of stretches of rows, `total` in all: each row's stretch, and its place."""
    first = np.asarray(low - (counts.cumsum() - counts), np.int64)
    return np.arange(len(counts)).repeat(counts), first.repeat(counts) + np.arange(total)


def search(keys: Int64s, probes: Int64s) -> tuple[Index, Index]:
    """In sorted keys, how often each probe is there, and if it is, where it begins."""
    if len(probes) > max(_LARGE, len(keys)) and (probes[1:] > probes[:-1]).all():
        return _search_back(keys, probes)
    begin = keys.searchsorted(probes)
    there = (keys.take(begin, mode="clip") == probes).nonzero()[0]
    counts = np.zeros(len(probes), np.int64)
    counts[there] = keys.searchsorted(probes[there], side="right") - begin[there]
    return begin, counts


def _search_back(keys: Int64s, probes: Int64s) -> tuple[Index, Index]:
    """`search` for more probes, sorted and each of them once: the keys are sought among them."""
    first = begins(keys).nonzero()[0]
    distinct = keys[first]
    at = probes.searchsorted(distinct)
    there = (probes.take(at, mode="clip") == distinct).nonzero()[0]
    at = at[there]
    begin, counts = np.zeros(len(probes), np.int64), np.zeros(len(probes), np.int64)
    begin[at] = first[there]
    counts[at] = np.diff(first, append=len(keys))[there]
    return begin, counts


def narrowed(
    ranks: Int64s, begin: Index, counts: Index, within: tuple[Int64s, Int64s]
) -> tuple[Index, Index]:
    """Of the stretches of sorted rows that begin somewhere, the parts of ranks within limits."""
    end = begin + counts
    if len(begin) and (begin == begin[0]).all() and (end == end[0]).all():
        part = ranks[begin[0] : end[0]]
        first = part.searchsorted(within[0]) + begin
        last = part.searchsorted(within[1], "right") + begin
    else:
        first = _bisected(ranks, begin, end, within[0], after=False)
        last = _bisected(ranks, begin, end, within[1], after=True)
    return first, np.maximum(last - first, 0)


def _bisected(ranks: Int64s, begin: Index, end: Index, values: Int64s, after: bool) -> Index:
    """In each stretch, the place before, or `after`, what equals a value; all at the same time."""
    low, high = begin.copy(), end.copy()
    while len(open_ := (low < high).nonzero()[0]):
        middle = (low[open_] + high[open_]) >> 1
        there = ranks[middle]
        right = there <= values[open_] if after else there < values[open_]
        low[open_[right]] = middle[right] + 1
        high[open_[~right]] = middle[~right]
    return low


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other; at least one part."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    rests = [p._rest for p in parts if p._rest is not None]
    return Rows(
        first.layout,
        np.concatenate([p.keys for p in parts]),
        np.concatenate(rests) if len(rests) == len(parts) else None,
        None if first.rank is None else np.concatenate([p.rank for p in parts]),
        None if first.times is None else np.concatenate([p.times for p in parts]),
        np.concatenate([p.weights for p in parts]),
        [
            columns_.concat([p.cols[i] for p in parts], kind)
            for i, kind in enumerate(first.layout.schema.kinds)
        ],
    )


def picked(weights: Int64s, index: Index) -> Int64s:
    """The weights at some positions."""
    # with two axes `take` is three times as fast, with one half as fast
    return weights[index] if weights.ndim == 1 else weights.take(index, axis=0)
