"""Rows of an arrangement with their keys, loop counters and weights; immutable once made.

A *run* is `Rows` sorted by key, in which the same row is not both added and taken away.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, Index, Mask
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema, groups
from tidewheel.engine.state.order import argsort, ascends, begins, order_by, refine

_SOME: Final = 256
_LARGE: Final = 4096
_WORTH: Final = 32  # probes times this are worth a directory
_CROWD: Final = 256  # so many rows of one key may be the same and not consolidated

Rank = Callable[[Sequence[Col], int], Int64s]
"""Gives each row a 64-bit place within its key: runs are sorted by it (see `ordered.py`)."""


class Layout:
    """What all runs of an arrangement share: columns, key, number of counters, rank.

    `rest` are the columns of fixed width that are not in the key, `texts` the others that are not:
    to hash them takes long, and few rows share all the rest.
    """

    __slots__ = ("depth", "key", "rank", "rest", "schema", "texts")

    def __init__(
        self, schema: Schema, key: Sequence[int], depth: int = 0, rank: Rank | None = None
    ) -> None:
        self.schema = schema
        self.key = KeySpec(schema, key)
        others = [i for i in range(len(schema)) if i not in self.key.indices]
        fixed = [i for i in others if schema.kinds[i].dtype is not None]
        texts = [i for i in others if schema.kinds[i].dtype is None]
        self.rest = KeySpec(schema, fixed) if fixed else None
        self.texts = KeySpec(schema, texts) if texts else None
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

    __slots__ = ("_directory", "_rest", "cols", "keys", "layout", "rank", "times", "weights")

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

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def rest(self) -> Int64s | None:
        """A key of the layout's `rest`; None where it has none."""
        spec = self.layout.rest
        if self._rest is None and spec is not None:
            self._rest = spec.keys(self.cols, len(self.keys))
        return self._rest

    def find(self, probes: Int64s) -> tuple[Index, Index]:
        """In sorted rows, where the rows of each key begin, and how many there are.

        For many probes of keys that lie close together a directory of all keys is made once: that
        costs about as much as the probes themselves.
        """
        keys, directory = self.keys, self._directory
        if directory is None and len(probes) * _WORTH >= len(keys) >= _LARGE:
            first = int(keys[0])
            span = int(keys[-1]) - first + 1
            if span <= 4 * len(keys):
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
        arrays = (self.keys, self._rest, self.rank, self.times, self.weights, index)
        return sum(a.nbytes for a in arrays if a is not None) + sum(
            columns_.nbytes(c) for c in self.cols
        )

    def take(self, index: Index) -> Rows:
        """Rows by position."""
        return Rows(
            self.layout,
            self.keys[index],
            None if self._rest is None else self._rest[index],
            None if self.rank is None else self.rank[index],
            None if self.times is None else self.times[index],
            _picked(self.weights, index),
            [columns_.take(c, index) for c in self.cols],
        )

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
            [c[begin:end] for c in self.cols],
        )

    def delta(self) -> Delta:
        """As a delta, without the counters."""
        return Delta(self.layout.schema, self.cols, self.weights)

    def untimed(self) -> Rows:
        """The same rows without counters: what they add up to once all of them count."""
        return Rows(self.layout, self.keys, self._rest, self.rank, None, self.weights, self.cols)


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


def sort_rows(rows: Rows) -> Rows:
    """Sort by key (then rank) and consolidate: equal rows of equal counters become one."""
    n = len(rows)
    if n == 0:
        return rows
    if n == 1:
        return rows if rows.weights.any() else rows.take(np.empty(0, np.int64))
    if n >= _LARGE:
        if ascends(rows.keys):
            keep = _nonzero(rows.weights)
            return rows if keep.all() else rows.where(keep)
        sorted_ = _sorted_integers(rows)
        if sorted_ is not None:
            return sorted_
    return sort_by(rows)


