"""Subqueries that are written as scalar aggregates: comparisons with ANY and ALL, ARRAY."""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner.text import atomic, column

from .bind_names import Aggregates
from .bind_scope import NotTaken

_VALUES, _VALUE = "__tw_values", "__tw_value"


def of_the_extreme(node: exp.Binary) -> exp.Expr:
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
    rows, known = _over(query, exp.Count(this=exp.Star())), exp.Count(this=column(_VALUE))
    unknown = exp.or_(
        exp.Is(this=operand.copy(), expression=exp.null()),
        exp.LT(this=_over(query, known), expression=rows.copy()),
    )
    none = exp.EQ(this=rows, expression=exp.Literal.number(0))
    ifs = [(none, exp.Boolean(this=every)), (decides, exp.Boolean(this=not every)),
           (unknown, exp.null())]  # fmt: skip
    cases = [exp.If(this=condition, true=value) for condition, value in ifs]
    return exp.Paren(this=exp.Case(ifs=cases, default=exp.Boolean(this=every)))


def as_list(query: exp.Expr, aggregates: Aggregates) -> exp.Expr:
    """``ARRAY(SELECT e FROM … ORDER BY …)``: the list of e, empty where there are no rows."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        raise NotTaken("ARRAY over several columns, or set operations")
    if any(query.args.get(k) for k in _NOT_ROWS):
        raise NotTaken("ARRAY over groups, distinct or limited rows")
    value = query.expressions[0].unalias()
    if aggregates.found_in(value) or value.find(exp.Star, exp.Window, exp.Explode, exp.Unnest):
        raise NotTaken("ARRAY over what is computed of several rows")
    order = query.args.get("order")
    listed = exp.Order(this=value, expressions=order.expressions) if order else value
    call = exp.Anonymous(this="list", expressions=[listed])
    select = query.copy()
    select.set("order", None)
    select.set("expressions", [exp.Coalesce(this=call.copy(), expressions=[exp.Array()])])
    return exp.Subquery(this=select)


_NOT_ROWS = ("group", "having", "qualify", "distinct", "limit", "offset", "with_")


def _over(query: exp.Expr, aggregate: exp.Expr) -> exp.Subquery:
    """A scalar subquery: an aggregate over the rows of a query of one column."""
    alias = exp.TableAlias(this=exp.to_identifier(_VALUES), columns=[exp.to_identifier(_VALUE)])
    rows = exp.Subquery(this=query.copy(), alias=alias)
    return exp.Subquery(this=exp.select(aggregate).from_(rows))
