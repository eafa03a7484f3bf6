"""Expressions that need no statement: columns, constants, conditions, arithmetic in NumPy.

Only what surely means the same as in DuckDB is taken; for everything else the answer is None, and
a kernel does it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidewheel.engine.arrow import numbers, text_value
from tidewheel.engine.operators.linear import Predicate
from tidewheel.engine.state.columns import (
    BoolType,
    Col,
    FixedType,
    FloatType,
    Mask,
)
from tidewheel.engine.state.delta import Schema
from tidewheel.planner.arithmetic import compile_number, number_of
from tidewheel.planner.enum_values import compile_place
from tidewheel.planner.moments import TIMESTAMP, compile_moment
from tidewheel.planner.number import NeedsKernel, Number, aligned, as_double, either
from tidewheel.planner.text import to_sql
from tidewheel.planner.view_kernels import Statements, statements

Truth = Callable[[Sequence[Col], int], Mask]
_COMPARE: dict[type[exp.Expr], tuple[str, Any]] = {
    exp.EQ: ("equal", np.equal),
    exp.NEQ: ("not_equal", np.not_equal),
    exp.LT: ("less", np.less),
    exp.LTE: ("less_equal", np.less_equal),
    exp.GT: ("greater", np.greater),
    exp.GTE: ("greater_equal", np.greater_equal),
}
_SWAPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def swapped(comparison: type[exp.Expr]) -> type[exp.Expr]:
    """The comparison that holds of the sides changed over."""
    return _SWAPPED.get(comparison, comparison)


def compile_value(expression: exp.Expr, schema: Schema) -> int | Number | None:
    """A column's position, or what is computed of columns; None: needs a kernel."""
    at = position(expression, schema)
    if at is not None:
        return at
    number = compile_number(expression, schema, lambda e: compile_predicate(e, schema))
    if number is None:
        number = compile_moment(expression, schema)
    return compile_place(expression, schema) if number is None else number


def compile_predicate(expression: exp.Expr, schema: Schema) -> Predicate | None:
    """The rows for which a predicate is TRUE (may raise NeedsKernel); None: needs a kernel."""
    if isinstance(expression, exp.Paren):
        return compile_predicate(expression.this, schema)
    if isinstance(expression, exp.And | exp.Or):
        one = compile_predicate(expression.this, schema)
        other = compile_predicate(expression.expression, schema)
        if one is None or other is None:
            return None
        # TRUE AND/OR: NULL counts as not TRUE on each side, which is right without NOT above.
        if isinstance(expression, exp.And):
            return lambda cols, n: one(cols, n) & other(cols, n)
        return lambda cols, n: one(cols, n) | other(cols, n)
    if isinstance(expression, exp.Is) and isinstance(expression.expression, exp.Null):
        return _null_test(expression.this, schema, True)
    if isinstance(expression, exp.Not):
        inner = expression.this
        if isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return _null_test(inner.this, schema, False)
        return None
    if isinstance(expression, exp.Like):
        return _like(expression, schema)
    if type(expression) in _COMPARE:
        return _comparison(expression, schema)
    if isinstance(expression, exp.Between) and not expression.args.get("symmetric"):
        low = exp.GTE(this=expression.this, expression=expression.args["low"])
        high = exp.LTE(this=expression.this, expression=expression.args["high"])
        return compile_predicate(exp.And(this=low, expression=high), schema)
    if isinstance(expression, exp.In) and 0 < len(expression.expressions) <= _FEW:
        # TRUE if one of the comparisons is: a NULL among them makes it NULL instead of FALSE.
        equal = [exp.EQ(this=expression.this, expression=e) for e in expression.expressions]
        tests = [compile_predicate(e, schema) for e in equal]
        known = [t for t in tests if t is not None]
        if len(known) == len(tests) and not expression.args.get("query"):
            return lambda cols, n: np.logical_or.reduce([t(cols, n) for t in known])
    return None


_FEW = 8


def position(expression: exp.Expr, schema: Schema) -> int | None:
    if isinstance(expression, exp.Column) and expression.name in schema.names:
        return schema.index(expression.name)
    return None


def _null_test(expression: exp.Expr, schema: Schema, wanted: bool) -> Predicate | None:
    at = position(expression, schema)
    if at is None:
        return None

    def test(cols: Sequence[Col], n: int) -> Mask:
        col = cols[at]
        if isinstance(col, np.ndarray):
            return np.full(n, not wanted)
        nulls = numbers(pc.is_null(col))
        return nulls if wanted else ~nulls

    return test


