"""Arrow batches, in DuckDB's lossless form, to Python rows and to the Arrow that users expect.

Values of plain types are read by pyarrow (measured: 1.7× as fast as DuckDB's own fetchall);
everything whose Python value DuckDB defines otherwise goes back through a DuckDB connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from tidewheel.engine.arrow import computed, hugeints, is_tuple, numbers, pa
from tidewheel.engine.inherited import kept_in_child
from tidewheel.engine.kernels.duckdb import readable
from tidewheel.engine.type_names import is_variant, sql_name_of

from . import errors

_local = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection to a database of its own, used for nothing but conversions."""
    found: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if found is None:
        found = _local.connection = kept_in_child(duckdb.connect(config={"threads": 1}))
        _local.zone = None
    return found


def _in_zone(schema: pa.Schema) -> duckdb.DuckDBPyConnection:
    """The connection with the time zone that the result's types name."""
    connection = _connection()
    zone = next((z for t in schema.types if (z := _zone(t))), None)
    if zone is not None and zone != _local.zone:
        connection.execute("SET TimeZone = ?", [zone])
        _local.zone = zone
    return connection


def _relation(connection: duckdb.DuckDBPyConnection, table: pa.Table) -> duckdb.DuckDBPyRelation:
    found = readable(connection, table)
    if isinstance(found, duckdb.DuckDBPyRelation):
        return found
    return connection.from_arrow(found)


def _zone(t: pa.DataType) -> str | None:
    if pa.types.is_timestamp(t):
        return str(t.tz) if t.tz else None
    if pa.types.is_nested(t):
        return next((z for i in range(t.num_fields) if (z := _zone(t.field(i).type))), None)
    return None


Column = Callable[["pa.Array"], list[Any]]


def _column(t: pa.DataType) -> Column | None:
    """How values of a type are made without DuckDB; None where only DuckDB knows.

    pyarrow's `to_pylist` is slow (2.5 µs a value) where it builds date and time objects; NumPy's
    `tolist` gives the same ones at a tenth of that.
    """
    if isinstance(t, pa.Bool8Type):
        return _bool8
    if isinstance(t, pa.OpaqueType):
        return _hugeint if t.type_name == "hugeint" else None
    if is_tuple(t) and all(_plain(f.type) for f in t):
        return lambda column: [None if v is None else tuple(v.values()) for v in column.to_pylist()]
    if pa.types.is_date32(t):
        return _dates
    if pa.types.is_timestamp(t) and t.tz is None and t.unit != "ns":
        return _timestamps
    if pa.types.is_time64(t) and t.unit == "us":
        return _times
    return pa.Array.to_pylist if _plain(t) else None


def _plain(t: pa.DataType) -> bool:
    """Does pyarrow's `to_pylist` give what DuckDB gives?"""
    if pa.types.is_list(t):
        return _plain(t.value_type)
    if is_tuple(t):  # pyarrow makes a dict of it
        return False
    if pa.types.is_struct(t):
        names = [f.name for f in t]
        return all(names) and len(set(names)) == len(names) and all(_plain(f.type) for f in t)
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_boolean(t)
        or pa.types.is_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_decimal128(t)
        or pa.types.is_date32(t)
        or pa.types.is_null(t)
        or (pa.types.is_timestamp(t) and t.tz is None and t.unit != "ns")
        or (pa.types.is_dictionary(t) and pa.types.is_string(t.value_type))
        or isinstance(t, pa.UuidType)
    )


def _bool8(column: pa.Array) -> list[Any]:
    if column.null_count:
        values: list[Any] = column.storage.to_pylist()
        return [None if v is None else v != 0 for v in values]
    found: list[Any] = numbers(column.storage).view("bool").tolist()
    return found


def _hugeint(column: pa.Array) -> list[Any]:
    return hugeints(column.storage.to_pylist())


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, the ends of Python's dates, in days from 1970-01-01."""
_NO_TIME = -(1 << 63)  # NumPy's NaT
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def _dates(column: pa.Array) -> list[Any]:
    return _through_numpy(column, pa.int32(), _FIRST_DAY, _LAST_DAY)


