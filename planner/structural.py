"""Expressions that need no statement: columns, constants, conditions, arithmetic in NumPy.

Only what surely means the same as in DuckDB is taken; for everything else the answer is None, and
a kernel does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.arrow import array_from, computed, numbers, text_value
from tidewheel.engine.operators.linear import Compute, Predicate
from tidewheel.engine.state.arrow_values import is_valid
from tidewheel.engine.state.columns import (
    BoolType,
    Col,
    FixedType,
    FloatType,
    Mask,
    column_type,
    take,
)
from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.arithmetic import compile_number
from tidewheel.planner.by_rows import ByRows, mask_of
from tidewheel.planner.conditions import opposite, simpler, swapped
from tidewheel.planner.constants import constant
from tidewheel.planner.enum_values import compile_place
from tidewheel.planner.list_columns import Lists, contains, is_list, lengths_of
from tidewheel.planner.moments import compile_moment, compile_moments
from tidewheel.planner.number import NeedsKernel, Number, aligned, as_double, either, finished
from tidewheel.planner.text import own_call
from tidewheel.planner.text_columns import TextColumns
from tidewheel.planner.texts import Text, Texts, Truth, is_bool

_COMPARE: dict[type[exp.Expr], tuple[str, Any]] = {
    exp.EQ: ("equal", np.equal),
    exp.NEQ: ("not_equal", np.not_equal),
    exp.LT: ("less", np.less),
    exp.LTE: ("less_equal", np.less_equal),
    exp.GT: ("greater", np.greater),
    exp.GTE: ("greater_equal", np.greater_equal),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, TRUE, FALSE or NULL, the same in all rows."""

    value: str | bool | None

    def column(self, kind: pa.DataType) -> Compute | None:
        """A column of DuckDB's type for it; None where it is not that of the value."""
        of_kind = pa.types.is_string if isinstance(self.value, str) else is_bool
        if self.value is not None and not of_kind(kind):
            return None
        try:
            once = column_type(kind).of([self.value])
        except pa.ArrowNotImplementedError:  # a NULL of a UNION
            return None
        return lambda cols, n: take(once, np.zeros(n, np.int64))

    def of_row(self, _row: Row) -> Any:
        """The same of one row."""
        return self.value


def compile_value(
    expression: exp.Expr, schema: Schema
) -> int | Number | Constant | Text | Truth | Lists | None:
    """A column's position, or what is computed of columns; None: needs a kernel."""
    at = position(expression, schema)
    if at is not None:
        return at
    value = expression.this if isinstance(expression, exp.Cast) else expression
    if isinstance(value, exp.Null):
        return Constant(None)
    if isinstance(expression, exp.Boolean):
        return Constant(bool(expression.this))
    if isinstance(expression, exp.Literal) and expression.is_string:
        return Constant(expression.this)
    operand = _operand(schema)
    number = operand(expression) or compile_moment(expression, schema, operand)
    number = compile_place(expression, schema) if number is None else number
    if number is not None:
        return number
    text = columns_of(schema).compiled(expression)
    if text is not None:
        return text
    if is_list(expression):
        return Lists(expression, schema, partial(_of_type, schema))
    return truth_of(expression, schema)


def _of_type(schema: Schema, expression: exp.Expr, kind: pa.DataType) -> Compute | None:
    """A column of a type, for an expression that has it in DuckDB, or is an integer or NULL."""
    value = compile_value(expression, schema)
    if isinstance(value, int):
        at = value
        return (lambda cols, n: cols[at]) if schema.types[at] == kind else None
    if isinstance(value, Number):
        return finished(value, kind)
    return None if value is None else value.column(kind)


def truth_of(expression: exp.Expr, schema: Schema) -> Truth | None:
    """A condition as a value; None: none, or needs a kernel."""
    from tidewheel.planner.structural_rows import predicate_by_row

    true = predicate_by_row(expression, schema)
    false = None if true is None else predicate_by_row(exp.Not(this=expression.copy()), schema)
    if true is None or false is None:
        return None
    return Truth(true, false, partial(ByRows, expression=expression, schema=schema))


def _operand(schema: Schema) -> Callable[[exp.Expr], Number | None]:
    """What compiles numbers."""
    # Imported here: it asks this module.
    from tidewheel.planner.structural_rows import predicate_by_row

    def operand(part: exp.Expr) -> Number | None:
        if isinstance(part, exp.Length | exp.ArraySize):
            if part.args.get("expression") not in (None, exp.Literal.number(1)):
                return None  # the length of another dimension
            lengths = lengths_of(part.this, schema)
            if lengths is not None:
                return Number(lengths, 0, 64, True)
        if isinstance(part, exp.Length):
            row, run = texts_of(schema).length(part), columns_of(schema).length(part)
            return None if run is None else Number(run, 0, 64, True, row=row)
        tests = partial(compile_predicate, schema=schema), partial(predicate_by_row, schema=schema)
        return compile_number(part, schema, *tests)

    return operand


def texts_of(schema: Schema) -> Texts:
    """What compiles texts."""
    from tidewheel.planner.structural_rows import predicate_by_row

    return Texts(schema, _operand(schema), partial(predicate_by_row, schema=schema))


def columns_of(schema: Schema) -> TextColumns:
    """What compiles texts of many rows."""
    return TextColumns(schema, texts_of(schema), _operand(schema))


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
    at = position(expression, schema)
    if at is not None:
        return _boolean(at, schema, 1)
    if isinstance(expression, exp.Not):
        return _not(expression.this, schema)
    if isinstance(expression, exp.Like):
        return _like(expression, schema)
    call = own_call(expression)
    if call is not None and call.name == "isfinite":
        return _finite(call.expressions[0], schema)
    found: Predicate | None = None
    plainer = simpler(expression)
    if plainer is not None:
        return compile_predicate(plainer, schema)
    if type(expression) in _COMPARE:
        found = _comparison(expression, schema)
    elif isinstance(expression, exp.In):
        found = _member(expression, schema, True)
    elif isinstance(expression, exp.ArrayContains):
        found = contains(expression, schema, partial(_of_type, schema))
    return found or _by_rows(texts_of(schema).test(expression), expression, schema)


