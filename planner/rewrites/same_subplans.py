"""Parts of a plan that compute the same are computed once: a CTE that is read twice, say.

Two parts are the same if they differ in nothing but the unique names of their columns. The second
then reads the first, under names of its own.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Block,
    Column,
    Distinct,
    Join,
    LetRec,
    Named,
    Node,
    Project,
    RecRef,
    SetOp,
    TopK,
    Window,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.text import column, substituted, to_sql

_KEPT = (Aggregate, Distinct, Join, SetOp, TopK, Window)
"""Nodes whose operators hold state: what is worth sharing."""


class _Other(Exception):
    """A node that may not be the same though it reads alike."""


def same_subplans(node: Node) -> Node:
    """The same relation; of equal parts all but the first are projections of the first."""
    return _shared(node, {})


def _shared(node: Node, known: dict[str, Node]) -> Node:
    if isinstance(node, LetRec):  # what is inside a loop is not what is outside
        return node
    text = None
    if isinstance(node, _KEPT):
        text = _fingerprint(node)
        first = known.get(text) if text is not None else None
        if first is not None:
            pairs = zip(node.schema, first.schema, strict=True)
            return Project(first, tuple(Named(mine, column(its.name)) for mine, its in pairs))
    done = over(node, lambda child: _shared(child, known))
    if text is not None:
        known[text] = done
    return done


def _fingerprint(node: Node) -> str | None:
    """The same text for the same plan, whatever its columns are called."""
    names: dict[str, exp.Expr] = {}

    def text(value: Any) -> str:
        if isinstance(value, Block | LetRec | RecRef):
            raise _Other
        if isinstance(value, Column):
            names[value.name] = column(f"c{len(names)}")
            return value.type
        if isinstance(value, exp.Expr):
            return to_sql(substituted(value, names))
        if isinstance(value, tuple):
            return f"({', '.join(map(text, value))})"
        if isinstance(value, Named):  # an expression does not read the column that it defines
            return f"{text(value.expr)}: {text(value.column)}"
        if is_dataclass(value):
            parts = [text(getattr(value, f.name)) for f in fields(value) if f.init]
            return f"{type(value).__name__}({', '.join(parts)})"
        return repr(value)

    try:
        return text(node)
    except _Other:
        return None
