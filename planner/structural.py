"""Expressions that need no statement: columns, constants, comparisons, exact arithmetic in NumPy.

Only what surely means the same as in DuckDB is taken; for everything else the answer is None, and
a kernel does it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tidewheel.engine.operators.linear import Compute, Predicate
from tidewheel.engine.state.columns import (
    BoolType,
    Col,
    FixedType,
    FloatType,
    Mask,
    column_type,
)
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.planner.text import to_sql
from tidewheel.planner.view_kernels import STATEMENTS

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


def compile_predicate(expression: exp.Expr, schema: Schema) -> Predicate | None:
    """The rows for which a predicate is TRUE; None where it needs a kernel."""
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
        nulls = np.asarray(pc.is_null(col).to_numpy(zero_copy_only=False))
        return nulls if wanted else ~nulls

    return test


def _comparison(expression: exp.Expr, schema: Schema) -> Predicate | None:
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
        arrow = pa.scalar(known, schema.types[at])
        function = getattr(pc, name)

        def text(cols: Sequence[Col], n: int) -> Mask:
            found = function(cols[at], arrow).fill_null(False)
            return np.asarray(found.to_numpy(zero_copy_only=False))

        return text
    if not plain(column):
        return None

    def number(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = column.split(cols[at])
        mask: Mask = ufunc(values.astype(np.int64, copy=False), known)
        return mask if nulls is None else mask & ~nulls

    return number


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


def number(expression: exp.Expr) -> Decimal | None:
    if isinstance(expression, exp.Neg):
        inner = number(expression.this)
        return None if inner is None else -inner
    if isinstance(expression, exp.Literal) and not expression.is_string:
        text = expression.this
        return Decimal(text) if text.replace(".", "", 1).isdigit() else None
    return None


def constant(expression: exp.Expr, kind: pa.DataType) -> Any:
    """An expression without columns as the 64-bit integer (or text) that columns of `kind` hold."""
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
        if isinstance(expression, exp.Cast) and expression.to.is_type("date"):
            text = expression.this
        elif isinstance(expression, exp.Literal) and expression.is_string:
            text = expression
        if not (isinstance(text, exp.Literal) and text.is_string):
            return None
        try:
            return int(np.datetime64(text.this, "D").astype(np.int64))
        except ValueError:
            return None
    found = number(expression)
    return None if found is None else _held(found, kind)


_EXACT = (
    exp.Literal, exp.Cast, exp.DataType, exp.Interval, exp.Var, exp.Add, exp.Sub, exp.Mul, exp.Neg,
    exp.Paren,
)  # fmt: skip


def _computed(expression: exp.Expr, kind: pa.DataType) -> int | None:
    """An expression without columns, computed by DuckDB once, as columns of `kind` hold it."""
    if not all(isinstance(part, _EXACT) for part in expression.walk()):
        return None
    try:
        value = _value(to_sql(expression))
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
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return _held(Decimal(value), kind)
    return None


@lru_cache(maxsize=256)
def _value(text: str) -> Any:
    return STATEMENTS.value(text)


_DAY_0, _DAY_N = datetime.date(1970, 1, 1), datetime.date.max


def _held(value: Decimal, kind: pa.DataType) -> int | None:
    """A number as the 64-bit integer that columns of `kind` hold for it."""
    t = pa.types
    if t.is_decimal128(kind) and kind.precision <= 18:
        value = value.scaleb(kind.scale)
    elif not (t.is_integer(kind) and not t.is_uint64(kind)):
        return None
    whole = int(value)
    return whole if whole == value and abs(whole) < 1 << 62 else None


# -- values ------------------------------------------------------------------------------------


class NeedsKernel(Exception):
    """Values for which only DuckDB says what comes out: an overflow, or its error."""


Whole = Callable[[Sequence[Col], int, int], tuple[Int64s, Mask | None]]
"""Columns, number of rows, the greatest magnitude allowed → integers and the mask of NULLs."""


def compile_value(expression: exp.Expr, schema: Schema) -> int | Whole | None:
    """A column's position, or integer arithmetic on columns; None: needs a kernel."""
    at = position(expression, schema)
    return at if at is not None else _whole(expression, schema)