def _comparison(expression: exp.Expr, schema: Schema) -> Predicate | None:
    found = _with_constant(expression, schema) or _of_numbers(expression, schema)
    return found or _moment_and_constant(expression, schema)


def _with_constant(expression: exp.Expr, schema: Schema) -> Predicate | None:
    """A column compared with a constant, or with a column of its type."""
    kind = type(expression)
    left, right = expression.this, expression.expression
    if position(left, schema) is None:
        left, right, kind = right, left, swapped(kind)
    at = position(left, schema)
    if at is None:
        return None
    name, ufunc = _COMPARE[kind]
    column = schema.kinds[at]
    other = position(right, schema)
    if other is not None:
        if schema.types[other] != schema.types[at] or not plain(column):
            return None
        return _compare_columns(at, other, column, ufunc)
    known = constant(right, schema.types[at])
    if known is None:
        return None
    if not isinstance(column, FixedType):
        if not pa.types.is_string(schema.types[at]) or name not in ("equal", "not_equal"):
            return None
        arrow = text_value(known)
        function = getattr(pc, name)
        return lambda cols, n: _true(function(cols[at], arrow))
    if not plain(column):
        return None

    def number(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = column.split(cols[at])
        mask: Mask = ufunc(values.astype(np.int64, copy=False), known)
        return mask if nulls is None else mask & ~nulls

    return number


def _moment_and_constant(expression: exp.Expr, schema: Schema) -> Predicate | None:
    """What is computed of a date or a timestamp, compared with a constant."""
    kind = type(expression)
    left, right = expression.this, expression.expression
    moment = compile_moment(left, schema)
    if moment is None:
        left, right, kind = right, left, swapped(kind)
        moment = compile_moment(left, schema)
    if moment is None or moment.moment is None:
        return None
    known, run = constant(right, moment.moment), moment.run
    if known is None:
        return None
    _, ufunc = _COMPARE[kind]

    def test(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = run(cols, n)
        mask: Mask = ufunc(values, known)
        return mask if nulls is None else mask & ~nulls

    return test


def _of_numbers(expression: exp.Expr, schema: Schema) -> Predicate | None:
    """Two numbers compared, exactly unless one is a DOUBLE."""
    sides = [
        compile_number(side, schema, lambda e: compile_predicate(e, schema))
        for side in (expression.this, expression.expression)
    ]
    one, other = sides
    if one is None or other is None:
        return None
    if one.scale is None or other.scale is None:
        one, other = as_double(one), as_double(other)
    else:
        one, other, _ = aligned(one, other)
    left, right = one.run, other.run
    _, ufunc = _COMPARE[type(expression)]

    def compare(cols: Sequence[Col], n: int) -> Mask:
        (a, a_nulls), (b, b_nulls) = left(cols, n), right(cols, n)
        if a.dtype.kind == "f" and (np.isnan(a).any() or np.isnan(b).any()):
            raise NeedsKernel  # to DuckDB they are equal, and greater than all else
        mask = np.broadcast_to(ufunc(a, b), n)
        nulls = either(a_nulls, b_nulls)
        return mask if nulls is None else mask & ~nulls

    return compare


def _like(expression: exp.Like, schema: Schema) -> Predicate | None:
    at = position(expression.this, schema)
    pattern = expression.expression
    if at is None or not pa.types.is_string(schema.types[at]):
        return None
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.this:
        return None
    like, negated = pattern.this, bool(expression.args.get("negate"))

    def test(cols: Sequence[Col], n: int) -> Mask:
        found = pc.match_like(cols[at], like)
        return _true(pc.invert(found) if negated else found)

    return test


def _true(found: pa.Array) -> Mask:
    mask = numbers(found)
    return mask & numbers(pc.is_valid(found)) if found.null_count else mask


def plain(column: Any) -> bool:
    return (
        isinstance(column, FixedType)
        and not isinstance(column, FloatType | BoolType)
        and column.dtype != np.uint64
    )


def _compare_columns(at: int, other: int, column: Any, ufunc: Any) -> Predicate:
    def test(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = column.split(cols[at])
        others, other_nulls = column.split(cols[other])
        mask: Mask = ufunc(values, others)
        for found in (nulls, other_nulls):
            if found is not None:
                mask = mask & ~found
        return mask

    return test


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
