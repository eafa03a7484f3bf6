"""The rows of the first dense ranks are those of the first distinct values.

    dense_rank() OVER (PARTITION BY k ORDER BY x) AS r FROM t, r <= 3   ─▶
    t JOIN (row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM DISTINCT k, x OF t, r <= 3)

So a row that comes or goes is looked for among the first values of its group, of which few are
kept; and no other row of the group gets another rank unless one of these values comes or goes.
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
from tidewheel.planner.text import column, unchanged


def dense_ranks(node: Node) -> Node:
    """The same relation, with joins."""
    node = over(node, dense_ranks)
    if isinstance(node, Filter) and isinstance(node.input, Window) and not recursive(node.input):
        joined = _joined(node.input, node.predicate)
        if joined is not None:
            return Filter(joined, node.predicate)
    return node


def _joined(node: Window, predicate: exp.Expr) -> Node | None:
    named = node.exprs[0]
    window, rank = named.expr, named.column
    if len(node.exprs) > 1 or not isinstance(window, exp.Window) or window.args.get("spec"):
        return None
    order = window.args.get("order")
    if not isinstance(window.this, exp.DenseRank) or order is None:
        return None
    most = at_most(predicate, rank.name)
    if most is None:
        return None
    groups = window.args.get("partition_by") or []
    values = [*groups, *(item.this for item in order.expressions)]
    types = {c.name: c.type for c in node.input.schema}
    kinds = (types.get(v.name, "") if isinstance(v, exp.Column) else "" for v in values)
    keys = tuple(
        Named(Column(f"{rank.name}__by{i}", "key", kind), value.copy())
        for i, (value, kind) in enumerate(zip(values, kinds, strict=True))
    )
    names = [column(key.column.name) for key in keys]
    by = order.copy()
    for item, name in zip(by.expressions, names[len(groups) :], strict=True):
        item.set("this", name.copy())
    place = Column(f"{rank.name}__place", rank.label, rank.type)
    number = exp.Window(
        this=exp.RowNumber(), partition_by=[name.copy() for name in names[: len(groups)]], order=by
    )
    places = Window(Aggregate(node.input, keys, ()), (Named(place, number),))
    few = exp.LTE(this=column(place.name), expression=exp.Literal.number(most))
    equal = tuple(
        EquiKey(value.copy(), name, null_safe=True)
        for value, name in zip(values, names, strict=True)
    )
    rows = Join(node.input, Filter(places, few), "inner", equal)
    return Project(rows, (*unchanged(node.input.schema), Named(rank, column(place.name))))


def at_most(predicate: exp.Expr, name: str) -> int | None:
    """The greatest value of a column with which a condition may be true."""
    for part in predicate.flatten() if isinstance(predicate, exp.And) else [predicate]:
        at = part.unnest()
        if isinstance(at, exp.Between):
            pairs = [(at.this, at.args["high"], 0)]
        elif isinstance(at, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            pairs = []
            if not isinstance(at, exp.GT | exp.GTE):
                pairs.append((at.this, at.expression, isinstance(at, exp.LT)))
            if not isinstance(at, exp.LT | exp.LTE):
                pairs.append((at.expression, at.this, isinstance(at, exp.GT)))
        else:
            continue
        for place, end, less in pairs:
            column_, most = place.unnest(), end.unnest()
            if not isinstance(column_, exp.Column) or column_.name != name:
                continue
            if isinstance(most, exp.Literal) and most.name.isdigit() and int(most.name) > less:
                return int(most.name) - less
    return None
