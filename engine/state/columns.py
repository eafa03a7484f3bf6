"""Columns as state keeps them: NumPy where values have a fixed width and no NULL, else Arrow.

`ColumnType` holds, for one Arrow type, the four things that state needs to know of it: how to
come from Arrow, how to go back, how to hash, and when two values are equal. Equality is DuckDB's
in GROUP BY: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, intervals compare normalised.
`exactly`, two values are one only if they look the same: -0.0 is not 0.0, nor 30 days a month. Keys
are found by equality, rows are told apart exactly.
"""

from __future__ import annotations

import decimal
import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import array_from, array_of, computed, hugeints, numbers, wide
from tidewheel.engine.interruption import MANY, stop_if_asked
from tidewheel.engine.state import hashing
from tidewheel.engine.state.arrow_values import equal_arrow, hash_arrow, is_valid, loose
from tidewheel.engine.state.hashing import U64

_INT64 = pa.int64()
_WIDEST = decimal.Context(prec=76)

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# One column of a batch: an ndarray (fixed width, no NULL) or a pyarrow Array.
Col = Any


class ColumnType:
    """What state must know of an Arrow type. This class serves types that stay in Arrow."""

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow

    #: NumPy type of the values where there is one (fixed width), else None.
    dtype: np.dtype[Any] | None = None
    #: True where a value's 64-bit integer is the value itself.
    integer = False

    @functools.cached_property
    def loose(self) -> bool:
        """May values be equal and not look the same?"""
        return loose(self.arrow)

    @functools.cached_property
    def comparable(self) -> bool:
        """Are values as `rowwise` has them equal in Python where they are equal here?"""
        return self.integer or bool(pa.types.is_string(self.arrow))

    @functools.cached_property
    def plain(self) -> bool:
        """Is it a number, a text or a time? All of these `rowwise` can have."""
        t = pa.types
        fixed = self.dtype is not None or self.wide
        return bool(fixed or t.is_string(self.arrow) or t.is_decimal128(self.arrow))

    def load(self, array: pa.Array) -> Col:
        """An Arrow array of this type as a column of state (zero-copy where possible)."""
        return array

    def dump(self, col: Col) -> pa.Array:
        """A column as an Arrow array of exactly this type."""
        return col

    def of(self, values: Sequence[Any]) -> Col:
        """A column of values as `rowwise` has them."""
        storage = self.storage
        if pa.types.is_decimal128(storage) or self.wide:
            array = wide(values, storage)
        else:
            array = array_from(values, storage)
        return self.load(array if self._plain else _extension(self.arrow, array))

    def of_int64s(self, values: Index, nulls: Mask | None = None) -> Col:
        """A column of a type of 128 bits, of integers that have 64."""
        valid = None if nulls is None or not nulls.any() else array_of(~nulls).buffers()[1]
        data = pa.py_buffer(_widened(values))
        array = pa.Array.from_buffers(self.storage, len(values), [valid, data])
        return array if self._plain else _extension(self.arrow, array)

    def value(self, col: Col, at: int) -> Any:
        """One value of a column, as `rowwise` has it."""
        found = col[at].as_py()
        if self.wide:
            return hugeints([found])[0]
        if found is None or not pa.types.is_decimal128(self.storage):
            return found
        return int(found.scaleb(self.storage.scale, _WIDEST))

    def values(self, col: Col) -> list[Any]:
        """All values of a column, as `rowwise` has them."""
        if pa.types.is_decimal128(self.storage):
            return [self.value(col, at) for at in range(len(col))]
        found = list(col.to_pylist())
        return hugeints(found) if self.wide else found

    def empty(self) -> Col:
        """A column without rows."""
        return self.load(pa.nulls(0, self.arrow))

    @property
    def storage(self) -> pa.DataType:
        """The type below an extension type."""
        return self.arrow.storage_type if _is_extension(self.arrow) else self.arrow

    @property
    def wide(self) -> bool:
        """Is it HUGEINT, integers of 128 bits?"""
        return isinstance(self.arrow, pa.OpaqueType) and self.arrow.type_name == "hugeint"

    @property
    def _plain(self) -> bool:
        return not _is_extension(self.arrow)

    def nulls(self, n: int) -> Col:
        """A column of `n` NULLs."""
        values = pa.nulls(n, self.storage)
        return values if self._plain else _extension(self.arrow, values)

    def hash(self, col: Col, exactly: bool = False) -> U64:
        """One hash per value."""
        array = col.storage if isinstance(col, pa.ExtensionArray) else col

        def inner(of: pa.Array) -> U64:
            return column_type(of.type).hash(from_arrow(of), exactly)

        return hash_arrow(array, exactly, inner)

    def equal(self, a: Col, b: Col, exactly: bool = False) -> Mask:
        """Pairwise equality of two columns of one length."""
        x = a.storage if isinstance(a, pa.ExtensionArray) else a
        y = b.storage if isinstance(b, pa.ExtensionArray) else b
        exactly = exactly and self.loose

        def inner(p: pa.Array, q: pa.Array) -> Mask:
            return column_type(p.type).equal(from_arrow(p), from_arrow(q), exactly)

        return equal_arrow(x, y, exactly, inner)


