"""Queries over columns of the SELECTs around that have a place where no such column is seen.

A side of a set operation, a FROM item that aggregates, an outer join whose condition reads the
SELECT around: the distinct values of the columns that it reads are joined into it, and it is told
apart by them from then on (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).

    (SELECT x FROM i WHERE i.k = o.a) UNION (SELECT x FROM j WHERE j.k < o.b)

becomes a union of rows ``(a, b, x)``, of which those with the row's own ``a`` and ``b`` are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from tidewheel.planner.logical import (
    Block,
    Column,
    Join,
    Named,
    Node,
    Project,
    Scan,
    names_of,
    references,
)
from tidewheel.planner.rewrites.children import every
from tidewheel.planner.text import column, substituted, unchanged

from .bind_query import BoundQuery, around_of, split_conditions, with_aggregates
from .bind_scope import Names, NotTaken, Scope


def outer_names(query: BoundQuery) -> set[str]:
    """The columns of the SELECTs around that a query reads."""
    exprs = [*query.correlated, *(n.expr for n in query.late), *(query.empty or ())]
    return set().union(query.around, *map(references, exprs)) - names_of(query.node)


def reads_tables(node: Node) -> bool:
    """Has it more than constant rows? (Beside each value of a column they would be too many.)"""
    return any(isinstance(n, Scan) or (isinstance(n, Block) and n.scans) for n in every(node))


def outer_columns(scope: Scope | None, wanted: Iterable[str]) -> list[Column]:
    """Columns of the SELECTs around by their names in the plan."""
    known = {} if scope is None else {c.name: c for c in scope.columns_around()}
    names = sorted(wanted)
    if not known.keys() >= set(names):
        raise NotTaken("a column of the SELECT around that is made there")
    return [known[n] for n in names]


def settled(
    query: BoundQuery, outer: Sequence[Column], names: Names
) -> tuple[BoundQuery, list[Column]]:
    """The query beside the values of `outer` columns, with them as columns; told apart by these."""
    around, met = around_of(outer, names)
    query = query.over(around, met)
    conditions = [substituted(c, met) for c in query.correlated]
    node: Node
    keys, rest = split_conditions(conditions, names_of(around), names_of(query.node))
    if query.empty is not None:
        if rest or query.late:
            raise NotTaken("an aggregate over rows chosen by more than equality")
        query.empty = [substituted(e, met) for e in query.empty]
        node, values = with_aggregates(around, query, keys, names)
    else:
        late = {n.column.name: substituted(n.expr, met) for n in query.late}
        values = [late.get(c.name, column(c.name)) for c in query.columns]
        residual = exp.and_(*rest) if rest else None
        node = Join(around, query.node, "inner" if conditions else "cross", tuple(keys), residual)
    columns = tuple(
        c if isinstance(v, exp.Column) and v.name == c.name else names.fresh(c.label, c.type)
        for c, v in zip(query.columns, values, strict=True)
    )
    keys_ = unchanged(around.columns)
    listed = (Named(c, v) for c, v in zip(columns, values, strict=True))
    whole = Project(node, (*keys_, *listed))
    apart = told_apart(around.columns, outer)
    return BoundQuery(whole, columns, apart, around=around.outer), list(around.columns)


def told_apart(here: Sequence[Column], outer: Sequence[Column]) -> list[exp.Expr]:
    """The conditions by which rows belong to a row of the SELECTs around."""
    return [
        exp.NullSafeEQ(this=column(a.name), expression=column(b.name))
        for a, b in zip(here, outer, strict=True)
    ]
