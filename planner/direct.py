"""A query that DuckDB gets whole: read from its one kernel, without a dataflow around it.

Nothing here needs sqlglot or the scheduler, so a program that asks only such queries loads neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.connection import KernelReader
from tidewheel.engine.kernels.duckdb import execute, relation
from tidewheel.planner.context import Context, Parameters


def run(sql: str, context: Context) -> Direct | Rows:
    """Start `sql` as it is written, and compute its first batch: that raises what is wrong.

    Where its last answer was few rows of plain types, read as Python values, this one passes no
    Arrow: with it a small query takes half as long again.
    """
    if context.bound.is_small(sql):
        with context.lock:
            columns = executed_plain(context.connection, sql, context.parameters)
            if columns is not None:
                return Rows(columns, context, sql)
            context.bound.note_small(sql, False)
    return Direct(sql, context)


def run_as_text(sql: str, context: Context) -> Rows | None:
    """Start `sql` for a reader that wants text; None, and nothing has run, if `run` must do it."""
    with context.lock:
        found = relation(context.connection, sql, params=context.parameters)
        columns = plain_columns(described(found))
        if columns is None or not _as_text(columns):
            return None
        execute(context.connection, sql, context.parameters)
    return Rows(columns, context)


class Direct:
    """The Arrow batches of one statement, computed as they are asked for; one at least."""

    schema: pa.Schema
    for_rows = False
    """Does the reader make Python values of them?"""

    def __init__(self, sql: str, context: Context) -> None:
        self._interrupted = context.interrupted
        self._sql, self._bound, self._count = sql, context.bound, 0
        self._reader = KernelReader(
            context.connection,
            context.lock,
            sql,
            params=context.parameters,
            batch_rows=context.settings.batch_rows,
            bound=context.bound,
        )
        self.schema = self._reader.schema
        try:
            self._ahead = self._read()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch, self._ahead = self._ahead, None
        if batch is None:
            batch = self._read()
        if batch is None:
            raise StopIteration
        return batch

    def _read(self) -> pa.RecordBatch | None:
        if self._interrupted.is_set():
            self.close()
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        batch = next(self._reader, None)
        if batch is not None:
            self._count += batch.num_rows
            return batch
        if self.for_rows and self._count <= FEW:
            found = self._reader.relation
            small = found is not None and plain_columns(described(found)) is not None
            self._bound.note_small(self._sql, small)
        self.close()
        return None

    def close(self) -> None:
        """Stop, and give the connection free; safe to call again."""
        self._reader.close()


_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")
_PLAIN = {
    "BOOLEAN": "bool_", "VARCHAR": "string",
    "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64",
    "HUGEINT": "opaque", "FLOAT": "float32", "DOUBLE": "float64",
}  # fmt: skip
"""DuckDB's types whose values Python has without loss; Arrow's names."""
FEW = 1000
"""So many rows are taken through Python rather than through Arrow."""


class Held:
    """Rows of plain types as DuckDB makes them for Python, without Arrow.

    Whoever asks for Arrow all the same gets it, made of the Python values. `columns`: names and
    types as DuckDB names them.
    """

    complete = True
    """Is nothing left to be read from the connection?"""

    def __init__(self, columns: list[tuple[str, str]], rows: list[tuple[Any, ...]]) -> None:
        self.columns = columns
        self._ahead: list[tuple[Any, ...]] | None = rows

    @cached_property
    def schema(self) -> pa.Schema:
        """In DuckDB's lossless Arrow form."""
        return pa.schema([(name, _arrow(type_)) for name, type_ in self.columns])

    def rows(self) -> list[tuple[Any, ...]]:
        """The next rows; none at the end."""
        found, self._ahead = self._ahead, None
        return self._read() if found is None else found

    @property
    def as_text(self) -> bool:
        """Does `text` know how DuckDB writes the values?"""
        return _as_text(self.columns)

    def text(self) -> list[tuple[str | None, ...]] | None:
        """The next rows, each value as DuckDB writes it; None at the end."""
        columns = zip(*self.rows(), strict=True)
        kinds = [type_ for _, type_ in self.columns]
        return list(zip(*map(_written, columns, kinds), strict=True)) or None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        rows = self.rows()
        if not rows:
            raise StopIteration
        return _batch(rows, self.schema)

    def _read(self) -> list[tuple[Any, ...]]:
        return []

    def close(self) -> None:
        """Give up what is not yet read; safe to call again."""
        self._ahead = None


