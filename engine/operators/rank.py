"""Order-preserving 64-bit places of values: what runs are sorted by within a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.state.arrow_values import words
from tidewheel.engine.state.columns import Col, FixedType, FloatType, is_null
from tidewheel.engine.state.delta import Int64s, Schema

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Order:
    """One ORDER BY item: a column by position."""

    column: int
    descending: bool = False
    nulls_first: bool = False


def rankable(kind: pa.DataType) -> bool:
    """Do values of this type have a place of their own? (Text has its first 7 bytes only.)"""
    from tidewheel.engine.state.columns import column_type

    found = column_type(kind)
    return isinstance(found, FixedType) and kind != pa.uint64()


class Ranking:
    """Places of the first ORDER BY column, NULLs at the end that they belong to.

    Rows of equal place are told apart later; so a place may be coarse, but never out of order.
    """

    def __init__(self, schema: Schema, order: Order) -> None:
        self.schema = schema
        self.order = order
        self.kind = schema.kinds[order.column]

    def __call__(self, cols: Sequence[Col], n: int) -> Int64s:
        """The place of each row."""
        col = cols[self.order.column]
        place = self._place(col, n)
        if self.order.descending:
            place = ~place
        nulls = is_null(col)
        if nulls is not None:
            place = place.copy()
            place[nulls] = _MIN if self.order.nulls_first else _MAX
        return place

    def _place(self, col: Col, n: int) -> Int64s:
        kind = self.kind
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
        array = col.storage if isinstance(col, pa.ExtensionArray) else col
        if pa.types.is_string(kind.arrow) or pa.types.is_binary(kind.arrow):
            return _first_bytes(array)
        if pa.types.is_decimal128(kind.arrow):
            pairs = words(array, 16).view(np.int64)
            low, high = pairs[:, 0], pairs[:, 1]
            # What 64 bits do not hold shares the last place on its side.
            return np.where(high == low >> 63, low, np.where(high < 0, _MIN, _MAX))
        return np.zeros(n, np.int64)


def _first_bytes(texts: pa.Array) -> Int64s:
    """The first seven bytes of each text, zeros where it is shorter: in the order of the texts."""
    array = texts.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    place = np.zeros(len(array), np.int64)
    if data is None or not data.size:
        return place
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    there = np.frombuffer(data, np.uint8)
    for i in range(7):
        at = ends[:-1] + i
        place <<= 8
        place |= np.where(at < ends[1:], there.take(at, mode="clip"), 0)
    return place
