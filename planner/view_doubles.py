"""Sums of doubles by DuckDB, which rounds each addition: of parts of them, whose sums are exact.

A double is a sum of parts, each a whole number of some power of two, and of so few bits that sums
of as many of them as a group has are exact. To cut it takes quotients by powers of two, whole
parts, and what is left: all exact. How large doubles are, and how small, is guessed from what
DuckDB keeps of a column or from some rows; whether a value is not so is computed with the sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import numbers
from tidewheel.engine.operators import exact
from tidewheel.engine.operators.running_sums import Factors, Sum
from tidewheel.engine.state.delta import Int64s
from tidewheel.planner.plans import Queries
from tidewheel.planner.text import OWN
from tidewheel.planner.view_bounds import Known

_DIGITS: Final = 53  # of a double, in bits
EXACT: Final = 53  # bits of a sum that is exact
_MOST_PARTS: Final = 12
_FACTORS: Final = {1: (_DIGITS, _MOST_PARTS), 2: (exact.DOUBLE_LIMB, 6), 3: (16, 6), 4: (13, 8)}
"""By how many of their parts are multiplied, each by each: the bits of parts, and most of these."""
_HALF: Final = exact.DOUBLE_LIMB  # bits of the lower part of a product
_RADIX: Final = f"{float(1 << _HALF)!r}::DOUBLE"
_LEAST: Final = -1074  # the bit of the smallest double
_SOME: Final = 2048  # rows to guess from
_MARGIN: Final = 8  # bits by which others may be larger or smaller,
_NARROW: Final = 2  # but where each part more takes long


@dataclass(frozen=True, slots=True)
class Size:
    """The largest and the smallest of some doubles, by size, but 0; None: all are 0.

    `most` and `least` say whether all are `finite` and no larger, and no smaller but 0: else that
    is a guess. `whole`: all are integers; that is a guess, too, unless `least`.
    """

    high: float | None
    low: float | None
    most: bool = True
    least: bool = True
    finite: bool = True
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """A sum of doubles: its number in `Accumulate`, and a column.

    `bits` says of what powers of two parts are whole numbers, of `width` bits; the highest first.
    """

    term: int
    column: str
    size: Size
    bits: Sequence[int]
    width: int

    def sums(self, together: bool) -> list[tuple[str, int, int]]:
        """What is added up, as SQL, with the term and the bit that one of it is worth."""
        parts = enumerate(self.bits)
        return [(_sum(f"{self.column}_{i}"), self.term, bit) for i, bit in parts]

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
        return 1 << (EXACT - self.width)

    def cut(self, query: str) -> str:
        """A column of the query for each part."""
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
        return query


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products of two values that are cut already: of each two of their parts one.

    Such a product is exact; of it there are two columns, for its lower 26 bits and for the others.
    """

    term: int
    one: Term
    other: Term
    wrong: None = None

    @property
    def _pairs(self) -> list[tuple[int, int, str]]:
        """Pairs of parts, those of a square once, with what their columns are called."""
        places = itertools.product(range(len(self.one.bits)), range(len(self.other.bits)))
        square = self.one is self.other
        return [(i, j, f"__tw_p{self.term}_{i}_{j}") for i, j in places if not square or i <= j]

    @property
    def _by_bit(self) -> dict[int, list[str]]:
        """What makes up the sum, of the columns that `cut` makes, by the bit that it is worth."""
        found: dict[int, list[str]] = {}
        for i, j, high in self._pairs:
            bit = self.one.bits[i] + self.other.bits[j]
            times = "2 * " if self.one is self.other and i != j else ""
            low = f"({high}_product - {high} * {_RADIX})"
            found.setdefault(bit, []).append(f"{times}{low}")
            found.setdefault(bit + _HALF, []).append(f"{times}{high}")
        return found

    def sums(self, together: bool) -> list[tuple[str, int, int]]:
        """As those of `Term`. `together`: what belongs to one bit is added up first, row by row."""
        found = []
        for bit, parts in self._by_bit.items():
            for text in [" + ".join(parts)] if together else parts:
                found.append((_sum(text), self.term, bit))
        return found

    def most(self, together: bool) -> int:
        """The rows of a group up to which sums are exact."""
        most = max(2 * len(parts) for parts in self._by_bit.values()) if together else 1
        return (1 << (EXACT - _HALF)) // most

    def cut(self, query: str) -> str:
        """Two columns of the query for each pair."""
        (x, y), pairs = (self.one.column, self.other.column), self._pairs
        made = (f"{x}_{i} * {y}_{j} AS {high}_product" for i, j, high in pairs)
        query = f"SELECT *, {', '.join(made)} FROM ({query})"
        highs = (f"{OWN}trunc({high}_product / {_RADIX}) AS {high}" for _, _, high in pairs)
        return f"SELECT *, {', '.join(highs)} FROM ({query})"


