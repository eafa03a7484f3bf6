"""A kernel: one SQL statement over named Arrow inputs, run on a DuckDB connection.

Inputs are found by DuckDB's replacement scan of Python variables in a namespace made for the call
(half the price of registering and unregistering a view, measured: 0.5 ms against 1.1 ms). A table
of the catalog would hide an input of its name, hence the prefix of `input_name`.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType
from typing import Any

import _duckdb
import duckdb

from tidewheel.engine.arrow import Exchanged, has_tuple, pa

Parameters = Sequence[Any] | Mapping[str, Any] | None
Profile = Callable[[str, str], None]
"""Takes a statement and DuckDB's profile of it, as JSON."""

_arrow_schema = getattr(_duckdb, "_arrow_schema", None)
_RELATION = compile("__tw_r = __tw_c.sql(__tw_sql, params=__tw_p)", "<kernel>", "exec")
_EXECUTE = compile("__tw_c.execute(__tw_sql, __tw_p)", "<kernel>", "exec")
_SUBMIT = compile("__tw_r = __tw_c._submit(__tw_sql, None, __tw_f)", "<kernel>", "exec")
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
    return found


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
    found: pa.Table = _called(_SUBMIT, connection, sql, inputs, __tw_f="arrow").arrow_table()
    return found


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
        if kind == "query_result" and not deferred:
            found: pa.Schema = _arrow_schema(labels, types, connection=connection)
            return found
    return table_of(connection, sql, inputs).schema


def readable(
    connection: duckdb.DuckDBPyConnection, table: pa.Table | Exchanged
) -> pa.Table | Exchanged | duckdb.DuckDBPyRelation:
    """`table` with DuckDB's types: a row without names has got some from Arrow. Hold the lock."""
    if not any(map(has_tuple, table.schema.types)):
        return table
    found = connection.from_arrow(table)
    items = []
    for name, kind, t in zip(found.columns, found.types, table.schema.types, strict=True):
        label = _quoted(name)
        cast = f"CAST({label} AS {_with_tuples(kind)}) AS {label}"
        items.append(cast if has_tuple(t) else label)
    return found.project(", ".join(items))


def _with_tuples(kind: Any) -> str:
    """DuckDB's name of a type that came from Arrow."""
    if kind.id not in ("struct", "list", "array", "map", "union"):
        return str(kind)
    inner = [(name, _with_tuples(t)) for name, t in kind.children if isinstance(t, type(kind))]
    kinds = [t for _, t in inner]
    if kind.id == "list":
        return f"{kinds[0]}[]"
    if kind.id == "array":
        return f"{kinds[0]}[{dict(kind.children)['size']}]"
    if kind.id == "map":
        return f"MAP({', '.join(kinds)})"
    if [name for name, _ in inner] == [f"element{i}" for i in range(1, len(inner) + 1)]:
        return f"TUPLE({', '.join(kinds)})"
    named = inner[1:] if kind.id == "union" else inner  # the first of a UNION is the tag
    return f"{kind.id.upper()}({', '.join(f'{_quoted(name)} {t}' for name, t in named)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def arrow_types(connection: duckdb.DuckDBPyConnection, types: Sequence[str]) -> list[pa.DataType]:
    """The Arrow types of columns of these types in results of `connection`. Hold the lock."""
    names = [f"c{i}" for i in range(len(types))]
    if _arrow_schema is not None:  # a tenth of what a statement takes
        schema = _arrow_schema(names, list(types), connection=connection)
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
        """Was the last answer to `sql` noted as a small one?"""
        return sql in self._small

    def note_small(self, sql: str, small: bool) -> None:
        """Remember of the statements that ran last whether their answers were small."""
        self._small.pop(sql, None)
        if small and len(sql) <= _LONGEST:
            self._small[sql] = None
            if len(self._small) > _KEPT:
                del self._small[next(iter(self._small))]

    def clear(self) -> None:
        """Forget them."""
        self._relations.clear()
        self._small.clear()


_LONGEST = 10_000
_KEPT = 32


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
    take = getattr(connection, "_result_as_arrow", None)
    table = connection.to_arrow_table() if take is None else take(_BATCH, reader=False)
    assert isinstance(table, pa.Table)
    return table


_BATCH = 1_000_000


class KernelReader(Iterator["pa.RecordBatch"]):
    """The statement's result, batch by batch; DuckDB computes ahead by a bounded buffer only.

    While it is open the connection can run nothing else (DuckDB refuses): `close` it, or read it
    to its end.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lock: threading.RLock,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
        batch_rows: int = 122_880,
        bound: Bound | None = None,
    ) -> None:
        self._lock = lock
        with lock:
            # The relation is kept: it owns what the reader reads.
            if bound is not None and not (inputs or params):
                self.relation = bound.relation(connection, sql)
            else:
                self.relation = relation(connection, sql, inputs, params)
            self._reader: pa.RecordBatchReader | None = self.relation.to_arrow_reader(batch_rows)
        self.schema: pa.Schema = self._reader.schema

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end."""
        if self._reader is None:
            raise StopIteration
        try:
            with self._lock:
                return self._reader.read_next_batch()
        except OSError as error:  # Arrow wraps what DuckDB raises while a result streams
            self.close()
            raise streamed_error(str(error)) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection free; safe to call again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with self._lock:
                reader.close()