def sort_by(rows: Rows, begun: tuple[Index, Mask] | None = None) -> Rows:
    """`sort_rows` for keys that need not be those of the columns.

    `begun`: an order by key and rank, if it is known, and which rows differ in them.
    """
    n, layout = len(rows), rows.layout
    order, first = _order(rows, begun)
    cols = None if layout.exact(rows.cols) else rows.cols
    starts, order = groups(first, order, cols, layout.schema.kinds)
    if len(starts) == n:
        keep = _nonzero(_picked(rows.weights, order))
        return rows.take(order if keep.all() else order[keep])
    sums = np.add.reduceat(_picked(rows.weights, order), starts, axis=0)
    keep = _nonzero(sums)
    out = rows.take(order[starts[keep]])
    out.weights = sums[keep]
    return out


def sort_run(rows: Rows) -> Rows:
    """Rows as a run: sorted, and added up where a key may find many rows that are the same.

    Most keys have few rows, all different. To find out that they are takes much longer than to
    sort them.
    """
    weights = rows.weights
    if len(rows) < _SOME or rows.layout.whole or rows.times is not None or weights.ndim != 1:
        return sort_rows(rows)
    if weights.min() <= 0:
        return sort_rows(rows) if rows.rank is not None else _sorted_by_key(rows)
    if len(rows) < _LARGE:
        return sort_rows(rows)
    sorted_ = _sorted_integers(rows)
    if sorted_ is not None:
        return sorted_
    keys = rows.keys
    if rows.rank is None and (keys[1:] >= keys[:-1]).all():
        order, first = None, begins(keys)
    else:
        order, first = order_by([keys] if rows.rank is None else [keys, rows.rank])
    starts = first.nonzero()[0]
    if (np.diff(starts, append=len(keys)) > _CROWD).any():
        return sort_by(rows, None if order is None else (order, first))
    middle = slice((len(rows) - _LARGE) // 2, (len(rows) + _LARGE) // 2)
    some = rows.slice(middle.start, middle.stop) if order is None else rows.take(order[middle])
    if len(sort_rows(some)) < _LARGE * 7 // 8:
        return sort_by(rows, None if order is None else (order, first))
    return rows if order is None else rows.take(order)


def _sorted_by_key(rows: Rows) -> Rows:
    """Sorted; rows are compared where some of a key come and others go, for they may cancel."""
    if not rows.weights.all():
        rows = rows.where(rows.weights != 0)
    order = argsort(rows.keys)
    keys, weights = rows.keys[order], _picked(rows.weights, order)
    if not len(keys) or _crowded(keys):
        return sort_rows(rows)
    first = begins(keys)
    minus = weights < 0
    differs = minus[1:] != minus[:-1]
    differs &= ~first[1:]
    if not differs.any():
        return rows.take(order)
    group = first.cumsum()
    mixed = np.zeros(int(group[-1]) + 1, bool)
    mixed[group[1:][differs]] = True
    touched = mixed[group]
    if np.count_nonzero(touched) > len(rows) // 2:
        return sort_rows(rows)
    both = concat_rows([rows.take(order[~touched]), sort_rows(rows.take(order[touched]))])
    return both.take(argsort(both.keys))


def _crowded(ascending: Int64s) -> bool:
    return bool((ascending[_CROWD:] == ascending[:-_CROWD]).any())


def _picked(weights: Int64s, index: Index) -> Int64s:
    # with two axes `take` is three times as fast, with one half as fast
    return weights[index] if weights.ndim == 1 else weights.take(index, axis=0)


def _nonzero(weights: Int64s) -> Mask:
    return np.asarray(weights != 0 if weights.ndim == 1 else weights.any(axis=1))


def _order(rows: Rows, begun: tuple[Index, Mask] | None = None) -> tuple[Index, Mask]:
    """An order by key, rank and all else, and which rows differ in it from the one before."""
    keys = [rows.keys] if rows.rank is None else [rows.keys, rows.rank]
    others = [] if rows.rest is None else [rows.rest]
    if rows.times is not None:
        others += [rows.times[:, i] for i in range(rows.times.shape[1])]
    if begun is None:
        order, first = order_by([*keys, *others])
    else:
        order, first = begun
        for key in others:
            refine(order, first, key.__getitem__)
    texts = rows.layout.texts
    if texts is not None:

        def hashes(index: Index) -> Int64s:
            cols = list(rows.cols)
            for i in texts.indices:
                cols[i] = columns_.take(cols[i], index)
            return texts.keys(cols, len(index))

        refine(order, first, hashes)
    return order, first


def _sorted_integers(rows: Rows) -> Rows | None:
    """Sort rows that are a few integers and have one weight by value: no index, no gathering.

    This is what a table of edges is filled with; it takes a quarter of the time. None for others.
    """
    layout = rows.layout
    if rows.times is not None or rows.weights.ndim != 1 or rows.rank is not None:
        return None
    if len(layout.schema) == 1 and layout.whole:
        return _sorted_values(rows)
    first = layout.key.indices[:1]
    if not layout.key.integer or layout.rest is None or layout.texts is not None:
        return None
    if not all(k.integer for k in layout.rest.kinds):
        return None
    cols = [rows.cols[i] for i in (*first, *layout.rest.indices)]
    weight = int(rows.weights[0])
    plain = all(isinstance(c, np.ndarray) for c in cols)
    if not plain or weight == 0 or (rows.weights != weight).any():
        return None
    words = [c.view(np.int64) if c.dtype == np.uint64 else c for c in cols]
    lows = [int(w.min()) for w in words]
    bits = [(int(w.max()) - low).bit_length() for w, low in zip(words, lows, strict=True)]
    if sum(bits) > 62:
        return None
    # What overflows on the way, as the lows are taken off at the end, comes back.
    packed, low = words[0].astype(np.int64), lows[0]
    for values, least, n in zip(words[1:], lows[1:], bits[1:], strict=True):
        packed <<= n
        packed += values
        low = (low << n) + least
    packed -= np.int64((low + (1 << 63)) % (1 << 64) - (1 << 63))
    packed.sort()
    packed, weights = _counted(packed, weight)
    out: list[Col] = [None] * len(layout.schema)
    for i, values, least, n in reversed(
        list(zip(layout.rest.indices, cols[1:], lows[1:], bits[1:], strict=True))
    ):
        part = packed & ((1 << n) - 1)
        part += least
        out[i] = part.astype(values.dtype, copy=False)
        packed >>= n
    packed += lows[0]
    out[first[0]] = packed.astype(cols[0].dtype, copy=False)
    return Rows(layout, packed, None, None, None, weights, out)


def merge_runs(runs: Sequence[Rows]) -> Rows:
    """Runs as one. Those of one integer column meet by search: only the smaller are moved."""
    layout = runs[0].layout
    plain = layout.whole and layout.rank is None and layout.depth == 0 and layout.key.integer
    if plain and all(layout.key.exact(run.cols) for run in runs):
        return functools.reduce(_merged_values, reversed(runs))
    return sort_run(concat_rows(runs))


def _merged_values(smaller: Rows, larger: Rows) -> Rows:
    if not len(larger):
        return smaller
    layout = larger.layout
    at = larger.keys.searchsorted(smaller.keys)
    there = larger.keys[np.minimum(at, len(larger) - 1)] == smaller.keys
    weights = larger.weights.copy()
    weights[at[there]] += smaller.weights[there]
    keys = np.insert(larger.keys, at[~there], smaller.keys[~there])
    weights = np.insert(weights, at[~there], smaller.weights[~there], axis=0)
    keep = _nonzero(weights)
    if not keep.all():
        keys, weights = keys[keep], weights[keep]
    dtype = layout.key.kinds[0].dtype
    assert dtype is not None
    return Rows(layout, keys, None, None, None, weights, [keys.astype(dtype, copy=False)])


def _sorted_values(rows: Rows) -> Rows | None:
    spec = rows.layout.key
    weight = int(rows.weights[0])
    if not spec.exact(rows.cols) or weight == 0 or (rows.weights != weight).any():
        return None
    keys, weights = _counted(np.sort(rows.keys), weight)
    dtype = spec.kinds[0].dtype
    assert dtype is not None
    return Rows(rows.layout, keys, None, None, None, weights, [keys.astype(dtype, copy=False)])


def _counted(ascending: Int64s, weight: int) -> tuple[Int64s, Int64s]:
    """Each value once, and its weight if every occurrence has `weight`."""
    first = begins(ascending)
    if first.all():
        return ascending, np.full(len(ascending), weight, np.int64)
    starts = first.nonzero()[0]
    return ascending[starts], np.diff(starts, append=len(ascending)) * weight
