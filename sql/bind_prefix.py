"""A correlated aggregate over the rows below (or above) a value: the window function that it is.

    (SELECT sum(b.volume) FROM bids b WHERE b.price > a.price)

is, of the rows and the values of `a.price` in one order, the sum up to each value. That takes one
sort; all pairs of rows, which DuckDB makes, take thousands of times as long over 100,000 rows.
Of rows with another value (``b.price <> a.price``) it is put together from those below and above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Column,
    Filter,
    Named,
    Node,
    Project,
    SetOp,
    Window,
    names_of,
    references,
)
from tidewheel.planner.range_joins import compared_as
from tidewheel.planner.text import cast_to, column, substituted, unchanged

from .bind_query import Around
from .bind_scope import Names
from .bind_types import function_name

if TYPE_CHECKING:
    from .bind_names import Aggregates
    from .binder import Binder

_ROW = 1  # which side a row of the union is of; a value comes before its equals, or after them


@dataclass(frozen=True, slots=True)
class Prefix:
    """`inner` of a row compared with `outer`, over the columns of `around`; both have type `kind`.

    `keys` are what becomes of `around`: an answer is for one value of these.
    """

    inner: exp.Expr
    outer: exp.Expr
    kind: str
    descending: bool
    strict: bool
    around: Around
    keys: tuple[Column, ...]
    unequal: bool = False
    """Is it of the rows below and above?"""

    def over(self, grouped: Aggregate, names: Names) -> Node:
        """The aggregates of `grouped`, which has no keys of its own, by `keys`."""
        return self._around(grouped, names) if self.unequal else self._run(grouped, names)

    def _around(self, grouped: Aggregate, names: Names) -> Node:
        """Of the rows below and above: sums of counts and of sums, ends of ends."""
        result = (*self.keys, *(e.column for e in grouped.aggregates))
        sides, columns = [], _again(result, names)
        for descending in (False, True):
            own = _again([e.column for e in grouped.aggregates], names)
            calls = zip(own, grouped.aggregates, strict=True)
            run = replace(self, unequal=False, descending=descending, keys=_again(self.keys, names))
            mine = replace(grouped, aggregates=tuple(Named(c, e.expr) for c, e in calls))
            sides.append(run.over(mine, names))
        keys = tuple(
            Named(k, column(c.name))
            for k, c in zip(_again(self.keys, names), columns, strict=False)
        )
        put: list[Named] = []
        for e, c in zip(grouped.aggregates, columns[len(keys) :], strict=True):
            call, counted = _called(e.expr), _called(e.expr) in _COUNTS
            name = "sum" if counted else call
            made = names.fresh(c.label, "HUGEINT" if counted else c.type)
            put.append(Named(made, exp.Anonymous(this=name, expressions=[column(c.name)])))
        both = Aggregate(SetOp("union", True, sides[0], sides[1], columns), keys, tuple(put))
        values: list[exp.Expr] = [column(k.column.name) for k in keys]
        for n, e in zip(put, grouped.aggregates, strict=True):
            values.append(cast_to(column(n.column.name), e.column.type))
        return Project(both, tuple(map(Named, result, values)))

    def _run(self, grouped: Aggregate, names: Names) -> Node:
        rows = grouped.input
        value, side = names.fresh("value", self.kind), names.fresh("side", "INTEGER")
        read = set().union(*(references(e.expr) for e in grouped.aggregates))
        kept = [c for c in rows.schema if c.name in read]
        fresh = {c.name: names.fresh(c.label, c.type) for c in kept}
        columns = (value, side, *fresh.values(), *self.keys)
        left = self._side(rows, self.inner, _ROW, kept, names)
        values = self._side(self.around, self.outer, 0 if self.strict else 2, kept, names)
        both = SetOp("union", True, left, values, columns)
        ours = exp.EQ(this=column(side.name), expression=exp.Literal.number(_ROW))
        order = [
            exp.Ordered(this=column(value.name), desc=self.descending, nulls_first=False),
            exp.Ordered(this=column(side.name), desc=False, nulls_first=False),
        ]
        renamed = {name: column(c.name) for name, c in fresh.items()}
        windows = []
        for e in grouped.aggregates:
            call = _filtered(substituted(e.expr, renamed), ours)
            ordered = exp.Order(expressions=[o.copy() for o in order])
            windows.append(Named(e.column, exp.Window(this=call, order=ordered, over="OVER")))
        theirs = exp.NEQ(this=column(side.name), expression=exp.Literal.number(_ROW))
        found = Filter(Window(both, tuple(windows)), theirs)
        result = (*self.keys, *(e.column for e in grouped.aggregates))
        return Project(found, unchanged(result))

    def _side(
        self, node: Node, value: exp.Expr, side: int, kept: Sequence[Column], names: Names
    ) -> Node:
        """What is compared, its side, and the columns of both: NULL for those of the other."""
        mine = names_of(node)
        known = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null()))
        parts: list[tuple[str, str, exp.Expr]] = [
            ("value", self.kind, cast_to(value.copy(), self.kind)),
            ("side", "INTEGER", exp.Literal.number(side)),
        ]
        for c in (*kept, *self.around.columns):
            none = exp.Var(this=f"CAST(NULL AS {c.type})")
            parts.append((c.label, c.type, column(c.name) if c.name in mine else none))
        named = (Named(names.fresh(label, kind), e) for label, kind, e in parts)
        return Project(Filter(node, known), tuple(named))


def prefix(
    condition: exp.Expr, node: Node, outer: Sequence[Column], binder: Binder
) -> Prefix | None:
    """How `condition` restricts the rows of `node` to those before something of `outer`."""
    if not isinstance(condition, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.NEQ):
        return None
    mine, theirs = names_of(node), {c.name for c in outer}
    inner, value, below = (
        condition.this,
        condition.expression,
        isinstance(condition, exp.LT | exp.LTE),
    )
    if not references(inner) <= mine:
        inner, value, below = value, inner, not below
    if not references(inner) or not references(inner) <= mine or not references(value) <= theirs:
        return None
    fresh = {c.name: binder.names.fresh(c.label, c.type) for c in outer}
    value = substituted(value, {name: column(c.name) for name, c in fresh.items()})
    around = Around(tuple(fresh.values()), tuple(fresh))
    keys = tuple(binder.names.fresh(c.label, c.type) for c in outer)
    types = [
        binder.oracle.types([inner], node.schema)[0],
        binder.oracle.types([value], around.schema)[0],
    ]
    kind = "VARCHAR" if types == ["VARCHAR", "VARCHAR"] else compared_as(types)
    if kind is None:
        return None
    unequal = isinstance(condition, exp.NEQ)
    strict = unequal or isinstance(condition, exp.LT | exp.GT)
    return Prefix(inner, value, kind, not below, strict, around, keys, unequal)


def runs(expression: exp.Expr, aggregates: Aggregates) -> bool:
    """Are all aggregates in it among those that a window can give for the rows up to a value?"""
    return all(
        function_name(p) in _SIMPLE and not p.find(exp.Distinct)
        for p in expression.walk()
        if function_name(p) and aggregates.is_unit(p)
    )


def put_together(
    expressions: Iterable[exp.Expr], node: Node, aggregates: Aggregates, binder: Binder
) -> bool:
    """Do their aggregates of two sets of rows say those of both?"""
    for call in (c for e in expressions for c in aggregates.calls(e)):
        if _called(call) in ("sum", "avg", "mean"):
            (kind,) = binder.oracle.types([call], node.schema)
            if _called(call) != "sum" or not kind.startswith(("HUGEINT", "DECIMAL(38")):
                return False  # doubles are summed up exactly, and rounded once
    return True


def _called(call: exp.Expr) -> str:
    return function_name(call.this if isinstance(call, exp.Filter) else call)


def _again(columns: Sequence[Column], names: Names) -> tuple[Column, ...]:
    return tuple(names.fresh(c.label, c.type) for c in columns)


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An aggregate of those rows only for which `condition` holds."""
    if isinstance(call, exp.Filter):
        condition = exp.and_(call.expression.this, condition)
        call = call.this
    if isinstance(call, exp.Count):  # DuckDB 2.0 counts with FILTER in quadratic time
        counted = exp.Literal.number(1) if isinstance(call.this, exp.Star) else call.this
        only = exp.If(this=condition.copy(), true=counted)
        return exp.Count(this=exp.Case(ifs=[only]))
    return exp.Filter(this=call, expression=exp.Where(this=condition.copy()))


_COUNTS = {"count", "count_star"}
_SIMPLE = {"count", "count_star", "sum", "avg", "mean", "min", "max", "bool_and", "bool_or"}
