"""Aggregates of doubles from their exact sums, each rounded once.

A few groups are finished one by one, with Python's integers; of many NumPy does most at the same
time (see `rounding`), to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np

from tidewheel.engine.operators import exact, rounding
from tidewheel.engine.operators.limbs import Limbs, Number
from tidewheel.engine.operators.running_sums import SQUARED, Function, Sum
from tidewheel.engine.state.columns import Array, Mask
from tidewheel.engine.state.delta import Int64s

_AT_ONCE: Final = 1 << 14  # groups whose limbs stay in the cache


class Doubles(Protocol):
    """Gives an aggregate of a sum of doubles for all groups, and where it is NULL."""

    def __call__(self, function: Function, s: Sum, weights: Int64s) -> tuple[Array, Mask]: ...


class OneByOne:
    """`totals`: by term the exact sum of each group, where the integer `one` stands for 1."""

    def __init__(
        self, totals: Mapping[int, list[int]], one: int, squares: Mapping[int, int]
    ) -> None:
        self._totals = totals
        self._one = one
        self._squares = squares

    def __call__(self, function: Function, s: Sum, weights: Int64s) -> tuple[Array, Mask]:
        """In a loop."""
        assert s.special is not None
        counts = weights[:, s.count_part].tolist()
        special = weights[:, s.special : s.special + 3].tolist()
        first = self._totals[s.term]
        second = self._totals[self._squares[s.argument]] if s.argument in self._squares else first
        finish, one = _FINISH[function], self._one
        out: list[float | None] = []
        for n, (nan, plus, minus), x, xx in zip(counts, special, first, second, strict=True):
            if n <= 0:
                out.append(None)
            elif function in SQUARED:
                if n == 1:  # whatever it is
                    out.append(None if "samp" in function else 0.0)
                else:
                    out.append(math.nan if nan or plus or minus else finish(x, xx, n, one))
            elif nan or (plus and minus):
                out.append(math.nan)
            elif plus or minus:
                out.append(math.inf if plus else -math.inf)
            else:
                out.append(finish(x, xx, n, one))
        values = np.array([0.0 if v is None else v for v in out], np.float64)
        return values, np.array([v is None for v in out], bool)


class AtOnce:
    """The sums are `limbs`; by argument `squares` tells the term of the sum of its squares."""

    def __init__(self, limbs: Limbs, squares: Mapping[int, int]) -> None:
        self._limbs = limbs
        self._squares = squares

    def __call__(self, function: Function, s: Sum, weights: Int64s) -> tuple[Array, Mask]:
        """As `OneByOne` does it."""
        assert s.special is not None
        squared = function in SQUARED
        count = np.ascontiguousarray(weights[:, s.count_part])
        nan, plus, minus = (weights[:, s.special + i] != 0 for i in range(3))
        nulls, special, alone = count <= 0, nan | plus | minus, (count == 1) & squared
        known, values = nulls | special | alone, np.empty(len(count))
        for begin in range(0, len(count), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            values[part] = self._finite(function, s, begin, count[part], known[part])
        if special.any():
            values[special] = math.nan
            if not squared:
                values[plus & ~minus & ~nan] = math.inf
                values[minus & ~plus & ~nan] = -math.inf
        values[nulls | alone] = 0.0
        return values, nulls | alone if "samp" in function else nulls

    def _finite(self, function: Function, s: Sum, begin: int, count: Int64s, known: Mask) -> Array:
        """The values of some groups; any where they are `known`."""
        end, square = begin + len(count), self._squares.get(s.argument, s.term)
        found = self._limbs.number(s.term, begin, end)
        found_square = self._limbs.number(square, begin, end) if function in SQUARED else None
        if found is None and found_square is None:
            return np.zeros(len(count))
        none = Number([np.zeros(len(count), np.int64)], exact.BIAS)
        x, xx = found or none, found_square or none
        n = np.maximum(count, 2 if function in SQUARED else 1)
        todo = (n >= rounding.MOST) & (function != "sum")
        for limb in (*x.limbs, *xx.limbs):
            if max(int(limb.max()), -int(limb.min())) >= rounding.LARGEST:
                todo |= (limb >= rounding.LARGEST) | (limb <= -rounding.LARGEST)
        values, open_ = _value(function, x, xx, n)
        todo = (todo | open_) & ~known
        for at in todo.nonzero()[0].tolist():
            values[at] = self._exactly(function, s, begin + at, int(count[at]))
        return values

    def _exactly(self, function: Function, s: Sum, at: int, n: int) -> float:
        terms = s.term, self._squares.get(s.argument, s.term)
        x, xx = (self._limbs.number(term, at, at + 1) or _NOTHING for term in terms)
        low = min(x.low, xx.low, exact.BIAS)
        one = 1 << (exact.DOUBLE_LIMB * (exact.BIAS - low))
        return _FINISH[function](x.exactly(0, low), xx.exactly(0, low), n, one)


_NOTHING: Final = Number([np.zeros(1, np.int64)], exact.BIAS)


def _value(function: Function, x: Number, xx: Number, n: Int64s) -> tuple[Array, Mask]:
    """The aggregate's value, and where that is not known (see `rounding`)."""
    rest, low, limbs = np.zeros(len(n), bool), x.low - exact.BIAS, rounding.carried(x.limbs)
    by: tuple[Int64s, ...] = () if function == "sum" else (n,)
    if function in SQUARED:
        twice, squares = rounding.carried(limbs), rounding.carried(rounding.carried(xx.limbs))
        limbs, low = rounding.spread(twice, low, squares, xx.low - exact.BIAS, n)
        limbs, by = rounding.carried(limbs), (n, n - 1 if "samp" in function else n)
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


def _variance(x: int, xx: int, n: int, one: int, less: int) -> float:
    # n Σx² − (Σx)² over n (n − less), all exact until the one division.
    return exact.ratio(n * xx * one - x * x, one * one * n * (n - less))


_FINISH: Final[dict[str, Callable[[int, int, int, int], float]]] = {
    "sum": lambda x, xx, n, one: exact.ratio(x, one),
    "avg": lambda x, xx, n, one: exact.ratio(x, one * n),
    "var_samp": lambda x, xx, n, one: _variance(x, xx, n, one, 1),
    "var_pop": lambda x, xx, n, one: _variance(x, xx, n, one, 0),
    "stddev_samp": lambda x, xx, n, one: math.sqrt(_variance(x, xx, n, one, 1)),
    "stddev_pop": lambda x, xx, n, one: math.sqrt(_variance(x, xx, n, one, 0)),
}
