"""Lists without a statement: `[x]`, values put before or behind a list, `||`, length, contains.

Of numbers, times and texts. A list column is its values, one after the other, and where each list
begins: to put lists together is to gather their values once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.arrow import bitmap
from tidewheel.engine.operators.linear import Compute, Predicate
from tidewheel.engine.state.columns import Col, Mask, column_type, from_arrow, is_null, take
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.engine.state.rowwise import ByRow
from tidewheel.planner.number import NeedsKernel
from tidewheel.planner.text import own_call

Element = Callable[[exp.Expr, pa.DataType], Compute | None]
"""What compiles values of a type."""


@dataclass(frozen=True, slots=True)
class Lists:
    """An expression that is a list."""

    expression: exp.Expr
    schema: Schema
    element: Element
    of_row: ByRow | None = None

    def column(self, kind: pa.DataType) -> Compute | None:
        """A column of it; None where DuckDB casts what it is made of, or a statement is needed."""
        if not pa.types.is_list(kind) or not column_type(kind.value_type).plain:
            return None
        return self._lists(self.expression, kind)

    def _lists(self, expression: exp.Expr, kind: pa.DataType) -> Compute | None:
        while isinstance(expression, exp.Paren):
            expression = expression.this
        if isinstance(expression, exp.Column):
            return _column(expression, self.schema, kind)
        taken = _parts(expression)
        if taken is None:
            return None
        made: list[tuple[Compute, bool]] = []
        for part, single in taken:
            found = self.element(part, kind.value_type) if single else self._lists(part, kind)
            if found is None:
                return None
            made.append((found, single))
        strict = isinstance(expression, exp.DPipe)

        def compute(cols: Sequence[Col], n: int) -> pa.Array:
            column = column_type(kind.value_type)
            parts = [
                _singles(column.dump(run(cols, n))) if single else _pieces(run(cols, n))
                for run, single in made
            ]
            return _joined(parts, kind, strict)

        return compute


def is_list(expression: exp.Expr) -> bool:
    """May it be a list that is made here?"""
    return _parts(expression) is not None


def _parts(expression: exp.Expr) -> list[tuple[exp.Expr, bool]] | None:
    """What a list is made of, and whether each is a value, not a list."""
    call = own_call(expression) or expression
    if isinstance(expression, exp.Array):
        return [(e, True) for e in expression.expressions] or None
    if isinstance(expression, exp.DPipe):
        return [(expression.this, False), (expression.expression, False)]
    if isinstance(expression, exp.ArrayAppend):
        return [(expression.this, False), (expression.expression, True)]
    if isinstance(expression, exp.ArrayPrepend):
        return [(expression.expression, True), (expression.this, False)]
    if isinstance(expression, exp.ArrayConcat):
        return [(e, False) for e in (expression.this, *expression.expressions)]
    if isinstance(call, exp.Anonymous) and len(call.expressions) == 2:
        one, other = call.expressions
        return {
            "array_push_back": [(one, False), (other, True)],
            "array_push_front": [(other, True), (one, False)],
            "list_cat": [(one, False), (other, False)],
        }.get(call.name.lower())
    return None


def lengths_of(expression: exp.Expr, schema: Schema) -> Callable[..., Any] | None:
    """How many values the lists of a column have, and which are NULL."""
    at = _position(expression, schema)
    if at is None:
        return None

    def run(cols: Sequence[Col], n: int) -> tuple[Int64s, Mask | None]:
        found = _pieces(cols[at])
        return found.lengths, found.nulls

    return run


def contains(
    expression: exp.ArrayContains, schema: Schema, element: Element, wanted: bool = True
) -> Predicate | None:
    """The rows in which a list has a value (a NULL is none); with `wanted` False, has not."""
    at = _position(expression.this, schema)
    if at is None:
        return None
    kind = schema.types[at].value_type
    run, column = element(expression.expression, kind), column_type(kind)
    if run is None or not column.plain:
        return None

    def test(cols: Sequence[Col], n: int) -> Mask:
        lists, value = _pieces(cols[at]), run(cols, n)
        rows = np.repeat(np.arange(n), lists.lengths)
        given = from_arrow(lists.values)
        same = column.equal(take(given, lists.places()), take(value, rows))
        mask: Mask = (np.bincount(rows[same], minlength=n) > 0) == wanted
        if lists.nulls is not None:
            mask &= ~lists.nulls
        nulls = is_null(value)
        if nulls is not None:
            if not wanted and (mask & nulls & (lists.lengths == 0)).any():
                raise NeedsKernel  # DuckDB says FALSE of an empty list, even for NULL
            mask &= ~nulls
        return mask

    return test


def _position(expression: exp.Expr, schema: Schema) -> int | None:
    if not isinstance(expression, exp.Column) or expression.name not in schema.names:
        return None
    at = schema.index(expression.name)
    return at if pa.types.is_list(schema.types[at]) else None


def _column(expression: exp.Column, schema: Schema, kind: pa.DataType) -> Compute | None:
    at = _position(expression, schema)
    return None if at is None or schema.types[at] != kind else lambda cols, n: cols[at]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Per row some of `values`: from `starts`, `lengths` of them, none where `nulls`."""

    values: pa.Array
    starts: Int64s
    lengths: Int64s
    nulls: Mask | None

    def places(self) -> Int64s:
        """Those of all rows, in their order."""
        before = np.cumsum(self.lengths) - self.lengths
        places: Int64s = np.repeat(self.starts - before, self.lengths)
        places += np.arange(len(places))
        return places


def _pieces(lists: pa.Array) -> _Pieces:
    n = len(lists)
    if not n:
        return _Pieces(lists.values, np.zeros(0, np.int64), np.zeros(0, np.int64), None)
    first = lists.offset
    ends = np.frombuffer(lists.buffers()[1], np.int32)[first : first + n + 1].astype(np.int64)
    nulls = is_null(lists)
    lengths = np.diff(ends)
    return _Pieces(lists.values, ends[:-1], lengths if nulls is None else lengths * ~nulls, nulls)


def _singles(values: pa.Array) -> _Pieces:
    n = len(values)
    return _Pieces(values, np.arange(n), np.ones(n, np.int64), None)


def _joined(parts: Sequence[_Pieces], kind: pa.DataType, strict: bool) -> pa.Array:
    """The lists of each row, one after the other; `strict`: NULL where one is."""
    n = len(parts[0].lengths)
    nulls = np.zeros(n, bool)
    if strict:
        for part in parts:
            nulls |= False if part.nulls is None else part.nulls
    lengths = [part.lengths * ~nulls for part in parts]
    ends = np.zeros(n + 1, np.int64)
    np.cumsum(np.sum(lengths, axis=0), out=ends[1:])
    if ends[-1] >= 1 << 31:
        raise NeedsKernel
    places = np.empty(ends[-1], np.int64)
    to, base = ends[:-1], 0
    for part, length in zip(parts, lengths, strict=True):
        within = _Pieces(part.values, to, length, None).places()
        places[within] = base + _Pieces(part.values, part.starts, length, None).places()
        to, base = to + length, base + len(part.values)
    values = take(pa.concat_arrays([part.values for part in parts]), places)
    buffers = [bitmap(~nulls), pa.py_buffer(ends.astype(np.int32))]
    return pa.Array.from_buffers(kind, n, buffers, children=[values])
