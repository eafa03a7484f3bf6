"""Which columns have a collation: DuckDB compares them in an order of their own; Arrow knows none.

So a query that looks into such a column stays DuckDB's (`bind_collations`), and a view gives its
columns their collations again.
"""

from __future__ import annotations

import json

import duckdb

from tidewheel.engine.quoting import quoted
from tidewheel.sql import hidden

_STAND_IN = "temp.main.__tw_collations"


def of_table(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The collations of a table's columns that have one."""
    plan = "SELECT json_serialize_plan(?)"
    ((found,),) = hidden.execute(connection, plan, [f"SELECT * FROM {table}"])
    (shown,) = json.loads(found)["plans"]
    kinds = ((e["alias"], e["return_type"]["type_info"] or {}) for e in shown["expressions"])
    return {name: kind["collation"] for name, kind in kinds if kind.get("collation")}


def of_view(query: str) -> list[str]:
    """The columns with a collation of a maintained view, which is kept as such a query."""
    import sqlglot
    from sqlglot import exp

    items = sqlglot.parse_one(query, read="duckdb").expressions
    return [item.alias for item in items if item.find(exp.Collate)]


def of_query(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """The collation of each column of a query, '' for none; none where DuckDB does not bind it."""
    try:
        names = [f"c{i}" for i, _ in enumerate(hidden.describe(connection, query, None))]
    except duckdb.Error:  # Tidewheel's own, and as a statement it would end a transaction
        return []
    made = f"CREATE OR REPLACE TEMP TABLE {_STAND_IN} AS FROM ({query}\n) AS t({', '.join(names)})"
    hidden.execute(connection, f"{made} LIMIT 0", None)
    found = of_table(connection, _STAND_IN)
    hidden.execute(connection, f"DROP TABLE {_STAND_IN}", None)
    return [found.get(name, "") for name in names]


def typed(name: str, collation: str) -> str:
    """A column with its collation again."""
    parts = ".".join(map(quoted, collation.split(".")))
    return f"{quoted(name)} COLLATE {parts} AS {quoted(name)}"
