"""What NULLs make of IN: whether one is among the values, which row may be the one sought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    EquiKey,
    Filter,
    Join,
    Named,
    Node,
    Project,
    SetOp,
)
from tidewheel.planner.text import atomic, column, unchanged

from .bind_query import BoundQuery
from .bind_scope import Names

_KINDS: Final[tuple[Literal["semi"], Literal["anti"]]] = ("semi", "anti")
_Others = tuple[Node, tuple[EquiKey, ...], exp.Expr | None]
"""Rows to be compared with, by which equality, and by what else."""


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
            *unchanged(k.column for k in keys),
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
    NULL are compared with each of its rows, all others with those that have one; by the first
    column that is no NULL, as otherwise all pairs would be made.
    """
    values = [column(c.name) for c in query.columns]
    keys = [EquiKey(o.copy(), v.copy()) for o, v in zip(operands, values, strict=True)]
    near = [
        exp.Coalesce(
            this=exp.EQ(this=atomic(o.copy()), expression=v.copy()), expressions=[exp.true()]
        )
        for o, v in zip(operands, values, strict=True)
    ]
    # (of two columns, one of which is NULL, the key is the other one)
    rest = [
        exp.and_(*(n.copy() for n in near[i + 1 :])) if i + 1 < len(near) > 2 else None
        for i in range(len(near))
    ]
    maybe = names.fresh("maybe", "BOOLEAN")
    kept = [*unchanged(node.schema)]
    found: list[Node] = []

    def tell(rows: Node, told: exp.Expr) -> None:
        found.append(Project(rows, (*kept, Named(maybe, told))))

    def compare(rows: Node, others: Sequence[_Others]) -> None:
        for other, key, condition in others:
            semi, anti = (
                Join(rows, other, kind, key, None if condition is None else condition.copy())
                for kind in _KINDS
            )
            tell(semi, exp.true())
            rows = anti
        tell(rows, exp.false())

    nulls: list[_Others] = [
        (Filter(query.node, _first_known(values, i)), (key,), rest[i]) for i, key in enumerate(keys)
    ]
    nulls.append((Filter(query.node, _all_null(values)), (), None))
    compare(Filter(node, _no_null(operands)), nulls)
    for i, key in enumerate(keys):
        null_there = Filter(query.node, _all_null(values[i : i + 1]))
        compare(
            Filter(node, _first_known(operands, i)),
            [(query.node, (key,), rest[i]), (null_there, (), rest[i])],
        )
    compare(Filter(node, _all_null(operands)), [(query.node, (), None)])
    first, *more = found
    whole: Node = first
    for part in more:
        whole = SetOp("union", True, whole, part, first.schema)
    return maybe.name, whole


def _first_known(values: Sequence[exp.Expr], at: int) -> exp.Expr:
    """Is that one no NULL, all before it are, and one at all?"""
    first = [_no_null(values[at : at + 1])]
    if at:
        return exp.and_(_all_null(values[:at]), *first)
    return exp.and_(*first, exp.Not(this=exp.Paren(this=_no_null(values[1:]))))


def _all_null(values: Sequence[exp.Expr]) -> exp.Expr:
    return exp.and_(*(exp.Is(this=atomic(v.copy()), expression=exp.Null()) for v in values))


def _no_null(values: Sequence[exp.Expr]) -> exp.Expr:
    return exp.and_(
        *(exp.Not(this=exp.Is(this=atomic(v.copy()), expression=exp.Null())) for v in values)
    )
