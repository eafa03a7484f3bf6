"""Orders of 64-bit integers, by one or several sort keys.

As many leading bits of the sort keys as can be counted (`engine.state.radix`) tell most rows from
each other; the few that agree in them are told apart by what was left out. Where they would not be
few, more bits are put in front of a row's position and sorted with it: NumPy sorts words several
times as fast as it sorts positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tidewheel.engine.state import radix
from tidewheel.engine.state.columns import Index, Mask

Int64s = npt.NDArray[np.int64]

_LARGE: Final = 8192  # fewer are sorted by position as fast
_SOME: Final = 256  # tell of most that are in no order
_NEARLY: Final = 16  # so few steps down: sorted pieces that a stable sort merges
_CROWDED: Final = 8  # one of so many rows may agree with another in what was counted


def argsort(keys: Int64s) -> Index:
    """Positions in ascending order of `keys`; equal keys in any order."""
    if len(keys) < _LARGE:
        return keys.argsort()
    if _in_pieces(keys):
        return keys.argsort(kind="stable")
    if len(keys) >= radix.FEWEST:
        words, bits, told = _leading((keys,), radix.BITS)
        if told:
            return radix.order(words, bits)
    return _told_apart((keys,), *_packed((keys,)))[0]


def order_by(keys: Sequence[Int64s]) -> tuple[Index, Mask]:
    """Positions by the first key, then by the others, and which rows differ from those before."""
    n = len(keys[0])
    if n < _LARGE:
        order = np.lexsort(keys[::-1]) if len(keys) > 1 else keys[0].argsort()
        first = begins(keys[0][order])
        for key in keys[1:]:
            first |= begins(key[order])
        return order, first
    if len(keys) > 1 and (keys[0] == keys[0][0]).all():  # rows of one key
        keys = keys[1:]
    return _told_apart(keys, *(_merged(keys[0]) or _packed(keys)))


def _told_apart(keys: Sequence[Int64s], order: Index, first: Mask, told: int) -> tuple[Index, Mask]:
    """An order by the first `told` keys, made one by all of them."""
    for key in keys[told:]:
        refine(order, first, key.__getitem__)
    return order, first


def _in_pieces(key: Int64s) -> bool:
    return bool(np.count_nonzero(key[1:] < key[:-1]) <= _NEARLY)


def _merged(key: Int64s) -> tuple[Index, Mask, int] | None:
    """The order by a key of few sorted pieces, if it tells most rows from each other."""
    if not _in_pieces(key):
        return None
    order = key.argsort(kind="stable")
    first = begins(key[order])
    return (order, first, 1) if np.count_nonzero(first) * 2 >= len(key) else None


def _packed(keys: Sequence[Int64s]) -> tuple[Index, Mask, int]:
    """Order by leading bits; which rows differ in them; how many keys they hold completely."""
    n = len(keys[0])
    if n >= radix.FEWEST:
        words, bits, told = _leading(keys, radix.BITS)
        if told < len(keys):
            words, bits, told = _leading(keys, radix.LEADING)
        order = radix.order(words, bits)
        first = begins(radix.taken(words, order))
        if told == len(keys) or (n - np.count_nonzero(first)) * _CROWDED <= n:
            return order, first, told
    low_bits = (n - 1).bit_length()
    words, bits, told = _leading(keys, 63 - low_bits)
    words <<= low_bits
    words |= np.arange(n)
    if bits + low_bits <= 32:  # half as wide is twice as fast
        words = np.sort(words.astype(np.uint32)).astype(np.int64)
    else:
        words.sort()
    order = words & ((1 << low_bits) - 1)
    words >>= low_bits
    return order, begins(words), told


def _leading(keys: Sequence[Int64s], room: int) -> tuple[Int64s, int, int]:
    """At most `room` leading bits; how many they are; how many keys they hold completely."""
    free, told = room, 0
    words: npt.NDArray[np.uint64] | None = None
    for key in keys:
        low = int(key.min())
        bits = (int(key.max()) - low).bit_length()
        offset = key.view(np.uint64) - np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF)
        fits = bits <= free
        if not fits:
            offset >>= np.uint64(bits - free)
            bits = free
        if words is None:
            words = offset
        else:
            words <<= np.uint64(bits)
            words |= offset
        free -= bits
        if not fits:
            break
        told += 1
    assert words is not None
    return words.view(np.int64), room - free, told


def _by_group(group: Index, values: Int64s) -> Index:
    """The order of `values` within groups."""
    if len(group) < _LARGE:
        return _by_comparing(group, values)
    order, first, told = _packed((group, values))
    if told < 2:
        refine(order, first, values.__getitem__, _by_comparing)
    return order


def _by_comparing(group: Index, values: Int64s) -> Index:
    return np.lexsort((values, group))


def refine(
    order: Index,
    first: Mask,
    values_of: Callable[[Index], Int64s],
    sort: Callable[[Index, Int64s], Index] = _by_group,
) -> None:
    """Put rows that agree in all sort keys so far in order by one more, and mark where it differs.

    Groups of rows that are in order already, as most are where runs are merged, stay untouched.
    """
    crowded = ~first
    crowded[:-1] |= crowded[1:]
    place = crowded.nonzero()[0]
    if not len(place):
        return
    values = values_of(order[place])
    starts = first[place]
    wrong = values[1:] < values[:-1]
    wrong &= ~starts[1:]
    if wrong.any():
        group = starts.cumsum() - 1
        bad = np.zeros(int(group[-1]) + 1, bool)
        bad[group[1:][wrong]] = True
        chosen = bad[group].nonzero()[0]
        at = place[chosen]
        by = sort(group[chosen], values[chosen])
        order[at] = order[at][by]
        values[chosen] = values[chosen][by]
    first[place] |= begins(values)


def ascends(key: Int64s) -> bool:
    """Is each value greater than the one before it?"""
    some = key[:_SOME]
    return bool((some[1:] > some[:-1]).all() and (key[1:] > key[:-1]).all())


def begins(ordered: npt.NDArray[np.integer]) -> Mask:
    """Which values differ from the one before them? The first does."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first
