"""Arithmetic that needs no statement: integers, DECIMAL and DOUBLE in NumPy; see `number`."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.linear import Predicate
from tidewheel.engine.state.arrow_values import words
from tidewheel.engine.state.columns import (
    Array,
    Col,
    DecimalType,
    FloatType,
    Mask,
    is_null,
)
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.arithmetic_calls import as_decimal, function_of
from tidewheel.planner.arithmetic_choice import case_of, extreme, first_known
from tidewheel.planner.constants import number_of
from tidewheel.planner.moments import compile_part
from tidewheel.planner.number import (
    DECIMAL,
    HUGEINT,
    INTEGER_BITS,
    WIDE,
    NeedsKernel,
    Number,
    aligned,
    as_double,
    either,
    held_row,
    hold,
    integer_limit,
    largest,
)
from tidewheel.planner.text import own_call


def compile_number(
    expression: exp.Expr,
    schema: Schema,
    predicate: Callable[[exp.Expr], Predicate | None],
    by_row: Callable[[exp.Expr], ByRow | None],
) -> Number | None:
    """Numbers of columns and literals; None: needs a kernel.

    `predicate` compiles conditions, and `by_row` such of one row.
    """

    def operand(part: exp.Expr | None) -> Number | None:
        return None if part is None else compile_number(part, schema, predicate, by_row)

    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.Column):
        return _column(expression, schema)
    literal = number_of(expression)
    if literal is not None:
        return _literal(literal, expression)
    if isinstance(expression, exp.Neg):
        one = operand(expression.this)
        return None if one is None else _binary(exp.Sub, _zero(one), one)
    if isinstance(expression, exp.Mod):
        divisor = number_of(expression.expression)
        if divisor is None or divisor <= 0 or divisor != int(divisor):
            return None
    if isinstance(expression, exp.Add | exp.Sub | exp.Mul | exp.Mod | exp.Div):
        left, right = operand(expression.this), operand(expression.expression)
        if left is not None and right is not None:
            return _binary(type(expression), left, right)
    if isinstance(expression, exp.Case | exp.If):
        return case_of(expression, operand, predicate, by_row)
    if isinstance(expression, exp.Least | exp.Greatest):
        return extreme(expression, operand)
    if isinstance(expression, exp.Coalesce):
        return first_known(expression, operand)
    known = function_of(expression, operand)
    if known is not None:
        return known
    call = own_call(expression)
    if call is not None:
        one = operand(call.expressions[0]) if call.name == "sqrt" else None
        return None if one is None else _root(as_double(one))
    part = compile_part(expression, schema, operand)
    if part is not None:
        return part
    if type(expression) is exp.Cast:
        special = _special(expression)
        if special is not None:
            return special
        one = operand(expression.this)
        to = expression.args["to"]  # (a type by a name that sqlglot does not know is none)
        return None if one is None or not isinstance(to, exp.DataType) else _cast(one, to)
    return None


# -- operands ------------------------------------------------------------------------------------


def _column(expression: exp.Column, schema: Schema) -> Number | None:
    if expression.name not in schema.names:
        return None
    at = schema.index(expression.name)
    kind: Any = schema.kinds[at]
    arrow = schema.types[at]
    value = itemgetter(at)
    if isinstance(kind, FloatType):
        if not pa.types.is_float64(arrow):
            return None
        return Number(lambda cols, n: _filled(*kind.split(cols[at])), None, row=value)
    if isinstance(kind, DecimalType):
        return Number(lambda cols, n: _filled(*kind.split(cols[at])), arrow.scale, row=value)
    if pa.types.is_decimal128(arrow):
        return Number(lambda cols, n: _narrow(cols[at]), arrow.scale, wide=True, row=value)
    if kind.wide:
        held = held_row(value, integer_limit(HUGEINT))
        return Number(lambda cols, n: _narrow(cols[at].storage), 0, HUGEINT, True, row=held)
    if not pa.types.is_signed_integer(arrow):
        return None

    def read(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = _filled(*kind.split(cols[at]))
        if values.dtype.itemsize == 8:
            # what has 32 bits can't leave 64 in one operation, after which it is looked at
            hold(values, WIDE)
        return values.astype(np.int64, copy=False), nulls

    return Number(read, 0, arrow.bit_width, True, row=value)


def _filled(values: Array, nulls: Mask | None) -> tuple[Array, Mask | None]:
    return (values if nulls is None else np.where(nulls, values.dtype.type(0), values)), nulls


def _narrow(col: Col) -> tuple[Int64s, Mask | None]:
    """Decimals of more than 18 digits and HUGEINTs, where 64 bits are enough for them."""
    pairs = words(col, 16).view(np.int64)
    nulls = is_null(col)
    values, high = pairs[:, 0], pairs[:, 1]
    if nulls is not None:
        values, high = np.where(nulls, 0, values), np.where(nulls, 0, high)
    if (high != values >> 63).any():
        raise NeedsKernel
    hold(values, WIDE)
    return values, nulls


def _literal(value: Decimal, expression: exp.Expr) -> Number | None:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    whole = int(value.scaleb(scale))
    if abs(whole) >= 1 << 31 or scale > 9:
        return None
    constant = np.array([whole])
    point = "." in expression.sql()
    return Number(lambda cols, n: (constant, None), scale, None, not point, row=lambda row: whole)


def _zero(like: Number) -> Number:
    none = np.zeros(1, np.int64 if like.scale is not None else np.float64)
    if like.scale is None:
        none = -none  # 0.0 - 0.0 is 0.0, but -(0.0) is -0.0
    zero = none.tolist()[0]
    return Number(
        lambda cols, n: (none, None), like.scale, like.bits, like.integer, row=lambda row: zero
    )


def _special(cast: exp.Cast) -> Number | None:
    """A DOUBLE that is written as a text, as it is no number."""
    text, to = cast.this, cast.args["to"]
    double = isinstance(to, exp.DataType) and to.this is exp.DataType.Type.DOUBLE
    if not double or not isinstance(text, exp.Literal) or text.this not in ("nan", "inf"):
        return None
    constant = np.full(1, float(text.this))
    return Number(lambda cols, n: (constant, None), None)


def _cast(number: Number, to: exp.DataType) -> Number | None:
    """An integer as one of another type, an exact number as a DECIMAL, or any as a DOUBLE."""
    kind = to.this
    if kind is exp.DataType.Type.DOUBLE:
        return as_double(number)
    if kind is exp.DataType.Type.DECIMAL:
        return as_decimal(number, to)
    bits = HUGEINT if kind is exp.DataType.Type.INT128 else INTEGER_BITS.get(kind)
    if bits is None or not number.integer:
        return None
    if number.bits is not None and number.bits <= bits:
        return replace(number, bits=bits)
    limit = integer_limit(bits)

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        return hold(values, limit), nulls

    return Number(compute, 0, bits, True, row=held_row(number.row, limit))


# -- operations ----------------------------------------------------------------------------------

_UFUNCS: dict[type[exp.Expr], Any] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
    exp.Mod: np.fmod,
    exp.Div: np.divide,
}


def _binary(kind: type[exp.Expr], left: Number, right: Number) -> Number | None:
    if kind is exp.Div or left.scale is None or right.scale is None:
        return None if kind is exp.Mod else _doubles(kind, left, right)
    integer = left.integer and right.integer
    if kind is exp.Mod and not integer:
        return None
    scale = left.scale + right.scale
    if kind is not exp.Mul:
        left, right, scale = aligned(left, right)
    bits = max(left.bits or 0, right.bits or 0) or None
    wide = left.wide or right.wide
    most = integer_limit(bits or 32) if integer else WIDE if wide else DECIMAL
    limit = min(most, WIDE)
    operation = _UFUNCS[kind]

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        (a, a_nulls), (b, b_nulls) = left.run(cols, n), right.run(cols, n)
        if kind is exp.Mul and limit >= 1 << 31 and largest(a) * largest(b) > limit:
            raise NeedsKernel
        if kind is not exp.Mul and limit >= 1 << 59 and largest(a) + largest(b) > limit:
            raise NeedsKernel
        return hold(operation(a, b), limit), either(a_nulls, b_nulls)

    return Number(compute, scale, bits, integer, wide, _by_row(kind, left, right, most))


def _by_row(kind: type[exp.Expr], left: Number, right: Number, limit: float) -> ByRow | None:
    """An operation on one row; NeedsKernel where its value is beyond `limit`."""
    one, other = left.row, right.row
    if one is None or other is None:
        return None
    operation = _OPERATIONS[kind]

    def compute(row: Row) -> Any:
        a, b = one(row), other(row)
        if a is None or b is None:
            return None
        try:
            value = operation(a, b)
        except ArithmeticError:
            raise NeedsKernel from None
        if not -limit <= value <= limit:
            raise NeedsKernel
        return value

    return compute


def _remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    return a % b if a >= 0 else -(-a % b)


_OPERATIONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Mod: _remainder,
    exp.Div: operator.truediv,
}


def _root(of: Number) -> Number:
    """The square root; what has none is DuckDB's error."""

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = of.run(cols, n)
        if (values < 0).any():
            raise NeedsKernel
        return np.sqrt(values), nulls

    return Number(compute, None)


def _doubles(kind: type[exp.Expr], left: Number, right: Number) -> Number:
    one, other = as_double(left), as_double(right)
    operation = _UFUNCS[kind]

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        (a, a_nulls), (b, b_nulls) = one.run(cols, n), other.run(cols, n)
        with np.errstate(all="ignore"):
            values = operation(a, b)
        if not np.isfinite(values).all():
            raise NeedsKernel
        return values, either(a_nulls, b_nulls)

    return Number(compute, None, row=_by_row(kind, one, other, sys.float_info.max))