@dataclass(frozen=True, slots=True)
class Powers:
    """Sums of squares, cubes and perhaps fourth powers of values that are cut already.

    The parts of a value are the coefficients of a polynomial in 2 ** -width, and so are those of
    its powers: whole numbers that doubles are exact for up to cubes, as parts have 16 bits, or 13.
    Those of fourth powers are BIGINTs, and sums are HUGEINTs.
    """

    terms: Sequence[int]
    of: Term
    wrong: None = None

    def sums(self, together: bool) -> list[tuple[str, int, int]]:
        """As those of `Term`: each in three parts of 26 bits."""
        found, low = [], (1 << _HALF) - 1
        for power, term in enumerate(self.terms, 2):
            for i in range(power * (len(self.of.bits) - 1) + 1):
                bit = power * self.of.bits[0] - self.of.width * i
                total = _sum(f"{self._column(power, i)}::BIGINT")
                found.append((f"({total} & {low})::BIGINT", term, bit))
                found.append((f"(({total} >> {_HALF}) & {low})::BIGINT", term, bit + _HALF))
                found.append((f"({total} >> {2 * _HALF})::BIGINT", term, bit + 2 * _HALF))
        return found

    def most(self, together: bool) -> int:
        """The rows of a group up to which sums are exact."""
        return 1 << EXACT

    def cut(self, query: str) -> str:
        """A column of the query for each coefficient of each power."""
        query = f"SELECT *, {self._multiplied(1, 1)} FROM ({query})"
        query = f"SELECT *, {self._multiplied(2, 1)} FROM ({query})"
        if len(self.terms) < 3:
            return query
        squares = (self._column(2, i) for i in range(2 * len(self.of.bits) - 1))
        whole = ", ".join(f"{s}::BIGINT AS {s}" for s in squares)
        query = f"SELECT * REPLACE ({whole}) FROM ({query})"
        return f"SELECT *, {self._multiplied(2, 2)} FROM ({query})"

    def _multiplied(self, one: int, other: int) -> str:
        """The coefficients of a product of two powers."""
        last = len(self.of.bits) - 1
        once: dict[int, list[str]] = {}
        twice: dict[int, list[str]] = {}
        for i, j in itertools.product(range(one * last + 1), range(other * last + 1)):
            if one != other or i <= j:
                found = twice if one == other and i < j else once
                pair = f"{self._column(one, i)} * {self._column(other, j)}"
                found.setdefault(i + j, []).append(pair)
        made = []
        for i in range((one + other) * last + 1):
            parts = [*once.get(i, []), *([f"2 * ({' + '.join(twice[i])})"] if i in twice else [])]
            made.append(f"{' + '.join(parts)} AS {self._column(one + other, i)}")
        return ", ".join(made)

    def _column(self, power: int, i: int) -> str:
        return f"{self.of.column}_{i}" if power == 1 else f"__tw_p{self.terms[0]}_{power}_{i}"


Cut = Term | Product | Powers