class FixedType(ColumnType):
    """Integers, dates, times and booleans: an ndarray where there is no NULL."""

    integer = True

    def __init__(self, arrow: pa.DataType, dtype: str) -> None:
        super().__init__(arrow)
        self.dtype = np.dtype(dtype)

    def load(self, array: pa.Array) -> Col:
        if array.null_count:
            return array
        return self._values(array)

    def of(self, values: Sequence[Any]) -> Col:
        return super().of(values) if None in values else np.array(values, self.dtype)

    def value(self, col: Col, at: int) -> Any:
        if isinstance(col, np.ndarray):
            return col[at].item()
        return self._values(col[at : at + 1])[0].item() if col[at].is_valid else None

    def values(self, col: Col) -> list[Any]:
        values, nulls = self.split(col)
        found: list[Any] = values.tolist()
        for at in () if nulls is None else nulls.nonzero()[0].tolist():
            found[at] = None
        return found

    def _values(self, array: pa.Array) -> Array:
        n = len(array)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        buffer = array.buffers()[1]
        assert self.dtype is not None
        if n == 0 or buffer is None:
            return np.zeros(n, self.dtype)
        return np.frombuffer(buffer, self.dtype, n + array.offset)[array.offset :]

    def dump(self, col: Col) -> pa.Array:
        if not isinstance(col, np.ndarray):
            return col
        values = np.ascontiguousarray(col, self.dtype)
        array = pa.Array.from_buffers(self.storage, len(values), [None, pa.py_buffer(values)], 0)
        return array if self._plain else _extension(self.arrow, array)

    def empty(self) -> Col:
        return np.empty(0, self.dtype)

    def split(self, col: Col) -> tuple[Array, Mask | None]:
        """Values (anything where NULL) and the mask of NULLs, or None where there are none."""
        if isinstance(col, np.ndarray):
            return col, None
        return self._values(col), ~np.asarray(is_valid(col))

    def join(self, values: Array, nulls: Mask | None) -> Col:
        """What `split` has taken apart. (pa.array with a mask imports pandas.)"""
        if nulls is None or not nulls.any():
            return values
        full = self.dump(values)
        storage = full if self._plain else full.storage
        buffers = [array_of(~nulls).buffers()[1], storage.buffers()[1]]
        masked = pa.Array.from_buffers(storage.type, len(values), buffers)
        return masked if self._plain else _extension(self.arrow, masked)

    def hash(self, col: Col, exactly: bool = False) -> U64:
        values, nulls = self.split(col)
        h = hashing.mix(self._bits(values, exactly))
        if nulls is not None:
            h[nulls] = hashing.NULL_HASH
        return h

    def _bits(self, values: Array, exactly: bool) -> U64:
        return values.astype(np.int64).view(np.uint64)

    def equal(self, a: Col, b: Col, exactly: bool = False) -> Mask:
        x, x_null = self.split(a)
        y, y_null = self.split(b)
        same = self._same(x, y, exactly)
        if x_null is None and y_null is None:
            return same
        none = np.zeros(len(x), bool)
        x_null = none if x_null is None else x_null
        y_null = none if y_null is None else y_null
        return np.where(x_null | y_null, x_null & y_null, same)

    def _same(self, x: Array, y: Array, exactly: bool) -> Mask:
        return np.asarray(x == y)


class BoolType(FixedType):
    """Arrow's bit-packed booleans, one byte each here."""

    def of(self, values: Sequence[Any]) -> Col:
        return self.load(array_from(values, self.arrow))

    def value(self, col: Col, at: int) -> Any:
        found = super().value(col, at)
        return None if found is None else bool(found)

    def values(self, col: Col) -> list[Any]:
        return [None if v is None else bool(v) for v in super().values(col)]

    def _values(self, array: pa.Array) -> Array:
        filled = array.fill_null(False) if array.null_count else array
        return numbers(filled).astype(np.uint8)

    def dump(self, col: Col) -> pa.Array:
        return array_of(col.view(np.bool_)) if isinstance(col, np.ndarray) else col


class FloatType(FixedType):
    """Floating point: NaN equals NaN, -0.0 equals 0.0."""

    integer = False

    def _bits(self, values: Array, exactly: bool = False) -> U64:
        with np.errstate(invalid="ignore"):  # a signaling NaN, left behind under a NULL
            doubles = values.astype(np.float64)
            if not exactly:
                doubles += 0.0  # -0.0 + 0.0 is 0.0
        doubles[np.isnan(doubles)] = np.nan
        return doubles.view(np.uint64)

    def ordered(self, values: Array, exactly: bool = False) -> npt.NDArray[np.int64]:
        """Integers in the order of the values: 0.0 and -0.0 are one, NaN is the last.

        `exactly`, -0.0 stands right before 0.0.
        """
        return _turned(self._bits(values, exactly).view(np.int64))

    def of_ordered(self, integers: npt.NDArray[np.int64]) -> Array:
        """The values of such integers."""
        assert self.dtype is not None
        return _turned(integers).view(np.float64).astype(self.dtype)

    def _same(self, x: Array, y: Array, exactly: bool) -> Mask:
        same = x == y
        if exactly:
            same &= np.signbit(x) == np.signbit(y)
        return np.asarray(same | (np.isnan(x) & np.isnan(y)))


