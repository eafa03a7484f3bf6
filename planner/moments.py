"""Dates and timestamps without a statement: sums with intervals and days, `date_trunc`, parts.

Of columns of DATE and of TIMESTAMP without zone, between the years 1 and 9999; whatever is beyond,
infinities among them, is left to DuckDB (`NeedsKernel`).
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.constants import DATE, TIMESTAMP, constant, interval
from tidewheel.planner.number import NeedsKernel, Number, Run, either

Operand = Callable[[exp.Expr], Number | None]
"""What compiles the numbers in it."""

_DAY: Final = 86_400_000_000  # microseconds
_SECOND: Final = 1_000_000
_YEAR_1: Final = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_YEAR_10000: Final = int(np.datetime64("10000-01-01", "D").astype(np.int64))
_DAYS: Final = (_YEAR_1, _YEAR_10000)
_TIMES: Final = (_YEAR_1 * _DAY, _YEAR_10000 * _DAY)
_MONTHS: Final = (-1969 * 12, 8030 * 12 - 1)
"""The first, and what is beyond the last, of days, microseconds and months that are taken."""
_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()


def compile_moment(expression: exp.Expr, schema: Schema, operand: Operand) -> Number | None:
    """A DATE (days) or TIMESTAMP (microseconds since 1970), as `Number.moment` says."""
    found = _moment(expression, schema, operand)
    return None if found is None else _finished(found)


def compile_moments(
    left: exp.Expr, right: exp.Expr, schema: Schema, operand: Operand
) -> tuple[Number, Number] | None:
    """Two that are compared, as moments of one type; one of them may be any constant."""
    one, other = _moment(left, schema, operand), _moment(right, schema, operand)
    if one is None:
        one = None if other is None else _constant(left, other.kind)
    elif other is None:
        other = _constant(right, one.kind)
    if one is None or other is None:
        return None
    if one.kind != other.kind:
        one, other = _time(one), _time(other)
    return _finished(one), _finished(other)


def _finished(moment: _Moment) -> Number:
    return Number(moment.run, 0, 64, moment=moment.kind, row=moment.row)


def compile_part(expression: exp.Expr, schema: Schema, operand: Operand) -> Number | None:
    """`extract(part FROM …)`, `year(…)` and their kin, and days between dates: BIGINT."""
    if isinstance(expression, exp.Sub):
        one = _moment(expression.this, schema, operand)
        other = None if one is None else _moment(expression.expression, schema, operand)
        if one is None or other is None or one.kind != DATE or other.kind != DATE:
            return None
        days = one.with_number(operator.sub, other)
        return Number(days.run, 0, 64, True, row=days.row)
    name, source = expression.key, expression.this
    if isinstance(expression, exp.Extract):
        name, source = str(expression.this.name).lower(), expression.expression
    name = _SPELLINGS.get(name, name)
    part = _PARTS.get(name)
    found = None if part is None else _moment(source, schema, operand)
    if part is None or found is None:
        return None
    if name in _OF_A_DAY:
        if found.kind != TIMESTAMP:
            return None
    else:
        found = _days(found)
    done = found.then(part, found.kind)
    return Number(done.run, 0, 64, True, row=done.row)


@dataclass(frozen=True, slots=True)
class _Moment:
    """Days (`kind` is DATE) or microseconds since 1970, of columns and of one row."""

    kind: pa.DataType
    run: Run
    row: ByRow

    def then(self, function: Callable[[Any], Any], kind: pa.DataType) -> _Moment:
        """A function of it, which takes an array as well as an integer."""
        run, row = self.run, self.row

        def of_columns(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
            values, nulls = run(cols, n)
            return function(values), nulls

        def of_row(given: Row) -> int | None:
            value = row(given)
            return None if value is None else int(function(value))

        return _Moment(kind, of_columns, of_row)

    def with_number(self, function: Callable[[Any, Any], Any], other: Any) -> _Moment:
        """A function of it and of another one, or of a number."""
        run, row, other_run, other_row = self.run, self.row, other.run, other.row

        def of_columns(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
            (a, a_nulls), (b, b_nulls) = run(cols, n), other_run(cols, n)
            return function(a, b), either(a_nulls, b_nulls)

        def of_row(given: Row) -> int | None:
            a, b = row(given), other_row(given)
            return None if a is None or b is None else int(function(a, b))

        return _Moment(self.kind, of_columns, of_row)


def _moment(expression: exp.Expr, schema: Schema, operand: Operand) -> _Moment | None:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.Column):
        return _column(expression, schema)
    if type(expression) is exp.Cast:
        # (`to` is no DataType where the binder has made the cast)
        kind = _KINDS.get(expression.args["to"].sql(dialect="duckdb"))
        if kind is None:
            return None
        if isinstance(expression.this, exp.Literal):
            return _constant(expression, kind)
        inner = _moment(expression.this, schema, operand)
        return inner and (_days(inner) if kind == DATE else _time(inner))
    if isinstance(expression, exp.TimestampTrunc | exp.DateTrunc) and not expression.args.get(
        "zone"
    ):
        inner = _moment(expression.this, schema, operand)
        unit = str(expression.args["unit"].name).lower()
        return None if inner is None else _truncated(inner, unit.removesuffix("s"))
    if isinstance(expression, exp.Add | exp.Sub | exp.DateAdd):
        return _sum(expression, schema, operand)
    return None


_KINDS: Final = {"DATE": DATE, "TIMESTAMP": TIMESTAMP}


def _constant(expression: exp.Expr, kind: pa.DataType) -> _Moment | None:
    known = constant(expression, kind)
    if known is None:
        return None
    values = np.array([known])
    return _Moment(kind, lambda cols, n: (values, None), lambda row: known)


def _sum(
    expression: exp.Add | exp.Sub | exp.DateAdd, schema: Schema, operand: Operand
) -> _Moment | None:
    """What is an interval, or a number of days, later or earlier."""
    left, right = expression.this, expression.expression
    moment = _moment(left, schema, operand)
    if moment is None and type(expression) is exp.Add:
        moment, right = _moment(right, schema, operand), left
    if moment is None:
        return None
    sign = -1 if isinstance(expression, exp.Sub) else 1
    length = interval(right)
    if length is not None:
        return _later(moment, *(sign * part for part in length))
    days = operand(right) if moment.kind == DATE and type(expression) is not exp.DateAdd else None
    if days is None or not days.integer or (days.bits or 0) > 32 or days.row is None:
        return None
    return moment.with_number(lambda day, more: _held(day + sign * more, _DAYS), days)


def _later(moment: _Moment, months: int, days: int, microseconds: int) -> _Moment:
    """A TIMESTAMP, in this order: months, to the last day of one that is too short, days, time."""
    found = _time(moment)
    if months:
        found = found.then(lambda v: _months_later(v // _DAY, months) * _DAY + v % _DAY, TIMESTAMP)
    more = days * _DAY + microseconds
    return found.then(lambda v: _held(v + more, _TIMES), TIMESTAMP) if more else found


def _months_later(days: Any, months: int) -> Any:
    before = _months(days)
    month = before + months
    _held(month, _MONTHS)
    least = min if isinstance(days, int) else np.minimum
    return least(_first_of(month) + days - _first_of(before), _first_of(month + 1) - 1)


def _held(values: Any, within: tuple[int, int]) -> Any:
    first, end = within
    if isinstance(values, int):
        if not first <= values < end:
            raise NeedsKernel
    elif len(values) and not (values.min() >= first and values.max() < end):
        raise NeedsKernel
    return values


def _column(expression: exp.Column, schema: Schema) -> _Moment | None:
    if expression.name not in schema.names:
        return None
    at = schema.index(expression.name)
    found = schema.types[at]
    if found not in (DATE, TIMESTAMP):
        return None
    kind: Any = schema.kinds[at]
    within = _TIMES if found == TIMESTAMP else _DAYS

    def run(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = kind.split(cols[at])
        values = values.astype(np.int64, copy=False)
        if nulls is not None:
            values = np.where(nulls, 0, values)
        return _held(values, within), nulls

    def row(given: Row) -> int | None:
        value: int | None = given[at]
        return None if value is None else _held(value, within)

    return _Moment(found, run, row)


def _days(moment: _Moment) -> _Moment:
    return moment if moment.kind == DATE else moment.then(lambda v: v // _DAY, DATE)


def _time(moment: _Moment) -> _Moment:
    return moment if moment.kind == TIMESTAMP else moment.then(lambda v: v * _DAY, TIMESTAMP)


def _truncated(moment: _Moment, unit: str) -> _Moment | None:
    """`date_trunc`: always a TIMESTAMP, also of a DATE."""
    if unit in _LENGTHS:
        length = _LENGTHS[unit]
        if moment.kind == DATE:
            return _time(moment)
        return moment.then(lambda v: v // length * length, TIMESTAMP)
    if unit in _FIRSTS:
        first = _FIRSTS[unit]
        return _days(moment).then(lambda v: first(v) * _DAY, TIMESTAMP)
    return None


_LENGTHS: Final = {
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "hour": 3600 * _SECOND,
    "day": _DAY,
}


def _months(days: Any) -> Any:
    """Months since January 1970."""
    if isinstance(days, int):
        day = datetime.date.fromordinal(days + _ORDINAL)
        return (day.year - 1970) * 12 + day.month - 1
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_of(months: Any) -> Any:
    """The first day of a month."""
    if isinstance(months, int):
        return datetime.date(1970 + months // 12, months % 12 + 1, 1).toordinal() - _ORDINAL
    found: Int64s = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    return found


def _first(days: Any, months: int) -> Any:
    return _first_of(_months(days) // months * months)


def _week(days: Any) -> Any:
    """The week of ISO 8601: that of its Thursday, which tells the year."""
    thursday = _monday(days) + 3
    return (thursday - _year(thursday)) // 7 + 1


def _monday(days: Any) -> Any:
    return (days + 3) // 7 * 7 - 3  # 1970 began on a Thursday


_year = partial(_first, months=12)
_FIRSTS: Final[dict[str, Callable[[Any], Any]]] = {
    "week": _monday,
    "month": partial(_first, months=1),
    "quarter": partial(_first, months=3),
    "year": _year,
}
_PARTS: Final[dict[str, Callable[[Any], Any]]] = {
    "year": lambda days: _months(days) // 12 + 1970,
    "quarter": lambda days: _months(days) % 12 // 3 + 1,
    "month": lambda days: _months(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - _first(days, 1) + 1,
    "dow": lambda days: (days + 4) % 7,
    "isodow": lambda days: (days + 3) % 7 + 1,
    "doy": lambda days: days - _year(days) + 1,
    "hour": lambda time: time % _DAY // (3600 * _SECOND),
    "minute": lambda time: time % (3600 * _SECOND) // (60 * _SECOND),
    "second": lambda time: time % (60 * _SECOND) // _SECOND,
}
_OF_A_DAY: Final = frozenset(["hour", "minute", "second"])
_SPELLINGS: Final = {
    "dayofmonth": "day",
    "dayofweek": "dow",
    "dayofweekiso": "isodow",
    "dayofyear": "doy",
    "weekofyear": "week",
}
