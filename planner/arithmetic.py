"""Arithmetic that needs no statement: integers, DECIMAL and DOUBLE in NumPy.

Integers and decimals are 64-bit integers with a number of digits behind the point, held to less
than what DuckDB's narrowest type for them holds; where one comes near that, or anything else is in
doubt, `NeedsKernel` leaves the rows to DuckDB.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.exact import integers_to_arrow
from tidewheel.engine.operators.linear import Compute, Predicate
from tidewheel.engine.state.columns import (
    Array,
    Col,
    DecimalType,
    FloatType,
    Mask,
    column_type,
    is_null,
    words,
)
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.engine.state.rowwise import ByRow, Row


class NeedsKernel(Exception):
    """Values for which only DuckDB says what comes out: an overflow, or its error."""


Run = Callable[[Sequence[Col], int], tuple[Array, Mask | None]]
"""Columns and number of rows → values (of one row: for all) and the mask of NULLs."""


@dataclass(frozen=True, slots=True)
class Number:
    """An expression. `scale`: digits behind the point, None for DOUBLE. `bits`: of the integer
    type that it has in DuckDB, or of a narrower one; None for decimals and literals. `wide`: a
    decimal that surely has more than 64 bits in DuckDB. `row`: the same of one row, where there is
    a form for that."""

    run: Run
    scale: int | None = 0
    bits: int | None = None
    integer: bool = False
    wide: bool = False
    row: ByRow | None = None


_WIDE = (1 << 63) - 1
_DECIMAL = 10**18 - 1  # what every type that DuckDB chooses for a sum or a product holds
_EXACT = 1 << 53  # integers up to here are doubles
INTEGER_BITS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}
"""The signed integers that are held in 64 bits."""


def compile_number(
    expression: exp.Expr, schema: Schema, predicate: Callable[[exp.Expr], Predicate | None]
) -> Number | None:
    """Numbers of columns and literals; `predicate` compiles conditions. None: needs a kernel."""

    def operand(part: exp.Expr | None) -> Number | None:
        return None if part is None else compile_number(part, schema, predicate)

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
        return None if left is None or right is None else _binary(type(expression), left, right)
    if isinstance(expression, exp.Case) and expression.this is None:
        return _case(expression, operand, predicate)
    if isinstance(expression, exp.Extract | exp.Year | exp.Month | exp.Day):
        return _date_part(expression, schema)
    if type(expression) is exp.Cast:
        one = operand(expression.this)
        return None if one is None else _cast(one, expression.to)
    return None


def number_of(expression: exp.Expr) -> Decimal | None:
    """The value of a numeric literal, signed or not; None for everything else."""
    if isinstance(expression, exp.Neg):
        inner = number_of(expression.this)
        return None if inner is None else -inner
    if isinstance(expression, exp.Literal) and not expression.is_string:
        text = expression.this
        return Decimal(text) if text.replace(".", "", 1).isdigit() else None
    return None


def finished(number: Number, kind: pa.DataType) -> Compute | None:
    """A column of DuckDB's type for the expression; None where that is not what was computed."""
    found = column_type(kind)
    if number.scale is None:
        if not pa.types.is_float64(kind):
            return None
    elif pa.types.is_decimal128(kind):
        if number.integer or kind.scale != number.scale:
            return None
    elif not (number.integer and pa.types.is_signed_integer(kind)):
        return None

    def compute(cols: Sequence[Col], n: int) -> Col:
        values, nulls = number.run(cols, n)
        if pa.types.is_signed_integer(kind):
            _hold(values, (1 << (kind.bit_width - 1)) - 1)
        values = np.broadcast_to(values, n)
        if found.dtype is not None and nulls is None:
            return np.ascontiguousarray(values, found.dtype)
        valid = None if nulls is None else ~np.broadcast_to(nulls, n)
        if pa.types.is_decimal128(kind):
            return found.load(integers_to_arrow(values, valid, kind))
        return found.load(pa.array(values, kind, mask=None if valid is None else ~valid))

    return compute


