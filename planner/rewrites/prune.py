"""Drop columns that nobody reads, down to the scans: state holds only what is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    AsofJoin,
    Distinct,
    Filter,
    Join,
    LetRec,
    Named,
    Node,
    Project,
    Scan,
    SetOp,
    TopK,
    Unnest,
    Window,
    references,
)
from tidewheel.planner.text import column


def prune(node: Node) -> Node:
    """The same relation from narrower inputs."""
    return _prune(node, {c.name for c in node.schema})


def _reads(expressions: Iterable[exp.Expr | None]) -> set[str]:
    return set().union(*(references(e) for e in expressions))


def _kept(exprs: tuple[Named, ...], needed: set[str]) -> tuple[Named, ...]:
    return tuple(e for e in exprs if e.column.name in needed)


def _prune(node: Node, needed: set[str]) -> Node:
    if isinstance(node, Scan):
        keep = [i for i, c in enumerate(node.columns) if c.name in needed] or [0]
        return replace(
            node,
            columns=tuple(node.columns[i] for i in keep),
            source_columns=tuple(node.source_columns[i] for i in keep),
        )
    if isinstance(node, Filter):
        return replace(node, input=_prune(node.input, needed | references(node.predicate)))
    if isinstance(node, Project):
        exprs = _kept(node.exprs, needed) or node.exprs[:1]
        return Project(_prune(node.input, _reads(e.expr for e in exprs)), exprs)
    if isinstance(node, Unnest):
        # Every one of them decides how many rows there are.
        return replace(node, input=_prune(node.input, needed | _reads(e.expr for e in node.exprs)))
    if isinstance(node, Join | AsofJoin):
        both = needed | references(node.residual if isinstance(node, Join) else node.nearest)
        into_left = both | _reads(k.left for k in node.keys)
        into_right = both | _reads(k.right for k in node.keys)
        return replace(
            node,
            left=_only(node.left, into_left & _names(node.left)),
            right=_only(node.right, into_right & _names(node.right)),
        )
    if isinstance(node, Aggregate):
        aggregates = _kept(node.aggregates, needed)
        reads = _reads(e.expr for e in (*node.keys, *aggregates))
        if not (aggregates or node.keys):
            aggregates = node.aggregates[:1]
            reads = _reads(e.expr for e in aggregates)
        return replace(node, input=_prune(node.input, reads), aggregates=aggregates)
    if isinstance(node, Window):
        exprs = _kept(node.exprs, needed)
        if not exprs:
            return _prune(node.input, needed)
        reads = needed | _reads(e.expr for e in exprs)
        return Window(_prune(node.input, reads & _names(node.input)), exprs)
    if isinstance(node, TopK):
        reads = needed | _reads(k.expr for k in node.keys)
        return replace(node, input=_prune(node.input, reads))
    if isinstance(node, Distinct):
        return Distinct(_prune(node.input, _names(node.input)))
    if isinstance(node, SetOp) and node.op == "union" and node.all:
        keep = [i for i, c in enumerate(node.columns) if c.name in needed] or [0]
        left, right = _narrow(node.left, keep), _narrow(node.right, keep)
        return SetOp("union", True, left, right, tuple(node.columns[i] for i in keep))
    if isinstance(node, SetOp):
        return replace(
            node,
            left=_prune(node.left, _names(node.left)),
            right=_prune(node.right, _names(node.right)),
        )
    if isinstance(node, LetRec):
        bindings = tuple(
            replace(
                b,
                anchor=None if b.anchor is None else _same(b.anchor),
                steps=tuple(map(_same, b.steps)),
            )
            for b in node.bindings
        )
        return replace(node, bindings=bindings, body=_prune(node.body, needed))
    return node


def _same(node: Node) -> Node:
    """`node` from narrower inputs, its columns where they are."""
    return _narrow(node, list(range(len(node.schema))))


def _names(node: Node) -> set[str]:
    return {c.name for c in node.schema}


def _only(node: Node, needed: set[str]) -> Node:
    """`node` without the columns that only its own predicates read."""
    pruned = _prune(node, needed)
    if {c.name for c in pruned.schema} <= needed or not needed:
        return pruned
    keep = [c for c in pruned.schema if c.name in needed]
    return Project(pruned, tuple(Named(c, column(c.name)) for c in keep))


def _narrow(node: Node, keep: list[int]) -> Node:
    """`node` with just these columns, in this order."""
    columns = [node.schema[i] for i in keep]
    pruned = _prune(node, {c.name for c in columns})
    if tuple(columns) == pruned.schema:
        return pruned
    return Project(pruned, tuple(Named(c, column(c.name)) for c in columns))
