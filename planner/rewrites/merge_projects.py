"""Merge a projection into the one below it, and drop those that change nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from tidewheel.planner.logical import LetRec, Named, Node, Project
from tidewheel.planner.text import substituted


def merge_projects(node: Node) -> Node:
    """The same relation with fewer projections.

    An expression moves into its reader where it is read once, or costs nothing (a column, a
    literal): nothing is computed twice, and nothing random becomes two things.
    """
    if isinstance(node, LetRec):
        return node
    changes: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name) if f.init else None
        if isinstance(value, Node):
            changes[f.name] = merge_projects(value)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            changes[f.name] = tuple(merge_projects(v) for v in value)
    if changes:
        node = replace(node, **changes)
    if not isinstance(node, Project):
        return node
    below = node.input
    if isinstance(below, Project):
        inner = {e.column.name: e.expr for e in below.exprs}
        reads = Counter(c.name for e in node.exprs for c in e.expr.find_all(exp.Column))
        if all(_free(inner[name]) or times == 1 for name, times in reads.items()):
            merged = tuple(Named(e.column, substituted(e.expr, inner)) for e in node.exprs)
            return merge_projects(Project(below.input, merged))
    same = [c.name for c in below.schema] == [e.column.name for e in node.exprs]
    if same and all(
        isinstance(e.expr, exp.Column) and e.expr.name == e.column.name for e in node.exprs
    ):
        return below
    return node


def _free(expression: exp.Expr) -> bool:
    return isinstance(expression, (exp.Column, exp.Literal, exp.Null, exp.Boolean))
