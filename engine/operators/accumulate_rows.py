"""`Accumulate` for a few groups at a time: running sums of integers, in Python.

Few rows change few groups, and without GROUP BY there is but one; for these a dictionary is
quicker than any array. What is known of groups here is current; it reaches the arrangements of sums
and of limbs some rows later (`settle`). Sums of doubles are integers, too: how many times the
smallest of all doubles they are, or its square where products of two are summed up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import doubles, exact
from tidewheel.engine.operators.running_sums import COVARIANT, SQUARED
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.rowwise import Row, RowColumns

if TYPE_CHECKING:
    from tidewheel.engine.operators.running_sums import Aggregate, Factors, Sum
    from tidewheel.engine.state.arrangement import Arrangement
    from tidewheel.engine.state.columns import Index
    from tidewheel.engine.state.run import Rows

WAITING: Final = 64
KNOWN: Final = 4096
_LOW: Final = (1 << exact.LIMB) - 1
_LIMB: Final = exact.DOUBLE_LIMB
_UNIT: Final = _LIMB * exact.BIAS
"""All doubles are whole numbers times 2 ** -_UNIT."""


class GroupsByRow:
    """The groups that single rows changed lately. `sums` and `terms` are the arrangements of all.

    The sums of a group are the parts of its weight, then one for each of the `products` of doubles,
    which are arguments themselves or products of some; to each belongs the number of its term.
    """

    def __init__(
        self,
        key: Sequence[int],
        sums: Arrangement,
        terms: Arrangement | None,
        arguments: Sequence[Sum],
        products: Mapping[Factors, int],
        finish: Sequence[Callable[[Sequence[int]], Any]],
        schema: Schema,
    ) -> None:
        self._key = tuple(key)
        self._sums = sums
        self._terms = terms
        self._arguments = tuple(arguments)
        self._products = tuple(products)
        self._numbers = tuple(products.values())
        self._width = 1 + sum([s.width for s in arguments])
        self._finish = tuple(finish)
        self._schema = schema
        self._known: dict[Row, list[int]] = {}
        self._waiting: dict[Row, list[int]] = {}

    def step(self, rows: Sequence[Row], weights: Sequence[int], begun: bool) -> Delta:
        """New output − old output of the groups of rows that come, or go, `weights` times."""
        changes: dict[Row, list[int]] = {}
        for row, weight in zip(rows, weights, strict=True):
            key = tuple([row[i] for i in self._key])
            part = self._contribution(row, weight)
            there = changes.get(key)
            changes[key] = part if there is None else _sum(there, part)
        return self.add(changes, begun)

    def added_up(self, rows: Sequence[Row], weights: Iterable[int]) -> list[int]:
        """What some rows add to the sums of one group; at least one row."""
        parts = [self._contribution(r, w) for r, w in zip(rows, weights, strict=True)]
        return [sum(part) for part in zip(*parts, strict=True)]

    def add(self, changes: Mapping[Row, list[int]], begun: bool) -> Delta:
        """New output − old output of groups whose sums change; `begun`: there was an output."""
        if len(self._known) + len(changes) > KNOWN:
            self.forget()
        known, waiting = self._known, self._waiting
        if begun and (unknown := [key for key in changes if key not in known]):
            known.update(self._before(unknown))
        out: list[Row] = []
        signs: list[int] = []
        for key, change in changes.items():
            before, late = known.get(key), waiting.get(key)
            now = known[key] = change if before is None else _sum(before, change)
            waiting[key] = change if late is None else _sum(late, change)
            new, old = self._row(key, now), self._row(key, before) if before else None
            if new == old:
                continue
            if new is not None:
                out.append(new)
                signs.append(1)
            if old is not None:
                out.append(old)
                signs.append(-1)
        if len(waiting) >= WAITING:
            self.settle()
        return Delta.of_rows(self._schema, out, np.array(signs, np.int64), True)

    def settle(self) -> None:
        """Add what waits to the arrangements."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            weights = np.array([sums[: self._width] for sums in waiting.values()], np.int64)
            self._sums.insert(Delta.of_rows(self._sums.schema, list(waiting), weights))
            if self._terms is not None:
                self._settle_terms(self._terms, waiting)

    def _settle_terms(self, terms: Arrangement, waiting: Mapping[Row, list[int]]) -> None:
        rows, amounts = list[Row](), list[int]()
        for key, sums in waiting.items():
            for total, factors, term in zip(
                sums[self._width :], self._products, self._numbers, strict=True
            ):
                for at, amount in _limbs(total):
                    rows.append((*key, term, at - exact.BIAS * (len(factors) - 1)))
                    amounts.append(amount)
        if rows:
            terms.insert(Delta.of_rows(terms.schema, rows, np.array(amounts, np.int64)))
        gone = [key for key in waiting if self._known[key][0] <= 0]
        if gone:  # see `Accumulate._let_go`
            left = self._found(terms, gone)
            if left is not None:
                terms.insert(left[1].delta().negate())

    def forget(self) -> None:
        """The arrangement is about to be changed by others: know nothing any more."""
        if self._known:
            self.settle()
            self._known.clear()

    def _contribution(self, row: Row, weight: int) -> list[int]:
        out = [weight]
        finite: dict[int, int] = {}
        for s in self._arguments:
            value = row[s.argument]
            if value is None:
                out.extend([0] * s.width)
                continue
            out.append(weight)
            if s.float:
                special = (value != value, value == math.inf, value == -math.inf)
                out.extend([weight if is_so else 0 for is_so in special])
                finite[s.argument] = 0 if any(special) else _whole(value)
            elif len(s.parts) == 1:
                out.append(value * weight)
            elif s.parts:
                out.append((value & _LOW) * weight)
                out.append((value >> exact.LIMB) * weight)
        for factors in self._products:
            out.append(math.prod([finite.get(f, 0) for f in factors], start=weight))
        return out

    def _before(self, keys: Sequence[Row]) -> dict[Row, list[int]]:
        """The sums of those of some groups that there are, as the one of no columns always is."""
        none = [0] * len(self._products)
        sums: dict[Row, list[int]] = {} if self._key else {(): [0] * self._width + none}
        found = self._found(self._sums, keys)
        if found is not None:
            for at, part in zip(found[0].tolist(), found[1].weights.tolist(), strict=True):
                there = sums.get(keys[at])
                sums[keys[at]] = part + none if there is None else _sum(there, part + none)
        found = None if self._terms is None else self._found(self._terms, keys)
        if found is not None:
            at, rows = found
            places = {term: i for i, term in enumerate(self._numbers)}
            columns = (at, *rows.cols[-2:], rows.weights)
            for i, term, limb, amount in zip(*(c.tolist() for c in columns), strict=True):
                if keys[i] in sums:
                    place = places[term]
                    limb += exact.BIAS * (len(self._products[place]) - 1)
                    sums[keys[i]][self._width + place] += amount << (_LIMB * limb)
        return sums

    @staticmethod
    def _found(arrangement: Arrangement, keys: Sequence[Row]) -> tuple[Index, Rows] | None:
        spec = arrangement.key
        cols = RowColumns(arrangement.schema.kinds[: len(spec.indices)], keys)
        return arrangement.match(cols, spec, spec.keys(cols, len(keys)))

    def _row(self, key: Row, sums: Sequence[int]) -> Row | None:
        there = sums[0] > 0 or not key  # the one group of no columns always is
        return (*key, *[f(sums) for f in self._finish]) if there else None


