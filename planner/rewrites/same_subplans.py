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
    shapes: dict[int, int] = {}
    kept: list[tuple[int, int]] = []
    _shape(node, shapes, {}, kept)
    often = Counter(shape for _, shape in kept)
    alike = {part for part, shape in kept if often[shape] > 1}
    return _Sharing(alike).shared(node) if alike else node


def _shape(
    node: Node,
    shapes: dict[int, int],
    numbers: dict[tuple[object, ...], int],
    kept: list[tuple[int, int]],
) -> int:
    """The operators and tables of a plan, as a number: equal parts are alike in them, and they are
    soon told."""
    if id(node) not in shapes:
        # what is inside a loop is not what is outside
        children = () if isinstance(node, LetRec) else node.children
        below = [_shape(child, shapes, numbers, kept) for child in children]
        shape = (type(node), node.table if isinstance(node, Scan) else "", *below)
        shapes[id(node)] = numbers.setdefault(shape, len(numbers))
        if isinstance(node, _KEPT):
            kept.append((id(node), shapes[id(node)]))
    return shapes[id(node)]


class _Sharing:
    """Builds a plan anew, in which equal parts are one. `alike`: those that may be equal to others.

    Each node is written once, over the numbers of its inputs: with their texts in it, the text of a
    plan would grow with the square of its depth, and twice at each node that is read twice.
    """

    def __init__(self, alike: Set[int]) -> None:
        self._alike = alike
        self._first: dict[int, Node] = {}
        self._done: dict[int, Node] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[int, int | None] = {}

    def shared(self, node: Node) -> Node:
        """`node`, or a projection of what is equal to it."""
        if id(node) not in self._done:
            self._done[id(node)] = self._shared(node)
        return self._done[id(node)]

    def _shared(self, node: Node) -> Node:
        if isinstance(node, LetRec):
            return node
        number = self._number(node) if id(node) in self._alike else None
        first = self._first.get(number) if number is not None else None
        if first is not None:
            pairs = zip(node.schema, first.schema, strict=True)
            return Project(first, tuple(Named(mine, column(its.name)) for mine, its in pairs))
        done = over(node, self.shared)
        if number is not None:
            self._first[number] = done
        return done

    def _number(self, node: Node) -> int | None:
        """The same number for the same plan, whatever its columns are called."""
        if id(node) not in self._known:
            try:
                text = self._text(node)
                self._known[id(node)] = self._numbers.setdefault(text, len(self._numbers))
            except _Other:
                self._known[id(node)] = None
        return self._known[id(node)]

    def _text(self, node: Node) -> str:
        names: dict[str, exp.Expr] = {}
        for i, child in enumerate(node.children):
            names |= {c.name: column(f"c{i}_{j}") for j, c in enumerate(child.schema)}

        def text(value: Any) -> str:
            if isinstance(value, Node):
                number = self._number(value)
                if number is None:
                    raise _Other
                return f"#{number}"
            if isinstance(value, Column):
                return value.type
            if isinstance(value, exp.Expr):
                return to_sql(substituted(value, names))
            if isinstance(value, tuple):
                return f"({', '.join(map(text, value))})"
            if is_dataclass(value):
                parts = [text(getattr(value, f.name)) for f in fields(value) if f.init]
                return f"{type(value).__name__}({', '.join(parts)})"
            return repr(value)

        if isinstance(node, Block | LetRec | RecRef):
            raise _Other
        parts = [text(getattr(node, f.name)) for f in fields(node) if f.init]
        return f"{type(node).__name__}({', '.join(parts)})"