def finished_row(number: Number, kind: pa.DataType) -> ByRow | None:
    """What `finished` gives, of one row."""
    value_of = number.row
    if value_of is None or not pa.types.is_signed_integer(kind):
        return value_of
    return _held_row(value_of, (1 << (kind.bit_width - 1)) - 1)


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
    if not pa.types.is_signed_integer(arrow):
        return None

    def read(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = _filled(*kind.split(cols[at]))
        if values.dtype.itemsize == 8:
            # what has 32 bits can't leave 64 in one operation, after which it is looked at
            _hold(values, _WIDE)
        return values.astype(np.int64, copy=False), nulls

    return Number(read, 0, arrow.bit_width, True, row=value)


def _filled(values: Array, nulls: Mask | None) -> tuple[Array, Mask | None]:
    return (values if nulls is None else np.where(nulls, values.dtype.type(0), values)), nulls


def _narrow(col: Col) -> tuple[Int64s, Mask | None]:
    """Decimals of more than 18 digits, where 64 bits are enough for them."""
    pairs = words(col, 16).view(np.int64)
    nulls = is_null(col)
    values, high = pairs[:, 0], pairs[:, 1]
    if nulls is not None:
        values, high = np.where(nulls, 0, values), np.where(nulls, 0, high)
    if (high != values >> 63).any():
        raise NeedsKernel
    _hold(values, _WIDE)
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


def _cast(number: Number, to: exp.DataType) -> Number | None:
    """An integer as one of another type, or an exact number as a DOUBLE."""
    kind = to.this
    if kind is exp.DataType.Type.DOUBLE and number.scale is not None:
        return as_double(number)
    bits = INTEGER_BITS.get(kind)
    if bits is None or not number.integer:
        return None
    if number.bits is not None and number.bits <= bits:
        return replace(number, bits=bits)
    limit = (1 << (bits - 1)) - 1

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        return _hold(values, limit), nulls

    return Number(compute, 0, bits, True, row=_held_row(number.row, limit))


def _held_row(value_of: ByRow | None, limit: int) -> ByRow | None:
    if value_of is None:
        return None

    def by_row(row: Row) -> int | None:
        value: int | None = value_of(row)
        if value is not None and abs(value) > limit:
            raise NeedsKernel
        return value

    return by_row


def _date_part(expression: exp.Expr, schema: Schema) -> Number | None:
    name, source = expression.key, expression.this
    if isinstance(expression, exp.Extract):
        name, source = str(expression.this.name).lower(), expression.expression
    if name not in ("year", "month", "day") or not isinstance(source, exp.Column):
        return None
    if source.name not in schema.names:
        return None
    at = schema.index(source.name)
    kind: Any = schema.kinds[at]
    if not pa.types.is_date32(schema.types[at]):
        return None

    def part(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = _filled(*kind.split(cols[at]))
        if len(values) and not (values.min() >= _YEAR_1 and values.max() < _YEAR_10000):
            raise NeedsKernel  # before Christ, and infinite ones
        days = values.astype("M8[D]")
        months = days.astype("M8[M]")
        if name == "day":
            return (days - months).astype(np.int64) + 1, nulls
        if name == "month":
            return months.astype(np.int64) % 12 + 1, nulls
        return days.astype("M8[Y]").astype(np.int64) + 1970, nulls

    return Number(part, 0, 64, True)


_YEAR_1 = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_YEAR_10000 = int(np.datetime64("10000-01-01", "D").astype(np.int64))


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
    limit = (1 << ((bits or 32) - 1)) - 1 if integer else _WIDE if wide else _DECIMAL
    operation = _UFUNCS[kind]

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        (a, a_nulls), (b, b_nulls) = left.run(cols, n), right.run(cols, n)
        if kind is exp.Mul and limit >= 1 << 31 and _largest(a) * _largest(b) > limit:
            raise NeedsKernel
        if kind is not exp.Mul and limit >= 1 << 59 and _largest(a) + _largest(b) > limit:
            raise NeedsKernel
        return _hold(operation(a, b), limit), either(a_nulls, b_nulls)

    return Number(compute, scale, bits, integer, wide, _by_row(kind, left, right, limit))


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


def as_double(number: Number) -> Number:
    """Exact numbers as DuckDB casts them to DOUBLE."""
    if number.scale is None:
        return number
    power = 10**number.scale

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        if not number.scale or _largest(values) <= _EXACT:
            return values.astype(np.float64) / power, nulls
        if power > _DECIMAL:
            raise NeedsKernel
        whole = np.abs(values) // power * np.sign(values)
        parts = whole.astype(np.float64) + (values - whole * power).astype(np.float64) / power
        small = np.abs(values) <= _EXACT
        return np.where(small, values.astype(np.float64) / power, parts), nulls

    exact = number.row
    if exact is None:
        return Number(compute, None)

    def by_row(row: Row) -> float | None:
        value = exact(row)
        if value is None:
            return None
        if number.scale and abs(value) > _EXACT:
            raise NeedsKernel
        return float(value) / float(power)

    return Number(compute, None, row=by_row)


def aligned(left: Number, right: Number) -> tuple[Number, Number, int]:
    """Two exact numbers with equally many digits behind the point, and how many."""
    assert left.scale is not None
    assert right.scale is not None
    scale = max(left.scale, right.scale)
    return _scaled(left, scale), _scaled(right, scale), scale


def _scaled(number: Number, scale: int) -> Number:
    assert number.scale is not None
    if number.scale == scale:
        return number
    factor = 10 ** (scale - number.scale)
    limit = (_WIDE if number.wide else _DECIMAL) // factor

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        if factor > _DECIMAL:
            raise NeedsKernel
        _hold(values, limit)
        return values * factor, nulls

    exact = number.row
    if exact is None:
        return Number(compute, scale, wide=number.wide)

    def by_row(row: Row) -> int | None:
        value = exact(row)
        if value is not None and abs(value) > limit:
            raise NeedsKernel
        return None if value is None else value * factor

    return Number(compute, scale, wide=number.wide, row=by_row)


def _case(
    expression: exp.Case,
    operand: Callable[[exp.Expr | None], Number | None],
    predicate: Callable[[exp.Expr], Predicate | None],
) -> Number | None:
    tests: list[Predicate] = []
    arms: list[Number] = []
    for branch in expression.args["ifs"]:
        test, arm = predicate(branch.this), operand(branch.args["true"])
        if test is None or arm is None:
            return None
        tests.append(test)
        arms.append(arm)
    default = expression.args.get("default")
    if default is not None and not isinstance(default, exp.Null):
        last = operand(default)
        if last is None:
            return None
        arms.append(last)
    if any(arm.scale is None for arm in arms):
        arms = [as_double(arm) for arm in arms]
        scale = None
    else:
        scale = max(arm.scale or 0 for arm in arms)
        arms = [_scaled(arm, scale) for arm in arms]
    bits = max(arm.bits or 0 for arm in arms) or None
    integer = all(arm.integer for arm in arms)

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values = np.zeros(n, np.int64 if scale is not None else np.float64)
        nulls = np.zeros(n, bool)
        todo = np.ones(n, bool)
        for i, arm in enumerate(arms):
            chosen = todo & tests[i](cols, n) if i < len(tests) else todo
            found, missing = arm.run(cols, n)
            np.copyto(values, found, where=chosen)
            if missing is not None:
                np.copyto(nulls, missing, where=chosen)
            todo = todo & ~chosen
        nulls |= todo
        return values, nulls if nulls.any() else None

    return Number(compute, scale, bits, integer, any(arm.wide for arm in arms))


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """NULL on one of two sides."""
    return one if other is None else other if one is None else one | other


def _largest(values: Array) -> int:
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def _hold(values: Array, limit: int) -> Array:
    if _largest(values) > limit:
        raise NeedsKernel
    return values