def _sum(left: list[int], right: list[int]) -> list[int]:
    return [a + b for a, b in zip(left, right, strict=True)]


def _whole(value: float) -> int:
    """How many times 2 ** -_UNIT a number is."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT + 1 - denominator.bit_length())


def _limbs(total: int) -> Iterator[tuple[int, int]]:
    """The limbs of an integer that are not 0, the lowest first, by number; all of its sign."""
    size, sign = abs(total), 1 if total > 0 else -1
    at = ((size & -size).bit_length() - 1) // _LIMB if size else 0
    size >>= _LIMB * at
    while size:
        if limb := size & ((1 << _LIMB) - 1):
            yield at, sign * limb
        size >>= _LIMB
        at += 1


def by_row(
    key: Sequence[int],
    sums: Arrangement,
    terms: Arrangement | None,
    arguments: Sequence[Sum],
    products: Mapping[Factors, int],
    aggregates: Sequence[Aggregate],
    schema: Schema,
) -> GroupsByRow | None:
    """None where the groups' columns or the aggregates are not plain enough."""
    if not all(kind.comparable for kind in sums.schema.kinds):
        return None
    of = {s.argument: s for s in arguments}
    every = {(s.argument,): s.term for s in arguments if s.float} | dict(products)
    width = 1 + sum([s.width for s in arguments])
    places = {factors: width + i for i, factors in enumerate(every)}
    finish = [_finish(a, of, places) for a in aggregates]
    known = [f for f in finish if f is not None]
    if len(known) < len(finish):
        return None
    return GroupsByRow(key, sums, terms, arguments, every, known, schema)


