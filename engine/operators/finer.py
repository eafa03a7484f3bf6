"""Places of rows by a whole ORDER BY, as fine as 62 bits allow for the rows that there are.

The place of the first column alone says little where many rows share it: of texts that begin alike,
or of ORDER BY status, created. So each column has a *slot* of as many bits as the rows that there
are need: numbers count from the least one, texts begin behind what all have in common, few texts
are numbered. Rows that come later need not fit. They have slots between, below or above those that
are known, in order, and no column behind tells them apart: a place is never out of order, as
rows that share one are compared by whoever reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow._compute import MatchSubstringOptions, SetLookupOptions

from tidewheel.engine.arrow import blobs, computed, numbers
from tidewheel.engine.operators.rank import Order, bytes_of, first_bytes, is_text, place_of, whole
from tidewheel.engine.state.arrow_values import is_valid
from tidewheel.engine.state.columns import Col, ColumnType, Mask, is_null, take
from tidewheel.engine.state.delta import Int64s, Schema

_BITS: Final = 62
_LEAST: Final = 8  # bits that are worth another column
_TEXTS: Final = 1024  # texts that are numbered
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max

Slots = Callable[[Col, int], tuple[Int64s, Mask]]
"""The slot of each value, anything where it is NULL; and whether no other value has it."""


class _Part(NamedTuple):
    order: Order
    bits: int
    slots: Slots
    exact: bool
    """Do all values that there were have slots of their own?"""
    of: Callable[[Int64s], tuple[Int64s, Mask]] | None = None
    """The slots of places (see `place_of`)."""


class Finer:
    """Places of rows of `schema` by `orders`, as those in `cols` need them."""

    def __init__(self, schema: Schema, orders: Sequence[Order], cols: Sequence[Col]) -> None:
        self._parts: list[_Part] = []
        left = _BITS
        for order in orders:
            part = _part(order, schema.kinds[order.column], cols[order.column], left)
            self._parts.append(part)
            left -= part.bits
            if left < _LEAST or not part.exact:
                break

    def ends(self, places: Int64s) -> Int64s | None:
        """The last place of the rows that had some `places` by the first column alone.

        None if that is not known.
        """
        order, bits, _, _, of = self._parts[0]
        if of is None:
            return None
        slot, own = of(~places if order.descending else places)
        if not own.all():
            return None
        behind = sum(part.bits for part in self._parts[1:])
        slot = (1 << bits) - 1 - slot if order.descending else slot
        return (slot << behind) | ((1 << behind) - 1)

    def __call__(self, cols: Sequence[Col], n: int) -> Int64s:
        """The place of each row; NULLs of the first column have the first or the last of all."""
        out, known = np.zeros(n, np.int64), np.ones(n, bool)
        for order, bits, slots, _, _ in self._parts:
            col, last = cols[order.column], (1 << bits) - 1
            slot, own = slots(col, n)
            if order.descending:
                slot = last - slot
            nulls = is_null(col)
            if nulls is not None:
                slot, own = np.where(nulls, 0 if order.nulls_first else last, slot), own & ~nulls
            out <<= bits
            out |= np.where(known, slot, 0)
            known &= own
        first = self._parts[0].order
        nulls = is_null(cols[first.column])
        if nulls is not None:
            out[nulls] = _MIN if first.nulls_first else _MAX
        return out


def _part(order: Order, kind: ColumnType, col: Col, most: int) -> _Part:
    """The slots of a column, of at most so many bits: at both ends is one for all beyond."""
    nulls = is_null(col)
    if is_text(kind):
        texts = bytes_of(col)
        known = _few(texts.slice(0, 4 * _TEXTS)) and _few(texts)
        if known and (2 * len(known)).bit_length() <= most:
            return _numbered(order, sorted(known))
        ends = computed("min_max").call([texts])
        first, last = ends["min"].as_py() or b"", ends["max"].as_py() or b""
        prefix, col, nulls = _shared(first, last), blobs([first, last]), None

        def place(col: Col, n: int) -> Int64s:
            return _behind(bytes_of(col), prefix)
    else:

        def place(col: Col, n: int) -> Int64s:
            return place_of(kind, col, n)

    places = place(col, len(col))
    places = places if nulls is None else places[~nulls]
    low, high = (int(places.min()), int(places.max())) if len(places) else (0, 0)
    wide = high - low + 1  # others may well come as far away
    low, high = max(low - wide, _MIN + 1), min(high + wide, _MAX - 1)
    shift = max(0, (high - low + 2).bit_length() - most)
    while ((high - low) >> shift) + 2 >= 1 << most:
        shift += 1
    bits = (((high - low) >> shift) + 2).bit_length()
    last, base = (1 << bits) - 1, np.uint64(low & (1 << 64) - 1)

    def of(at: Int64s) -> tuple[Int64s, Mask]:
        offset: Int64s = ((at.view(np.uint64) - base) >> np.uint64(shift)).view(np.int64)
        below, above = at < low, at > high
        return np.where(below, 0, np.where(above, last, offset + 1)), ~(below | above)

    def slots(col: Col, n: int) -> tuple[Int64s, Mask]:
        return of(place(col, n))

    exact = whole(kind) and not shift
    return _Part(order, bits, slots, exact, of if exact else None)


def _few(texts: pa.Array) -> list[bytes]:
    """Each text once; none where there are too many to number them."""
    found = computed("unique").call([texts])
    if len(found) > _TEXTS + 1:
        return []
    known = [text for text in found.to_pylist() if text is not None]
    return known if len(known) <= _TEXTS else []


def _numbered(order: Order, ordered: list[bytes]) -> _Part:
    """Texts have odd numbers in their order, all between two of them the even one."""
    lookup = SetLookupOptions(blobs(ordered))
    bits = (2 * len(ordered)).bit_length()

    def slots(col: Col, n: int) -> tuple[Int64s, Mask]:
        texts = bytes_of(col)
        found = computed("index_in").call([texts], lookup)
        own = is_valid(found)
        slot = numbers(found).astype(np.int64) * 2 + 1
        others = (~own).nonzero()[0]
        if len(others):
            values = take(texts, others).to_pylist()
            places = [0 if v is None else 2 * bisect_left(ordered, v) for v in values]
            slot[others] = places
        return slot, own

    return _Part(order, bits, slots, True)


def _shared(one: bytes, other: bytes) -> bytes:
    """What two texts, and so all between them, begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _behind(texts: pa.Array, prefix: bytes) -> Int64s:
    """The seven bytes behind what texts begin with, less or more where they do not."""
    place = first_bytes(texts, len(prefix))
    if not prefix:
        return place
    begin = computed("starts_with").call([texts], MatchSubstringOptions(prefix))
    with_it = numbers(begin) | ~is_valid(texts)
    if with_it.all():
        return place
    less = numbers(computed("less").call([texts, blobs([prefix])[0]]))
    return np.where(with_it, place, np.where(less, _MIN, _MAX))
