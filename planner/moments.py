"""Dates and timestamps without a statement: `date_trunc`, casts to DATE, and parts of them.

Of columns of DATE and of TIMESTAMP without zone, between the years 1 and 9999; whatever is beyond,
infinities among them, is left to DuckDB (`NeedsKernel`).
"""

from __future__ import annotations

import datetime
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
from tidewheel.planner.number import NeedsKernel, Number, Run

DATE: Final = pa.date32()
TIMESTAMP: Final = pa.timestamp("us")
_DAY: Final = 86_400_000_000  # microseconds
_SECOND: Final = 1_000_000
_YEAR_1: Final = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_YEAR_10000: Final = int(np.datetime64("10000-01-01", "D").astype(np.int64))
_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()


def compile_moment(expression: exp.Expr, schema: Schema) -> Number | None:
    """A DATE (days) or TIMESTAMP (microseconds since 1970), as `Number.moment` says."""
    found = _moment(expression, schema)
    return None if found is None else Number(found.run, 0, 64, moment=found.kind, row=found.row)


def compile_part(expression: exp.Expr, schema: Schema) -> Number | None:
    """`extract(part FROM …)`, `year(…)` and their kin: BIGINT."""
    name, source = expression.key, expression.this
    if isinstance(expression, exp.Extract):
        name, source = str(expression.this.name).lower(), expression.expression
    name = _SPELLINGS.get(name, name)
    part = _PARTS.get(name)
    found = None if part is None else _moment(source, schema)
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


def _moment(expression: exp.Expr, schema: Schema) -> _Moment | None:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.Column):
        return _column(expression, schema)
    # `to` may be text, where the binder has made the cast
    if type(expression) is exp.Cast and expression.args["to"].this is exp.DataType.Type.DATE:
        inner = _moment(expression.this, schema)
        return None if inner is None else _days(inner)
    if isinstance(expression, exp.TimestampTrunc | exp.DateTrunc) and not expression.args.get(
        "zone"
    ):
        inner = _moment(expression.this, schema)
        unit = str(expression.args["unit"].name).lower()
        return None if inner is None else _truncated(inner, unit.removesuffix("s"))
    return None


def _column(expression: exp.Column, schema: Schema) -> _Moment | None:
    if expression.name not in schema.names:
        return None
    at = schema.index(expression.name)
    found = schema.types[at]
    if found not in (DATE, TIMESTAMP):
        return None
    kind: Any = schema.kinds[at]
    times = _DAY if found == TIMESTAMP else 1
    first, end = _YEAR_1 * times, _YEAR_10000 * times

    def run(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = kind.split(cols[at])
        values = values.astype(np.int64, copy=False)
        if nulls is not None:
            values = np.where(nulls, 0, values)
        if len(values) and not (values.min() >= first and values.max() < end):
            raise NeedsKernel
        return values, nulls

    def row(given: Row) -> int | None:
        value: int | None = given[at]
        if value is not None and not first <= value < end:
            raise NeedsKernel
        return value

    return _Moment(found, run, row)


def _days(moment: _Moment) -> _Moment:
    return moment if moment.kind == DATE else moment.then(lambda v: v // _DAY, DATE)


def _truncated(moment: _Moment, unit: str) -> _Moment | None:
    """`date_trunc`: always a TIMESTAMP, also of a DATE."""
    if unit in _LENGTHS:
        length = _LENGTHS[unit]
        if moment.kind == DATE:
            return moment.then(lambda v: v * _DAY, TIMESTAMP)
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
