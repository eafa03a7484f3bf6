"""Recursions in a view of which each step has to see exactly the rows of the last one.

Those under USING KEY, and others whose steps are not the sum of what they give for each row: they
count the last step's rows, look at all so far (`recurring.t`) … The loop has for them a table for
each thing that an iteration computes from the last one's:

    found   the step over `new` and `t`; in the first iteration the anchor
    new     those of them that `t` has not, which the next step reads (UNION ALL: all of `found`)
    t       `t` and `new`. USING KEY: `found`, and the rows of `t` whose keys it has not
    begun   a row, from the second iteration on
    again   a row, from the third iteration on
    turn    USING KEY with UNION ALL: a row in every other iteration while `found` has any, so that
            rows that are found again and again are seen to go round for ever

The second iteration runs the step even if there is no anchor, others if the last one found
something new. Where the step may have rows of none, this is a condition of its own.

As of WITH MUTUALLY RECURSIVE, each reads the tables before it as they are in the same iteration,
and those from itself on as they were in the last one. So the loop context keeps them by changes,
though a row comes and goes with the counters. Of several rows of one key in `found` DuckDB takes
the one that comes last, which changes do not tell: then the view is computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import NoDeltaRule
from tidewheel.planner.recursion_steps import check, reading, reads_old
from tidewheel.planner.rewrites.children import every


@dataclass(frozen=True)
class Replaced(L.Node):
    """The rows of `new`, and those of `old` whose keys it has not. Keyed."""

    new: L.Node
    old: L.Node
    key: tuple[int, ...]

    def __post_init__(self) -> None:
        self._set_schema(self.new.schema)


def step_by_step(node: L.LetRec) -> L.LetRec:
    """`node`, with such a recursion as `mutual` tables. Raises NoDeltaRule."""
    b = node.bindings[0]
    try:
        for each in node.bindings:
            check(each)
        return node
    except NoDeltaRule:
        alone = len(node.bindings) == 1 and b.kind not in ("mutual", "improve")
        if not alone or b.anchor is None or reads_old(*b.steps):
            raise
    if any(c.type in ("DOUBLE", "FLOAT") for c in b.columns) and any(map(_sums, b.steps)):
        # Ranks and means: one change moves every row of every iteration.
        raise NoDeltaRule("sums of floating-point numbers in a recursion")
    names = ("found", "begun", "again", "turn")
    found, begun, again, turn = (f"{b.variable}{which}" for which in names)
    new = found if b.every or b.kind == "union_all" else f"{b.variable}new"
    one = (L.Column(f"{begun}_0", "begun", "INTEGER"),)

    def table(variable: str, use: str = "") -> L.Node:
        columns = (replace(c, name=f"{variable}~{i}{use}") for i, c in enumerate(b.columns))
        return L.RecRef(variable, tuple(columns), "all")

    def flag(variable: str) -> L.Node:
        return L.RecRef(variable, (replace(one[0], name=f"{variable}~0"),), "all")

    def union(left: L.Node, right: L.Node, columns: tuple[L.Column, ...] = b.columns) -> L.Node:
        return L.SetOp("union", True, left, right, columns)

    def read(r: L.RecRef) -> L.Node:
        mine = r.variable == b.variable and r.part == "delta"
        return replace(r, variable=new) if mine else r

    steps = [reading(step, read) for step in b.steps]
    gated = not all(_ends(step, new) for step in steps)
    if gated:
        last = L.Project(table(new, "last"), (L.Named(one[0], exp.Literal.number(1)),))
        goes_on = union(L.Join(flag(begun), flag(again), "anti"), last, one)
        steps = [L.Join(step, goes_on, "semi") for step in steps]
    tables = {found: reduce(union, [L.Join(b.anchor, flag(begun), "anti"), *steps])}
    if new != found:
        whole = table(b.variable)
        tables[new] = L.SetOp("except", False, table(found), whole, b.columns)
    if b.kind == "using_key":
        tables[b.variable] = Replaced(table(found), table(b.variable), b.key)
    else:
        tables[b.variable] = union(table(b.variable), table(new))
    if gated:
        tables[again] = L.Distinct(flag(begun))
    if b.every:
        on = L.Project(table(found, "on"), (L.Named(one[0], exp.Literal.number(1)),))
        tables[turn] = L.Distinct(L.Join(on, flag(turn), "anti"))
    tables[begun] = L.Block("SELECT 1", (), (), one, "a constant")
    return replace(
        node,
        bindings=tuple(
            L.Binding(v, one if v in (begun, again, turn) else b.columns, None, (step,), "mutual")
            for v, step in tables.items()
        ),
    )


def _sums(step: L.Node) -> bool:
    of = [a.expr for n in every(step) if isinstance(n, L.Aggregate) for a in n.aggregates]
    return any(e.find(exp.Sum, exp.Avg) for e in of)


def _ends(node: L.Node, new: str) -> bool:
    """Does a step surely give nothing where the last one gave nothing?"""

    def side(child: L.Node) -> bool:
        return _ends(child, new)

    match node:
        case L.RecRef():
            return node.variable == new
        case L.Filter() | L.Project() | L.Unnest() | L.Window() | L.Distinct() | L.TopK():
            return side(node.input)
        case L.Aggregate():
            return bool(node.keys) and node.sets is None and side(node.input)
        case L.Join() if node.kind in ("inner", "cross"):
            return side(node.left) or side(node.right)
        case L.Join() if node.kind in ("right", "full"):
            return side(node.right) and (node.kind == "right" or side(node.left))
        case L.Join() | L.AsofJoin():
            return side(node.left)
        case L.SetOp() if node.op == "union":
            return side(node.left) and side(node.right)
        case L.SetOp():
            return side(node.left) or (node.op == "intersect" and side(node.right))
    return False
