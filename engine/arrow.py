"""pyarrow, and its compute functions, loaded when they are first used.

With NumPy pyarrow takes longer to load than DuckDB, and its functions a third of a first view.

The modules that every process loads take it from here, so that a batch query whose few rows become
text (`planner.direct.Rows`) never loads it. All others import it as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Context
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = [
    "Exchanged", "array_from", "array_of", "blobs", "computed", "decoded", "empty", "has_tuple",
    "hugeints", "is_tuple", "legible", "numbers", "pa", "pc", "text_value", "wide", "with_leaves",
]  # fmt: skip

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Deferred(ModuleType):
        def __getattr__(self, name: str) -> Any:
            # Kept, so that from now on a name costs what a module's costs.
            found = self.__dict__[name] = getattr(import_module(self.__name__), name)
            return found

    pa, pc = _Deferred("pyarrow"), _Deferred("pyarrow.compute")


@cache
def computed(name: str) -> pc.Function:
    """A compute function, to be called without what pyarrow does around each call.

    (From where `pyarrow.compute` has it, which writes the documents of all as it is loaded: 60 ms.)
    """
    from pyarrow._compute import get_function

    return get_function(name)


def taken(
    rows: pa.Array | pa.ChunkedArray | pa.RecordBatch, places: pa.Array
) -> pa.Array | pa.ChunkedArray | pa.RecordBatch:
    """The values, or rows, at some places. (`Array.take` loads `pyarrow.compute`.)"""
    return computed("take").call([rows, places])


def empty(schema: pa.Schema) -> pa.Table:
    """A table without rows. (`Schema.empty_table` does not know unions.)"""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema)


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, np.dtype[Any]]:
    """The values of a column of fixed width, anything where NULL; not to be written to.

    Dates and times are integers.
    (`to_numpy` loads pandas, as `pa.array` does, which takes longer than many a query.)
    """
    import numpy as np

    kind = column.type
    flags = pa.types.is_boolean(kind)
    if pa.types.is_temporal(kind):
        dtype = np.dtype(f"i{kind.bit_width // 8}")
    else:
        dtype = np.dtype(np.bool_ if flags else kind.to_pandas_dtype())
    if not len(column):
        return np.empty(0, dtype)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    first, n, data = array.offset, len(array), array.buffers()[1]
    if data is None:  # all are NULL
        return np.zeros(n, dtype)
    if flags:
        bits = np.frombuffer(data, np.uint8)
        return np.unpackbits(bits, count=first + n, bitorder="little")[first:].view(dtype)
    return np.frombuffer(data, dtype, first + n)[first:]


def bitmap(valid: np.ndarray[Any, np.dtype[Any]] | None) -> pa.Buffer | None:
    """Which values are no NULL, as Arrow has it; None where all are."""
    import numpy as np

    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def array_of(
    values: np.ndarray[Any, np.dtype[Any]], valid: np.ndarray[Any, np.dtype[Any]] | None = None
) -> pa.Array:
    """The same integers, floats or booleans for Arrow, those that are not `valid` as NULL."""
    import numpy as np

    flags = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if flags else np.ascontiguousarray(values)
    kind = pa.bool_() if flags else pa.from_numpy_dtype(values.dtype)
    there = bitmap(valid)
    nulls = 0 if there is None else -1
    return pa.Array.from_buffers(kind, len(values), [there, pa.py_buffer(data)], nulls)


def array_from(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Numbers, booleans or texts of Python, or times as integers, None among them, for Arrow.

    (`pa.array` loads pandas at its first list, where it is installed: 0.2 s of a process's first
    change of a view.)
    """
    import numpy as np

    valid = bitmap(np.array([v is not None for v in values], bool))
    if pa.types.is_string(kind):
        texts = [b"" if v is None else v.encode() for v in values]
        ends = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(t) for t in texts], out=ends[1:])
        if ends[-1] < 1 << 31:
            parts = (pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts)))
            return pa.Array.from_buffers(kind, len(texts), [valid, *parts])
    elif pa.types.is_boolean(kind):
        bits = np.packbits(np.array(values, bool), bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(bits)])
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        known = [0 if v is None else v for v in values] if valid is not None else values
        data = pa.py_buffer(np.array(known, kind.to_pandas_dtype()))
        return pa.Array.from_buffers(kind, len(values), [valid, data])
    elif (
        pa.types.is_temporal(kind)
        and kind.bit_width <= 64  # (an INTERVAL is three numbers)
        and all(v is None or type(v) is int for v in values)
    ):
        raw = np.array([0 if v is None else v for v in values], f"i{kind.bit_width // 8}")
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(raw)])
    elif pa.types.is_decimal128(kind):
        digits = Context(prec=kind.precision)
        return wide(
            [None if v is None else int(digits.scaleb(v, kind.scale)) for v in values], kind
        )
    return pa.array(values, kind)


