"""Functions of one number, without a statement: abs, round, floor, ceil, and `//` by a literal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.planner.constants import natural
from tidewheel.planner.number import (
    DECIMAL,
    Number,
    held_row,
    hold,
    integer_limit,
    scaled,
    unless_null,
)

_PLACES = 15  # of a double; powers of ten up to here are exact


def function_of(
    expression: exp.Expr, operand: Callable[[exp.Expr | None], Number | None]
) -> Number | None:
    """None: it is none of these, or needs a kernel."""
    if not isinstance(expression, exp.Abs | exp.Floor | exp.Ceil | exp.Round | exp.IntDiv):
        return None
    one = operand(expression.this)
    if one is None or one.moment is not None or one.texts is not None:
        return None
    if isinstance(expression, exp.Abs):
        return _absolute(one)
    if isinstance(expression, exp.IntDiv):
        return _divided(one, natural(expression.expression))
    if isinstance(expression, exp.Round):
        decimals = expression.args.get("decimals")
        places = 0 if decimals is None else natural(decimals)
        if places is None or places > _PLACES or expression.args.get("truncate"):
            return None
        return _rounded(one, places)
    if one.scale is not None or expression.args.get("decimals") or expression.args.get("to"):
        return None
    ufunc = np.floor if isinstance(expression, exp.Floor) else np.ceil
    return _mapped(one, ufunc, lambda value: float(ufunc(value)))


def _mapped(
    number: Number, compute: Callable[[Array], Array], of_one: Callable[[Any], Any]
) -> Number:
    """A function of the values, which has their type."""

    def run(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        return compute(values), nulls

    return replace(number, run=run, row=unless_null(number.row, of_one))


def _absolute(number: Number) -> Number:
    if number.scale is None:
        return _mapped(number, np.abs, abs)
    # what a type of integers has but with a minus is DuckDB's to refuse
    limit = integer_limit(number.bits) if number.bits else DECIMAL
    found = _mapped(number, lambda values: np.abs(hold(values, limit)), abs)
    return replace(found, row=held_row(found.row, limit))


def _divided(number: Number, divisor: int | None) -> Number | None:
    """`//`, which cuts off what is behind the point."""
    if not divisor or not number.integer or not number.bits:
        return None
    limit = (1 << 62) - 1

    def divide(values: Array) -> Array:
        found: Array = np.sign(values) * (np.abs(hold(values, limit)) // divisor)
        return found

    def of_one(value: int) -> int:
        return value // divisor if value >= 0 else -(-value // divisor)

    return _mapped(number, divide, of_one)


def _rounded(number: Number, places: int) -> Number | None:
    """Half of a unit goes away from 0."""
    if number.integer:
        return None
    if number.scale is None:
        return _mapped(
            number,
            lambda values: _round(values, places),
            lambda value: float(_round(np.array([value]), places)[0]),
        )
    digits: int = number.scale - places
    if digits <= 0 or number.wide:
        return None if digits else number
    unit: int = 10**digits
    half = unit // 2

    def of_all(values: Array) -> Array:
        found: Array = np.sign(values) * ((np.abs(hold(values, DECIMAL)) + half) // unit)
        return found

    def of_one(value: int) -> int:
        return (value + half) // unit if value >= 0 else -((-value + half) // unit)

    return replace(_mapped(number, of_all, of_one), scale=places)


def as_decimal(number: Number, to: exp.DataType) -> Number | None:
    """An exact number as a DECIMAL: half of its last digit goes away from 0."""
    sizes = [natural(e.this) for e in to.expressions]
    if number.scale is None or number.moment is not None or number.texts is not None:
        return None
    if len(sizes) != 2 or sizes[0] is None or sizes[1] is None:
        return None
    digits, places = sizes[0], sizes[1]
    shorter = number.scale > places
    found = _rounded(number, places) if shorter else scaled(number, places)
    if found is None:
        return None
    run, limit = found.run, min(10**digits - 1, DECIMAL)

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = run(cols, n)
        return hold(values, limit), nulls

    return Number(compute, places, wide=digits > 18, row=held_row(found.row, limit))


def _round(values: Array, places: int) -> Array:
    """As DuckDB does it, by a power of ten; what that does not hold stays as it is."""
    power = 10.0**places
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * power
        whole = np.trunc(scaled)
        whole += np.copysign(np.abs(scaled - whole) >= 0.5, scaled)
        found: Array = whole / power
    return np.where(np.isfinite(found), found, values)
