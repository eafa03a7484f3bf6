"""A LEFT or RIGHT JOIN of which only rows without a partner are wanted is an anti join.

    t LEFT JOIN u ON u.k = t.k … WHERE u.k IS NULL   ─▶   t ANTI JOIN u ON u.k = t.k …

As many write it who look for the latest row of a key, or for what has no counterpart. No pair is
made, and of none is told that it goes again.
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner.conditions import of_many
from tidewheel.planner.logical import EquiKey, Filter, Join, Named, Node, Project
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_graph import conjuncts
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.text import column, null_of, paired


def lonely_rows(node: Node) -> Node:
    """The same relation, with anti joins."""
    node = over(node, lonely_rows)
    if not isinstance(node, Filter) or not isinstance(join := node.input, Join):
        return node
    if join.kind not in ("left", "right") or recursive(join):
        return node
    turned = join.kind == "right"
    parts = conjuncts(node.predicate)
    never_null = _matched(join, join.left if turned else join.right)
    others = [part for part in parts if _null(part) not in never_null]
    if len(others) == len(parts):
        return node
    sides, keys = (join.left, join.right), join.keys
    if turned:
        sides = join.right, join.left
        keys = tuple(EquiKey(key.right, key.left, key.null_safe) for key in keys)
    anti = Join(*sides, "anti", keys, join.residual)
    there = {c.name for c in anti.schema}
    values = (column(c.name) if c.name in there else null_of(c.type) for c in join.schema)
    rows = Project(anti, tuple(map(Named, join.schema, values)))
    return Filter(rows, paired(exp.And, others)) if others else rows


def _matched(join: Join, side: Node) -> set[str]:
    """Columns of a side that are not NULL in a pair."""
    equal = [of for key in join.keys if not key.null_safe for of in (key.left, key.right)]
    compared = [
        of
        for part in (conjuncts(join.residual) if join.residual is not None else [])
        if isinstance(part, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE) and not of_many(part)
        for of in (part.this, part.expression)
    ]
    there = {c.name for c in side.schema}
    return {c.name for c in (*equal, *compared) if isinstance(c, exp.Column)} & there


def _null(part: exp.Expr) -> str | None:
    """The column that a condition wants to be NULL."""
    if not isinstance(part, exp.Is) or not isinstance(part.expression, exp.Null):
        return None
    return part.this.name if isinstance(part.this, exp.Column) else None
