"""The statements of a maintained view: DuckDB over deltas, on a connection of their own.

They read Arrow inputs only, never a table, so they need no session and no transaction.
"""

from __future__ import annotations

import atexit
import itertools
import re
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import duckdb
import pyarrow as pa

from tidewheel.engine import inherited
from tidewheel.engine.arrow import Exchanged, empty
from tidewheel.engine.interruption import interruptible
from tidewheel.engine.kernels.duckdb import input_name, readable, schema_of, table_of
from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import meaning
from tidewheel.planner.meaning import Meaning

WEIGHT = "__tw_weight"
INPUT = input_name(0)
_NO_FILES = "SET disabled_filesystems = 'LocalFileSystem'"


_SMALL = 50_000
"""Rows up to which planning a statement takes longer than copying what it gives."""
_KEPT = 1000


class Statements:
    """A DuckDB connection for expressions over deltas, with the settings that give them a meaning.

    All views of a process that were made under the same settings share it.
    """

    def __init__(self, settings: Meaning = ()) -> None:
        self._settings = settings
        self.ordinary = not meaning.changed(settings, meaning.DEFAULTS.keys() - meaning.ZONES)
        """Do expressions mean what they mean to DuckDB by default, but for the time zone?"""
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._schemas: dict[tuple[str, Schema, str | None], pa.Schema] = {}
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._confined = False
        self._numbers = itertools.count()
        self._gone: deque[tuple[int, str]] = deque()
        self.opened = 0
        """How often it was opened: statements that were prepared before are gone."""

    def confine(self) -> None:
        """From now on no statement can open a file (nor spill to one), whatever it calls."""
        with self._lock:
            if not self._confined:
                self._confined = True
                if self._connection is not None:
                    self._connection.execute(_NO_FILES).fetchall()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        con = self._connection
        if con is None:
            con = duckdb.connect(config={"threads": 1})
            self._connection = inherited.kept_in_child(con)
            self.opened += 1
            con.execute("SET arrow_lossless_conversion = true")
            con.execute(meaning.statement(meaning.DEFAULTS | dict(self._settings))).fetchall()
            if self._confined:
                con.execute(_NO_FILES).fetchall()
            # DuckDB holds what is registered; left so, Python complains of leaks at its end.
            atexit.register(inherited.close, con)
        return con

    def run(self, sql: str, table: pa.Table) -> pa.Table:
        """The result of `sql`, which reads its input as `INPUT`."""
        with self._lock, self._surviving():
            return table_of(self._opened(), sql, {INPUT: table})

    def schema(self, sql: str, source: Schema, weight: str | None) -> pa.Schema:
        """The schema of a result; duckdb.Error if the statement does not bind."""
        asked = sql, source, weight
        with self._lock:
            found = self._schemas.pop(asked, None)
            if found is None:  # only the settings give a statement over one input its meaning
                given = {INPUT: Delta.empty(source).to_arrow(weight)}
                with self._surviving():
                    found = schema_of(self._opened(), sql, given)
            self._schemas[asked] = found
            if len(self._schemas) > _KEPT:
                del self._schemas[next(iter(self._schemas))]
            return found

    def value(self, sql: str) -> Any:
        """The value of an expression without columns, on which nothing but settings has a say."""
        with self._lock:
            if sql not in self._values:
                found = self._opened().execute(f"SELECT {sql}").fetchall()[0][0]
                if len(self._values) == _KEPT:
                    self._values.clear()
                self._values[sql] = found
            return self._values[sql]

    def prepare(self, sql: str, given: Exchanged) -> str:
        """The name of `sql`, planned once, over whatever `given` holds."""
        with self._lock:
            con = self._opened()
            while self._gone:
                opened, name = self._gone.popleft()
                if opened == self.opened:
                    con.execute(f"DEALLOCATE {name}").fetchall()
                    con.unregister(f"{name}_in")
            name = f"__tw_k{next(self._numbers)}"
            con.register(f"{name}_in", readable(con, given))
            text = re.sub(rf"\b{INPUT}\b", f"{name}_in", sql)
            with self._surviving():
                con.execute(f"PREPARE {name} AS {text}").fetchall()
        return name

    def drop(self, opened: int, name: str) -> None:
        """A statement that was prepared when the connection was opened so often goes."""
        self._gone.append((opened, name))

    def execute(self, name: str) -> pa.Table:
        """The whole result of a prepared statement. Hold the lock."""
        with self._surviving():
            return table_of(self._opened(), f"EXECUTE {name}")

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """After an internal error DuckDB refuses whatever follows: the next one opens anew."""
        try:
            with interruptible(self._opened().interrupt):
                yield
        except (duckdb.InternalException, duckdb.FatalException, duckdb.ConnectionException):
            self._connection = None
            raise


