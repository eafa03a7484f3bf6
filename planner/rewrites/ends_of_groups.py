"""EXISTS of a greater value asks for the greatest one only.

    t SEMI JOIN u ON u.k = t.k AND u.x > t.x   ─▶   t JOIN max(u.x) by u.k ON … WHERE max > t.x

So a row of `t` meets one row and not all of its key, and no row of `u` but a new greatest one makes
a difference. With NOT EXISTS it is the latest row of each key, as many write it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Column,
    EquiKey,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.text import column, paired, unchanged

_WORDS = """
TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DECIMAL
"""
_NUMBERS = frozenset(_WORDS.split())
_OTHERS = ("VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_OPPOSITE = {exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT}


def ends_of_groups(node: Node) -> Node:
    """The same relation; semi and anti joins by `<` look at the least or greatest values."""
    node = over(node, ends_of_groups)
    if isinstance(node, Join) and node.kind in ("semi", "anti") and not recursive(node):
        return _asking(node)
    return node


def _asking(join: Join) -> Node:
    by = join.residual
    if not isinstance(by, exp.LT | exp.LTE | exp.GT | exp.GTE):
        return join
    here = {c.name: c for c in join.left.schema}
    there = {c.name: c for c in join.right.schema}
    if not (isinstance(by.this, exp.Column) and isinstance(by.expression, exp.Column)):
        return join
    turned = by.this.name in here
    mine, other = (by.this, by.expression) if turned else (by.expression, by.this)
    if mine.name not in here or other.name not in there:
        return join
    if not _ordered_alike(here[mine.name].type, there[other.name].type):
        return join
    greatest = isinstance(by, exp.LT | exp.LTE) == turned
    end = replace(there[other.name], name=f"{other.name}__end")
    call: exp.Expr = (exp.Max if greatest else exp.Min)(this=other.copy())
    groups = tuple(
        Named(Column(f"{end.name}_by{i}", "key", ""), key.right.copy())
        for i, key in enumerate(join.keys)
    )
    keys = tuple(
        EquiKey(key.left, column(g.column.name), key.null_safe)
        for key, g in zip(join.keys, groups, strict=True)
    )
    ends = Aggregate(join.right, groups, (Named(end, call),))
    sides = [mine.copy(), column(end.name)]
    kind: JoinKind = "cross" if not keys else "inner" if join.kind == "semi" else "left"
    means = type(by) if join.kind == "semi" else _OPPOSITE[type(by)]
    found: exp.Expr = means(this=sides[not turned], expression=sides[turned])
    if join.kind == "anti":
        nulls = [exp.Is(this=side.copy(), expression=exp.Null()) for side in sides]
        found = paired(exp.Or, [found, *nulls])
    rows = Filter(Join(join.left, ends, kind, keys), found)
    return Project(rows, unchanged(join.left.schema))


def _ordered_alike(one: str, other: str) -> bool:
    """Are values of the types compared in the order in which `other`'s has its ends?"""
    numbers = all(kind.partition("(")[0] in _NUMBERS for kind in (one, other))
    return numbers or (one == other and one in _OTHERS)
