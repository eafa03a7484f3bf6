"""Values of Arrow arrays as Python's, such that equal SQL values can be told by their text."""

from __future__ import annotations

import functools
import math
from typing import Any

import pyarrow as pa

from tidewheel.engine.arrow import with_leaves


def python_values(array: pa.Array) -> list[Any]:
    """Python values; those of a UNION with their member, in which alone two may differ.

    Dates and times are numbers: Python's have no infinity.
    """
    if _has_union(array.type):
        return [_tagged(v) for v in array]
    values: list[Any] = counted(array).to_pylist()
    return values


def counted(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values with the numbers of dates and times in their places."""
    kind = _counted(array.type)
    return array if kind == array.type else array.cast(kind)


@functools.cache
def _counted(kind: pa.DataType) -> pa.DataType:
    def leaf(t: pa.DataType) -> pa.DataType:
        if not pa.types.is_temporal(t) or pa.types.is_interval(t):
            return t
        return pa.int32() if t.bit_width == 32 else pa.int64()

    return with_leaves(kind, leaf)


def _tagged(value: Any) -> Any:
    if isinstance(value, pa.UnionScalar):
        return (value.type_code, _tagged(value.value)) if value.is_valid else None
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _tagged(value[name]) for name in value}
    if isinstance(value, pa.ListScalar):
        return [_tagged(v) for v in value.values]
    if pa.types.is_temporal(value.type) and not pa.types.is_interval(value.type):
        return value.value
    return value.as_py()


@functools.cache
def _has_union(kind: pa.DataType) -> bool:
    return pa.types.is_union(kind) or any(
        _has_union(kind.field(i).type) for i in range(kind.num_fields)
    )


def canonical(value: Any, exactly: bool = False) -> Any:
    """A Python value such that equal SQL values (nested ones too) give equal results and `repr`.

    `exactly`, such that those which look the same give an equal `repr`, and no others.
    """
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value if exactly else value + 0.0
    if isinstance(value, dict):
        return tuple((k, canonical(v, exactly)) for k, v in value.items())
    if isinstance(value, pa.MonthDayNano):
        months, days, nanos = value
        if exactly:
            return (months, days, nanos)
        day = 86_400_000_000_000
        return (months * 30 + days + nanos // day, nanos % day)
    if isinstance(value, list | tuple):
        return tuple(canonical(v, exactly) for v in value)
    return value
