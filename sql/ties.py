"""Ties of an ORDER BY with a LIMIT: SQL leaves open which of the rows come."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from tidewheel.planner.dialect import Tidewheel
from tidewheel.sql.bind_limit import limits


def cut(sql: str, width: int) -> str | None:
    """The query, its ties cut by the whole row, as maintained views cut them.

    None if it does not end in an ORDER BY with a LIMIT or OFFSET.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect=Tidewheel)
    except sqlglot.errors.SqlglotError:
        return None
    order = tree.args.get("order")
    if order is None or not limits(tree):
        return None
    for place in range(1, width + 1):
        order.append("expressions", exp.Ordered(this=exp.Literal.number(place)))
    return tree.sql(dialect=Tidewheel)
