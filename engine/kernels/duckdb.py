"""A kernel: one SQL statement over named Arrow inputs, run on a DuckDB connection.

Inputs are found by DuckDB's replacement scan of Python variables in a namespace made for the call
(half the price of registering and unregistering a view, measured: 0.5 ms against 1.1 ms). A table
of the catalog would hide an input of its name, hence the prefix of `input_name`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

import _duckdb
import duckdb

from tidewheel.engine.arrow import Exchanged, has_tuple, legible, pa
from tidewheel.engine.kernels.duckdb_types import has_state, kept_as, legible_name
from tidewheel.engine.quoting import quoted

Parameters = Sequence[Any] | Mapping[str, Any] | None

_arrow_schema = getattr(_duckdb, "_arrow_schema", None)
_RELATION = compile("__tw_r = __tw_c.sql(__tw_sql, params=__tw_p)", "<kernel>", "exec")
_EXECUTE = compile("__tw_c.execute(__tw_sql, __tw_p)", "<kernel>", "exec")
_SUBMIT = compile("__tw_r = __tw_c._submit(__tw_sql, None, __tw_f)", "<kernel>", "exec")
_STREAM = compile("__tw_r = __tw_c._submit(__tw_sql, None, 'stream', __tw_n)", "<kernel>", "exec")
_BIND = compile("__tw_r = __tw_c._bind(__tw_sql, with_writes=True)", "<kernel>", "exec")


def input_name(port: int) -> str:
    """The name under which a kernel's SQL reads its input `port`."""
    return f"__tw_in{port}"


def streamed_error(message: str) -> duckdb.Error:
    """DuckDB's own exception for the message of one that came through an Arrow stream."""
    kind = message.split(" Error", 1)[0]
    if message.startswith("{"):
        kind = str(json.loads(message).get("exception_type", ""))
    name = {"INTERRUPT": "InterruptException"}.get(kind, kind.replace(" ", "") + "Exception")
    found = getattr(duckdb, name, None)
    if isinstance(found, type) and issubclass(found, duckdb.Error):
        return found(message)
    return duckdb.Error(message)


def relation(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    inputs: Mapping[str, pa.Table | Exchanged] | None = None,
    params: Parameters = None,
) -> duckdb.DuckDBPyRelation:
    """Bind `sql` over `inputs`; nothing runs until the relation is read. Hold the lock."""
    found: duckdb.DuckDBPyRelation = _called(_RELATION, connection, sql, inputs, __tw_p=params)
    if found is None or not has_state(found.types):
        return found
    items = (
        f"{kept_as(f'#{i}', t) if has_state([t]) else f'#{i}'} AS {quoted(name)}"
        for i, (name, t) in enumerate(zip(found.columns, found.types, strict=True), 1)
    )
    return found.project(", ".join(items))


