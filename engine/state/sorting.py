"""Rows into runs: sorted by key, equal rows as one; and runs into one.

Rows that are a few integers are sorted as words, without an index.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np

from tidewheel.engine.interruption import MANY, stop_if_asked
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state import radix
from tidewheel.engine.state.added_up import added_up
from tidewheel.engine.state.columns import Col, Index, Mask
from tidewheel.engine.state.delta import Int64s, groups
from tidewheel.engine.state.order import argsort, ascends, begins, order_by, refine
from tidewheel.engine.state.run import Rows, concat_rows, picked

_SOME: Final = 256
_LARGE: Final = 4096
_CLOSE: Final = 4  # places for each of the integers that are counted
_SELDOM: Final = 16  # so many rows for each one that is there again: those few are added up alone
_CROWD: Final = 256  # so many rows of one key may be the same and not consolidated
_PICKED: Final = 1024
_MANY: Final = 1 << 16  # rows that are looked at where few keys have most of them


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


def sort_by(rows: Rows) -> Rows:
    """`sort_rows` for keys that need not be those of the columns."""
    n, layout = len(rows), rows.layout
    if n >= MANY:
        stop_if_asked()
    order, first = _order(rows)
    cols = None if layout.exact(rows.cols) else rows.cols
    starts, order = groups(first, order, cols, layout.schema.kinds)
    if len(starts) == n:
        keep = _nonzero(rows.weights)
        return rows.take(order if keep.all() else order[keep[order]])
    sums = np.add.reduceat(picked(rows.weights, order), starts, axis=0)
    keep = _nonzero(sums)
    out = rows.take(order[starts[keep]])
    out.weights = sums[keep]
    return out


def alike(rows: Rows) -> Rows:
    """Sorted rows whose key is all their columns, with those that are equal as one.

    It looks like the first that is there. That depends on nothing but the rows: who shows it makes
    it of them again to take it back. (Their weights have several parts.)
    """
    if not rows.layout.loose or len(rows) <= 1:
        return rows
    begin = begins(rows.keys)
    if begin.all():
        return rows
    index = np.arange(len(rows))
    there = np.asarray((rows.weights > 0).any(axis=1))
    if not there.all():  # what is not there does not show
        index = np.lexsort((~there, begin.cumsum()))
    starts, order = groups(begin, index, rows.cols, rows.layout.schema.kinds, exactly=False)
    out = rows.take(order[starts])
    out.weights = np.add.reduceat(rows.weights[order], starts, axis=0)
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
    if _repeats(rows):
        once = added_up(rows)
        return sort_by(rows) if once is None else sort_rows(once)
    keys = rows.keys
    if rows.rank is None:
        return rows if (keys[1:] >= keys[:-1]).all() else rows.ordered(argsort(keys))
    order, _ = order_by([keys, rows.rank])
    return rows.ordered(order)


def _repeats(rows: Rows) -> bool:
    """Are many rows the same? Some whose keys are next to each other tell."""
    keys = rows.keys
    some = np.sort(keys[:: max(1, len(keys) // _PICKED)])
    crowded = np.count_nonzero(some[1:] == some[:-1]) * 2 > len(some)  # few keys, of many rows
    wanted = min(len(keys), _MANY if crowded else 2 * _LARGE)
    around = max(1, wanted * len(some) // (2 * len(keys)))
    middle = len(some) // 2
    low, high = some[max(0, middle - around)], some[min(len(some) - 1, middle + around)]
    near = ((keys >= low) & (keys <= high)).nonzero()[0][:wanted]
    return len(sort_rows(rows.take(near))) < len(near) * 7 // 8


def _sorted_by_key(rows: Rows) -> Rows:
    """Sorted; rows are compared where some of a key come and others go, for they may cancel."""
    if not rows.weights.all():
        rows = rows.where(rows.weights != 0)
    order = argsort(rows.keys)
    keys, weights = rows.keys[order], picked(rows.weights, order)
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


def _nonzero(weights: Int64s) -> Mask:
    if weights.ndim == 1:
        return np.asarray(weights != 0)
    first = weights[:, 0] != 0  # mostly the rows of a group
    return first if first.all() else np.asarray(weights.any(axis=1))


def _order(rows: Rows) -> tuple[Index, Mask]:
    """An order by key, rank and all else, and which rows differ in it from the one before."""
    keys = [rows.keys] if rows.rank is None else [rows.keys, rows.rank]
    others = [] if rows.rest is None else [rows.rest]
    if rows.rank is not None and rows.times is None:
        order, first = order_by(keys)  # mostly that tells them from each other
        if first.all():
            return order, first
        for key in others:
            refine(order, first, key.__getitem__)
    else:
        if rows.times is not None:
            others += [rows.times[:, i] for i in range(rows.times.shape[1])]
        order, first = order_by([*keys, *others])
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
    packed = radix.ordered(packed, sum(bits))
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
    counted = tallied(rows.keys)
    if counted is not None:
        keys, weights = counted[0], counted[1] * weight
    else:
        keys, weights = _counted(_ascending(rows.keys), weight)
    dtype = spec.kinds[0].dtype
    assert dtype is not None
    return Rows(rows.layout, keys, None, None, None, weights, [keys.astype(dtype, copy=False)])


def _ascending(values: Int64s) -> Int64s:
    low = int(values.min())
    bits = (int(values.max()) - low).bit_length()
    if bits > radix.BITS:
        return np.sort(values)
    found = radix.ordered(values - low, bits)
    found += low
    return found


def tallied(values: Int64s) -> tuple[Int64s, Int64s] | None:
    """Each of some integers once, in order, and how often it is there.

    By counting, in a tenth of the time that sorting takes. None where they do not lie close
    together.
    """
    low = int(values.min()) if len(values) else 0
    span = int(values.max()) - low + 1 if len(values) else 0
    if span > _CLOSE * len(values):
        return None
    counts = np.bincount(values - low, minlength=span)
    there = counts.nonzero()[0]
    return there + low, counts[there].astype(np.int64, copy=False)


def _counted(ascending: Int64s, weight: int) -> tuple[Int64s, Int64s]:
    """Each value once, and its weight if every occurrence has `weight`."""
    first = begins(ascending)
    different = np.count_nonzero(first)
    weights = np.full(different, weight, np.int64)
    if different == len(ascending):
        return ascending, weights
    if (len(ascending) - different) * _SELDOM > len(ascending):
        starts = first.nonzero()[0]
        return ascending[starts], np.diff(starts, append=len(ascending)) * weight
    values, again = ascending[first], (~first).nonzero()[0]
    # before the i-th of those that are there again, i others were left out
    np.add.at(weights, again - np.arange(1, len(again) + 1), weight)
    return values, weights
