"""UNION types: a NULL of one of their members comes back from Arrow as NULL, without its member.

A value that is handed on looks the same in the end; what compares, counts or takes apart such
values must not come behind Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Column,
    Filter,
    Join,
    LetRec,
    Node,
    Project,
    SetOp,
    references,
)

_UNION = re.compile(r"\bUNION\(")


def looked_into(node: Node) -> Column | None:
    """A column with a UNION in it with which `node` does more than to hand it on.

    Loops are left out: wherever they run, their rows go round as Arrow.
    """
    given = [c for child in node.children for c in child.schema if _UNION.search(c.type)]
    if not given or isinstance(node, LetRec):
        return None
    read: set[str] = {c.name for c in given}
    if isinstance(node, Project):
        read = _read(e.expr for e in node.exprs if not isinstance(e.expr, exp.Column))
    elif isinstance(node, Filter):
        read = references(node.predicate)
    elif isinstance(node, Join):
        read = _read([*(k.left for k in node.keys), *(k.right for k in node.keys), node.residual])
    elif isinstance(node, Aggregate):
        read = _read(e.expr for e in (*node.keys, *node.aggregates))
    elif isinstance(node, SetOp) and node.op == "union" and node.all:
        read = set()
    return next((c for c in given if c.name in read), None)


def anywhere(plan: Node) -> Column | None:
    """The first such column of a plan."""
    seen: dict[int, Node] = {}
    todo = [plan]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            todo += node.children
    return next(filter(None, map(looked_into, seen.values())), None)


def _read(expressions: Iterable[exp.Expr | None]) -> set[str]:
    return {name for e in expressions for name in references(e)}