def bits(expression: exp.Expr, schema: Schema) -> int:
    """The width of the narrowest integer column in an expression."""
    widths = [
        schema.types[schema.index(c.name)].bit_width
        for c in expression.find_all(exp.Column)
        if c.name in schema.names
    ]
    return min(widths, default=64)


def finished(whole: Whole, kind: pa.DataType, width: int) -> Compute | None:
    """`whole` as a column of type `kind`; raises NeedsKernel for what does not fit `width` bits."""
    if not pa.types.is_signed_integer(kind):
        return None
    found = column_type(kind)
    assert found.dtype is not None
    dtype = found.dtype
    limit = (1 << (min(width, kind.bit_width) - 1)) - 1

    def compute(cols: Sequence[Col], n: int) -> Col:
        values, nulls = whole(cols, n, limit)
        values = np.broadcast_to(values.astype(dtype), n)
        return values if nulls is None else found.load(pa.array(values, kind, mask=nulls))

    return compute


def _whole(expression: exp.Expr, schema: Schema) -> Whole | None:
    """Sums, differences, products, remainders of signed integers.

    Every intermediate value is held to the narrowest type in the expression: whatever type DuckDB
    gives it, it fits; all else is left to DuckDB.
    """
    while isinstance(expression, exp.Paren):
        expression = expression.this
    at = position(expression, schema)
    if at is not None:
        kind: Any = schema.kinds[at]
        if not pa.types.is_signed_integer(schema.types[at]):
            return None

        def read(cols: Sequence[Col], n: int, limit: int) -> tuple[Int64s, Mask | None]:
            values, nulls = kind.split(cols[at])
            # what has 32 bits can't leave 64 in one operation, after which it is looked at
            return _bounded(values, nulls, limit if values.dtype.itemsize == 8 else None)

        return read
    known = number(expression)
    if known is not None:
        if known != int(known) or abs(known) >= 1 << 31 or "." in str(known):
            return None
        whole = np.array([int(known)])
        return lambda cols, n, limit: (whole, None)
    if not isinstance(expression, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return None
    left, right = _whole(expression.this, schema), _whole(expression.expression, schema)
    if left is None or right is None:
        return None
    if isinstance(expression, exp.Mod):
        divisor = number(expression.expression)
        if divisor is None or divisor <= 0:
            return None
    one, other = left, right
    operation: Any = {
        exp.Add: np.add,
        exp.Sub: np.subtract,
        exp.Mul: np.multiply,
        exp.Mod: np.fmod,
    }[type(expression)]
    product, remainder = isinstance(expression, exp.Mul), isinstance(expression, exp.Mod)

    def compute(cols: Sequence[Col], n: int, limit: int) -> tuple[Int64s, Mask | None]:
        a, a_nulls = one(cols, n, limit)
        b, b_nulls = other(cols, n, limit)
        if product and limit >= 1 << 31 and _largest(a) * _largest(b) > limit:
            raise NeedsKernel
        nulls = a_nulls if b_nulls is None else b_nulls if a_nulls is None else a_nulls | b_nulls
        # Two values below 2**63 add up to something that wraps round to the other sign at most.
        values, nulls = _bounded(operation(a, b), nulls, None if remainder else limit)
        if limit >= 1 << 62 and not (product or remainder) and _largest(a) + _largest(b) > limit:
            raise NeedsKernel
        return values, nulls

    return compute


def _largest(values: Int64s) -> int:
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def _bounded(values: Any, nulls: Mask | None, limit: int | None) -> tuple[Int64s, Mask | None]:
    values = values.astype(np.int64, copy=False)
    if nulls is not None:
        values = np.where(nulls, 0, values)
    if limit is not None and _largest(values) > limit:
        raise NeedsKernel
    return values, nulls
