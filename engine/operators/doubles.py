"""Aggregates of doubles from their exact sums, each rounded once.

A few groups are finished one by one, with Python's integers; of many NumPy does most at the same
time (see `rounding`), to the same bits.

With sums S1 of values, S2 of their squares, and so on, of n values:

    n times the variance       n S2 - S1²                              over n
    covariances                the same, with products of two arguments
    n times the third moment   n² S3 - 3 n S2 S1 + 2 S1³                over n²
    n times the fourth one     n³ S4 - 4 n² S3 S1 + 6 n S2 S1² - 3 S1⁴  over n³

There nothing is lost where values lie far from 0 and close together, as all of this is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from tidewheel.engine.operators import exact, rounding
from tidewheel.engine.operators.limbs import Limbs, Number
from tidewheel.engine.operators.running_sums import CENTRAL, SQUARED, Aggregate, Factors, Sum
from tidewheel.engine.state.columns import Array, Mask
from tidewheel.engine.state.delta import Int64s

_AT_ONCE: Final = 1 << 14  # groups whose limbs stay in the cache


class Doubles(Protocol):
    """Gives an aggregate of doubles for all groups, and where it is NULL."""

    def __call__(self, aggregate: Aggregate, weights: Int64s) -> tuple[Array, Mask]: ...


class Kept:
    """Where sums lie: by argument those of values, by `factors` those of their products."""

    def __init__(self, sums: Mapping[int, Sum], factors: Mapping[Factors, int]) -> None:
        self._sums = sums
        self._factors = factors

    def terms(self, a: Aggregate) -> list[int]:
        """What the sums that an aggregate is made of are called: of its arguments, of products."""
        values = [self._sums[argument].term for argument in a.arguments]
        return values + [self._factors[factors] for factors in a.products]

    def count(self, a: Aggregate, weights: Int64s) -> Int64s:
        """How many values each group has."""
        return np.ascontiguousarray(weights[:, self._sums[a.arguments[0]].count_part])

    def special(self, a: Aggregate, weights: Int64s) -> Sequence[Mask]:
        """Are there NaN, infinity, minus infinity among the values of any argument?"""
        first = [self._sums[argument].special or 0 for argument in a.arguments]
        return [np.any([weights[:, at + i] != 0 for at in first], axis=0) for i in range(3)]


class OneByOne:
    """`totals`: by term the exact sum of each group, where the integer `one` stands for 1."""

    def __init__(self, totals: Mapping[int, list[int]], one: int, kept: Kept) -> None:
        self._totals = totals
        self._one = one
        self._kept = kept

    def __call__(self, aggregate: Aggregate, weights: Int64s) -> tuple[Array, Mask]:
        """In a loop."""
        function, kept = aggregate.function, self._kept
        counts = kept.count(aggregate, weights).tolist()
        special = zip(*(m.tolist() for m in kept.special(aggregate, weights)), strict=True)
        totals = zip(*(self._totals[t] for t in kept.terms(aggregate)), strict=True)
        of = zip(counts, special, totals, strict=True)
        out = [finished(function, n, are, sums, self._one) for n, are, sums in of]
        values = np.array([0.0 if v is None else v for v in out], np.float64)
        return values, np.array([v is None for v in out], bool)


def finished(
    function: str, n: int, special: Sequence[bool], sums: Sequence[int], one: int
) -> float | None:
    """An aggregate of `n` values; are there NaN, infinity, minus infinity among them?"""
    nan, plus, minus = special
    if n <= 0 or (n == 1 and "samp" in function):
        return None
    if n == 1 and function in SQUARED:  # whatever it is
        return 0.0
    if nan or (plus and minus) or ((plus or minus) and function in CENTRAL):
        return math.nan
    if plus or minus:
        return math.inf if plus else -math.inf
    return _FINISH[function](sums, n, one)


class AtOnce:
    """The sums are `limbs`."""

    def __init__(self, limbs: Limbs, kept: Kept) -> None:
        self._limbs = limbs
        self._kept = kept

    def __call__(self, aggregate: Aggregate, weights: Int64s) -> tuple[Array, Mask]:
        """As `OneByOne` does it."""
        function = aggregate.function
        count = self._kept.count(aggregate, weights)
        nan, plus, minus = self._kept.special(aggregate, weights)
        nulls, special, alone = count <= 0, nan | plus | minus, count == 1
        if "samp" in function:
            nulls |= alone
        zero = alone & (function in SQUARED)
        known, values = nulls | special | zero, np.empty(len(count))
        for begin in range(0, len(count), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            values[part] = self._finite(aggregate, begin, count[part], known[part])
        if special.any():
            values[special] = math.nan
            if function not in CENTRAL:
                values[plus & ~minus & ~nan] = math.inf
                values[minus & ~plus & ~nan] = -math.inf
        values[nulls | zero] = 0.0
        return values, nulls

    def _finite(self, a: Aggregate, begin: int, count: Int64s, known: Mask) -> Array:
        """The values of some groups; any where they are `known`."""
        end, terms = begin + len(count), self._kept.terms(a)
        found = [self._limbs.number(term, begin, end) for term in terms]
        if not any(found):
            return np.zeros(len(count))
        none = Number([np.zeros(len(count), np.int64)], exact.BIAS)
        numbers = [none if number is None else number for number in found]
        n = np.maximum(count, 2 if "samp" in a.function else 1)
        todo = (n >= rounding.MOST) & (a.function != "sum")
        for limb in (limb for number in numbers for limb in number.limbs):
            if max(int(limb.max()), -int(limb.min())) >= rounding.LARGEST:
                todo |= (limb >= rounding.LARGEST) | (limb <= -rounding.LARGEST)
        values, open_ = _value(a, numbers, n)
        todo = (todo | open_) & ~known
        for at in todo.nonzero()[0].tolist():
            values[at] = self._exactly(a, terms, begin + at, int(count[at]))
        return values

    def _exactly(self, a: Aggregate, terms: Sequence[int], at: int, n: int) -> float:
        numbers = [self._limbs.number(term, at, at + 1) or _NOTHING for term in terms]
        low = min(exact.BIAS, *(number.low for number in numbers))
        one = 1 << (exact.DOUBLE_LIMB * (exact.BIAS - low))
        return _FINISH[a.function]([x.exactly(0, low) for x in numbers], n, one)


_NOTHING: Final = Number([np.zeros(1, np.int64)], exact.BIAS)


def _value(a: Aggregate, numbers: Sequence[Number], n: Int64s) -> tuple[Array, Mask]:
    """The aggregate's value, and where that is not known (see `rounding`)."""
    rest, function = np.zeros(len(n), bool), a.function
    limbs, low = rounding.carried(numbers[0].limbs), numbers[0].low - exact.BIAS
    by: list[Int64s] = [] if function == "sum" else [n]
    if function in CENTRAL:
        sums = [rounding.whole(number.limbs, number.low - exact.BIAS) for number in numbers]
        limbs, low = rounding.central(sums if a.other is not None else [sums[0], *sums], n)
        by = [n, n - 1] if "samp" in function else [n] * max(map(len, a.products))
    if by:
        limbs, more = rounding.finer(limbs, math.prod(int(d.max()) for d in by))
        low -= more
    for divisor in by:
        limbs, rest = rounding.divided(limbs, divisor, rest)
    values, open_ = rounding.rounded(limbs, rounding.BITS * low, rest)
    if "stddev" in function:
        with np.errstate(invalid="ignore"):  # of limbs that are too large
            values = np.sqrt(values)
    return values, open_