def blobs(values: Sequence[bytes]) -> pa.Array:
    """Bytes for Arrow. (`pa.array` loads pandas.)"""
    import numpy as np

    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    parts = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), parts)


def wide(values: Sequence[int | None], storage: pa.DataType) -> pa.Array:
    """Integers of at most 128 bits, or NULL, in an Arrow type that stores them so."""
    import numpy as np

    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in values)
    valid = None
    if None in values:
        valid = array_of(np.array([v is not None for v in values])).buffers()[1]
    return pa.Array.from_buffers(storage, len(values), [valid, pa.py_buffer(data)])


def text_value(value: str) -> pa.Scalar:
    """A text for Arrow to compare with. (`pa.scalar` loads pandas.)"""
    import numpy as np

    data = value.encode()
    ends = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])[0]


def hugeints(stored: Iterable[bytes | None]) -> list[int | None]:
    """128-bit integers, little-endian, signed."""
    return [None if b is None else int.from_bytes(b, "little", signed=True) for b in stored]


def decoded(table: pa.Table) -> pa.Table:
    """`table` with the values of its dictionaries: DuckDB 2.0 does not read all that it writes."""
    return _of_types(table, [with_leaves(t, _value) for t in table.schema.types])


def legible(table: pa.Table) -> pa.Table:
    """`table` as DuckDB reads it: ENUMs in an array of fixed size come as texts."""
    kinds = table.schema.types
    if not any(map(_hides, kinds)):
        return table
    return _of_types(table, [with_leaves(t, _value) if _hides(t) else t for t in kinds])


def _hides(kind: pa.DataType, inside: bool = False) -> bool:
    if not pa.types.is_nested(kind):
        return inside and bool(pa.types.is_dictionary(kind))
    inside |= pa.types.is_fixed_size_list(kind)
    return any(_hides(kind.field(i).type, inside) for i in range(kind.num_fields))


def _of_types(table: pa.Table, types: list[pa.DataType]) -> pa.Table:
    if types == table.schema.types:
        return table
    return table.cast(pa.schema([f.with_type(t) for f, t in zip(table.schema, types, strict=True)]))


def _value(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type, nested or not, with `leaf` of each type in it that is not nested."""

    def of(field: pa.Field) -> pa.Field:
        return field.with_type(with_leaves(field.type, leaf))

    if pa.types.is_map(kind):
        return pa.map_(of(kind.key_field), of(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(of(kind.value_field), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(of(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(of(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([of(field) for field in kind])
    return leaf(kind)


def is_tuple(t: pa.DataType) -> bool:
    """Is a type that of a row without names? DuckDB gives its fields these in Arrow.

    Arrow has no other type for ``row()`` than for a STRUCT of no fields, which it is taken for.
    """
    names = [f.name for f in t] if pa.types.is_struct(t) else []
    return bool(names) and names == [f"element{i + 1}" for i in range(len(names))]


def has_tuple(t: pa.DataType) -> bool:
    """Is a type that of a row without names, or has it one inside?"""
    if not pa.types.is_nested(t):
        return False
    return is_tuple(t) or any(has_tuple(t.field(i).type) for i in range(t.num_fields))


class Exchanged:
    """A table under a name in DuckDB, which may be exchanged for another one of its schema.

    To register a table takes longer than to read one of few rows. DuckDB does not know how many
    rows there are, and reads all columns.
    """

    def __init__(self, table: pa.Table) -> None:
        self._given = table.schema
        self.table = legible(table)
        self._legible = self.table is table
        self.schema = self._given if self._legible else self.table.schema

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def exchange(self, table: pa.Table) -> bool:
        """Have `table` read from now on, if its schema is the same."""
        same = bool(self._given.equals(table.schema, check_metadata=True))
        if same:
            self.table = table if self._legible else legible(table)
        return same
