"""What is first by several values is of the first row of each group.

    first(x ORDER BY a, b) FROM t GROUP BY k   ─▶
    x FROM (row_number() OVER (PARTITION BY k ORDER BY a, b) AS r FROM t), r = 1

So a row that comes or goes is compared with the few first ones that are kept; such an aggregate
would be computed of all rows of its group. What else is asked of the groups is joined to it.
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Column,
    EquiKey,
    Filter,
    Join,
    Named,
    Node,
    Project,
    Window,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.text import column, to_sql, unchanged


def first_of_groups(node: Node) -> Node:
    """The same relation, with windows."""
    node = over(node, first_of_groups)
    if isinstance(node, Aggregate) and node.keys and node.sets is None and not recursive(node):
        return _by_rows(node)
    return node


def _by_rows(node: Aggregate) -> Node:
    found: dict[str, list[tuple[Named, exp.Expr]]] = {}
    orders: dict[str, exp.Order] = {}
    rest: list[Named] = []
    for named in node.aggregates:
        order = _first_by(named.expr)
        if order is None:
            rest.append(named)
            continue
        text = to_sql(order)
        orders.setdefault(text, order)
        found.setdefault(text, []).append((named, named.expr.this.this))
    if not found:
        return node
    parts: list[Node] = [Aggregate(node.input, node.keys, tuple(rest))] if rest else []
    for text, values in found.items():
        parts.append(_rows(node, orders[text], values, renamed=bool(parts)))
    whole, *more = parts
    for part in more:
        keys = zip(node.keys, part.schema[: len(node.keys)], strict=True)
        equal = (EquiKey(column(k.column.name), column(c.name), null_safe=True) for k, c in keys)
        whole = Join(whole, part, "inner", tuple(equal))
    if not more and whole.schema == node.schema:
        return whole
    return Project(whole, unchanged(node.schema))


def _rows(
    node: Aggregate, order: exp.Order, values: list[tuple[Named, exp.Expr]], renamed: bool
) -> Node:
    """The keys, by other names if they are there already, and the values of each first row."""
    first = values[0][0].column.name
    place = Column(f"{first}__place", "place", "BIGINT")
    groups = [key.expr.copy() for key in node.keys]
    number = exp.Window(this=exp.RowNumber(), partition_by=groups, order=order)
    rows = Filter(
        Window(node.input, (Named(place, number),)),
        exp.EQ(this=column(place.name), expression=exp.Literal.number(1)),
    )
    keys = [
        Named(
            Column(f"{first}__by{i}", k.column.label, k.column.type) if renamed else k.column,
            k.expr.copy(),
        )
        for i, k in enumerate(node.keys)
    ]
    return Project(rows, (*keys, *(Named(n.column, value.copy()) for n, value in values)))


def _first_by(call: exp.Expr) -> exp.Order | None:
    """The order in which a call takes the first value, if it goes by several of them.

    last() takes the first one in the opposite order, of rows that tie, too.
    """
    if not isinstance(call, exp.First | exp.Last) or not isinstance(call.this, exp.Order):
        return None
    items = call.this.expressions
    if len(items) < 2 or isinstance(call.this.this, exp.Distinct):
        return None
    order = exp.Order(expressions=[item.copy() for item in items])
    if isinstance(call, exp.Last):
        for item in order.expressions:
            item.set("desc", not item.args.get("desc"))
            item.set("nulls_first", not item.args.get("nulls_first"))
    return order
