"""Joins by one equality or another: `ON a.x = b.x OR a.y = b.y`.

No key is common to all pairs, but each branch has one: the pairs are those of the first branch, and
those of the second that are none of the first, and so on. Otherwise all pairs would be made.
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.rewrites.join_graph import branches, conjuncts, copied, equi_key
from tidewheel.planner.text import conjunction, paired

_MOST = 8
"""So many branches may be joined one by one."""


def by_branches(node: L.Join) -> L.Node | None:
    """The pairs of a join without keys as a union of joins with keys; None: there are none."""
    if node.keys or node.residual is None:
        return None
    sides = {c.name for c in node.left.schema}, {c.name for c in node.right.schema}
    rest = conjuncts(node.residual)
    for at, condition in enumerate(rest):
        parts = branches(condition)
        if 1 < len(parts) <= _MOST:
            found = [_keys(part, *sides) for part in parts]
            if all(keys for keys, _ in found):
                others = [c for i, c in enumerate(rest) if i != at]
                return _union(node, parts, found, others)
    return None


def _keys(
    branch: exp.Expr, left: set[str], right: set[str]
) -> tuple[tuple[L.EquiKey, ...], list[exp.Expr]]:
    keys: list[L.EquiKey] = []
    rest: list[exp.Expr] = []
    for condition in conjuncts(branch):
        key = equi_key(condition, left, right) if isinstance(condition, exp.EQ) else None
        if key is None:
            rest.append(condition)
        else:
            keys.append(copied(key))
    return tuple(keys), rest


def _union(
    node: L.Join,
    parts: list[exp.Expr],
    found: list[tuple[tuple[L.EquiKey, ...], list[exp.Expr]]],
    others: list[exp.Expr],
) -> L.Node:
    columns = (*node.left.schema, *node.right.schema)
    whole: L.Node | None = None
    for i, (keys, rest) in enumerate(found):
        residual = [*rest, *others, *map(_not_true, parts[:i])]
        joined = L.Join(
            node.left, node.right, "inner", keys, conjunction([c.copy() for c in residual])
        )
        whole = joined if whole is None else L.SetOp("union", True, whole, joined, columns)
    assert whole is not None
    return whole


def _not_true(condition: exp.Expr) -> exp.Expr:
    """Is a condition FALSE or NULL?"""
    if isinstance(condition, exp.Paren):
        return _not_true(condition.this)
    if isinstance(condition, exp.EQ):  # needs no statement
        a, b = condition.this, condition.expression
        nulls = [exp.Is(this=e.copy(), expression=exp.Null()) for e in (a, b)]
        return exp.Paren(this=paired(exp.Or, [exp.NEQ(this=a.copy(), expression=b.copy()), *nulls]))
    either = exp.Coalesce(this=exp.Paren(this=condition.copy()), expressions=[exp.false()])
    return exp.Not(this=either)
