"""Merge a projection into the one below it, and drop those that change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from tidewheel.planner.logical import LetRec, Named, Node, Project
from tidewheel.planner.text import substituted, typed


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
        merged = _merged(node, below)
        if merged is not None:
            return merge_projects(merged)
    same = [c.name for c in below.schema] == [e.column.name for e in node.exprs]
    if same and all(
        isinstance(e.expr, exp.Column) and e.expr.name == e.column.name for e in node.exprs
    ):
        return below
    return node


def fewer_steps(steps: Sequence[Node]) -> list[Any]:
    """Steps that are taken one after the other, with fewer projections."""
    found: list[Node] = []
    for step in steps:
        before = found[-1] if found else None
        merged = None
        if isinstance(step, Project) and isinstance(before, Project):
            merged = _merged(step, before)
        found[len(found) - (merged is not None) :] = [step if merged is None else merged]
    return found


def _merged(node: Project, below: Project) -> Project | None:
    inner = {e.column.name: e.expr for e in below.exprs}
    reads = Counter(c.name for e in node.exprs for c in e.expr.find_all(exp.Column))
    if not all(n in inner and (_free(inner[n]) or times == 1) for n, times in reads.items()):
        return None
    parts = {e.column.name: typed(e) for e in below.exprs}
    merged = (
        substituted(e.expr, inner if isinstance(e.expr, exp.Column) else parts) for e in node.exprs
    )
    exprs = zip(node.schema, merged, strict=True)
    return Project(below.input, tuple(Named(c, e) for c, e in exprs))


def _free(expression: exp.Expr) -> bool:
    return isinstance(expression, (exp.Column, exp.Literal, exp.Null, exp.Boolean))