class Prepared:
    """A statement over one input, which is planned once if it is run again.

    Parsing, binding and optimizing a small one takes DuckDB three times as long as running it on a
    thousand rows (measured: 2.4 ms against 0.9).
    """

    def __init__(
        self, statements: Statements, sql: str, source: pa.Schema, result: pa.Schema
    ) -> None:
        self._statements = statements
        self._sql = sql
        self._name = ""
        self._empty = empty(source)
        self._given = Exchanged(self._empty)
        self._result = result
        self._opened = 0
        self._runs = 0

    def __call__(self, table: pa.Table) -> pa.Table:
        """The result for one input."""
        statements, given = self._statements, self._given
        if table.num_rows > _SMALL or table.schema != given.schema:
            return statements.run(self._sql, table)
        self._runs += 1
        lost = self._name and self._opened != statements.opened
        if lost or self._runs == 1:
            return statements.run(self._sql, table)
        with statements._lock:
            if not self._name:
                self._name = statements.prepare(self._sql, given)
                self._opened = statements.opened
                weakref.finalize(self, statements.drop, self._opened, self._name)
            given.table = table
            try:
                found = statements.execute(self._name)
            finally:
                given.table = self._empty
        return found if found.schema == self._result else statements.run(self._sql, table)


_made: dict[Meaning, Statements] = {}
_making = threading.Lock()
_confined = False
_current: ContextVar[Statements | None] = ContextVar("statements", default=None)


def statements(settings: Meaning | None = None) -> Statements:
    """Those of a view's settings; without any, of the view that is being worked on."""
    if settings is None:
        found = _current.get()
        return statements(()) if found is None else found
    with _making:
        made = _made.get(settings)
        if made is None:
            made = _made[settings] = Statements(settings)
            if _confined:
                made.confine()
        return made


@contextmanager
def under(settings: Meaning) -> Iterator[None]:
    """Kernels that are made within the block belong to a view that was made under `settings`."""
    outside = _current.set(statements(settings))
    try:
        yield
    finally:
        _current.reset(outside)


def confine() -> None:
    """From now on no statement of this process's views can open a file, whatever it calls."""
    global _confined
    with _making:
        _confined = True
        for made in _made.values():
            made.confine()


def linear_kernel(sql: str, source: Schema) -> tuple[Rewrite, Schema]:
    """A linear function as a statement that passes the column `WEIGHT` on as its last."""
    run, arrow = _prepared(sql, source, WEIGHT)
    schema = _unweighted(arrow)

    def rewrite(delta: Delta) -> Delta:
        named = Delta(source, delta.cols, delta.weights)
        weighted = Delta.from_arrow(run(named.to_arrow(WEIGHT)), weight=1)
        return Delta(schema, weighted.cols[:-1], weighted.cols[-1])

    return rewrite, schema


def linear_schema(sql: str, source: Schema) -> Schema:
    """What `linear_kernel` would give."""
    return _unweighted(statements().schema(sql, source, WEIGHT))


def _unweighted(arrow: pa.Schema) -> Schema:
    fields = list(arrow)[:-1]
    return Schema((f.name for f in fields), (f.type for f in fields))


def group_kernel(sql: str, source: Schema) -> tuple[Evaluate, Schema]:
    """A function of rows without weights as a statement."""
    run, arrow = _prepared(sql, source, None)
    schema = Schema((f.name for f in arrow), (f.type for f in arrow))

    def evaluate(rows: Delta) -> Delta:
        named = Delta(source, rows.cols, rows.weights)
        return Delta.from_arrow(run(named.to_arrow(weight=None)), weight=1, schema=schema)

    return evaluate, schema


def _prepared(sql: str, source: Schema, weight: str | None) -> tuple[Prepared, pa.Schema]:
    made = statements()
    result = made.schema(sql, source, weight)
    given = Delta.empty(source).to_arrow(weight).schema
    return Prepared(made, sql, given, result), result


def common_type(types: Sequence[str]) -> str | None:
    """The type in which DuckDB compares values of these types; None: not for keys.

    Only where both are numbers, or dates and times, or one and the same, or one is a text: DuckDB
    casts that to the type of the other, and a text that cannot be cast is an error.
    """
    if len(set(types)) == 1:
        return types[0]
    times = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"}
    numbers = all(t.startswith(_NUMBERS) and not t.endswith("]") for t in types)
    if "VARCHAR" in types:
        (other,) = {*types} - {"VARCHAR"}
        return other if other.startswith((*_NUMBERS, *_CAST)) and other[-1] != "]" else None
    if not numbers and not times.issuperset(types):
        return None
    a, b = (f"CAST(NULL AS {t})" for t in types)
    try:
        return str(statements().value(f"typeof(COALESCE({a}, {b}))"))
    except duckdb.Error:
        return None


_NUMBERS: Final = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE",
)  # fmt: skip
_CAST: Final = ("DATE", "TIME", "BOOLEAN", "UUID", "INTERVAL", "BLOB", "BIT")