def states_of(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table that have such states, and what those are kept as, as SQL."""
    found = _called(_RELATION, connection, f"FROM {table} LIMIT 0", None, __tw_p=None)
    pairs = zip(found.columns, found.types, strict=True)
    return {name: kept_as(quoted(name), kind) for name, kind in pairs if has_state([kind])}


def _gives_state(done: Any) -> bool:
    return has_state([column[1] for column in done.description or ()])


def _called(
    code: CodeType,
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    inputs: Mapping[str, pa.Table | Exchanged] | None = None,
    **more: Any,
) -> Any:
    """What `code` makes of `sql` over `inputs`.

    Also without inputs: no variable of this frame may become a table of the user's query.
    """
    scope: dict[str, Any] = {
        **{name: readable(connection, table) for name, table in (inputs or {}).items()},
        "__tw_c": connection,
        "__tw_sql": sql,
        **more,
    }
    exec(code, scope)
    return scope["__tw_r"]


def table_of(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    inputs: Mapping[str, pa.Table | Exchanged] | None = None,
) -> pa.Table:
    """The whole result of one statement. Hold the lock.

    A relation binds its statement twice, which is half of what a small one costs; but one that
    does not bind leaves an open transaction as it was, and this does not.
    """
    if not hasattr(connection, "_submit"):
        return relation(connection, sql, inputs).to_arrow_table()
    found = _called(_SUBMIT, connection, sql, inputs, __tw_f="arrow")
    if _gives_state(found):
        found.close()
        return relation(connection, sql, inputs).to_arrow_table()
    table: pa.Table = found.arrow_table()
    return table


def reader_of(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    inputs: Mapping[str, pa.Table | Exchanged] | None,
    batch_rows: int,
) -> tuple[pa.RecordBatchReader, object]:
    """The result of one statement (see `table_of`) as it is computed, and who owns it.

    Hold the lock.
    """
    if hasattr(connection, "_submit"):
        found = _called(_STREAM, connection, sql, inputs, __tw_n=batch_rows)
        if not _gives_state(found):
            return found.arrow_reader(), found
        found.close()
    owner = relation(connection, sql, inputs)
    return owner.to_arrow_reader(batch_rows), owner


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of one statement (see `table_of`). Hold the lock."""
    if not hasattr(connection, "_submit"):
        execute(connection, sql)
        return connection.fetchall()
    found: list[tuple[Any, ...]] = _called(_SUBMIT, connection, sql, __tw_f="rows").fetchall()
    return found


def schema_of(
    connection: duckdb.DuckDBPyConnection, sql: str, inputs: Mapping[str, pa.Table | Exchanged]
) -> pa.Schema:
    """The schema of a query's result. Hold the lock."""
    if hasattr(connection, "_bind") and _arrow_schema is not None:
        labels, types, _, kind, deferred, _ = _called(_BIND, connection, sql, inputs)
        if kind == "query_result" and not deferred and not has_state(types):
            found: pa.Schema = _arrow_schema(labels, types, connection=connection)
            return found
    return table_of(connection, sql, inputs).schema


def readable(
    connection: duckdb.DuckDBPyConnection, table: pa.Table | Exchanged
) -> pa.Table | Exchanged | duckdb.DuckDBPyRelation:
    """`table` with DuckDB's types: a row without names has got some from Arrow. Hold the lock."""
    if not any(map(pa.types.is_nested, table.schema.types)):
        return table
    if isinstance(table, pa.Table):
        table = legible(table)
    if not any(map(has_tuple, table.schema.types)):
        return table
    found = connection.from_arrow(table)
    items = []
    for name, kind, t in zip(found.columns, found.types, table.schema.types, strict=True):
        label = quoted(name)
        cast = f"CAST({label} AS {legible_name(kind)}) AS {label}"
        items.append(cast if has_tuple(t) else label)
    return found.project(", ".join(items))


def arrow_types(connection: duckdb.DuckDBPyConnection, types: Sequence[str]) -> list[pa.DataType]:
    """The Arrow types of columns of these types in results of `connection`. Hold the lock."""
    names = [f"c{i}" for i in range(len(types))]
    if _arrow_schema is not None:  # a tenth of what a statement takes
        # (of texts it makes types by a connection of the module's own, which it then opens)
        schema = _arrow_schema(names, list(map(connection.type, types)), connection=connection)
    else:
        nulls = (f"CAST(NULL AS {t}) AS {n}" for n, t in zip(names, types, strict=True))
        schema = relation(connection, f"SELECT {', '.join(nulls)} LIMIT 0").to_arrow_table().schema
    return list(schema.types)


class Bound:
    """The statements that a connection ran last, bound: of a small one that is a third of its cost.

    DuckDB plans them anew at each reading, so names mean what they mean then.
    """

    def __init__(self) -> None:
        self._relations: dict[str, duckdb.DuckDBPyRelation] = {}
        self._small: dict[str, None] = {}

    def relation(self, connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
        """`relation` for a statement without inputs and parameters. Hold the lock."""
        found = self._relations.pop(sql, None)
        if found is None:  # (its truth would be told by a count of its rows)
            found = relation(connection, sql)
        if len(sql) <= _LONGEST and is_query(found):
            self._relations[sql] = found
            if len(self._relations) > _KEPT:
                del self._relations[next(iter(self._relations))]
        return found

    def is_small(self, sql: str) -> bool:
        """Was the last answer to `sql`, whatever its literals were, noted as a small one?"""
        return _form(sql) in self._small

    def note_small(self, sql: str, small: bool) -> None:
        """Remember of the statements that ran last whether their answers were small."""
        form = _form(sql)
        self._small.pop(form, None)
        if small and len(sql) <= _LONGEST:
            self._small[form] = None
            if len(self._small) > _KEPT:
                del self._small[next(iter(self._small))]

    def clear(self) -> None:
        """Forget them."""
        self._relations.clear()
        self._small.clear()


_LONGEST = 10_000
_KEPT = 32
_LITERALS = re.compile(r"'(?:[^']|'')*'|(?<![\w\"])\d+(?:\.\d+)?")


def _form(sql: str) -> str:
    return _LITERALS.sub("?", sql) if len(sql) <= _LONGEST else sql


def is_query(relation: duckdb.DuckDBPyRelation) -> bool:
    """Does a relation run its statement when it is read? (nextval, EXPLAIN … have been run.)"""
    return bool(relation.type == "QUERY_RELATION")


def execute(connection: duckdb.DuckDBPyConnection, sql: str, params: Parameters = None) -> None:
    """`connection.execute(sql, params)`, where DuckDB finds no variable as a table."""
    exec(_EXECUTE, {"__tw_c": connection, "__tw_sql": sql, "__tw_p": params})


def roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Roll the open transaction back, unless an error has ended it already.

    An interrupt may still be on its way, though what it was meant for has ended.
    """
    for _ in range(100):
        try:
            connection.rollback()
        except (duckdb.InterruptException, RuntimeError):
            continue
        except duckdb.Error:
            pass
        return


def run_table(
    connection: duckdb.DuckDBPyConnection,
    lock: threading.RLock,
    sql: str,
    inputs: Mapping[str, pa.Table] | None = None,
    params: Parameters = None,
) -> pa.Table:
    """The statement's whole result."""
    with lock:
        return relation(connection, sql, inputs, params).to_arrow_table()


def executed(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """What is left of the rows of the connection's last `execute`. Hold the lock.

    `to_arrow_table` does it too, but warns of a copy, which costs less than a relation's second
    planning of the statement, and a program may have made warnings errors.
    """
    if _gives_state(connection):
        return _by_values(connection)
    take = getattr(connection, "_result_as_arrow", None)
    table = connection.to_arrow_table() if take is None else take(_BATCH, reader=False)
    assert isinstance(table, pa.Table)
    return table


def _by_values(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """`executed` by way of Python's values."""
    columns = [(name, kind) for name, kind, *_ in connection.description or ()]
    values = [list(c) for c in zip(*connection.fetchall(), strict=True)] or [[]] * len(columns)
    items = (
        f"unnest(CAST(${i} AS {legible_name(kind)}[])) AS c{i}"
        for i, (_, kind) in enumerate(columns, 1)
    )
    found = relation(connection, f"SELECT {', '.join(items)}", params=values).to_arrow_table()
    return found.rename_columns([name for name, _ in columns])


_BATCH = 1_000_000
