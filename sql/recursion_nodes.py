"""What the nodes of a plan with recursions tell: which variables they read, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..planner.logical import Binding, LetRec, Node, RecRef, Structural
from ..planner.rewrites.children import every


def afterwards(bindings: Sequence[Binding]) -> set[str]:
    """Those of mutual bindings that none needs in the loop, and that read earlier ones only.

    At every iteration they are functions of the others: they neither keep a loop going nor end it.
    """
    reads = {b.variable: free(b.steps[0]) for b in bindings}
    earlier = {b.variable: {a.variable for a in bindings[:i]} for i, b in enumerate(bindings)}
    own = set(reads)
    late: set[str] = set()
    for binding in reversed(bindings[1:]):
        variable = binding.variable
        needed = any(variable in reads[v] for v in own - late)
        if not needed and reads[variable] & own <= earlier[variable]:
            late.add(variable)
    return late


def reads_more(binding: Binding) -> bool:
    """Does a step read more of the table than the rows of the step before it?"""
    found = (n for n in every(*binding.steps) if isinstance(n, RecRef))
    return any(n.variable == binding.variable and n.part != "delta" for n in found)


def means_same(node: Node) -> bool:
    """Does DuckDB's own recursion mean the same, in every recursion of a plan?"""
    if isinstance(node, LetRec):
        parts = [p for b in node.bindings for p in (b.anchor, *b.steps) if p is not None]
        return all(b.same for b in node.bindings) and all(map(means_same, parts))
    return all(map(means_same, node.children))


def finite(lets: Sequence[LetRec]) -> bool:
    """Do all recursions surely come to an end?"""
    found = [b for x in lets for b in x.bindings]
    return all(b.kind == "union" and (b.native or _bounded(b.structural)) for b in found)


def _bounded(structural: Structural | None) -> bool:
    return structural is not None and bool(structural.sources)


def around(lets: Sequence[LetRec], node: Node) -> Node:
    """`node` with the loops around it, the first outermost."""
    for let in reversed(lets):
        node = replace(let, body=node)
    return node


def free(node: Node, known: dict[int, set[str]] | None = None) -> set[str]:
    """The variables that the bindings of a LetRec, or a node, read. `known`: of nodes in it."""
    if isinstance(node, RecRef):
        return {node.variable}
    known = {} if known is None else known
    if id(node) not in known:
        found: set[str] = set().union(*(free(child, known) for child in node.children))
        if isinstance(node, LetRec):
            found -= {b.variable for b in node.bindings}
        known[id(node)] = found
    return known[id(node)]