def _sum(part: str) -> str:
    return f"coalesce({OWN}sum({part}), 0)"


def column(s: Sum) -> str:
    """The column that `Term.cut` cuts."""
    return f"__tw_x{s.argument}"


def terms(
    floats: Sequence[Sum], products: Mapping[Factors, int], sizes: Mapping[int, Size], rows: float
) -> list[Cut] | None:
    """The sums of doubles to be made of groups of so many rows; None if some have too many parts.

    `products`: by arguments, the numbers of the sums of their products.
    """
    found: dict[int, Term] = {}
    for s in floats:
        size = sizes[s.argument]
        if size.high is None or size.low is None:
            continue
        of = [factors for factors in products if s.argument in factors]
        factors = max(map(len, of), default=1)
        width = EXACT - math.ceil(math.log2(min(max(rows, 1), 1 << EXACT - 1)))
        widest, most = _FACTORS[factors]
        width = min(width, widest)
        margin = _NARROW if of else _MARGIN
        first = math.frexp(size.high)[1] + (0 if size.most else margin)
        digits = 24 if pa.types.is_float32(s.kind) else _DIGITS
        last = math.frexp(size.low)[1] - digits - (0 if size.least else margin)
        last = max(last, 0) if size.whole else last
        parts = -((last - first) // width)
        # the fewer bits, the more rows; but products of two columns share their bits
        if size.least and all(len({*f}) == 1 for f in of):
            width = -((last - first) // parts)
        if parts > most or (factors > 2 and first - width * parts < _LEAST):
            return None
        bits = [max(first - width * (i + 1), _LEAST) for i in range(parts)]
        found[s.argument] = Term(s.term, column(s), size, list(dict.fromkeys(bits)), width)
    made: list[Cut] = []
    for argument, term in found.items():
        powers = [number for factors, number in products.items() if {*factors} == {argument}]
        if len(powers) > 1:
            made.append(Powers(powers, term))
        elif powers:
            made.append(Product(powers[0], term, term))
    for (one, *_, other), number in products.items():
        if one != other and one in found and other in found:
            made.append(Product(number, found[one], found[other]))
    return [*found.values(), *made]


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
        for argument, (high, low, whole) in zip(open_, _threes(some), strict=True):
            size = found.get(argument)
            if low is None or not math.isfinite(high):
                if size is None:
                    return None
                continue
            if size is None:
                found[argument] = Size(high, low, False, False, whole=whole)
            else:
                found[argument] = replace(size, low=low, whole=whole)
    fits = (s.high is None or (s.high < 1e300 and (s.low or 1) > 1e-300) for s in found.values())
    return found if all(fits) else None


def measured(run: Queries, query: str, values: Mapping[int, str]) -> dict[int, Size]:
    """How large doubles are, by argument."""
    finite = [True] * len(values)
    found: list[tuple[float | None, float | None, bool | None]] = []
    for every in (True, False):
        items = [item for x in values.values() for item in _ends(x, "" if every else _finite(x))]
        found = _threes(run.row(f"SELECT {', '.join(items)} FROM ({query})"))
        if all(v is None or math.isfinite(v) for ends in found for v in ends):
            break
        finite = [high is None or math.isfinite(high) for high, _, _ in found]
    each = zip(values, found, finite, strict=True)
    return {
        a: Size(high or None, low, finite=all_, whole=bool(whole))
        for a, (high, low, whole), all_ in each
    }


def _ends(x: str, finite: str) -> list[str]:
    where = f"FILTER ({x} <> 0{finite})"
    largest = f"{OWN}max({OWN}abs({x}))"
    whole = f"{OWN}bool_and({x} = {OWN}trunc({x}))"
    return [
        f"{largest} {where}" if finite else largest,
        f"{OWN}min({OWN}abs({x})) {where}",
        f"{whole} {where}" if finite else whole,
    ]


def _threes(row: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    return [(row[i], row[i + 1], row[i + 2]) for i in range(0, len(row), 3)]


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
