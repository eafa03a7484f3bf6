"""Values between two neighbours, as DuckDB's quantiles of continuous values have them.

Of n values the quantile of a fraction q is at (n - 1) * q. Where that is no whole number, the two
neighbours count by how near they are: lo + (hi - lo) * d for times, decimals and FLOAT, lo *
(1 - d) + hi * d for DOUBLE. How the last digit of such a sum is rounded was up to the compiler; see
`Sum`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.operators.unkept import Unkept

Values = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Between = Callable[[Values, Values, Doubles], Values]
"""Lower neighbours, upper ones, how far from the lower to the upper: the values there."""
Sum = Callable[[Doubles, Doubles, Doubles], Doubles]
"""a * b + c: with the product `rounded`, or `fused`."""

_DAY: Final = 86_400_000_000  # µs
_EXACT: Final = 1 << 52  # integers up to here are doubles, and so are their differences
_INT64_DIGITS: Final = 18
_FAR: Final = 1 << 61  # µs: as far from now as are the ends of time


def rounded(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """a * b + c, where the product is rounded, and then the sum."""
    with np.errstate(all="ignore"):
        return a * b + c


def fused(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """a * b + c, rounded once."""
    sums = rounded(a, b, c)
    open_ = np.isfinite(sums) & (b != 0.5) & (b != 0)  # (products with these are exact)
    for at in open_.nonzero()[0].tolist():
        exact = Fraction(a[at]) * Fraction(b[at]) + Fraction(c[at])
        if exact:  # (a zero keeps its sign)
            sums[at] = float(exact)
    return sums


def interpolation(source: pa.DataType, result: pa.DataType, add: Sum) -> Between | None:
    """How values of one type are interpolated to another one; None where that is not known."""
    if result == pa.time64("us") or (pa.types.is_timestamp(result) and result.unit == "us"):
        if source == pa.date32():
            return _days
        return _moments if source == result else None
    if pa.types.is_decimal128(result) and source == result:
        return _long_decimals if source.precision > _INT64_DIGITS else _decimals(add)
    if pa.types.is_float32(result) and source == result:
        return _floats(add)
    return _doubles(add) if pa.types.is_float64(result) else None


def _doubles(add: Sum) -> Between:
    def between(low: Values, high: Values, far: Doubles) -> Values:
        a, b = low.astype(np.float64), high.astype(np.float64)
        with np.errstate(all="ignore"):
            return np.where(far == 0, a, add(a, 1.0 - far, b * far))

    return between


def _floats(add: Sum) -> Between:
    def between(low: Values, high: Values, far: Doubles) -> Values:
        a, b = low.astype(np.float64), high.astype(np.float64)
        with np.errstate(all="ignore"):
            there = add(b - a, far, a).astype(np.float32)
        return np.where(far == 0, low, there)

    return between


def _decimals(add: Sum) -> Between:
    def between(low: Values, high: Values, far: Doubles) -> Values:
        open_ = (far != 0).nonzero()[0]
        found, a, b = low.copy(), low[open_], high[open_]
        _within(_EXACT, a, b)
        there = add((b - a).astype(np.float64), far[open_], a.astype(np.float64))
        found[open_] = there.astype(np.int64)
        return found

    return between


def _long_decimals(low: Values, high: Values, far: Doubles) -> Values:
    """DuckDB has the way between them in 128 bits, and cuts off what lies behind the point."""
    _within(_FAR, low, high)
    return low + ((high - low).astype(np.float64) * far).astype(np.int64)


def _moments(low: Values, high: Values, far: Doubles) -> Values:
    open_ = (far != 0).nonzero()[0]
    found, a, b = low.copy(), low[open_], high[open_]
    _within(_FAR, a, b)
    way = (b - a).astype(np.float64) * far[open_]
    found[open_] = a + np.copysign(np.floor(np.abs(way) + 0.5), way).astype(np.int64)
    return found


def _days(low: Values, high: Values, far: Doubles) -> Values:
    return _moments(_moments_of(low), _moments_of(high), far)


def _moments_of(days: Values) -> Values:
    ends = np.iinfo(np.int32)
    found = days.astype(np.int64) * _DAY
    found[days == ends.max] = np.iinfo(np.int64).max
    found[days == -ends.max] = -np.iinfo(np.int64).max
    return found


def _within(limit: int, *values: Values) -> None:
    if any(len(v) and max(int(v.max()), -int(v.min())) > limit for v in values):
        raise Unkept("a quantile lies between values that are too far from zero")
