"""Aggregate only the groups that a join can meet.

A correlated aggregate becomes a join with all groups of the inner table. If the outer side is
restricted, most groups are never looked at, and yet they would be kept; a semi join with the keys
that the outer side can have leaves them out.

Source: Seshadri, Pirahesh, Leung, "Complex query decorrelation" (ICDE 1996): magic decorrelation.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    EquiKey,
    Filter,
    Join,
    Named,
    Node,
    Project,
    references,
)
from tidewheel.planner.order_of_rows import by_place
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.text import column, substituted


def reduce_groups(node: Node) -> Node:
    """The same relation; groups that no join meets are left out before they are aggregated."""
    node = over(node, reduce_groups)
    if isinstance(node, Join) and node.kind in ("left", "inner", "semi", "anti") and node.keys:
        return _reduced(node)
    return node


def _reduced(join: Join) -> Node:
    if recursive(join.left) or recursive(join.right):
        return join
    right = _restricted(join.right, list(join.keys), join.left)
    return join if right is None else replace(join, right=right)


def _restricted(node: Node, keys: list[EquiKey], outer: Node) -> Node | None:
    """`node`, whose groups are restricted to the keys of `outer`; None if that is of no use."""
    if isinstance(node, Filter):
        below = _restricted(node.input, keys, outer)
        return None if below is None else replace(node, input=below)
    if isinstance(node, Project):
        named = {e.column.name: e.expr for e in node.exprs}
        plain = [k for k in keys if all(isinstance(named[r], exp.Column) for r in _reads(k))]
        renamed = [replace(k, right=substituted(k.right, named)) for k in plain]
        below = _restricted(node.input, renamed, outer)
        return None if below is None else replace(node, input=below)
    if not isinstance(node, Aggregate) or not node.keys or node.sets is not None:
        return None
    if any(by_place(a.expr) for a in node.aggregates):
        return None  # what asks the table for groups keeps no rows
    groups = {e.column.name: e.expr for e in node.keys}
    usable = [k for k in keys if _reads(k) and _reads(k) <= set(groups)]
    found = _source(outer, usable)
    if found is None:
        return None
    source, usable = found
    wanted = [EquiKey(substituted(k.right, groups), k.left.copy(), k.null_safe) for k in usable]
    return replace(node, input=Join(node.input, source, "semi", tuple(wanted)))


def _reads(key: EquiKey) -> set[str]:
    return references(key.right)


def _source(outer: Node, keys: list[EquiKey]) -> tuple[Node, list[EquiKey]] | None:
    """The smallest restricted part of `outer` that has the keys, under new names."""
    found = _smallest(outer, keys)
    if not keys or found is None:
        return None
    part, keys = found
    needed = sorted(set().union(*(references(k.left) for k in keys)))
    if not needed:
        return None  # all rows ask for the same constants
    columns = {c.name: c for c in part.schema}
    # Its columns stand beside those of the inner side, where they may be known already.
    fresh = {n: replace(columns[n], name=f"{n}__magic") for n in needed}
    named = tuple(Named(fresh[n], column(n)) for n in needed)
    renamed: dict[str, exp.Expr] = {n: column(c.name) for n, c in fresh.items()}
    return Project(part, named), [replace(k, left=substituted(k.left, renamed)) for k in keys]


def _smallest(node: Node, keys: list[EquiKey]) -> tuple[Node, list[EquiKey]] | None:
    if isinstance(node, Join) and node.kind in ("inner", "cross"):
        for side in (node.left, node.right):
            known = {c.name for c in side.schema}
            same = _equal_columns(node, side is node.left)
            moved = [replace(k, left=_moved(k.left, known, same)) for k in keys]
            if all(references(k.left) <= known for k in moved):
                found = _smallest(side, moved)
                if found is not None:
                    return found
    return (node, keys) if _restrictive(node) else None


def _equal_columns(join: Join, to_left: bool) -> dict[str, exp.Expr]:
    """Columns of one side by those of the other that they equal, of the same type.

    The number that equals a text is not compared with other texts as that text is.
    """
    kinds = {c.name: c.type for side in join.children for c in side.schema}
    found: dict[str, exp.Expr] = {}
    for key in join.keys:
        here, there = (key.left, key.right) if to_left else (key.right, key.left)
        columns = isinstance(there, exp.Column) and isinstance(here, exp.Column)
        if columns and kinds[there.name] == kinds[here.name]:
            found[there.name] = here
    return found


def _moved(expression: exp.Expr, known: set[str], same: dict[str, exp.Expr]) -> exp.Expr:
    return substituted(expression, {n: e for n, e in same.items() if n not in known})


def _restrictive(node: Node) -> bool:
    if isinstance(node, Filter) or (isinstance(node, Join) and node.kind in ("semi", "anti")):
        return True
    if isinstance(node, Aggregate):
        return False
    return any(map(_restrictive, node.children))
