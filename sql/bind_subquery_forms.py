"""What is written as a subquery: EXISTS, IN, comparisons with ANY and ALL, ARRAY, one value."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from tidewheel.planner.text import atomic, column

from .bind_names import Aggregates
from .bind_own_rows import OwnRows, operand, reads_values_alone
from .bind_scope import NotTaken, Scope

if TYPE_CHECKING:
    from .bind_subquery import Subqueries
    from .binder import Binder

Walk = Callable[[exp.Expr], exp.Expr]
_VALUES, _VALUE = "__tw_values", "__tw_value"


class SubqueryForms:
    """Binds the subqueries of one SELECT."""

    def __init__(
        self,
        binder: Binder,
        subqueries: Subqueries,
        aggregates: Aggregates,
        aliases: Collection[str],
    ) -> None:
        self._binder = binder
        self._subqueries = subqueries
        self._aggregates = aggregates
        self._aliases = aliases

    def bound(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        """The expression that stands for a subquery; `walk` binds what it is compared with."""
        return self.of_own_rows(node, walk, scope) or self._joined(node, walk, scope)

    def of_own_rows(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr | None:
        """One that reads no table, but rows of a value, as an expression."""
        if not reads_values_alone(node):
            return None
        operands: list[exp.Expr] = []
        if isinstance(node, exp.In):
            row = isinstance(node.this, exp.Tuple)
            operands = list(node.this.expressions) if row else [node.this]
            marks = [operand(i) for i in range(len(operands))]
            left = exp.Tuple(expressions=marks) if row else marks[0]
            node = exp.In(this=left, query=node.args["query"].copy())
        elif isinstance(node, exp.Binary):
            operands = [node.this]
            node = type(node)(this=operand(0), expression=node.expression.copy())
        rows = OwnRows(self._binder, self._aggregates)
        with suppress(NotTaken, duckdb.Error):
            return rows.value(node, scope, self._aliases, [walk(o) for o in operands])
        return None

    def _joined(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        if isinstance(node, exp.Exists):
            met = _of_one_group(node.this, self._aggregates, exp.true())
            if met is not None:
                return walk(exp.Coalesce(this=met, expressions=[exp.false()]))
            query = self._binder.query(node.this, scope, for_exists=True)
            return self._subqueries.add("exists", query, (), node.this)
        if isinstance(node, exp.In):
            query = self._binder.query(node.args["query"], scope)
            operands = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            bound = [walk(o) for o in operands]
            if len(bound) != len(query.columns):
                raise NotTaken("IN compares a row with a subquery of another width")
            return self._subqueries.add("in", query, bound, node.args["query"])
        if isinstance(node, exp.Binary):
            return self._quantified(node, walk, scope)
        if isinstance(node, exp.Array):
            return walk(_as_list(node.expressions[0], self._aggregates))
        query = self._binder.query(_of_one_group(node, self._aggregates) or node, scope)
        if len(query.columns) != 1:
            raise NotTaken("a scalar subquery with several columns")
        return self._subqueries.add("scalar", query, (), node)

    def _quantified(
        self,
        node: exp.Binary,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        """``= ANY`` is IN, ``<> ALL`` is NOT IN; ``> ALL`` compares with the greatest."""
        is_any = isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any)
        is_not_all = isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All)
        if not is_any and not is_not_all:
            return walk(_of_the_extreme(node))
        query = self._binder.query(node.expression.this, scope)
        operands = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        if len(operands) != len(query.columns):
            raise NotTaken("ANY compares a row with a subquery of another width")
        bound = [walk(o) for o in operands]
        found = self._subqueries.add("in", query, bound, node.expression.this)
        return found if is_any else exp.Not(this=found)


def _of_the_extreme(node: exp.Binary) -> exp.Expr:
    """``x > ALL (query)``: TRUE over no rows, FALSE unless x > max, and unknown where a NULL is.

    ``x = ALL (query)`` is FALSE unless x is the least and the greatest, ``<> ANY`` the reverse.
    """
    every = isinstance(node.expression, exp.All)
    if isinstance(node.this.unnest(), exp.Tuple):
        raise NotTaken("ANY or ALL over several columns")
    query = node.expression.this.unnest()
    operand = atomic(node.this.copy())
    least, greatest = (_over(query, kind(this=column(_VALUE))) for kind in (exp.Min, exp.Max))
    decides: exp.Expr
    if isinstance(node, exp.EQ | exp.NEQ):
        decides = exp.or_(*(exp.NEQ(this=operand.copy(), expression=e) for e in (least, greatest)))
    else:
        greater = isinstance(node, exp.GT | exp.GTE)
        decides = type(node)(this=operand, expression=greatest if greater == every else least)
        if every:
            decides = exp.Not(this=exp.Paren(this=decides))
    # compared where they are counted: a count that moves on would move the rows around, too
    rows, known = exp.Count(this=exp.Star()), exp.Count(this=column(_VALUE))
    unknown = exp.or_(
        exp.Is(this=operand.copy(), expression=exp.null()),
        _over(query, exp.LT(this=known, expression=rows)),
    )
    none = _over(query, exp.EQ(this=rows.copy(), expression=exp.Literal.number(0)))
    ifs = [(none, exp.Boolean(this=every)), (decides, exp.Boolean(this=not every)),
           (unknown, exp.null())]  # fmt: skip
    cases = [exp.If(this=condition, true=value) for condition, value in ifs]
    return exp.Paren(this=exp.Case(ifs=cases, default=exp.Boolean(this=every)))


def _as_list(query: exp.Expr, aggregates: Aggregates) -> exp.Expr:
    """``ARRAY(SELECT e FROM … ORDER BY …)``: the list of e, empty where there are no rows."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        raise NotTaken("ARRAY over several columns, or set operations")
    if any(query.args.get(k) for k in _NOT_ROWS):
        raise NotTaken("ARRAY over groups, distinct or limited rows")
    value = query.expressions[0].unalias()
    if aggregates.found_in(value) or value.find(exp.Star, exp.Window, exp.Explode, exp.Unnest):
        raise NotTaken("ARRAY over what is computed of several rows")
    order = query.args.get("order")
    if order and any(isinstance(o.this, exp.Literal) for o in order.expressions):
        raise NotTaken("ARRAY in the order of a column's number")  # in list(…) it is a constant
    listed = exp.Order(this=value, expressions=order.expressions) if order else value
    call = exp.Anonymous(this="list", expressions=[listed])
    select = query.copy()
    select.set("order", None)
    select.set("expressions", [exp.Coalesce(this=call.copy(), expressions=[exp.Array()])])
    return exp.Subquery(this=select)