class Rows(Held):
    """A statement's rows, read as they are asked for; Arrow's library, which loads slowly, is not.

    Its statement has been executed.
    """

    complete = False

    def __init__(self, columns: list[tuple[str, str]], context: Context, sql: str = "") -> None:
        self._sql, self._bound = sql, context.bound
        self._connection = context.connection
        self._lock = context.lock
        self._interrupted = context.interrupted
        self._chunk = min(context.settings.batch_rows, 10_000)
        self._done = False
        found = self._read()
        if len(found) > FEW:
            self._bound.note_small(sql, False)
        elif len(found) < self._chunk:
            self.complete = not self._read()
        super().__init__(columns, found)

    def __next__(self) -> pa.RecordBatch:
        self._bound.note_small(self._sql, False)  # the reader wants Arrow
        return super().__next__()

    def _read(self) -> list[tuple[Any, ...]]:
        if self._done:
            return []
        if self._interrupted.is_set():
            self.close()
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        try:
            with self._lock:
                found = self._connection.fetchmany(self._chunk)
        except BaseException:
            self._done = True
            raise
        self._done = not found
        return found

    def close(self) -> None:
        """Stop, and give the connection free; safe to call again."""
        if not self._done:
            self._done = True
            with self._lock:
                self._connection.abort()


def plain_columns(columns: Iterable[Sequence[Any]]) -> list[tuple[str, str]] | None:
    """Names and types of columns that `Held` can keep; None if the types are not plain.

    Each begins with its name and DuckDB's type, as those of a cursor's description do.
    """
    found = [(name, str(kind)) for name, kind, *_ in columns]
    return found if all(t in _PLAIN or _DECIMAL.fullmatch(t) for _, t in found) else None


def executed_plain(
    connection: duckdb.DuckDBPyConnection, sql: str, params: Parameters
) -> list[tuple[str, str]] | None:
    """Execute `sql`: the columns that it gives, or None, and no result is open, if not plain.

    It gave plain ones before; the tables may be others now. Hold the lock.
    """
    execute(connection, sql, params)
    columns = plain_columns(connection.description)
    if columns is None:
        connection.abort()
    return columns


def described(found: duckdb.DuckDBPyRelation) -> Iterator[tuple[str, Any]]:
    """A relation's columns: name and type."""
    return zip(found.columns, found.types, strict=True)


def _as_text(columns: list[tuple[str, str]]) -> bool:
    return all(t not in ("FLOAT", "DOUBLE") for _, t in columns)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [_array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.OpaqueType):  # HUGEINT
        values = tuple(None if v is None else v.to_bytes(16, "little", signed=True) for v in values)
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    return pa.array(values, type_)


def _arrow(type_: str) -> pa.DataType:
    if type_.startswith("DECIMAL("):
        return pa.decimal128(*map(int, type_[len("DECIMAL(") : -1].split(",")))
    if type_ == "HUGEINT":
        return pa.opaque(pa.binary(16), "hugeint", "DuckDB")
    found: pa.DataType = getattr(pa, _PLAIN[type_])()
    return found


def _written(column: tuple[Any, ...], type_: str) -> Sequence[str | None]:
    if type_ == "VARCHAR":
        return column
    if type_ == "BOOLEAN":
        return [None if v is None else "true" if v else "false" for v in column]
    if type_.startswith("DECIMAL("):
        return [None if v is None else format(v, "f") for v in column]
    return [None if v is None else str(v) for v in column]
