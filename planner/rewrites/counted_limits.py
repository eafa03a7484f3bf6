"""Count rows without cutting them off first.

How many rows a LIMIT leaves does not depend on which they are: it is known of how many there are.

    count(*) of LIMIT n OFFSET m = least(greatest(count(*) - m, 0), n)

So is EXISTS as a value, which asks whether there is a first row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from sqlglot import exp

from tidewheel.planner.logical import Aggregate, LetRec, Named, Node, Project, TopK
from tidewheel.planner.rewrites.children import in_bindings, over
from tidewheel.planner.text import column


def counted_limits(node: Node) -> Node:
    """The same relation; limited rows of which nothing but their number is asked are counted."""
    node = over(node, counted_limits)
    if isinstance(node, LetRec):
        return replace(node, bindings=in_bindings(node, counted_limits))
    if not isinstance(node, Aggregate) or node.keys or node.sets is not None:
        return node
    if not all(isinstance(a.expr, exp.Count) and _of_rows(a.expr) for a in node.aggregates):
        return node
    below, cuts = node.input, list[TopK]()
    while isinstance(below, Project | TopK):
        if isinstance(below, TopK):
            if not (_whole(below.limit) and _whole(below.offset)):
                break
            cuts.append(below)
        below = below.input
    if not cuts:
        return node
    every = [replace(a.column, name=f"{a.column.name}_all") for a in node.aggregates]
    counts = (replace(a, column=c) for a, c in zip(node.aggregates, every, strict=True))
    named = []
    for c, all_ in zip(node.schema, every, strict=True):
        value: exp.Expr = column(all_.name)
        named.append(Named(c, reduce(_left, reversed(cuts), value)))
    return Project(Aggregate(below, (), tuple(counts)), tuple(named))


def _of_rows(count: exp.Count) -> bool:
    return isinstance(count.this, exp.Star)


def _whole(number: exp.Expr | None) -> bool:
    return number is None or (isinstance(number, exp.Literal) and number.is_int)


def _left(count: exp.Expr, cut: TopK) -> exp.Expr:
    """What LIMIT and OFFSET leave of so many rows."""
    if cut.offset is not None:
        behind = exp.Sub(this=count, expression=cut.offset.copy())
        count = exp.Anonymous(this="greatest", expressions=[behind, exp.Literal.number(0)])
    if cut.limit is not None:
        count = exp.Anonymous(this="least", expressions=[count, cut.limit.copy()])
    return count