Finish = Callable[[Sequence[int], int, int], float]
"""Sums, how many values, and what stands for 1."""


def _variance(less: int) -> Finish:
    return lambda s, n, one: _covariance(less)((s[0], *s), n, one)


def _covariance(less: int) -> Finish:
    def finish(s: Sequence[int], n: int, one: int) -> float:
        x, y, xy = s
        return exact.ratio(n * xy * one - x * y, one**2 * n * (n - less))

    return finish


def _third(s: Sequence[int], n: int, one: int) -> float:
    x, x2, x3 = s
    return exact.ratio(n**2 * x3 * one**2 - 3 * n * x2 * x * one + 2 * x**3, (n * one) ** 3)


def _fourth(s: Sequence[int], n: int, one: int) -> float:
    x, x2, x3, x4 = s
    by_n = n * one
    return exact.ratio(
        by_n**3 * x4 - 4 * by_n**2 * x3 * x + 6 * by_n * x2 * x**2 - 3 * x**4, by_n**4
    )


_FINISH: Final[dict[str, Finish]] = {
    "sum": lambda s, n, one: exact.ratio(s[0], one),
    "avg": lambda s, n, one: exact.ratio(s[0], one * n),
    "var_samp": _variance(1),
    "var_pop": _variance(0),
    "stddev_samp": lambda s, n, one: math.sqrt(_variance(1)(s, n, one)),
    "stddev_pop": lambda s, n, one: math.sqrt(_variance(0)(s, n, one)),
    "covar_samp": _covariance(1),
    "covar_pop": _covariance(0),
    "third": _third,
    "fourth": _fourth,
}