def _finish(
    a: Aggregate, of: Mapping[int, Sum], places: Mapping[Factors, int]
) -> Callable[[Sequence[int]], Any] | None:
    """The aggregate of a group's sums; None for those that columns are needed for."""
    s = None if a.argument is None else of[a.argument]
    if s is None or a.function == "count":
        return operator.itemgetter(0 if s is None else s.count_part)
    if s.float:
        return _finish_double(a, [of[i] for i in a.arguments], places)
    decimal = pa.types.is_decimal128(s.kind) and s.kind.precision <= 18
    if not (decimal or pa.types.is_integer(s.kind)) or a.function not in ("sum", "avg"):
        return None
    at, first, wide = s.count_part, s.parts[0], len(s.parts) == 2
    unit = 10**s.kind.scale if decimal else 1

    def total(sums: Sequence[int]) -> int | None:
        if not sums[at]:
            return None
        return sums[first] + (sums[first + 1] << exact.LIMB) if wide else sums[first]

    def mean(sums: Sequence[int]) -> float | None:
        whole = total(sums)
        return None if whole is None else whole / (sums[at] * unit)

    if a.function == "avg":
        return mean
    return None if pa.types.is_floating(a.type) else total


def _finish_double(
    a: Aggregate, arguments: Sequence[Sum], places: Mapping[Factors, int]
) -> Callable[[Sequence[int]], float | None] | None:
    if a.function not in ("sum", "avg", *SQUARED, *COVARIANT):
        return None
    at, specials = arguments[0].count_part, [s.special or 0 for s in arguments]
    plain = [places[s.argument,] for s in arguments]
    squares = [places[factors] for factors in a.products]

    def finish(sums: Sequence[int]) -> float | None:
        n = sums[at]
        special = [any(sums[i + k] for i in specials) for k in range(3)]
        if not squares:
            return doubles.finished(a.function, n, special, [sums[plain[0]]], 1 << _UNIT)
        # without the bits that all are 0 they are integers of a common size
        firsts, seconds = [sums[i] for i in plain], [sums[i] for i in squares]
        unused = min([_UNIT, *map(_zeros, firsts), *[_zeros(x) // 2 for x in seconds]])
        one = _UNIT - unused
        totals = [x >> unused << one for x in firsts] + [x >> (2 * unused) for x in seconds]
        return doubles.finished(a.function, n, special, totals, 1 << (2 * one))

    return finish


def _zeros(number: int) -> int:
    """How many of its lowest bits are 0."""
    return (number & -number).bit_length() - 1 if number else 2 * _UNIT
