"""The expressions of `structural`, on one row of Python values: a single row takes no arrays.

Whatever is taken here means the same there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.structural import NeedsKernel, constant, number, plain, position, swapped

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def value_by_row(expression: exp.Expr, schema: Schema, width: int) -> ByRow:
    """Arithmetic that `structural` takes; NeedsKernel where a value exceeds `width` bits."""
    return _whole(expression, schema, (1 << (width - 1)) - 1)


def _whole(expression: exp.Expr, schema: Schema, limit: int) -> ByRow:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    at = position(expression, schema)
    if at is not None:
        return operator.itemgetter(at)
    known = number(expression)
    if known is not None:
        whole = int(known)
        return lambda row: whole
    assert isinstance(expression, exp.Binary)
    left = _whole(expression.this, schema, limit)
    right = _whole(expression.expression, schema, limit)
    operation = _OPERATIONS[type(expression)]

    def compute(row: Row) -> int | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        value = operation(a, b)
        if not -limit <= value <= limit:
            raise NeedsKernel
        return value

    return compute


def _remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    return a % b if a >= 0 else -(-a % b)


_OPERATIONS: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Mod: _remainder,
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
        if isinstance(expression, exp.And):
            return lambda row: one(row) and other(row)
        return lambda row: one(row) or other(row)
    if type(expression) in _COMPARE:
        return _comparison(expression, schema)
    return None


def _comparison(expression: exp.Expr, schema: Schema) -> ByRow | None:
    kind = type(expression)
    left, right = expression.this, expression.expression
    if position(left, schema) is None:
        left, right, kind = right, left, swapped(kind)
    at = position(left, schema)
    if at is None or not plain(schema.kinds[at]):
        return None
    known = constant(right, schema.types[at])
    if known is None:
        return None
    compare = _COMPARE[kind]

    def test(row: Row) -> bool:
        value = row[at]
        return value is not None and compare(value, known)

    return test
