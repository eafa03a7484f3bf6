"""Columns with a collation, which DuckDB compares in an order of their own; Arrow knows none.

So a query that looks into such a column stays DuckDB's. One that leaves it out, or hands it on as
it is, can be taken apart: the plan has the column without its collation, a view gives it again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.engine.quoting import quoted
from tidewheel.sql import hidden

_STAND_IN = "temp.main.__tw_collations"
_UNSEEN = (exp.Columns, exp.Pivot, exp.PositionalColumn)
"""What names no column and may mean any."""


def of_table(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The collations of a table's columns that have one."""
    plan = "SELECT json_serialize_plan(?)"
    ((found,),) = hidden.execute(connection, plan, [f"SELECT * FROM {table}"])
    (node,) = json.loads(found)["plans"]
    while "returned_types" not in node:
        (node,) = node["children"]
    kinds = (type_["type_info"] or {} for type_ in node["returned_types"])
    named = zip(node["names"], kinds, strict=True)
    return {name: kind["collation"] for name, kind in named if kind.get("collation")}


def of_view(create: str) -> list[str]:
    """The columns of a maintained view that have a collation; `create`: the CREATE VIEW of it."""
    items = sqlglot.parse_one(create[create.index("SELECT") :], read="duckdb").expressions
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


def bare(value: exp.Expr) -> exp.Expr:
    """A column without its collation."""
    return exp.Collate(this=value, expression=exp.to_identifier("binary", quoted=True))


def typed(name: str, collation: str) -> str:
    """A column with its collation again."""
    parts = ".".join(map(quoted, collation.split(".")))
    return f"{quoted(name)} COLLATE {parts} AS {quoted(name)}"


def handed_on(tree: exp.Query, collated: Collection[str]) -> bool:
    """Does a query leave out columns of such names, in lower case, or give them as they are?

    By names alone, so the answer may be no where it is yes.
    """
    if tree.find(*_UNSEEN):
        return False
    tables = {table.alias_or_name.lower() for table in tree.find_all(exp.Table, exp.Subquery)}
    shown = [item for item in _shown(tree) if _column(item).name.lower() not in tables]
    seen = {id(part) for item in shown for part in item.walk()}
    again = (item for item in shown if _column(item).name.lower() in collated)
    names = {*collated, *(item.alias_or_name.lower() for item in again)}
    for node in tree.walk():
        if id(node) in seen:
            continue
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return False
        if isinstance(node, exp.Identifier) and node.name.lower() in names:
            return False
        if isinstance(node, exp.TableAlias) and node.columns and isinstance(node.parent, exp.Table):
            return False
        if isinstance(node, exp.Join) and node.method == "NATURAL":
            return False
        if isinstance(node, exp.Column) and node.name.lower() in tables:
            return False  # it may be a whole row
    return True


def _shown(tree: exp.Query) -> Iterator[exp.Expr]:
    """What a query's rows are made of, where that is all that happens to it."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return
    order = tree.args.get("order")
    if order is not None and any(not isinstance(o.this, exp.Column) for o in order.expressions):
        return  # ORDER BY 1, ORDER BY ALL
    for item in tree.expressions:
        value = _column(item)
        if isinstance(value, exp.Column) or (
            isinstance(value, exp.Star) and not any(value.args.values())
        ):
            yield item


def _column(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item
