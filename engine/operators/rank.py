"""Order-preserving 64-bit places of values: what runs are sorted by within a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of
from tidewheel.engine.state.arrow_values import interval, is_valid, words
from tidewheel.engine.state.columns import (
    Col,
    ColumnType,
    FixedType,
    FloatType,
    column_type,
    from_arrow,
    is_null,
    take,
)
from tidewheel.engine.state.delta import Int64s, Schema

_DAY = 86_400_000_000  # in microseconds
_DAYS = 100_000_000
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Order:
    """One ORDER BY item: a column by position."""

    column: int
    descending: bool = False
    nulls_first: bool = False


def rankable(kind: pa.DataType) -> bool:
    """Do values of this type have a place of their own? (Text has its first 7 bytes only.)"""
    found = column_type(kind)
    return isinstance(found, FixedType) and kind != pa.uint64()


def widely_rankable(kind: pa.DataType) -> bool:
    """Do those of 64 bits? HUGEINT and long decimals: all others share the ends."""
    return rankable(kind) or column_type(kind).wide or bool(pa.types.is_decimal128(kind))


class Ranking:
    """Places of the first ORDER BY column, NULLs at the end that they belong to.

    Rows of equal place are told apart later; so a place may be coarse, but never out of order.
    `further` columns count once places are `finer`.
    """

    def __init__(self, schema: Schema, order: Order, further: Sequence[Order] = ()) -> None:
        self.schema = schema
        self.order = order
        self.orders = (order, *further)
        self.kind = schema.kinds[order.column]
        self.finer: Callable[[Sequence[Col], int], Int64s] | None = None

    @property
    def coarse(self) -> bool:
        """May rows of one place differ in what they are ordered by?"""
        return len(self.orders) > 1 or not whole(self.kind)

    def __call__(self, cols: Sequence[Col], n: int) -> Int64s:
        """The place of each row."""
        if self.finer is not None:
            return self.finer(cols, n)
        col = cols[self.order.column]
        place = place_of(self.kind, col, n)
        if self.order.descending:
            place = ~place
        nulls = is_null(col)
        if nulls is not None:
            place = place.copy()
            place[nulls] = _MIN if self.order.nulls_first else _MAX
        return place


def whole(kind: ColumnType) -> bool:
    """Do values of a type share a place only at its ends, or where they are equal?"""
    return bool(rankable(kind.arrow) or pa.types.is_decimal128(kind.arrow) or kind.wide)


def is_text(kind: ColumnType) -> bool:
    """Is the place of a value made of its first bytes?"""
    return bool(pa.types.is_string(kind.arrow) or pa.types.is_binary(kind.arrow))


def has_places(arrow: pa.DataType) -> bool:
    """Do places tell most values of this type apart?"""
    kind, t = column_type(arrow), pa.types
    first = (t.is_struct(arrow) and arrow.num_fields > 0) or t.is_list(arrow)
    other = first or t.is_interval(arrow) or isinstance(arrow, pa.UuidType)
    return kind.dtype is not None or whole(kind) or is_text(kind) or other


def place_of(kind: ColumnType, col: Col, n: int) -> Int64s:
    """The place of each value; anything where it is NULL."""
    if isinstance(kind, FloatType):
        values, _ = kind.split(col)
        out: Int64s = kind.ordered(values)
        out[np.isnan(values)] = _MAX  # DuckDB: NaN is greater than all others
        return out
    if isinstance(kind, FixedType):
        values, _ = kind.split(col)
        if values.dtype == np.uint64:
            return np.asarray((values >> np.uint64(1)).astype(np.int64))
        return np.asarray(values.astype(np.int64))
    if is_text(kind):
        return first_bytes(bytes_of(col))
    array = col.storage if isinstance(col, pa.ExtensionArray) else col
    unsigned = isinstance(kind.arrow, pa.OpaqueType) and kind.arrow.type_name == "uhugeint"
    if pa.types.is_decimal128(kind.arrow) or kind.wide or unsigned:
        pairs = words(array, 16).view(np.int64)
        low, high = pairs[:, 0], pairs[:, 1]
        # What 64 bits do not hold shares the last place on its side.
        fits = (high == 0) & (low >= 0) if unsigned else high == low >> 63
        return np.where(fits, low, np.where((high < 0) & ~np.bool_(unsigned), _MIN, _MAX))
    if isinstance(kind.arrow, pa.UuidType):
        leading: Int64s = (words(array, 16)[:, 0].byteswap() >> np.uint64(1)).view(np.int64)
        return leading
    if pa.types.is_interval(kind.arrow):
        parts = interval(array).view(np.int64)
        days = np.clip(parts[:, 0], -_DAYS, _DAYS)  # others share the first place, or the last
        out = days * _DAY + parts[:, 1] // 1000
        return np.where(parts[:, 0] > _DAYS, _MAX, np.where(parts[:, 0] < -_DAYS, _MIN, out))
    if pa.types.is_struct(array.type) and array.type.num_fields:
        return _first(array.field(0))
    if pa.types.is_list(array.type):
        begins = array.offsets.to_numpy()
        full = begins[1:] > begins[:-1]
        out = np.full(n, _MIN)
        out[full] = _first(take(array.values, begins[:-1][full].astype(np.int64)))
        return out
    return np.zeros(n, np.int64)


def _first(values: pa.Array) -> Int64s:
    """The place of what has these first values. (In nested values NULL is the greatest.)"""
    col = from_arrow(values)
    place = place_of(column_type(values.type), col, len(values))
    nulls = is_null(col)
    return place if nulls is None else np.where(nulls, _MAX, place)


def bytes_of(texts: Col) -> pa.Array:
    """Texts or blobs as bytes. (A cast loads `pyarrow.compute`, 60 ms of a first view.)"""
    if texts.type == pa.large_binary():
        return texts
    valid, ends, data = texts.buffers()
    first, n = texts.offset, len(texts)
    if first and valid is not None:
        valid = array_of(is_valid(texts)).buffers()[1]
    places = np.frombuffer(ends, np.int32)[first : first + n + 1] if n else np.zeros(1, np.int32)
    parts = [valid, pa.py_buffer(places.astype(np.int64)), data or pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.large_binary(), n, parts)


def first_bytes(array: pa.Array, skip: int = 0) -> Int64s:
    """Seven bytes of each text behind some, zeros where it is shorter: in the order of texts."""
    _, offsets, data = array.buffers()
    place = np.zeros(len(array), np.int64)
    if data is None or not data.size:
        return place
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    there = np.frombuffer(data, np.uint8)
    for i in range(7):
        at = ends[:-1] + (skip + i)
        place <<= 8
        place |= np.where(at < ends[1:], there.take(at, mode="clip"), 0)
    return place
