"""The conditions of `structural`, on one row of Python values: a single row takes no arrays.

Whatever is taken here means the same there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from sqlglot import exp

from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.conditions import opposite, simpler, swapped
from tidewheel.planner.constants import constant
from tidewheel.planner.structural import compared, members, plain, position, texts_of
from tidewheel.planner.texts import is_bool

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def predicate_by_row(expression: exp.Expr, schema: Schema) -> ByRow | None:
    """Is a predicate TRUE of a row? None where only columns are asked."""
    if isinstance(expression, exp.Paren):
        return predicate_by_row(expression.this, schema)
    if isinstance(expression, exp.And | exp.Or):
        one = predicate_by_row(expression.this, schema)
        other = predicate_by_row(expression.expression, schema)
        if one is None or other is None:
            return None
        # both are asked, as of columns: one may be DuckDB's to compute, or to refuse
        if isinstance(expression, exp.And):
            return lambda row: one(row) & other(row)
        return lambda row: one(row) | other(row)
    at = position(expression, schema)
    if at is not None:
        return (lambda row: bool(row[at])) if is_bool(schema.types[at]) else None
    if isinstance(expression, exp.Is) and isinstance(expression.expression, exp.Null):
        return _null_test(expression.this, schema, True)
    if isinstance(expression, exp.Not):
        return _not(expression.this, schema)
    if isinstance(expression, exp.Like):
        return texts_of(schema).like(expression)
    plainer = simpler(expression)
    if plainer is not None:
        return predicate_by_row(plainer, schema)
    found: ByRow | None = None
    if type(expression) in _COMPARE:
        found = _comparison(expression, schema)
    elif isinstance(expression, exp.In):
        found = _member(expression, schema, True)
    return texts_of(schema).test(expression) if found is None else found


def _null_test(expression: exp.Expr, schema: Schema, wanted: bool) -> ByRow | None:
    at = position(expression, schema)
    return None if at is None else lambda row: (row[at] is None) == wanted


def _not(inner: exp.Expr, schema: Schema) -> ByRow | None:
    """Is a condition FALSE of a row?"""
    while isinstance(inner, exp.Paren):
        inner = inner.this
    at = position(inner, schema)
    if at is not None:
        found = is_bool(schema.types[at])
        return (lambda row: row[at] is not None and not row[at]) if found else None
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return _null_test(inner.this, schema, False)
    if isinstance(inner, exp.Like):
        return texts_of(schema).like(inner, False)
    text = texts_of(schema).test(inner, False)
    turned = opposite(inner)
    if text is None and turned is None and isinstance(inner, exp.In):
        return _member(inner, schema, False)
    if text is not None or turned is None:
        return text
    return predicate_by_row(turned, schema)


def _member(expression: exp.Expr, schema: Schema, wanted: bool) -> ByRow | None:
    """Is IN constants TRUE of a row, or FALSE?"""
    found = members(expression, schema)
    if found is None:
        return None
    at, known = found
    return lambda row: row[at] is not None and (row[at] in known) == wanted


def _comparison(expression: exp.Expr, schema: Schema) -> ByRow | None:
    kind = type(expression)
    left, right = expression.this, expression.expression
    if position(left, schema) is None:
        left, right, kind = right, left, swapped(kind)
    at = position(left, schema)
    if at is None or not plain(schema.kinds[at]):
        return _of_numbers(expression, schema)
    compare = _COMPARE[kind]
    other = position(right, schema)
    if other is not None and schema.types[other] == schema.types[at]:
        return _pair(itemgetter(at), itemgetter(other), compare)
    known = constant(right, schema.types[at])
    if known is None:
        return _of_numbers(expression, schema)

    def test(row: Row) -> bool:
        value = row[at]
        return value is not None and compare(value, known)

    return test


def _of_numbers(expression: exp.Expr, schema: Schema) -> ByRow | None:
    sides = compared(expression, schema)
    if sides is None or sides[0].scale is None:
        return None  # (NaN is equal to itself in DuckDB)
    one, other = sides[0].row, sides[1].row
    if one is None or other is None:
        return None
    return _pair(one, other, _COMPARE[type(expression)])


def _pair(one: ByRow, other: ByRow, compare: Callable[[Any, Any], bool]) -> ByRow:
    def test(row: Row) -> bool:
        a, b = one(row), other(row)
        return a is not None and b is not None and compare(a, b)

    return test
