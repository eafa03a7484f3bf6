"""A window function of all rows of its partition is a total, joined with each of them.

    sum(x) OVER (PARTITION BY k)   ─▶   the rows ⋈ their sums by k

An operator of windows evaluates a partition again when one of its rows changes. A total is told of
the change, and only if it is another one now the rows of the partition are: a new row that is not
the greatest makes no difference to `max(x) OVER ()`. Worth it where partitions are large.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Column,
    EquiKey,
    Join,
    Named,
    Node,
    Project,
    Window,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.rewrites.measured import Measures
from tidewheel.planner.text import column, to_sql, unchanged

_TOTALS = (
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr,
    exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop,
)  # fmt: skip
LARGE: Final = 5_000
"""Rows of a partition that take longer to be evaluated again than to be joined."""


def whole_windows(node: Node, measures: Measures) -> Node:
    """The same relation; functions of whole large partitions are aggregates, joined."""
    node = over(node, lambda child: whole_windows(child, measures))
    if not isinstance(node, Window) or recursive(node):
        return node
    parts: dict[tuple[str, ...], list[Named]] = {}
    for named in node.exprs:
        if isinstance(named.expr, exp.Window) and _is_total(named.expr):
            by = tuple(map(to_sql, _partition(named.expr)))
            parts.setdefault(by, []).append(named)
    totals = [same for same in parts.values() if _large(node.input, same[0], measures)]
    if not totals:
        return node
    taken = [named for same in totals for named in same]
    others = tuple(named for named in node.exprs if named not in taken)
    found: Node = Window(node.input, others) if others else node.input
    for same in totals:
        found = _joined(found, node.input, same)
    return Project(found, unchanged(node.schema))


def _joined(rows: Node, source: Node, same: list[Named]) -> Node:
    """`rows` with totals of the rows of `source` that have one partition."""
    groups = _groups(same[0])
    keys = tuple(EquiKey(g.expr.copy(), column(g.column.name), null_safe=True) for g in groups)
    totals = tuple(Named(named.column, named.expr.this.copy()) for named in same)
    return Join(rows, Aggregate(source, groups, totals), "inner" if keys else "cross", keys)


def _groups(named: Named) -> tuple[Named, ...]:
    """What a window function partitions by, as columns of a name of their own."""
    names = (f"{named.column.name}__by{i}" for i in range(len(_partition(named.expr))))
    parts = zip(names, _partition(named.expr), strict=True)
    return tuple(Named(Column(name, name, ""), part.copy()) for name, part in parts)


def _partition(window: exp.Expr) -> list[exp.Expr]:
    return window.args.get("partition_by") or []


def _is_total(window: exp.Window) -> bool:
    """Has each row of a partition the same value, whatever the order of the rows?"""
    if window.args.get("order") or window.args.get("spec"):
        return False
    call = window.this
    call = call.this if isinstance(call, exp.Filter) else call
    return isinstance(call, _TOTALS) and call.find(exp.Order) is None


def _large(source: Node, named: Named, measures: Measures) -> bool:
    """Are the partitions large? One of all rows may become so."""
    groups = _groups(named)
    found = measures.groups(Project(source, groups)) if groups else None
    return not groups or (found is not None and found[0] >= LARGE * found[1] > 0)
