"""Hashes and equality of lists, structs and maps, by those of what they are made of.

`of` hashes, or compares pairwise, the elements; both see whole columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers, taken
from tidewheel.engine.state import hashing
from tidewheel.engine.state.hashing import U64

_Int64s = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def hash_nested(array: pa.Array, of: Callable[[pa.Array], U64]) -> U64:
    """One hash per value, anything where NULL; the order of a list counts."""
    if pa.types.is_struct(array.type):
        h = np.full(len(array), hashing.SEED)
        for i in range(array.type.num_fields):
            h = hashing.combine(h, of(array.field(i)))
        return h
    values, starts, lengths = _lists(array)
    place = np.arange(len(values)) - starts.repeat(lengths)
    mixed = hashing.mix(hashing.combine(of(values), place.view(np.uint64)))
    sums = np.zeros(len(values) + 1, np.uint64)
    mixed.cumsum(out=sums[1:])
    return hashing.combine(
        hashing.mix(lengths.view(np.uint64)), sums[starts + lengths] - sums[starts]
    )


def equal_nested(a: pa.Array, b: pa.Array, of: Callable[[pa.Array, pa.Array], Any]) -> _Mask:
    """Pairwise equality of two columns of one type and length, anything where one is NULL."""
    if pa.types.is_struct(a.type):
        every: _Mask = np.ones(len(a), bool)
        for i in range(a.type.num_fields):
            every &= of(a.field(i), b.field(i))
        return every
    x, x_starts, lengths = _lists(a)
    y, y_starts, y_lengths = _lists(b)
    same: _Mask = np.asarray(lengths == y_lengths)
    rows = (same & (lengths > 0)).nonzero()[0]
    if not len(rows):
        return same
    counts = lengths[rows]
    firsts = counts.cumsum() - counts
    place = np.arange(int(counts.sum())) - firsts.repeat(counts)
    equal = of(
        taken(x, array_of(place + x_starts[rows].repeat(counts))),
        taken(y, array_of(place + y_starts[rows].repeat(counts))),
    )
    same[rows] = np.logical_and.reduceat(equal, firsts)
    return same


def _lists(array: pa.Array) -> tuple[pa.Array, _Int64s, _Int64s]:
    """The elements of all lists one after the other; where each list begins; their lengths.

    Of a list of fixed size that is NULL, elements are there; of others some may be.
    """
    n = len(array)
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        values = array.values.slice(array.offset * size, n * size)
        return values, np.arange(n) * size, np.full(n, size, np.int64)
    offsets = numbers(array.offsets).astype(np.int64)
    first = int(offsets[0])
    values = array.values.slice(first, int(offsets[-1]) - first)
    return values, offsets[:-1] - first, np.diff(offsets)
