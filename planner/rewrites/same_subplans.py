"""Parts of a plan that compute the same are computed once: a CTE that is read twice, say.

Two parts are the same if they differ in nothing but the unique names of their columns. The second
then reads the first, under names of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
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
    Scan,
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
    shapes: list[tuple[int, str]] = []
    _shape(node, shapes)
    often = Counter(shape for _, shape in shapes)
    alike = {part for part, shape in shapes if often[shape] > 1}
    return _shared(node, alike, {}) if alike else node


def _shape(node: Node, shapes: list[tuple[int, str]]) -> str:
    """The operators and tables of a plan: equal parts are alike in them, and they are soon told."""
    if isinstance(node, LetRec):  # what is inside a loop is not what is outside
        return "LetRec"
    below = ",".join([_shape(child, shapes) for child in node.children])
    shape = f"{type(node).__name__} {node.table if isinstance(node, Scan) else ''}({below})"
    if isinstance(node, _KEPT):
        shapes.append((id(node), shape))
    return shape


def _shared(node: Node, alike: Set[int], known: dict[str, Node]) -> Node:
    if isinstance(node, LetRec):
        return node
    text = None
    if id(node) in alike:
        text = _fingerprint(node)
        first = known.get(text) if text is not None else None
        if first is not None:
            pairs = zip(node.schema, first.schema, strict=True)
            return Project(first, tuple(Named(mine, column(its.name)) for mine, its in pairs))
    done = over(node, lambda child: _shared(child, alike, known))
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