def _timestamps(column: pa.Array) -> list[Any]:
    scale = _PER_DAY[column.type.unit]
    return _through_numpy(column, pa.int64(), _FIRST_DAY * scale, (_LAST_DAY + 1) * scale - 1)


def _times(column: pa.Array) -> list[Any]:
    last = _ends(column, pa.int64())["max"]
    if last is not None and last >= _PER_DAY["us"]:  # 24:00:00, for pyarrow 00:00:00
        raise OverflowError
    found: list[Any] = column.to_pylist()
    return found


def _ends(column: pa.Array, raw: pa.DataType) -> dict[str, Any]:
    """The least and the greatest value, as integers."""
    found: dict[str, Any] = computed("min_max").call([column.view(raw)]).as_py()
    return found


def _through_numpy(column: pa.Array, raw: pa.DataType, first: int, last: int) -> list[Any]:
    """Dates and times by NumPy, which turns what Python cannot hold into plain integers."""
    ends = _ends(column, raw)
    if ends["min"] is not None and (ends["min"] < first or ends["max"] > last):
        raise OverflowError
    values = numbers(column).astype("i8")
    if column.null_count:
        values[numbers(column.is_null())] = _NO_TIME
    unit = column.type.unit if pa.types.is_timestamp(column.type) else "D"
    found: list[Any] = values.view(f"M8[{unit}]").tolist()
    return found


class RowConverter:
    """Makes Python rows of the batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns = [None if is_variant(f) else _column(f.type) for f in schema]
        self._through_duckdb = [i for i, c in enumerate(self._columns) if c is None]

    def rows(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The rows of `batch`, as DuckDB's fetchall would give them."""
        columns: list[list[Any]] = [[]] * batch.num_columns
        rest = list(self._through_duckdb)
        for i, convert in enumerate(self._columns):
            if convert is not None:
                try:
                    columns[i] = convert(batch.column(i))
                except (OverflowError, ValueError):
                    # infinity, or a date that Python cannot hold: as DuckDB does it
                    rest.append(i)
        if rest:
            for i, values in zip(rest, self._duckdb(batch, rest), strict=True):
                columns[i] = values
        return list(zip(*columns, strict=True))

    def _duckdb(self, batch: pa.RecordBatch, wanted: list[int]) -> list[list[Any]]:
        names = [f"c{i}" for i in wanted]
        fields = [self._schema.field(i).with_name(f"c{i}") for i in wanted]
        table = pa.Table.from_arrays([batch.column(i) for i in wanted], schema=pa.schema(fields))
        connection = _in_zone(table.schema)
        try:
            rows = _relation(connection, table).fetchall()
        except OverflowError as error:  # of an INTERVAL of more than 999,999,999 days
            raise errors.DataError(
                f"Python has no value for one of the result's: {error}",
                hint="Cast it to VARCHAR, or read the result as Arrow.",
            ) from None
        if not rows:
            return [[] for _ in names]
        return [list(values) for values in zip(*rows, strict=True)]


