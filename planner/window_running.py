"""Running totals of a few rows in NumPy: they go on from what the row before has (`following`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.exact import integers_to_arrow
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrow_values import words
from tidewheel.engine.state.columns import Array, Col, ColumnType, FixedType, Mask
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.planner.window_arrays import Open, Rows, Value

Join = Callable[[ColumnType, Col, Col], Col]
"""Of what all rows before come to (NULL: nothing), and what those of the piece do: the total."""
_LARGE: Final = 1 << 62  # two of less fit


def gone_on(
    values: Sequence[Value],
    names: Mapping[int, str],
    schema: Schema,
    width: int,
    before: Mapping[int, int],
    number: int,
) -> list[Value] | None:
    """`values`, those with a function's name going on from columns `before`; None if one cannot.

    `number`: the column with the number of the row before. `width`: columns in front of values.
    """
    found = list(values)
    for at, name in names.items():
        if name == "first_value":
            found[at] = _first(values[at], schema.kinds[width + at], before[at], number)
            continue
        join = _JOINS.get(name)
        if join is None:
            return None
        of = number if name == "rank" else before[at]
        found[at] = _joined(values[at], schema.kinds[width + at], of, join)
    return found


def _joined(value: Value, kind: ColumnType, before: int, join: Join) -> Value:
    return lambda rows: join(kind, rows.cols[before], value(rows))


def _first(value: Value, kind: ColumnType, before: int, number: int) -> Value:
    def first(rows: Rows) -> Col:
        now, new = value(rows), columns_.is_null(rows.cols[number])
        if new is None:
            return rows.cols[before]
        both = columns_.concat([rows.cols[before], now], kind)
        return columns_.take(both, np.where(new, rows.at + len(rows.at), rows.at))

    return first


def _counts(kind: ColumnType, before: Col, now: Col) -> Col:
    values, nulls = kind.split(before)  # type: ignore[attr-defined]
    return now + (values if nulls is None else np.where(nulls, 0, values))


def _sums(kind: ColumnType, before: Col, now: Col) -> Col:
    some, any_ = _small(before)
    more, others = _small(now)
    there = None if any_ is None or others is None else any_ | others
    return kind.load(integers_to_arrow(some + more, there, kind.arrow))


def _small(col: Col) -> tuple[Int64s, Mask | None]:
    """Integers of 128 bits as 64, 0 for NULL, and which are there."""
    nulls = columns_.is_null(col)
    pairs = words(col.storage if isinstance(col, pa.ExtensionArray) else col, 16).view(np.int64)
    low, high = pairs[:, 0], pairs[:, 1]
    if nulls is not None:
        low, high = np.where(nulls, 0, low), np.where(nulls, 0, high)
    if (high != low >> 63).any() or (low >= _LARGE).any() or (low < -_LARGE).any():
        raise Open
    return low, None if nulls is None else ~nulls


def _ends(better: Callable[[Array, Array], Array]) -> Join:
    def join(kind: ColumnType, before: Col, now: Col) -> Col:
        assert isinstance(kind, FixedType)
        (some, none), (more, nothing) = kind.split(before), kind.split(now)
        found = better(some, more)
        if none is not None:
            found = np.where(none, more, found)
        if nothing is None:
            return kind.join(found, None)
        found = np.where(nothing, some, found)
        return kind.join(found, None if none is None else none & nothing)

    return join


_JOINS: Final[dict[str, Join]] = {
    "row_number": _counts,
    "rank": _counts,
    "dense_rank": _counts,
    "count": _counts,
    "sum": _sums,
    "min": _ends(np.minimum),
    "max": _ends(np.maximum),
}