def _of_one_group(
    query: exp.Expr, aggregates: Aggregates, value: exp.Expr | None = None
) -> exp.Subquery | None:
    """``(SELECT e FROM … HAVING c)`` has e of its one group, or no row, which is NULL here:

        (SELECT CASE WHEN c THEN e END FROM …)

    `value`: instead of e. None for anything else.
    """
    select = query.unnest()
    if not isinstance(select, exp.Select) or any(select.args.get(k) for k in _MORE):
        return None
    having, items = select.args.get("having"), select.expressions
    if having is None or len(items) != 1 or not aggregates.found_in(having.this):
        return None
    names = {c.name.lower() for c in having.find_all(exp.Column) if not c.table}
    if items[0].alias.lower() in names or items[0].find(*_NOT_ONE):
        return None
    if any(not isinstance(star.parent, exp.Count) for star in items[0].find_all(exp.Star)):
        return None
    select = select.copy()
    select.set("having", None)
    branch = exp.If(this=having.this.copy(), true=value or items[0].unalias().copy())
    select.set("expressions", [exp.Case(ifs=[branch])])
    return exp.Subquery(this=select)


_NOT_ONE = (exp.Columns, exp.Window, exp.Explode, exp.Unnest)
_MORE = ("group", "qualify", "distinct", "limit", "offset", "order", "windows")
_NOT_ROWS = ("group", "having", "qualify", "distinct", "limit", "offset", "with_")


def _over(query: exp.Expr, aggregate: exp.Expr) -> exp.Subquery:
    """A scalar subquery: an aggregate over the rows of a query of one column."""
    alias = exp.TableAlias(this=exp.to_identifier(_VALUES), columns=[exp.to_identifier(_VALUE)])
    rows = exp.Subquery(this=query.copy(), alias=alias)
    return exp.Subquery(this=exp.select(aggregate).from_(rows))