class Exporter:
    """Turns lossless batches into the Arrow types that DuckDB gives by default.

    Only columns of types that no other library knows (HUGEINT, BIT …), UUID and JSON are
    converted; all others are passed on without a copy.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._source = schema
        self._odd = [i for i, t in enumerate(schema.types) if _has_extension(t)]
        self.schema = schema
        if self._odd:
            empty = pa.Table.from_batches([], schema)
            for i, column in zip(self._odd, self._converted(empty), strict=True):
                self.schema = self.schema.set(i, schema.field(i).with_type(column.type))

    def table(self, source: pa.Table) -> pa.Table:
        """`source` in the exported schema."""
        if not self._odd:
            return source
        columns = list(source.columns)
        for i, column in zip(self._odd, self._converted(source), strict=True):
            columns[i] = column
        return pa.Table.from_arrays(columns, schema=self.schema)

    def batch(self, source: pa.RecordBatch) -> pa.RecordBatch:
        """One batch in the exported schema."""
        if not self._odd:
            return source
        table = self.table(pa.Table.from_batches([source])).combine_chunks()
        return pa.RecordBatch.from_arrays(
            [c.chunk(0) if c.num_chunks else pa.nulls(0, c.type) for c in table.columns],
            schema=self.schema,
        )

    def _converted(self, source: pa.Table) -> list[pa.ChunkedArray]:
        fields = [self._source.field(i).with_name(f"c{i}") for i in self._odd]
        table = pa.Table.from_arrays(
            [source.column(i) for i in self._odd], schema=pa.schema(fields)
        )
        found: pa.Table = _relation(_in_zone(table.schema), table).to_arrow_table()
        return list(found.columns)


def _has_extension(t: pa.DataType) -> bool:
    if isinstance(t, pa.BaseExtensionType):
        return True
    if pa.types.is_nested(t):
        return any(_has_extension(t.field(i).type) for i in range(t.num_fields))
    return False


def to_pandas(table: pa.Table) -> Any:
    """A pandas DataFrame with the dtypes that DuckDB's `df()` gives; `table` is lossless."""
    with _numpy_types():
        frame = _relation(_in_zone(table.schema), table).df()
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # an ENUM, which DuckDB takes for texts
            frame.isetitem(at, table.column(at).to_pandas().cat.as_ordered())
    return frame


def to_numpy(table: pa.Table) -> dict[str, Any]:
    """A NumPy array per column, as DuckDB's `fetchnumpy` gives them; `table` is lossless."""
    with _numpy_types():
        found: dict[str, Any] = _relation(_in_zone(table.schema), table).fetchnumpy()
    return found


@contextmanager
def _numpy_types() -> Iterator[None]:
    """An error of ours for what has no form there (a BIGNUM; a DATE too far off)."""
    try:
        yield
    except duckdb.NotImplementedException as error:
        message = str(error).removeprefix("Not implemented Error: ")
        raise errors.NotSupportedError(message, hint="cast it to VARCHAR or DOUBLE") from None
    except duckdb.DataError as error:
        message = str(error).removeprefix("Conversion Error: ")
        hint = "read the result as Arrow or rows, or cast it to VARCHAR"
        raise errors.DataError(message, hint=hint) from None


def to_polars(table: pa.Table) -> Any:
    """A polars DataFrame; a repeated name gets a number."""
    import polars

    for field in table.schema:
        if _unknown_to_polars(field.type):
            raise errors.NotSupportedError(
                f"polars has no type for column {field.name}, {sql_name_of(field)}",
                hint="cast it to VARCHAR; an INTERVAL has epoch_us(…), too",
            )
    if len(set(table.column_names)) < table.num_columns:
        from .bind_scope import deduplicated

        table = table.rename_columns(deduplicated(table.column_names))
    return polars.from_arrow(table)


def _unknown_to_polars(t: pa.DataType) -> bool:
    if pa.types.is_union(t) or pa.types.is_interval(t):
        return True
    return pa.types.is_nested(t) and any(
        _unknown_to_polars(t.field(i).type) for i in range(t.num_fields)
    )


def to_text(table: pa.Table) -> list[list[str | None]]:
    """The columns of `table`, which is lossless, with every value as DuckDB writes it."""
    if table.num_rows <= _FEW and all(_is_written_alike(t) for t in table.schema.types):
        return [[_written(v) for v in column.to_pylist()] for column in table.columns]
    named = table.rename_columns([f"c{i}" for i in range(table.num_columns)])
    relation = _relation(_in_zone(table.schema), named).project("CAST(COLUMNS(*) AS VARCHAR)")
    return [column.to_pylist() for column in relation.to_arrow_table().columns]


_FEW = 100
"""Rows for which DuckDB need not be asked; its first connection takes 20 ms to make."""


def _is_written_alike(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_string(t) or pa.types.is_boolean(t))


def _written(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
