"""Sums of doubles by DuckDB, which rounds each addition: of parts of them, whose sums are exact.

A double is a sum of parts, each a whole number of some power of two, and of so few bits that sums
of as many of them as a group has are exact. To cut it takes quotients by powers of two, whole
parts, and what is left: all exact. How large doubles are, and how small, is guessed from what
DuckDB keeps of a column or from some rows; whether a value is not so is computed with the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import numbers
from tidewheel.engine.operators import exact
from tidewheel.engine.operators.running_sums import Sum
from tidewheel.engine.state.delta import Int64s
from tidewheel.planner.plans import Queries
from tidewheel.planner.text import OWN
from tidewheel.planner.view_bounds import Known

_DIGITS: Final = 53  # of a double, in bits
EXACT: Final = 53  # bits of a sum that is exact
_MOST_PARTS: Final = 12
_MOST_SQUARED: Final = 6  # parts whose products are added up, each by each
_HALF: Final = exact.DOUBLE_LIMB  # bits of two numbers whose product is exact
_RADIX: Final = f"{float(1 << _HALF)!r}::DOUBLE"
_LEAST: Final = -1074  # the bit of the smallest double
_SOME: Final = 2048  # rows to guess from
_MARGIN: Final = 8  # bits by which others may be larger or smaller,
_NARROW: Final = 2  # but where each part more takes long


@dataclass(frozen=True, slots=True)
class Size:
    """The largest and the smallest of some doubles, by size, but 0; None: all are 0.

    `most` and `least` say whether all are `finite` and no larger, and no smaller but 0: else that
    is a guess.
    """

    high: float | None
    low: float | None
    most: bool = True
    least: bool = True
    finite: bool = True


@dataclass(frozen=True, slots=True)
class Term:
    """A sum of doubles: its number in `Accumulate`, a column, and that of the squares.

    `bits` says of what powers of two parts are whole numbers, of `width` bits; the highest first.
    """

    term: int
    column: str
    size: Size
    bits: Sequence[int]
    width: int
    square: int | None

    @property
    def _products(self) -> list[tuple[int, int]]:
        """The pairs of parts that make up the squares."""
        parts = range(0 if self.square is None else len(self.bits))
        return [(i, j) for i in parts for j in parts if i <= j]

    @property
    def _squares(self) -> dict[int, list[str]]:
        """What makes up the sum of squares, of the columns that `cut` makes, by its bit."""
        x, found = self.column, dict[int, list[str]]()
        for i, j in self._products:
            bit, times = self.bits[i] + self.bits[j], "" if i == j else "2 * "
            low = f"({x}_{i}_{j}_product - {x}_{i}_{j} * {_RADIX})"
            found.setdefault(bit, []).append(f"{times}{low}")
            found.setdefault(bit + _HALF, []).append(f"{times}{x}_{i}_{j}")
        return found

    def sums(self, together: bool) -> list[tuple[str, int, int]]:
        """What is added up, as SQL, with the term and the bit that one of it is worth.

        `together`: what belongs to one bit of the squares is added up first, row by row.
        """
        x = self.column
        found = [(f"{x}_{i}", self.term, bit) for i, bit in enumerate(self.bits)]
        if self.square is not None:
            for bit, parts in self._squares.items():
                for part in [" + ".join(parts)] if together else parts:
                    found.append((part, self.square, bit))
        return found

    @property
    def wrong(self) -> str | None:
        """Is the guess at a value wrong? (NULL is no wrong guess.) None: it is no guess."""
        x, tests = self.column, []
        if not self.size.least:
            last = f"{x}_{len(self.bits) - 1}"
            tests.append(f"{last} <> {OWN}trunc({last})")
        if not self.size.most:
            tests.append(f"{OWN}abs({x}_0) >= {float(1 << self.width)!r}::DOUBLE")
        return " OR ".join(tests) or None

    def most(self, together: bool) -> int:
        """The rows of a group up to which sums are exact."""
        squares = max((2 * len(p) for p in self._squares.values()), default=1)
        return (1 << (EXACT - self.width)) // (squares if together else 1)

    def cut(self, query: str) -> str:
        """A column of the query for each part, and two for each product of two."""
        x, last = self.column, len(self.bits) - 1
        for i, bit in enumerate(self.bits):
            unit, inverse = f"{math.ldexp(1.0, bit)!r}::DOUBLE", 1 / math.ldexp(1.0, bit)
            # to divide takes longer, as DuckDB looks for zeros
            quotient = f"{x} / {unit}" if math.isinf(inverse) else f"{x} * {inverse!r}::DOUBLE"
            if i == last:
                query = f"SELECT *, {quotient} AS {x}_{i} FROM ({query})"
                break
            query = f"SELECT *, {OWN}trunc({quotient}) AS {x}_{i} FROM ({query})"
            query = f"SELECT * REPLACE ({x} - {x}_{i} * {unit} AS {x}) FROM ({query})"
        products = self._products
        if not products:
            return query
        made = (f"{x}_{i} * {x}_{j} AS {x}_{i}_{j}_product" for i, j in products)
        query = f"SELECT *, {', '.join(made)} FROM ({query})"
        highs = (f"{OWN}trunc({x}_{i}_{j}_product / {_RADIX}) AS {x}_{i}_{j}" for i, j in products)
        return f"SELECT *, {', '.join(highs)} FROM ({query})"


def column(s: Sum) -> str:
    """The column that `Term.cut` cuts."""
    return f"__tw_x{s.argument}"


def terms(
    floats: Sequence[Sum], squares: Mapping[int, int], sizes: Mapping[int, Size], rows: float
) -> list[Term] | None:
    """The sums of doubles to be made of groups of so many rows; None if some have too many parts.

    `squares`: by argument, the number of the sum of its squares.
    """
    found: list[Term] = []
    for s in floats:
        size, square = sizes[s.argument], squares.get(s.argument)
        if size.high is None or size.low is None:
            continue
        width = EXACT - math.ceil(math.log2(min(max(rows, 1), 1 << EXACT - 1)))
        width = width if square is None else min(width, _HALF)
        margin = _MARGIN if square is None else _NARROW
        first = math.frexp(size.high)[1] + (0 if size.most else margin)
        digits = 24 if pa.types.is_float32(s.kind) else _DIGITS
        last = math.frexp(size.low)[1] - digits - (0 if size.least else margin)
        parts = -((last - first) // width)
        if size.least:  # the fewer bits, the more rows
            width = -((last - first) // parts)
        if parts > (_MOST_PARTS if square is None else _MOST_SQUARED):
            return None
        bits = [max(first - width * (i + 1), _LEAST) for i in range(parts)]
        found.append(Term(s.term, column(s), size, list(dict.fromkeys(bits)), width, square))
    return found


def guessed(
    run: Queries, query: str, values: Mapping[int, str], kept: Mapping[int, Known]
) -> dict[int, Size] | None:
    """How large doubles are, by argument; None if too little is known.

    `values` are their columns in a query, `kept` is what DuckDB keeps of them.
    """
    found: dict[int, Size] = {}
    for argument in values:
        ends = kept[argument].ends if argument in kept else None
        if ends is not None:
            low, high = (float(end) for end in ends)
            high, low = max(abs(low), abs(high)), max(low, -high, 0.0)
            # (the ends of a product are those of its exact value)
            most, least = high * (1 + 2.0**-20), low * (1 - 2.0**-20)
            found[argument] = Size(most or None, least or most or None, True, least > 0)
    open_ = [a for a in values if a not in found or not found[a].least]
    if open_:
        items = [item for a in open_ for item in _ends(values[a], "")]
        some = run.row(f"SELECT {', '.join(items)} FROM (FROM ({query}) LIMIT {_SOME})")
        for i, argument in enumerate(open_):
            high, low = some[2 * i : 2 * i + 2]
            size = found.get(argument)
            if low is None or not math.isfinite(high):
                if size is None:
                    return None
                continue
            found[argument] = (
                Size(high, low, False, False) if size is None else replace(size, low=low)
            )
    fits = (s.high is None or (s.high < 1e300 and (s.low or 1) > 1e-300) for s in found.values())
    return found if all(fits) else None


def measured(run: Queries, query: str, values: Mapping[int, str]) -> dict[int, Size]:
    """How large doubles are, by argument."""
    finite = [True] * len(values)
    found: list[float | None] = []
    for every in (True, False):
        items = [item for x in values.values() for item in _ends(x, "" if every else _finite(x))]
        found = list(run.row(f"SELECT {', '.join(items)} FROM ({query})"))
        if all(v is None or math.isfinite(v) for v in found):
            break
        finite = [high is None or math.isfinite(high) for high in found[::2]]
    each = zip(values, found[::2], found[1::2], finite, strict=True)
    return {a: Size(high or None, low, finite=whole) for a, high, low, whole in each}


def _ends(x: str, finite: str) -> list[str]:
    where = f"FILTER ({x} <> 0{finite})"
    largest = f"{OWN}max({OWN}abs({x}))"
    return [f"{largest} {where}" if finite else largest, f"{OWN}min({OWN}abs({x})) {where}"]


def _finite(x: str) -> str:
    return f" AND {OWN}isfinite({x})"


def limbs(
    places: Sequence[tuple[int, int]], amounts: Sequence[Int64s]
) -> list[tuple[int, int, Int64s]]:
    """Amounts of terms, by the bit that one is worth, as those of limbs (see `exact`)."""
    found: dict[tuple[int, int], Int64s] = {}

    def add(term: int, limb: int, amount: Int64s) -> None:
        known = found.get((term, limb))
        found[term, limb] = amount if known is None else known + amount

    for (term, bit), amount in zip(places, amounts, strict=True):
        limb, shift = bit // exact.DOUBLE_LIMB + exact.BIAS, bit % exact.DOUBLE_LIMB
        if not shift:
            add(term, limb, amount)
            continue
        add(term, limb, (amount & ((1 << exact.DOUBLE_LIMB) - 1)) << shift)
        add(term, limb + 1, (amount >> exact.DOUBLE_LIMB) << shift)
    return [(term, limb, amount) for (term, limb), amount in found.items()]


def whole(column: pa.ChunkedArray) -> Int64s | None:
    """Sums of whole numbers, which DuckDB gives as doubles; None if some are not finite."""
    sums = numbers(column)
    return sums.astype(np.int64) if np.isfinite(sums).all() else None