def _turned(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bits of doubles as integers in their order, and the other way round."""
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


class DecimalType(FixedType):
    """DECIMAL of at most 18 digits: its unscaled value as int64."""

    def __init__(self, arrow: pa.DataType) -> None:
        super().__init__(arrow, "i8")

    def _values(self, array: pa.Array) -> Array:
        n = len(array)
        buffer = array.buffers()[1]
        if n == 0 or buffer is None:
            return np.zeros(n, np.int64)
        pairs = np.frombuffer(buffer, np.int64, 2 * (n + array.offset)).reshape(-1, 2)
        return np.ascontiguousarray(pairs[array.offset :, 0])

    def dump(self, col: Col) -> pa.Array:
        if not isinstance(col, np.ndarray):
            return col
        return pa.Array.from_buffers(self.arrow, len(col), [None, pa.py_buffer(_widened(col))], 0)


def _widened(values: Index) -> Index:
    pairs = np.empty((len(values), 2), np.int64)
    pairs[:, 0] = values
    pairs[:, 1] = pairs[:, 0] >> 63
    return pairs


_FIXED = {
    pa.int8(): "i1",
    pa.int16(): "i2",
    pa.int32(): "i4",
    pa.int64(): "i8",
    pa.uint8(): "u1",
    pa.uint16(): "u2",
    pa.uint32(): "u4",
    pa.uint64(): "u8",
    pa.date32(): "i4",
    pa.date64(): "i8",
}


@functools.cache
def column_type(arrow: pa.DataType) -> ColumnType:
    """The `ColumnType` of an Arrow type; dictionaries count as their values' type."""
    t = pa.types
    if t.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if arrow in _FIXED:
        return FixedType(arrow, _FIXED[arrow])
    if t.is_boolean(arrow):
        return BoolType(arrow, "u1")
    if t.is_time32(arrow):
        return FixedType(arrow, "i4")
    if t.is_time64(arrow) or t.is_timestamp(arrow) or t.is_duration(arrow):
        return FixedType(arrow, "i8")
    if t.is_float32(arrow):
        return FloatType(arrow, "f4")
    if t.is_float64(arrow):
        return FloatType(arrow, "f8")
    if t.is_decimal128(arrow) and arrow.precision <= 18:
        return DecimalType(arrow)
    if isinstance(arrow, pa.Bool8Type):
        return FixedType(arrow, "i1")
    return ColumnType(arrow)


class MadeColumns(Sequence[Col]):
    """Columns of which each is made when somebody first asks for it."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[int, Col] = {}

    @overload
    def __getitem__(self, index: int) -> Col: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Col]: ...
    def __getitem__(self, index: int | slice) -> Col:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(index)
        return found

    @abstractmethod
    def _make(self, index: int) -> Col:
        """One of them; IndexError at the end."""


def from_arrow(array: pa.Array | pa.ChunkedArray) -> Col:
    """A column of state from an Arrow array (chunks are joined, dictionaries decoded)."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            array = array.chunk(0)
        elif array.num_chunks:
            array = pa.concat_arrays(array.chunks)
        else:
            return column_type(array.type).empty()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return column_type(array.type).load(array)


def take(col: Col, index: Index) -> Col:
    """Rows of a column by position."""
    if len(index) >= MANY:
        stop_if_asked()
    if isinstance(col, np.ndarray):
        return col[index]
    if isinstance(col, pa.ExtensionArray):
        return _extension(col.type, take(col.storage, index))
    # what `Array.take` does, without what it does to get there
    index = np.ascontiguousarray(index, np.int64)
    places = pa.Array.from_buffers(_INT64, len(index), [None, pa.py_buffer(index)], 0)
    return computed("array_take").call([col, places])


def where(col: Col, mask: Mask) -> Col:
    """Rows of a column by mask."""
    if isinstance(col, np.ndarray):
        return col[mask]
    if isinstance(col, pa.ExtensionArray):
        return _extension(col.type, where(col.storage, mask))
    return computed("array_filter").call([col, array_of(mask)])


def concat(cols: list[Col], kind: ColumnType) -> Col:
    """Columns of one type, one after the other."""
    if all(isinstance(c, np.ndarray) for c in cols):
        return np.concatenate(cols)
    return pa.concat_arrays([kind.dump(c) for c in cols])


def nbytes(col: Col) -> int:
    """Bytes that a column holds."""
    return int(col.nbytes)


def is_null(col: Col) -> Mask | None:
    """Mask of NULLs, None where the column has none."""
    if isinstance(col, np.ndarray) or not (col.null_count or pa.types.is_union(col.type)):
        return None
    mask = ~np.asarray(is_valid(col))
    return mask if mask.any() else None


def _extension(arrow: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(arrow, storage)


def _is_extension(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.BaseExtensionType)
