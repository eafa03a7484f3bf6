"""Recursions in a view of which each step has to see exactly the rows of the last one.

Those under USING KEY, and others whose steps are not the sum of what they give for each row: they
count the last step's rows, look at all so far (`recurring.t`) … The loop has for them a table for
each thing that an iteration computes from the last one's:

    found   the step over `new` and `t`; in the first iteration the anchor
    new     those of them that `t` has not, which the next step reads (UNION ALL: `found`)
    t       `t` and `new`. USING KEY: `found`, and the rows of `t` whose keys it has not
    begun   a row, from the second iteration on

As of WITH MUTUALLY RECURSIVE, each reads the tables before it as they are in the same iteration,
and those from itself on as they were in the last one. So the loop context keeps them by changes,
though a row comes and goes with the counters. Of several rows of one key in `found` DuckDB takes
the one that comes last, which changes do not tell: then the view is computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import NoDeltaRule
from tidewheel.planner.recursion_steps import refusal
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
    reasons = [reason for reason in map(refusal, node.bindings) if reason is not None]
    if not reasons:
        return node
    b = node.bindings[0]
    old = (n for s in b.steps for n in every(s) if isinstance(n, L.RecRef) and n.part == "old")
    if len(node.bindings) > 1 or b.kind in ("mutual", "improve") or b.anchor is None or any(old):
        raise NoDeltaRule(reasons[0])
    if b.kind == "using_key" and b.every:
        # (tables that stay as they are would end it, where the query goes on)
        raise NoDeltaRule("USING KEY with UNION ALL")
    found, begun = f"{b.variable}found", f"{b.variable}begun"
    new = found if b.kind == "union_all" else f"{b.variable}new"
    one = L.Column(f"{begun}_0", "begun", "INTEGER")

    def table(variable: str, use: str = "") -> L.Node:
        columns = (replace(c, name=f"{variable}~{i}{use}") for i, c in enumerate(b.columns))
        return L.RecRef(variable, tuple(columns), "all")

    def union(left: L.Node, right: L.Node) -> L.Node:
        return L.SetOp("union", True, left, right, b.columns)

    rows: L.Node = L.Join(b.anchor, L.RecRef(begun, (one,), "all"), "anti")
    for step in b.steps:
        taken = _reading(step, b.variable, new)
        if b.of_none:
            taken = L.Join(taken, table(new, "last"), "semi")
        rows = union(rows, taken)
    tables = {found: rows}
    if new != found:
        whole = table(b.variable)
        tables[new] = L.SetOp("except", False, table(found), whole, b.columns)
    if b.kind == "using_key":
        tables[b.variable] = Replaced(table(found), table(b.variable), b.key)
    else:
        tables[b.variable] = union(table(b.variable), table(new))
    tables[begun] = L.Block("SELECT 1", (), (), (one,), "a constant")
    return replace(
        node,
        bindings=tuple(
            L.Binding(variable, b.columns if variable != begun else (one,), None, (step,), "mutual")
            for variable, step in tables.items()
        ),
    )


def _reading(node: L.Node, variable: str, new: str) -> L.Node:
    """A step that reads the last one's rows from `new`."""
    if isinstance(node, L.RecRef):
        mine = node.variable == variable and node.part == "delta"
        return replace(node, variable=new) if mine else node
    changes: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name) if f.init else None
        if isinstance(value, L.Node):
            changes[f.name] = _reading(value, variable, new)
        elif isinstance(value, tuple) and value and all(isinstance(v, L.Node) for v in value):
            changes[f.name] = tuple(_reading(v, variable, new) for v in value)
    return replace(node, **changes) if changes else node
