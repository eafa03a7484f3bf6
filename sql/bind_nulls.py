"""What NULLs make of IN: whether one is among the values, which row may be the one sought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Filter,
    Join,
    Named,
    Node,
    Project,
    SetOp,
)
from tidewheel.planner.text import atomic, column

from .bind_query import BoundQuery
from .bind_scope import Names


def asked_of(query: BoundQuery, keys: Sequence[Named], names: Names) -> tuple[Node, str, str]:
    """Whether a subquery has no row (per key), and whether its value is NULL in one.

    Not the counts: with each of them all rows would change that are joined with it.
    """
    value = column(query.columns[0].name)
    all_, known = names.fresh("rows", "BIGINT"), names.fresh("known", "BIGINT")
    counts = (Named(all_, exp.Count(this=exp.Star())), Named(known, exp.Count(this=value)))
    none, nulls = names.fresh("none", "BOOLEAN"), names.fresh("nulls", "BOOLEAN")
    rows = column(all_.name)
    asked = Project(
        Aggregate(query.node, tuple(keys), counts),
        (
            *(Named(k.column, column(k.column.name)) for k in keys),
            Named(none, exp.EQ(this=rows.copy(), expression=exp.Literal.number(0))),
            Named(nulls, exp.LT(this=column(known.name), expression=rows)),
        ),
    )
    return asked, none.name, nulls.name


def maybe_in(
    node: Node, query: BoundQuery, operands: Sequence[exp.Expr], names: Names
) -> tuple[str, Node]:
    """A column that tells whether a subquery has a row that differs from `operands` in none.

    NULL differs from nothing: there `a = 1 AND b = 2` may be what `(1, NULL)` is. Rows with a
    NULL are compared with each of its rows, all others with those that have one.
    """
    pairs = zip(operands, query.columns, strict=True)
    near = exp.and_(
        *(
            exp.Coalesce(
                this=exp.EQ(this=atomic(o.copy()), expression=column(c.name)),
                expressions=[exp.true()],
            )
            for o, c in pairs
        )
    )
    maybe = names.fresh("maybe", "BOOLEAN")
    kept = [Named(c, column(c.name)) for c in node.schema]
    known, sure = _no_null(operands), _no_null([column(c.name) for c in query.columns])
    sides = (
        (Filter(node, known), Filter(query.node, exp.Not(this=exp.Paren(this=sure)))),
        (Filter(node, exp.Not(this=exp.Paren(this=known.copy()))), query.node),
    )
    kinds: tuple[tuple[Literal["semi", "anti"], exp.Expr], ...] = (
        ("semi", exp.true()),
        ("anti", exp.false()),
    )
    first, *more = (
        Project(Join(rows, others, kind, (), near.copy()), (*kept, Named(maybe, told.copy())))
        for rows, others in sides
        for kind, told in kinds
    )
    found: Node = first
    for part in more:
        found = SetOp("union", True, found, part, first.schema)
    return maybe.name, found


def _no_null(values: Sequence[exp.Expr]) -> exp.Expr:
    return exp.and_(
        *(exp.Not(this=exp.Is(this=atomic(v.copy()), expression=exp.Null())) for v in values)
    )
