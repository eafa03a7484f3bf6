"""`Connection.append`: the rows of an Arrow stream into a table, columns by name.

A value must fit its column without losing anything: numbers go into numbers (a fraction not into an
integer), dates and timestamps into each other where nothing is cut off, text into types that Arrow
has no name for (ENUM, UUID, JSON …). Anything else is refused before a row is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from tidewheel.engine.quoting import quoted

from . import errors
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

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
             "UINTEGER", "UBIGINT", "UHUGEINT"}  # fmt: skip
_NUMBERS = _INTEGERS | {"DECIMAL", "FLOAT", "DOUBLE", "BIGNUM"}
_AS_TEXT = {"ENUM", "UUID", "JSON", "BIT", "BIGNUM", "INTERVAL", "TIME WITH TIME ZONE"}
_COARSER = {
    "TIMESTAMP_NS": ("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S", "DATE"),
    "TIMESTAMP": ("TIMESTAMP_MS", "TIMESTAMP_S", "DATE"),
    "TIMESTAMP_MS": ("TIMESTAMP_S", "DATE"),
    "TIMESTAMP_S": ("DATE",),
    "TIMESTAMPTZ_NS": ("TIMESTAMP WITH TIME ZONE",),
    "TIME_NS": ("TIME",),
}
"""What may be cut off a moment, which is then looked at."""
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
    with session.lent(NAME, rows, _STATEMENT):
        try:
            return session.execute(insert.text, None)[1]
        except errors.DatabaseError as error:
            raise explained(error, insert, rows, session.connection) from None


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
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # a pandas column of objects
        raise errors.DataError(
            "; ".join(map(str, error.args)), hint="give that column one type before it is appended"
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
    connection.register(NAME, schema.empty_table())
    try:
        given = _columns(connection, NAME)
    finally:
        connection.unregister(NAME)
    columns = tuple(
        (column, wants, _value(connection, quoted(name), kind, column, wants))
        for (name, kind), (column, wants) in zip(
            given, [wanted[label] for label in lower], strict=True
        )
    )
    names = ", ".join(quoted(column) for column, _, _ in columns)
    values = ", ".join(value for _, _, value in columns)
    return Insert(f"INSERT INTO {target.quoted} ({names}) SELECT {values} FROM {NAME}", columns)


def explained(
    error: errors.Error, insert: Insert, rows: pa.Table, connection: duckdb.DuckDBPyConnection
) -> errors.Error:
    """The error without a place in a text that is not the user's, and with the column's name."""
    error.line = error.column = error.source_line = None
    if isinstance(error, errors.IntegrityError):
        return error
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


def _value(
    connection: duckdb.DuckDBPyConnection, name: str, given: str, column: str, wanted: str
) -> str:
    """What is inserted for a column of type `given`; ProgrammingError if it cannot fit."""
    a, b = _base(given), _base(wanted)
    if a == b or (a == '"NULL"'):
        return name
    if a in _NUMBERS and b in _NUMBERS:
        if b in _INTEGERS and a not in _INTEGERS:
            return _exact(name, f"trunc({name})", column, wanted)
        return name
    if b in _COARSER.get(a, ()):
        # (nanoseconds DuckDB casts to seconds by way of microseconds only)
        micros = f"CAST({name} AS TIMESTAMP)" if "TIMESTAMP" in _COARSER[a] else name
        return _exact(name, f"CAST({micros} AS {b})", column, wanted)
    if a == "VARCHAR" and b in _AS_TEXT:
        return name
    nested = all(t.endswith("]") or t.startswith(("STRUCT", "MAP", "UNION")) for t in (a, b))
    if nested or _implicit(connection, given, wanted):
        return name
    raise errors.ProgrammingError(
        f"column {column} is {wanted}, the data have {given}",
        hint="convert the column before it is appended",
    )


def _exact(name: str, converted: str, column: str, wanted: str) -> str:
    message = f"column {column} is {wanted}, which does not hold ".replace("'", "''")
    failed = f"error('{message}' || {name})"
    return f"CASE WHEN {name} <> {converted} THEN {failed} ELSE {converted} END"


def _base(kind: str) -> str:
    """A type without its parameters; nested ones as they are."""
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
        return kind
    return kind.partition("(")[0]


def _implicit(connection: duckdb.DuckDBPyConnection, given: str, wanted: str) -> bool:
    query = f"SELECT can_cast_implicitly(NULL::{given}, NULL::{wanted})"
    return bool(connection.execute(query).fetchall()[0][0])
