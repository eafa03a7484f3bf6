"""ENUM values as their places among the type's values: the expressions, and their NumPy forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.arrow import array_from, computed, numbers
from tidewheel.engine.state.arrow_values import is_valid
from tidewheel.engine.state.columns import Array, Col, FixedType, Mask
from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import Row
from tidewheel.planner.number import Number
from tidewheel.planner.text import cast_to

_CODE, _TEXT = "system.main.enum_code", "system.main.array_extract"


@lru_cache(maxsize=256)
def values_of(kind: str) -> tuple[str, ...] | None:
    """The values of an ENUM type, in their order; None for other types."""
    if not (kind.startswith("ENUM(") and kind.endswith(")")):
        return None
    return _values(exp.DataType.build(kind, dialect="duckdb"))


def _values(kind: exp.Expr | None) -> tuple[str, ...] | None:
    if not isinstance(kind, exp.DataType) or kind.this != exp.DataType.Type.ENUM:
        return None
    return tuple(e.this for e in kind.expressions)


def place(expression: exp.Expr, kind: str) -> exp.Expr:
    """The place of a text or a value of an ENUM, an INTEGER."""
    code = exp.Anonymous(this=_CODE, expressions=[cast_to(expression, kind)])
    return cast_to(code, "INTEGER")


def text_at(expression: exp.Expr, kind: str) -> exp.Expr:
    """The text of the value at a place."""
    texts = exp.Anonymous(
        this="system.main.list_value",
        expressions=[exp.Literal.string(v) for v in values_of(kind) or ()],
    )
    at = exp.Add(this=expression, expression=exp.Literal.number(1))
    return exp.Anonymous(this=_TEXT, expressions=[texts, at])


def compile_place(expression: exp.Expr, schema: Schema) -> Number | None:
    """`place` of a column of texts, or `text_at` of a column of places."""
    if type(expression) is exp.Cast and isinstance(expression.this, exp.Anonymous):
        call = expression.this
        if call.this == _CODE and type(call.expressions[0]) is exp.Cast:
            values = _values(call.expressions[0].args["to"])
            at = _position(call.expressions[0].this, schema)
            if values is not None and at is not None and pa.types.is_string(schema.types[at]):
                return _place(at, values)
    elif isinstance(expression, exp.Anonymous) and expression.this == _TEXT:
        texts, place = expression.expressions
        at = _position(place.this, schema)
        if at is not None and pa.types.is_int32(schema.types[at]):
            return _text_at(at, tuple(e.this for e in texts.expressions))
    return None


def _position(expression: exp.Expr, schema: Schema) -> int | None:
    known = isinstance(expression, exp.Column) and expression.name in schema.names
    return schema.index(expression.name) if known else None


def _place(at: int, values: tuple[str, ...]) -> Number:
    from pyarrow._compute import SetLookupOptions  # (20 ms)

    lookup = SetLookupOptions(array_from(values, pa.string()))
    places = {v: i for i, v in enumerate(values)}

    def run(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        found = computed("index_in").call([cols[at]], lookup)
        nulls = ~is_valid(found) if found.null_count else None
        return numbers(found).astype(np.int64), nulls

    def row(given: Row) -> int | None:
        return places.get(given[at])

    return Number(run, 0, 32, True, row=row)


def _text_at(at: int, values: tuple[str, ...]) -> Number:
    def row(given: Row) -> str | None:
        return None if given[at] is None else values[given[at]]

    kind = FixedType(pa.int32(), "i4")
    return Number(lambda cols, n: kind.split(cols[at]), 0, row=row, texts=values)
