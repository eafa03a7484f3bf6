"""`Connection.append`: the rows of an Arrow stream into a table, columns by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from tidewheel.engine.arrow import with_leaves
from tidewheel.engine.quoting import quoted

from . import errors
from .append_values import Values
from .diagnose import near_miss
from .reads import Names, Relation
from .statements import split, tokens
from .view_text import is_name, unquoted

if TYPE_CHECKING:
    from .session import Session

NAME = "__tw_append"
"""The name under which the rows are registered."""
CHUNK_BYTES = 64 << 20
"""A stream is written in parts of this size, all in one transaction."""
_STATEMENT = split("APPEND")[0]

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def append(session: Session, name: str, data: object) -> int:
    """Write the rows of `data` to table `name`, all or nothing; how many there were."""
    if not isinstance(name, str):
        raise errors.ProgrammingError(
            f"the name of a table is text (str), not {type(name).__name__}",
            hint="append(table, data): the name comes first",
        )
    with session.lock:
        if isinstance(data, pa.Table) and _parts(name) == [name]:
            session.check_open()
            known = session.known_rows.insert([name], data)
            if known is not None:
                return known
        with session.guard(_STATEMENT):
            session.check_open()
            reader = stream(data)
            session.make_way()
            target = table(session.connection, name)
            insert = statement(session.connection, target, reader.schema)
        rest = parts(reader, whole=session.in_transaction or not session.autocommit)
        first = next(rest)
        second = next(rest, None)
        if second is None:
            return _write(session, insert, first)
        with session.as_one():
            return sum(_write(session, insert, part) for part in chain((first, second), rest))


def _write(session: Session, insert: Insert, rows: pa.Table) -> int:
    for column in rows.column_names:
        _check_duration(column, rows[column])
    with session.lent(NAME, rows, _STATEMENT):
        try:
            return session.execute(insert.text, None)[1]
        except errors.DatabaseError as error:
            raise explained(error, insert, rows, session.connection) from None


def _check_duration(name: str, column: pa.ChunkedArray) -> None:
    """DataError for what is shorter than a microsecond, which DuckDB would cut off."""
    rounded = with_leaves(column.type, _in_microseconds)
    if rounded != column.type:
        try:
            column.cast(rounded)
        except pa.ArrowInvalid:
            raise errors.DataError(
                f"column {name} has durations that are no whole microseconds",
                hint="round them before they are appended",
            ) from None


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    return pa.duration("us") if kind == pa.duration("ns") else kind


def stream(data: object) -> pa.RecordBatchReader:
    """The rows of anything that speaks Arrow; ProgrammingError if it does not."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, type) or not hasattr(data, "__arrow_c_stream__"):
        raise errors.ProgrammingError(
            f"append takes a DataFrame or an Arrow object, not {type(data).__name__}",
            hint="pyarrow.Table.from_pylist makes one of dicts; executemany takes tuples",
        )
    # read now: a result of this very connection waits for a lock that the INSERT holds
    try:
        table = pa.table(data)
    except (pa.ArrowException, ValueError, TypeError) as error:  # pandas: a column of objects …
        raise errors.DataError(
            "; ".join(map(str, error.args)),
            hint="give each column one name, and one type that Arrow has, before it is appended",
        ) from None
    if type(data).__module__.partition(".")[0] == "pandas":
        index = [name for name in table.column_names if _PANDAS_INDEX.fullmatch(name)]
        table = table.drop_columns(index)
    return table.to_reader()


def parts(reader: pa.RecordBatchReader, whole: bool) -> Iterator[pa.Table]:
    """The rows in tables of some `CHUNK_BYTES`, or as one; at least one, maybe empty."""
    held: list[pa.RecordBatch] = []
    size, given = 0, False
    for batch in reader:
        held.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES and not whole:
            yield pa.Table.from_batches(held)
            held, size, given = [], 0, True
    if held or not given:
        yield pa.Table.from_batches(held, reader.schema)


def table(connection: duckdb.DuckDBPyConnection, name: str) -> Relation:
    """The table that `name` means: an SQL name, or one written without its quotes."""
    names = Names(connection)
    found = names.find([name]) or names.find(_parts(name))
    if found is None:
        near = near_miss(name, [r.name for r in names.relations if r.kind == "table"])
        raise errors.ProgrammingError(
            f"there is no table {name}", hint=f"did you mean {near}?" if near else None
        )
    if found.kind != "table":
        raise errors.ProgrammingError(
            f"{name} is a view: rows are appended to tables", hint="change the tables that it reads"
        )
    return found


def _parts(name: str) -> list[str]:
    found = [t for t in tokens(name) if t.text != "."]
    return [unquoted(t) for t in found] if found and all(map(is_name, found)) else [name]


@dataclass(frozen=True)
class Insert:
    """The INSERT that reads `NAME`, and per column its name, its type and what it is given."""

    text: str
    columns: tuple[tuple[str, str, str], ...]


def statement(connection: duckdb.DuckDBPyConnection, target: Relation, schema: pa.Schema) -> Insert:
    """How rows of `schema` are written; ProgrammingError where columns or types do not fit."""
    wanted = {c[0].lower(): c for c in _columns(connection, target.quoted)}
    labels = [field.name for field in schema]
    if not labels:
        raise errors.ProgrammingError("the data have no columns")
    lower = [label.lower() for label in labels]
    for i, label in enumerate(lower):
        if label not in wanted:
            near = near_miss(label, [c[0] for c in wanted.values()])
            known = ", ".join(c[0] for c in wanted.values())
            raise errors.ProgrammingError(
                f"{target.name} has no column {labels[i]}",
                hint=f"did you mean {near}?" if near else f"it has {known}",
            )
        if label in lower[:i]:
            raise errors.ProgrammingError(f"column {labels[i]} appears twice in the data")
    connection.register(NAME, pa.Table.from_batches([], schema))
    try:
        given = _columns(connection, NAME)
    finally:
        connection.unregister(NAME)
    values = Values(connection)
    columns = tuple(
        (column, wants, values.of(quoted(name), kind, column, wants))
        for (name, kind), (column, wants) in zip(
            given, [wanted[label] for label in lower], strict=True
        )
    )
    names = ", ".join(quoted(column) for column, _, _ in columns)
    chosen = ", ".join(value for _, _, value in columns)
    return Insert(f"INSERT INTO {target.quoted} ({names}) SELECT {chosen} FROM {NAME}", columns)


def explained(
    error: errors.Error, insert: Insert, rows: pa.Table, connection: duckdb.DuckDBPyConnection
) -> errors.Error:
    """The error without a place in a text that is not the user's, and with the column's name."""
    error.line = error.column = error.source_line = None
    if isinstance(error, (errors.IntegrityError, errors.OperationalError)):
        return error  # (after a full disk DuckDB may take no further statement)
    with connection.cursor() as apart:  # the transaction that failed takes no statement
        apart.register(NAME, rows)
        for column, kind, value in insert.columns:
            try:
                apart.execute(f"SELECT count(CAST({value} AS {kind})) FROM {NAME}").fetchall()
            except duckdb.Error:
                message = error.message
                if not message.startswith("column "):
                    message = f"column {column} is {kind}: {message}"
                return errors.DataError(message, hint=error.hint)
    return error


def _columns(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    rows = connection.execute(f"DESCRIBE {relation}").fetchall()
    return [(row[0], row[1]) for row in rows]
