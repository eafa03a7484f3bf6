"""Expressions without columns, as the integers that columns hold: DuckDB computes them once."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.planner.text import to_sql
from tidewheel.planner.view_kernels import Statements, statements

DATE: Final = pa.date32()
TIMESTAMP: Final = pa.timestamp("us")


def number_of(expression: exp.Expr) -> Decimal | None:
    """The value of a numeric literal, signed or not; None for everything else."""
    if isinstance(expression, exp.Neg):
        inner = number_of(expression.this)
        return None if inner is None else -inner
    if isinstance(expression, exp.Literal) and not expression.is_string:
        text = expression.this
        return Decimal(text) if text.replace(".", "", 1).isdigit() else None
    return None


def natural(expression: exp.Expr) -> int | None:
    """The value of a literal that is an integer and not negative; None for everything else."""
    value = number_of(expression)
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def constant(expression: exp.Expr, kind: pa.DataType) -> Any:
    """An expression without columns as the 64-bit integer (or text) that columns of `kind` hold."""
    if kind == TIMESTAMP and isinstance(expression, exp.Literal) and expression.is_string:
        expression = exp.cast(expression, "TIMESTAMP")
    known = _literal(expression, kind)
    return _computed(expression, kind) if known is None else known


def _literal(expression: exp.Expr, kind: pa.DataType) -> Any:
    """A literal as the 64-bit integer (or text) that columns of `kind` hold; None if not plain."""
    t = pa.types
    if t.is_string(kind):
        plain = isinstance(expression, exp.Literal) and expression.is_string
        return expression.this if plain else None
    if t.is_date32(kind):
        text = None
        to = expression.args.get("to")
        if isinstance(expression, exp.Cast) and isinstance(to, exp.DataType) and to.is_type("date"):
            text = expression.this
        elif isinstance(expression, exp.Literal) and expression.is_string:
            text = expression
        if not (isinstance(text, exp.Literal) and text.is_string and _DAY.fullmatch(text.this)):
            return None
        try:
            return int(np.datetime64(text.this, "D").astype(np.int64))
        except ValueError:
            return None
    found = number_of(expression)
    return None if found is None else _held(found, kind)


_EXACT = (
    exp.Literal, exp.Cast, exp.DataType, exp.Interval, exp.Var, exp.Add, exp.Sub, exp.Mul, exp.Neg,
    exp.Paren,
)  # fmt: skip


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _computed(expression: exp.Expr, kind: pa.DataType) -> int | None:
    """An expression without columns, computed by DuckDB once, as columns of `kind` hold it."""
    parts = list(expression.walk())
    if not all(isinstance(part, _EXACT) for part in parts):
        return None
    if kind == TIMESTAMP and any(p.this not in _TIMES for p in parts if type(p) is exp.DataType):
        return None  # compared with more digits, or with a zone
    try:
        value = _value(to_sql(expression), statements())
    except duckdb.Error:
        return None  # the kernel will say so
    if pa.types.is_date32(kind):
        if isinstance(value, datetime.datetime):
            # A day is less than a time of it if it is less than the day, but not the reverse.
            if value.tzinfo is not None or value.time() != datetime.time():
                return None
            value = value.date()
        if not isinstance(value, datetime.date) or value in (_DAY_N, datetime.date.min):
            return None  # the last one stands for infinity, too
        return (value - _DAY_0).days
    if kind == TIMESTAMP:
        if type(value) is datetime.date:
            value = datetime.datetime.combine(value, datetime.time())
        if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
            return None
        if value.date() in (_DAY_N, datetime.date.min):
            return None
        return (value - _MOMENT_0) // _MICROSECOND
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return _held(Decimal(value), kind)
    return None


def interval(expression: exp.Expr) -> tuple[int, int, int] | None:
    """The months, days and microseconds of an INTERVAL, each of less than 10,000 years."""
    parts = list(expression.walk())
    if not any(map(_makes_interval, parts)) or not all(
        isinstance(p, _EXACT) or _makes_interval(p) for p in parts
    ):
        return None
    times = ", ".join(f"{size} * datepart('{part}', i)" for part, size in _TIMES_OF_DAY.items())
    try:
        found = _value(
            f"(SELECT CASE typeof(i) WHEN 'INTERVAL' THEN [12 * datepart('year', i), "
            f"datepart('month', i), datepart('day', i), {times}] END "
            f"FROM (SELECT {to_sql(expression)} AS i))",
            statements(),
        )
    except duckdb.Error:
        return None
    if found is None or None in found:
        return None
    months, days, microseconds = found[0] + found[1], found[2], sum(found[3:])
    if (
        abs(months) >= 120_000
        or abs(days) >= 3_652_425
        or abs(microseconds) >= 3_652_425 * _DAY_LONG
    ):
        return None
    return months, days, microseconds


def _makes_interval(part: exp.Expr) -> bool:
    named = isinstance(part, exp.Anonymous) and part.name.lower() in _MAKERS
    cast = isinstance(part, exp.DataType) and part.is_type("interval")
    return named or cast or isinstance(part, exp.Interval | exp.ToDays)


_DAY_LONG: Final = 86_400_000_000  # microseconds
_TIMES_OF_DAY: Final = {"hour": 3_600_000_000, "minute": 60_000_000, "microsecond": 1}
_MAKERS: Final = {
    f"to_{unit}s"
    for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
}


@lru_cache(maxsize=256)
def _value(text: str, at: Statements) -> Any:
    return at.value(text)


_DAY_0, _DAY_N = datetime.date(1970, 1, 1), datetime.date.max
_MOMENT_0, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
_TIMES = (
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.INTERVAL,
)


def _held(value: Decimal, kind: pa.DataType) -> int | None:
    """A number as the 64-bit integer that columns of `kind` hold for it."""
    t = pa.types
    if t.is_decimal128(kind) and kind.precision <= 18:
        value = value.scaleb(kind.scale)
    elif not (t.is_integer(kind) and not t.is_uint64(kind)):
        return None
    whole = int(value)
    return whole if whole == value and abs(whole) < 1 << 62 else None