def _by_rows(test: ByRow | None, expression: exp.Expr, schema: Schema) -> Predicate | None:
    """A test of one row, of columns."""
    return None if test is None else mask_of(ByRows(test, expression, schema))


def _not(inner: exp.Expr, schema: Schema) -> Predicate | None:
    """The rows for which a condition is FALSE."""
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return _null_test(inner.this, schema, False)
    at = position(inner, schema)
    if at is not None:
        return _boolean(at, schema, 0)
    if isinstance(inner, exp.Like):
        negated = inner.copy()
        negated.set("negate", not inner.args.get("negate"))
        return _like(negated, schema)
    if isinstance(inner, exp.ArrayContains):
        return contains(inner, schema, partial(_of_type, schema), False)
    turned = opposite(inner)
    if turned is None:
        found = _member(inner, schema, False) if isinstance(inner, exp.In) else None
        if found is not None:
            return found
        return _by_rows(texts_of(schema).test(inner, False), inner, schema)
    return compile_predicate(turned, schema)


def _boolean(at: int, schema: Schema, wanted: int) -> Predicate | None:
    """The rows in which a column of booleans is TRUE (1), or FALSE (0)."""
    kind: Any = schema.kinds[at]
    if not is_bool(schema.types[at]):
        return None

    def test(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = kind.split(cols[at])
        mask: Mask = (values != 0) == bool(wanted)
        return mask if nulls is None else mask & ~nulls

    return test


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
        there = is_valid(col)
        return ~there if wanted else there

    return test


def members(expression: exp.Expr, schema: Schema) -> tuple[int, frozenset[Any]] | None:
    """The column that is IN a list, and the constants there; None where it is another list.

    A NULL is none of them: with it what is not IN the list is NULL.
    """
    at = position(expression.this, schema)
    if at is None or not expression.expressions:
        return None
    if not (plain(schema.kinds[at]) or pa.types.is_string(schema.types[at])):
        return None
    known = frozenset(constant(e, schema.types[at]) for e in expression.expressions)
    return None if None in known else (at, known)


def _member(expression: exp.Expr, schema: Schema, wanted: bool) -> Predicate | None:
    """The rows for which IN constants is TRUE, or FALSE."""
    found = members(expression, schema)
    if found is None:
        return None
    at, known = found
    column: Any = schema.kinds[at]
    if not isinstance(column, FixedType):
        from pyarrow._compute import SetLookupOptions  # (20 ms)

        is_in = computed("is_in")
        options = SetLookupOptions(array_from(list(known), pa.string()))

        def text(cols: Sequence[Col], n: int) -> Mask:
            mask: Mask = numbers(is_in.call([cols[at]], options))
            return mask if wanted else ~mask & is_valid(cols[at])

        return text
    values = np.array(sorted(known), np.int64)

    def number(cols: Sequence[Col], n: int) -> Mask:
        given, nulls = column.split(cols[at])
        mask: Mask = np.isin(given.astype(np.int64, copy=False), values) == wanted
        return mask if nulls is None else mask & ~nulls

    return number


def _finite(expression: exp.Expr, schema: Schema) -> Predicate | None:
    number = _operand(schema)(expression)
    if number is None or number.scale is not None:
        return None

    def test(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = number.run(cols, n)
        mask = np.broadcast_to(np.isfinite(values), n)
        return mask if nulls is None else mask & ~nulls

    return test


def _comparison(expression: exp.Expr, schema: Schema) -> Predicate | None:
    return _with_constant(expression, schema) or _of_numbers(expression, schema)


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
        function = computed(name)
        return lambda cols, n: _true(function.call([cols[at], arrow]))
    if not plain(column):
        return None

    def number(cols: Sequence[Col], n: int) -> Mask:
        values, nulls = column.split(cols[at])
        mask: Mask = ufunc(values.astype(np.int64, copy=False), known)
        return mask if nulls is None else mask & ~nulls

    return number


def compared(comparison: exp.Expr, schema: Schema) -> tuple[Number, Number] | None:
    """The sides of a comparison: two numbers, exact unless one is a DOUBLE, or two moments."""
    left, right = comparison.this, comparison.expression
    operand = _operand(schema)
    one, other = operand(left), operand(right)
    if one is None or other is None:
        return compile_moments(left, right, schema, operand)
    if one.scale is None or other.scale is None:
        return as_double(one), as_double(other)
    one, other, _ = aligned(one, other)
    return one, other


def _of_numbers(expression: exp.Expr, schema: Schema) -> Predicate | None:
    sides = compared(expression, schema)
    if sides is None:
        return None
    left, right = (side.run for side in sides)
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
    if at is None:
        return _by_rows(texts_of(schema).like(expression), expression, schema)
    if not pa.types.is_string(schema.types[at]):
        return None
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.this:
        return None
    from pyarrow._compute import MatchSubstringOptions  # (20 ms)

    match, options = computed("match_like"), MatchSubstringOptions(pattern.this)
    negated = bool(expression.args.get("negate"))

    def test(cols: Sequence[Col], n: int) -> Mask:
        found = match.call([cols[at]], options)
        return ~numbers(found) & is_valid(found) if negated else _true(found)

    return test


def _true(found: pa.Array) -> Mask:
    mask = numbers(found)
    return mask & is_valid(found) if found.null_count else mask


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
