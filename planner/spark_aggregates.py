"""Aggregates in Spark's SQL, where their meaning is another one; see `planner.spark`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from .spark_types import DECIMALS, double, kind_of

_ROUND: Final = (exp.Filter, exp.Window, exp.IgnoreNulls)
_FIRST: Final = (exp.First, exp.Last, exp.AnyValue)
_VALUE: Final = "v"


def collected(node: exp.Expr) -> exp.Expr:
    """``list(x ORDER BY y)`` keeps NULLs, and the first of rows in order may be one.

    There ``collect_list`` leaves them out, is empty where there are no rows, and has no order: so
    rows are collected, sorted, and then their values are taken.
    """
    if isinstance(node.parent, _ROUND) and node.arg_key == "this":
        return node  # from outside, as FILTER and OVER belong to the call
    call = _innermost(node)
    if not isinstance(call, (exp.ArrayAgg, *_FIRST)):
        return node
    value, order = call.this, []
    if isinstance(value, exp.Order):
        value, order = value.this, value.expressions
    if not order and not isinstance(call, exp.ArrayAgg):
        return node
    distinct = isinstance(value, exp.Distinct)
    if distinct:
        (value,) = value.expressions
    fields = [(_VALUE, value), *((f"k{i}", key.this) for i, key in enumerate(order))]
    parts = [part for name, of in fields for part in (exp.Literal.string(name), of.copy())]
    rows = _around(node, _call("COLLECT_LIST", _call("NAMED_STRUCT", *parts)))
    in_order = _call("ARRAY_SORT", rows.copy(), _comparison(order)) if order else rows.copy()
    values = _call("TRANSFORM", in_order, _function(_field("l", _VALUE), "l"))
    if distinct:
        values = _call("ARRAY_DISTINCT", values)
    if isinstance(call, exp.AnyValue):
        there = exp.Not(this=exp.Is(this=exp.to_identifier("l"), expression=exp.null()))
        values = _call("FILTER", values, _function(there, "l"))
    if isinstance(call, _FIRST):
        end = -1 if isinstance(call, exp.Last) else 1
        return _call("TRY_ELEMENT_AT", values, exp.Literal.number(end))
    some = exp.GT(this=_call("SIZE", rows), expression=exp.Literal.number(0))
    return exp.If(this=some, true=values, false=exp.null())


def any_order(node: exp.Expr) -> exp.Expr:
    """``sum(x ORDER BY y)`` is ``sum(x)``."""
    ordered = isinstance(node, exp.AggFunc) and isinstance(node.this, exp.Order)
    if ordered and not isinstance(node, (exp.ArrayAgg, exp.GroupConcat, *_FIRST)):
        node.set("this", node.this.this)
    return node


def choice(node: exp.Expr) -> exp.Expr:
    """``arg_min(x, y)`` passes over rows whose x is NULL."""
    if not isinstance(node, (exp.ArgMin, exp.ArgMax)) or node.args.get("count") is not None:
        return node
    absent = exp.Is(this=exp.paren(node.this.copy()), expression=exp.null())
    by = exp.If(this=absent, true=exp.null(), false=node.expression)
    node.set("expression", by)
    return node


def average(node: exp.Expr) -> exp.Expr:
    """``avg`` of decimals is a double here; summed exactly there, and divided once."""
    if isinstance(node.parent, _ROUND) and node.arg_key == "this":
        return node  # as in `collected`
    call = _innermost(node)
    if not isinstance(call, exp.Avg) or kind_of(_argument(call)) not in DECIMALS:
        return node
    total = double(_around(node, exp.Sum(this=call.this.copy())))
    count = _around(node, exp.Count(this=call.this.copy()))
    return exp.Paren(this=exp.Div(this=total, expression=count, typed=False, safe=False))


def _argument(call: exp.Expr) -> exp.Expr:
    argument: exp.Expr = call.this
    if isinstance(argument, exp.Distinct):
        argument = argument.expressions[0]
    return argument


def quantile(node: exp.Expr) -> exp.Expr:
    """``quantile_cont(x, p)`` and ``quantile_disc(x, p)`` are ordered-set aggregates there."""
    if isinstance(node, exp.PercentileCont) and node.expression is not None:
        name = "PERCENTILE_CONT"
    elif isinstance(node, (exp.PercentileDisc, exp.Quantile)):
        name = "PERCENTILE_DISC"
    else:
        return node
    fraction = node.args.get("expression") or node.args.get("quantile")
    if fraction is None:
        return node
    return exp.WithinGroup(
        this=exp.Anonymous(this=name, expressions=[fraction]),
        expression=exp.Order(expressions=[exp.Ordered(this=node.this)]),
    )


def _innermost(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _ROUND):
        node = node.this
    return node


def _around(node: exp.Expr, call: exp.Expr) -> exp.Expr:
    """Another call with the FILTER and OVER of the one in `node`."""
    if isinstance(node, exp.IgnoreNulls):
        return _around(node.this, call)
    if not isinstance(node, _ROUND):
        return call
    copy = node.copy()
    copy.set("this", _around(node.this, call))
    return copy


def _comparison(order: Sequence[exp.Expr]) -> exp.Expr:
    """How two rows stand to each other, as a function for ``array_sort``."""
    found: exp.Expr = exp.Literal.number(0)
    for i, key in reversed(list(enumerate(order))):
        left, right = _field("l", f"k{i}"), _field("r", f"k{i}")
        nulls = -1 if key.args.get("nulls_first") else 1
        less = 1 if key.args.get("desc") else -1
        cases = [
            (exp.NullSafeEQ(this=left, expression=right), found),
            (exp.Is(this=left.copy(), expression=exp.null()), exp.Literal.number(nulls)),
            (exp.Is(this=right.copy(), expression=exp.null()), exp.Literal.number(-nulls)),
            (exp.LT(this=left.copy(), expression=right.copy()), exp.Literal.number(less)),
        ]
        ifs = [exp.If(this=condition, true=then) for condition, then in cases]
        found = exp.Case(ifs=ifs, default=exp.Literal.number(-less))
    return _function(found, "l", "r")


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _field(row: str, name: str) -> exp.Expr:
    return exp.Dot(this=exp.to_identifier(row), expression=exp.to_identifier(name))


def _function(body: exp.Expr, *names: str) -> exp.Expr:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])
