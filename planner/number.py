"""What arithmetic without a statement computes with: integers and decimals in 64 bits, and doubles.

Integers and decimals are 64-bit integers with a number of digits behind the point, held to less
than what DuckDB's narrowest type for them holds; where one comes near that, or anything else is in
doubt, `NeedsKernel` leaves the rows to DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.exact import integers_to_arrow
from tidewheel.engine.operators.linear import Compute
from tidewheel.engine.state.columns import Array, Col, FixedType, Mask, column_type
from tidewheel.engine.state.rowwise import ByRow, Row


class NeedsKernel(Exception):
    """Values for which only DuckDB says what comes out: an overflow, or its error."""


Run = Callable[[Sequence[Col], int], tuple[Array, Mask | None]]
"""Columns and number of rows → values (of one row: for all) and the mask of NULLs."""


@dataclass(frozen=True, slots=True)
class Number:
    """An expression. `scale`: digits behind the point, None for DOUBLE. `bits`: of the integer
    type that it has in DuckDB, or of a narrower one; None for decimals and literals. `wide`: a
    decimal that surely has more than 64 bits in DuckDB. `row`: the same of one row, where there is
    a form for that. `moment`: DATE or TIMESTAMP, of which it is no number but a moment (see
    `moments`). `texts`: it is one of them, by its place."""

    run: Run
    scale: int | None = 0
    bits: int | None = None
    integer: bool = False
    wide: bool = False
    row: ByRow | None = None
    moment: pa.DataType | None = None
    texts: tuple[str, ...] | None = None


WIDE = (1 << 63) - 1
DECIMAL = 10**18 - 1  # what every type that DuckDB chooses for a sum or a product holds
_EXACT = 1 << 53  # integers up to here are doubles
INTEGER_BITS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}
"""The signed integers that are held in 64 bits."""
HUGEINT = 128
"""Its bits. Columns of it are computed while 64 are enough, rows up to what a DECIMAL holds."""


def integer_limit(bits: int) -> int:
    """What integers of a type are held to."""
    return (1 << (bits - 1)) - 1 if bits < HUGEINT else 10**38 - 1


def finished(number: Number, kind: pa.DataType) -> Compute | None:
    """A column of DuckDB's type for the expression; None where that is not what was computed."""
    found = column_type(kind)
    if number.moment is not None:
        return _moments(number, found) if kind == number.moment else None
    if number.texts is not None:
        return _texts(number, number.texts) if pa.types.is_string(kind) else None
    if number.scale is None:
        if not pa.types.is_float64(kind):
            return None
    elif pa.types.is_decimal128(kind):
        if number.integer or kind.scale != number.scale:
            return None
    elif not (number.integer and (pa.types.is_signed_integer(kind) or found.wide)):
        return None

    def compute(cols: Sequence[Col], n: int) -> Col:
        values, nulls = number.run(cols, n)
        if pa.types.is_signed_integer(kind):
            hold(values, (1 << (kind.bit_width - 1)) - 1)
        values = np.broadcast_to(values, n)
        if found.wide:
            return found.of_int64s(values, None if nulls is None else np.broadcast_to(nulls, n))
        if found.dtype is not None and nulls is None:
            return np.ascontiguousarray(values, found.dtype)
        if isinstance(found, FixedType) and not pa.types.is_decimal128(kind):
            # (pa.array imports pandas)
            return found.join(values.astype(found.dtype), np.broadcast_to(nulls, n))  # type: ignore[arg-type]
        valid = None if nulls is None else ~np.broadcast_to(nulls, n)
        return found.load(integers_to_arrow(values, valid, kind))

    return compute


def _moments(number: Number, kind: Any) -> Compute:
    def compute(cols: Sequence[Col], n: int) -> Col:
        values, nulls = number.run(cols, n)
        values = np.ascontiguousarray(np.broadcast_to(values, n), kind.dtype)
        found: Col = kind.join(values, nulls)
        return found

    return compute


def _texts(number: Number, texts: Sequence[str]) -> Compute:
    known, kind = pa.array(texts, pa.string()), FixedType(pa.int32(), "i4")

    def compute(cols: Sequence[Col], n: int) -> Col:
        return known.take(kind.dump(kind.join(*number.run(cols, n))))

    return compute


def finished_row(number: Number, kind: pa.DataType) -> ByRow | None:
    """What `finished` gives, of one row."""
    value_of = number.row
    if value_of is None or not pa.types.is_signed_integer(kind):
        return value_of
    return held_row(value_of, (1 << (kind.bit_width - 1)) - 1)


def held_row(value_of: ByRow | None, limit: int) -> ByRow | None:
    """The value of a row, if it is not beyond `limit`."""
    if value_of is None:
        return None

    def by_row(row: Row) -> int | None:
        value: int | None = value_of(row)
        if value is not None and abs(value) > limit:
            raise NeedsKernel
        return value

    return by_row


def unless_null(value_of: ByRow | None, compute: Callable[[Any], Any]) -> ByRow | None:
    """What is computed of the value of a row, NULL of NULL."""
    if value_of is None:
        return None

    def by_row(row: Row) -> Any:
        value = value_of(row)
        return None if value is None else compute(value)

    return by_row


def as_double(number: Number) -> Number:
    """Exact numbers as DuckDB casts them to DOUBLE."""
    if number.scale is None:
        return number
    power = 10**number.scale

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        if number.bits == HUGEINT:
            hold(values, _EXACT)  # beyond, DuckDB rounds its two halves
        if not number.scale or largest(values) <= _EXACT:
            return values.astype(np.float64) / power, nulls
        if power > DECIMAL:
            raise NeedsKernel
        whole = np.abs(values) // power * np.sign(values)
        parts = whole.astype(np.float64) + (values - whole * power).astype(np.float64) / power
        small = np.abs(values) <= _EXACT
        return np.where(small, values.astype(np.float64) / power, parts), nulls

    exact = number.row
    if exact is None:
        return Number(compute, None)

    def by_row(row: Row) -> float | None:
        value = exact(row)
        if value is None:
            return None
        if (number.scale or number.bits == HUGEINT) and abs(value) > _EXACT:
            raise NeedsKernel
        return float(value) / float(power)

    return Number(compute, None, row=by_row)


def aligned(left: Number, right: Number) -> tuple[Number, Number, int]:
    """Two exact numbers with equally many digits behind the point, and how many."""
    assert left.scale is not None
    assert right.scale is not None
    scale = max(left.scale, right.scale)
    return scaled(left, scale), scaled(right, scale), scale


def scaled(number: Number, scale: int) -> Number:
    """An exact number with more digits behind the point."""
    assert number.scale is not None
    if number.scale == scale:
        return number
    factor = 10 ** (scale - number.scale)
    limit = (WIDE if number.wide else DECIMAL) // factor

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = number.run(cols, n)
        if factor > DECIMAL:
            raise NeedsKernel
        hold(values, limit)
        return values * factor, nulls

    exact = number.row
    if exact is None:
        return Number(compute, scale, wide=number.wide)

    def by_row(row: Row) -> int | None:
        value = exact(row)
        if value is not None and abs(value) > limit:
            raise NeedsKernel
        return None if value is None else value * factor

    return Number(compute, scale, wide=number.wide, row=by_row)


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """NULL on one of two sides."""
    return one if other is None else other if one is None else one | other


def largest(values: Array) -> int:
    """The largest value without its sign."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def hold(values: Array, limit: int) -> Array:
    """The values, if none is beyond `limit`."""
    if largest(values) > limit:
        raise NeedsKernel
    return values