class KernelConnection:
    """A connection as the kernels of one plan use it: one statement at a time.

    `open` lets DuckDB find the inputs (Python variables; the session's connection has that turned
    off), `close` puts the setting back. Both cost a statement, so a plan without inputs skips them.
    Where external access is off DuckDB looks at no variable: then inputs are registered.

    `beside`: the connection of the same database that was opened before this one, which is its
    cursor; settings of the whole database are made there. A cursor is closed with its kernels.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lock: threading.RLock,
        batch_rows: int = 122_880,
        beside: KernelConnection | None = None,
    ) -> None:
        self._connection = connection
        self._lock = lock
        self._batch_rows = batch_rows
        self._beside = beside
        self._profile: Profile | None = None
        self._restore: list[str] = []
        self._registers = False
        self._registered: set[str] = set()

    def open(self) -> None:
        """Make inputs findable."""
        if self._beside is not None:
            self._registers = self._beside._registers
            return
        with self._lock:
            # fetchall: a result that is not read to its end blocks the connection
            rows = self._connection.execute(
                "SELECT current_setting('python_enable_replacements'), "
                "current_setting('enable_external_access')"
            ).fetchall()
            self._registers = not rows[0][1]
            if not (rows[0][0] or self._registers):
                self._connection.execute("SET python_enable_replacements = true").fetchall()
                self._restore.append("SET python_enable_replacements = false")

    def close(self) -> None:
        """Undo `open`; no reader may be open any more. Safe to call again."""
        restore, self._restore = self._restore, []
        for statement in restore:
            with self._lock:
                self._connection.execute(statement).fetchall()
        registered, self._registered = self._registered, set()
        for name in registered:
            # A transaction that failed takes no statement; then the next input replaces this one.
            with self._lock, suppress(duckdb.Error):
                self._connection.unregister(name)
        if self._beside is not None:
            self._connection.close()

    @property
    def key(self) -> Hashable:
        """What kernels on this connection have in common: they never run at once."""
        return id(self._connection)

    def interrupt(self) -> None:
        """End the statement that runs; from any thread."""
        self._connection.interrupt()

    def measure(self, profile: Profile) -> None:
        """From now on tell `profile` what DuckDB measures; not where settings are locked."""
        with self._lock, suppress(duckdb.Error):
            query = "SELECT current_setting('enable_profiling')"
            if self._connection.execute(query).fetchall()[0][0] is None:
                self._connection.execute("SET enable_profiling = 'no_output'").fetchall()
                self._restore.append("RESET enable_profiling")
            self._profile = profile

    def measured(self, sql: str) -> None:
        """A statement has just ended: pass on DuckDB's profile of it."""
        if self._profile is not None:
            with self._lock:
                self._profile(sql, self._connection.get_profiling_information(format="json"))

    def _found(self, inputs: Mapping[str, pa.Table] | None) -> Mapping[str, pa.Table] | None:
        if self._registers and inputs:
            with self._lock:
                for name, table in inputs.items():
                    self._connection.register(name, readable(self._connection, table))
            self._registered.update(inputs)
            return None
        return inputs

    def table(
        self,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
    ) -> pa.Table:
        """The statement's whole result."""
        table = run_table(self._connection, self._lock, sql, self._found(inputs), params)
        self.measured(sql)
        return table

    def reader(
        self,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
    ) -> KernelReader:
        """The statement's result as it is computed; close it before the next statement."""
        found = self._found(inputs)
        return KernelReader(self._connection, self._lock, sql, found, params, self._batch_rows)


class Repeated:
    """A statement that is run again and again, over inputs of the same schemas.

    While they have few rows it is bound once, which is a third of what it costs to run it.
    """

    def __init__(self, connection: KernelConnection, sql: str, params: Parameters = None) -> None:
        self._connection = connection
        self._sql = sql
        self._params = params
        self._relation: duckdb.DuckDBPyRelation | None = None
        self._inputs: dict[str, Exchanged] = {}

    def __call__(self, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """The whole result for some inputs."""
        found = self._of_few(inputs)
        if found is None:
            return self._connection.table(self._sql, inputs, self._params)
        self._connection.measured(self._sql)
        return found

    def _of_few(self, inputs: Mapping[str, pa.Table]) -> pa.Table | None:
        on = self._connection
        # (DuckDB takes an input whose rows it can't count for one of a single row)
        if on._registers or math.prod(max(t.num_rows, 1) for t in inputs.values()) > _FEW:
            return None
        with on._lock:
            if self._relation is None:
                self._inputs = {name: Exchanged(table) for name, table in inputs.items()}
                found = relation(on._connection, self._sql, self._inputs, self._params)
                if is_query(found):
                    self._relation = found
                return found.to_arrow_table()
            if not all(self._inputs[name].exchange(table) for name, table in inputs.items()):
                return None
            return self._relation.to_arrow_table()


_FEW = 10_000
"""Combinations of rows."""
