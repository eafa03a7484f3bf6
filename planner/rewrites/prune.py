"""Drop columns that nobody reads, down to the scans: state holds only what is needed.

A part with state that several read stays one, with the columns that any of them reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    AsofJoin,
    Column,
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
    names_of,
    references,
)
from tidewheel.planner.rewrites.children import in_bindings
from tidewheel.planner.text import unchanged

_STATE = (Aggregate, AsofJoin, Distinct, Join, SetOp, TopK, Window)


def prune(node: Node) -> Node:
    """The same relation from narrower inputs."""
    pruning = _Pruning(_shared(node))
    while True:
        pruned = pruning.narrow(node, list(range(len(node.schema))))
        if not pruning.grown:
            return pruned
        pruning.grown = False
        pruning.done.clear()


def _shared(node: Node) -> set[int]:
    """The parts with state that are read more than once."""
    state: dict[int, bool] = {}
    shared: set[int] = set()

    def visit(node: Node) -> bool:
        if id(node) in state:
            if state[id(node)]:
                shared.add(id(node))
        else:
            below = [visit(child) for child in node.children]
            state[id(node)] = any(below) or isinstance(node, _STATE)
        return state[id(node)]

    visit(node)
    return shared


def wanted(node: Node) -> dict[int, tuple[Column, ...]]:
    """What of a join its only reader wants, by the join's identity, for all joins of a plan.

    A projection or an aggregate may read it through filters.
    """
    several = _shared(node)
    found: dict[int, tuple[Column, ...]] = {}
    seen: set[int] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        todo += node.children
        if isinstance(node, Project):
            names = _reads(e.expr for e in node.exprs)
        elif isinstance(node, Aggregate):
            names = _reads(e.expr for e in (*node.keys, *node.aggregates))
        else:
            continue
        below = node.input
        while isinstance(below, Filter) and id(below) not in several:
            names |= references(below.predicate)
            below = below.input
        if isinstance(below, Join | AsofJoin) and id(below) not in several:
            columns = tuple(c for c in below.schema if c.name in names)
            found[id(below)] = columns or below.schema[:1]  # to count rows any will do
    return found


def _reads(expressions: Iterable[exp.Expr | None]) -> set[str]:
    return set().union(*(references(e) for e in expressions))


def _kept(exprs: tuple[Named, ...], needed: set[str]) -> tuple[Named, ...]:
    return tuple(e for e in exprs if e.column.name in needed)


class _Pruning:
    """Of nodes that are `shared`, what all readers want of them, known once nothing has `grown`."""

    def __init__(self, shared: set[int]) -> None:
        self._shared = shared
        self._wanted: dict[int, set[str]] = {}
        self.done: dict[int, Node] = {}
        self.grown = False

    def __call__(self, node: Node, needed: set[str]) -> Node:
        """`node` with the columns that are `needed`, and perhaps others."""
        key = id(node)
        if key not in self._shared:
            return self._pruned(node, needed)
        wanted = self._wanted.setdefault(key, set())
        if not needed <= wanted:
            wanted |= needed
            self.grown = True
            self.done.pop(key, None)
        if key not in self.done:
            self.done[key] = self._pruned(node, set(wanted))
        return self.done[key]

    def _pruned(self, node: Node, needed: set[str]) -> Node:
        if isinstance(node, Scan):
            keep = [i for i, c in enumerate(node.columns) if c.name in needed] or [0]
            return replace(
                node,
                columns=tuple(node.columns[i] for i in keep),
                source_columns=tuple(node.source_columns[i] for i in keep),
            )
        if isinstance(node, Filter):
            return replace(node, input=self(node.input, needed | references(node.predicate)))
        if isinstance(node, Project):
            exprs = _kept(node.exprs, needed) or node.exprs[:1]
            return Project(self(node.input, _reads(e.expr for e in exprs)), exprs)
        if isinstance(node, Unnest):
            # Every one of them decides how many rows there are.
            return replace(
                node, input=self(node.input, needed | _reads(e.expr for e in node.exprs))
            )
        if isinstance(node, Join | AsofJoin):
            both = needed | references(node.residual if isinstance(node, Join) else node.nearest)
            into_left = both | _reads(k.left for k in node.keys)
            into_right = both | _reads(k.right for k in node.keys)
            return replace(
                node,
                left=self._only(node.left, into_left & names_of(node.left)),
                right=self._only(node.right, into_right & names_of(node.right)),
            )
        if isinstance(node, Aggregate):
            aggregates = _kept(node.aggregates, needed)
            reads = _reads(e.expr for e in (*node.keys, *aggregates))
            if not (aggregates or node.keys):
                aggregates = node.aggregates[:1]
                reads = _reads(e.expr for e in aggregates)
            return replace(node, input=self(node.input, reads), aggregates=aggregates)
        if isinstance(node, Window):
            exprs = _kept(node.exprs, needed)
            if not exprs:
                return self(node.input, needed)
            reads = needed | _reads(e.expr for e in exprs)
            return Window(self(node.input, reads & names_of(node.input)), exprs)
        if isinstance(node, TopK):
            reads = needed | _reads(k.expr for k in node.keys)
            return replace(node, input=self(node.input, reads))
        if isinstance(node, Distinct):
            return Distinct(self(node.input, names_of(node.input)))
        if isinstance(node, SetOp) and node.op == "union" and node.all:
            keep = [i for i, c in enumerate(node.columns) if c.name in needed] or [0]
            left, right = self.narrow(node.left, keep), self.narrow(node.right, keep)
            return SetOp("union", True, left, right, tuple(node.columns[i] for i in keep))
        if isinstance(node, SetOp):
            return replace(
                node,
                left=self(node.left, names_of(node.left)),
                right=self(node.right, names_of(node.right)),
            )
        if isinstance(node, LetRec):
            bindings = in_bindings(node, self._same)
            return replace(node, bindings=bindings, body=self(node.body, needed))
        return node

    def _same(self, node: Node) -> Node:
        """`node` from narrower inputs, its columns where they are."""
        return self.narrow(node, list(range(len(node.schema))))

    def _only(self, node: Node, needed: set[str]) -> Node:
        """`node` without the columns that only its own predicates read."""
        pruned = self(node, needed)
        if {c.name for c in pruned.schema} <= needed or not needed:
            return pruned
        keep = [c for c in pruned.schema if c.name in needed]
        return Project(pruned, unchanged(keep))

    def narrow(self, node: Node, keep: list[int]) -> Node:
        """`node` with just these columns, in this order."""
        columns = [node.schema[i] for i in keep]
        pruned = self(node, {c.name for c in columns})
        if tuple(columns) == pruned.schema:
            return pruned
        return Project(pruned, unchanged(columns))
