"""The statements of a maintained view: DuckDB over deltas, on a connection of their own.

They read Arrow inputs only, never a table, so they need no session and no transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

from tidewheel.engine.kernels.duckdb import input_name, relation
from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.state.delta import Delta, Schema

WEIGHT = "__tw_weight"
INPUT = input_name(0)
_NO_FILES = "SET disabled_filesystems = 'LocalFileSystem'"


class Statements:
    """A DuckDB connection for expressions over deltas; all views of a process may share it."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.RLock()
        self._confined = False

    def confine(self) -> None:
        """From now on no statement can open a file (nor spill to one), whatever it calls."""
        with self._lock:
            if not self._confined:
                self._confined = True
                if self._connection is not None:
                    self._connection.execute(_NO_FILES).fetchall()

    def run(self, sql: str, table: pa.Table) -> pa.Table:
        """The result of `sql`, which reads its input as `INPUT`."""
        with self._lock:
            con = self._connection
            if con is None:
                con = self._connection = duckdb.connect(config={"threads": 1})
                con.execute("SET arrow_lossless_conversion = true")
                if self._confined:
                    con.execute(_NO_FILES).fetchall()
            return relation(con, sql, {INPUT: table}).to_arrow_table()

    def schema(self, sql: str, source: Schema, weight: str | None) -> pa.Schema:
        """The schema of a result; duckdb.Error if the statement does not bind."""
        return self.run(sql, Delta.empty(source).to_arrow(weight)).schema


STATEMENTS = Statements()


def linear_kernel(sql: str, source: Schema) -> tuple[Rewrite, Schema]:
    """A linear function as a statement that passes the column `WEIGHT` on as its last."""
    arrow = STATEMENTS.schema(sql, source, WEIGHT)
    fields = list(arrow)[:-1]
    schema = Schema((f.name for f in fields), (f.type for f in fields))

    def rewrite(delta: Delta) -> Delta:
        named = Delta(source, delta.cols, delta.weights)
        table = STATEMENTS.run(sql, named.to_arrow(WEIGHT))
        weighted = Delta.from_arrow(table, weight=1)
        return Delta(schema, weighted.cols[:-1], weighted.cols[-1])

    return rewrite, schema


def group_kernel(sql: str, source: Schema) -> tuple[Evaluate, Schema]:
    """A function of rows without weights as a statement."""
    arrow = STATEMENTS.schema(sql, source, None)
    schema = Schema((f.name for f in arrow), (f.type for f in arrow))

    def evaluate(rows: Delta) -> Delta:
        named = Delta(source, rows.cols, rows.weights)
        table = STATEMENTS.run(sql, named.to_arrow(weight=None))
        return Delta.from_arrow(table, weight=1, schema=schema)

    return evaluate, schema


def common_type(types: Sequence[str]) -> str | None:
    """The type in which DuckDB compares values of these types; None: not for keys.

    Only where both are numbers, or one and the same: a comparison of a text with a number, say,
    fails or not depending on the values, which keys must not.
    """
    if len(set(types)) == 1:
        return types[0]
    numbers = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "UTINYINT",
               "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE")  # fmt: skip
    if not all(t.startswith(numbers) and not t.endswith("]") for t in types):
        return None
    a, b = (f"CAST(NULL AS {t})" for t in types)
    try:
        with STATEMENTS._lock:
            con = STATEMENTS._connection or duckdb.connect()
            found = con.execute(f"SELECT typeof(COALESCE({a}, {b}))").fetchall()
    except duckdb.Error:
        return None
    return str(found[0][0])


Make = Callable[[str, Schema], tuple[Rewrite, Schema]]
