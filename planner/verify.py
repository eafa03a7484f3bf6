"""Checks that a plan fits together; tests run it after every rewrite.

A node's constructor already refuses a column that its inputs lack. This looks at what no node can
see alone.
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Block,
    Column,
    Filter,
    Join,
    LetRec,
    Node,
    PlanError,
    Project,
    RecRef,
    Scan,
    SetOp,
    Unnest,
)
from tidewheel.planner.rewrites.sharing import PREFIX


def verify(root: Node, variables: frozenset[str] = frozenset()) -> None:
    """PlanError where the plan is wrong. `variables`: recursive variables that it may read.

    * every column name is made by one node, and has one type wherever it is seen;
    * every column has a type and every relation a column (a query kept whole may leave its own
      to DuckDB);
    * the sides of a set operation have its types;
    * windows stand in Window nodes only, and no predicate holds one;
    * a recursive variable is read inside its `LetRec`.
    """
    types: dict[str, str] = {}
    makers: dict[str, Node] = {}
    seen: set[int] = set()
    work = [(root, variables)]
    while work:
        node, known = work.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not node.schema and not (node is root and isinstance(node, Block)):
            raise PlanError(f"{type(node).__name__} has no columns")
        for c in node.schema:
            if not c.type:
                raise PlanError(f"{c.name} has no type")
            if types.setdefault(c.name, c.type) != c.type:
                raise PlanError(f"{c.name} is {types[c.name]} and {c.type}")
        for c in _made(node):
            if makers.setdefault(c.name, node) is not node:
                raise PlanError(f"{c.name} is made by two nodes")
        _check(node, known)
        if isinstance(node, LetRec):
            known |= {b.variable for b in node.bindings}
        work += [(child, known) for child in node.children]


def _check(node: Node, variables: frozenset[str]) -> None:
    if isinstance(node, RecRef) and node.variable not in variables:
        raise PlanError(f"{node.variable} is read outside of its recursion")
    if isinstance(node, SetOp):
        for side in (node.left, node.right):
            if [c.type for c in side.schema] != [c.type for c in node.columns]:
                raise PlanError("a side of a set operation has other types")
    plain: list[exp.Expr] = []
    if isinstance(node, Filter):
        plain = [node.predicate]
    elif isinstance(node, Join):
        plain = [e for k in node.keys for e in (k.left, k.right)]
        plain += [node.residual] if node.residual is not None else []
    elif isinstance(node, (Project, Unnest)):
        plain = [e.expr for e in node.exprs]
    if any(e.find(exp.Window) for e in plain):
        raise PlanError(f"a window function in a {type(node).__name__}")


def _made(node: Node) -> list[Column]:
    """The columns that a node makes: not those that it hands on under their names."""
    if isinstance(node, RecRef):
        return []
    if isinstance(node, Scan):  # a leaf that stands for a shared node may stand twice
        return [] if node.table.startswith(PREFIX) else list(node.schema)
    if isinstance(node, Block):
        handed_on = {c.name for i in node.inputs for c in i.schema}
        return [c for c in node.schema if c.name not in handed_on]
    if isinstance(node, SetOp):
        return list(node.columns)
    named = [*getattr(node, "exprs", ()), *getattr(node, "aggregates", ())]
    if isinstance(node, Aggregate):
        named += node.keys
    return [
        n.column
        for n in named
        if not (isinstance(n.expr, exp.Column) and n.expr.name == n.column.name)
    ]
