"""The running sums of `Accumulate`, as DuckDB computes them from a query's rows.

They are the very integers that NumPy would add up from the rows one by one, so that rows that go
later leave no trace. Doubles are cut into limbs (see `engine/operators/exact.py`) by arithmetic
that is exact: quotients by powers of two, whole parts, and what is left. Limbs are doubles, too,
and so small that DuckDB's sums of them are exact, which takes half of what integers would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import numbers
from tidewheel.engine.operators import exact
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.running_sums import Sum, Totals
from tidewheel.engine.state.columns import Col, column_type, from_arrow, take, words
from tidewheel.engine.state.delta import Delta, Int64s, Schema
from tidewheel.planner.maintain import Queries
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import identifier, to_sql
from tidewheel.planner.view_bounds import Bounds, Known, known

_MASK = (1 << exact.LIMB) - 1
OWN = "system.main."  # whatever macros there are
_MOST_LIMBS = 12
_MOST_SQUARED = 6  # limbs whose products are added up, each by each
_RADIX = f"{float(1 << exact.DOUBLE_LIMB)!r}::DOUBLE"
_EXACT = 1 << (53 - exact.DOUBLE_LIMB)  # so many limbs have a sum that is exact
_MOST_DIGITS = 18  # behind the point, for DuckDB's products to fit


@dataclass(frozen=True, slots=True)
class _Term:
    """A sum of doubles: its number in `Accumulate`, a column, its limbs; and that of squares."""

    term: int
    column: str
    limbs: range
    square: int | None

    @property
    def products(self) -> list[tuple[int, int]]:
        """The pairs of limbs that make up the squares."""
        limbs = () if self.square is None else self.limbs
        return [(i, j) for i in limbs for j in limbs if i <= j]

    @property
    def squares(self) -> dict[int, list[str]]:
        """What makes up the sum of squares, of the columns that `_cut` makes, by its limb."""
        x, found = self.column, dict[int, list[str]]()
        for i, j in self.products:
            place, times = i + j - exact.BIAS, "" if i == j else "2 * "
            low = f"({x}_{i}_{j}_product - {x}_{i}_{j} * {_RADIX})"
            found.setdefault(place, []).append(f"{times}{low}")
            found.setdefault(place + 1, []).append(f"{times}{x}_{i}_{j}")
        return found

    def sums(self, together: bool) -> list[tuple[str, int, int]]:
        """What is added up, as SQL, with the term and the limb to which it belongs.

        `together`: what belongs to one limb of the squares is added up first, row by row.
        """
        found = [(f"{self.column}_{limb}", self.term, limb) for limb in self.limbs]
        if self.square is not None:
            for place, parts in self.squares.items():
                for part in [" + ".join(parts)] if together else parts:
                    found.append((part, self.square, place))
        return found

    @property
    def most(self) -> int:
        """The rows of a group up to which sums of what is `together` are exact."""
        return _EXACT // max((2 * len(p) for p in self.squares.values()), default=1)


@dataclass(frozen=True, slots=True)
class _Size:
    """The largest and the smallest of finite doubles, by size, but 0; are all of them `finite`?"""

    high: float | None
    low: float | None
    finite: bool


class Sums:
    """What an `Accumulate` gets from the rows of `query`, whose columns are called `names`.

    `text`: the same columns in terms of a table's, if they are.
    """

    def __init__(self, op: Accumulate, query: str, names: Sequence[str], text: Text | None) -> None:
        self._op = op
        self._query = query
        self._names = [to_sql(identifier(n)) for n in names]
        self._text = text

    @staticmethod
    def possible(op: Accumulate, types: Sequence[pa.DataType]) -> bool:
        """Are DuckDB's groups those of `op`, and its sums?"""
        scales = (s.kind.scale for s in op.arguments if pa.types.is_decimal128(s.kind))
        within = all(scale <= _MOST_DIGITS for scale in scales)
        return within and all(groups_alike(types[i]) for i in op.key)

    def __call__(self, run: Queries) -> Totals | None:
        """The groups with their sums; None where doubles lie too far apart for a statement.

        Or where so many belong to one group that their sums may not be exact.
        """
        op = self._op
        floats = [s for s in op.arguments if s.float]
        sizes = self._sizes(run, floats) if floats else {}
        terms = self._terms(floats, sizes)
        if terms is None:
            return None
        kept = self._kept(run)
        for together in (True, False):
            found = self._sums(run, floats, sizes, terms, together, kept)
            most = min((t.most if together else _EXACT for t in terms), default=math.inf)
            if not len(found) or found.weights[:, 0].max() <= most:
                return found
        return None

    def _sums(
        self,
        run: Queries,
        floats: Sequence[Sum],
        sizes: Mapping[int, _Size],
        terms: Sequence[_Term],
        together: bool,
        kept: Mapping[int, Known],
    ) -> Totals:
        """By one statement."""
        op, query = self._op, self._query
        group = [self._names[i] for i in op.key]
        parts = [_ROWS]
        for s in op.arguments:
            finite = s.float and sizes[s.argument].finite
            parts += _parts(self._names[s.argument], s, finite, kept.get(s.argument, _UNKNOWN))
        for s in floats:
            x, value = _column(s), f"{self._names[s.argument]}::DOUBLE"
            if not sizes[s.argument].finite:
                value = f"CASE WHEN {OWN}isfinite({value}) THEN {value} ELSE 0 END"
            query = f"SELECT *, {value} AS {x} FROM ({query})"
            for term in (t for t in terms if t.column == x):
                query = _cut(query, term)
        added = [part for term in terms for part in term.sums(together)]
        parts += [_whole(f"{OWN}sum({part})") for part, _, _ in added]
        items = list(dict.fromkeys(part for part in parts if part != _NONE))
        by = f" GROUP BY {', '.join(group)}" if group else ""
        table = run(f"SELECT {', '.join([*group, *items])} FROM ({query}){by}")
        at = [items.index(part) if part != _NONE else None for part in parts]
        return self._taken(table, at, [place for _, *place in added])

    def _kept(self, run: Queries) -> dict[int, Known]:
        """What is known of the values of arguments."""
        if self._text is None:
            return {}
        columns_ = list(self._text.columns)
        names = {s.argument: columns_[s.argument] for s in self._op.arguments}
        found = known(self._text, list(names.values()), run)
        return {argument: found[name] for argument, name in names.items() if name in found}

    def _sizes(self, run: Queries, floats: Sequence[Sum]) -> dict[int, _Size]:
        """How large doubles are, by argument."""
        columns = [f"{self._names[s.argument]}::DOUBLE" for s in floats]
        finite = [True] * len(floats)
        found: list[float | None] = []
        for every in (True, False):
            items = []
            for x in columns:
                where = f"FILTER ({x} <> 0{'' if every else f' AND {OWN}isfinite({x})'})"
                largest = f"{OWN}max({OWN}abs({x}))"
                items += [
                    largest if every else f"{largest} {where}",
                    f"{OWN}min({OWN}abs({x})) {where}",
                ]
            found = list(run.row(f"SELECT {', '.join(items)} FROM ({self._query})"))
            if all(v is None or math.isfinite(v) for v in found):
                break
            finite = [high is None or math.isfinite(high) for high in found[::2]]
        ends = zip(floats, found[::2], found[1::2], finite, strict=True)
        return {s.argument: _Size(high, low, whole) for s, high, low, whole in ends}

    def _terms(self, floats: Sequence[Sum], sizes: Mapping[int, _Size]) -> list[_Term] | None:
        """The sums of doubles to be made; None with too many or too small limbs."""
        found: list[_Term] = []
        for s in floats:
            size = sizes[s.argument]
            if size.high is None or size.low is None:  # all are 0
                continue
            first, last = math.frexp(size.high)[1] - 1, math.frexp(size.low)[1] - 53
            square = self._op.squares.get(s.argument)
            found.append(_Term(s.term, _column(s), _limbs(first, last), square))
        most = (_MOST_LIMBS if t.square is None else _MOST_SQUARED for t in found)
        ready = (len(t.limbs) <= m and _unit(t.limbs[-1]) for t, m in zip(found, most, strict=True))
        return found if all(ready) else None

    def _taken(
        self, table: pa.Table, at: Sequence[int | None], places: Sequence[Sequence[int]]
    ) -> Totals:
        """The result; `at` is where it has each part, None where that is nothing.

        Behind the parts of weights come sums of these terms and limbs.
        """
        op = self._op
        if not op.key and table.column(0)[0].as_py() == 0:
            table = table.slice(1)  # no rows at all
        keys, found = columns(table, op.group), table.columns[len(op.group) :]
        # column by column, as they came
        weights = np.zeros((op.width, len(table)), np.int64).T
        sums: dict[int, Col] = {}
        for s in filter(_together, op.arguments):
            place = at[s.parts[0]]
            assert place is not None
            sums[s.argument] = from_arrow(found[place])
            weights[:, s.parts[0]] = words(sums[s.argument], 16)[:, 0].view(np.int64)
        for part, place in enumerate(at[: op.width]):
            if place is not None and pa.types.is_integer(found[place].type):
                _copy(weights[:, part], found[place])
        for s in filter(_together, op.arguments):
            low, high = s.parts
            if at[high] is not None:
                weights[:, low] -= weights[:, high] << exact.LIMB  # what overflows comes back
        if op.terms is None:
            return Totals(op.group, keys, weights, None, sums)
        amounts = [numbers(found[place]) for place in at[op.width :] if place is not None]
        indices: list[Int64s] = []
        limbs: list[tuple[int, int, Int64s]] = []
        for (term, limb), amount in zip(places, amounts, strict=True):
            index = amount.nonzero()[0]
            indices.append(index)
            limbs.append((term, limb, amount[index]))
        if not indices:
            return Totals(op.group, keys, weights, Delta.empty(op.terms.schema), sums)
        index = np.concatenate(indices)
        term_ = np.concatenate([np.full(len(a), t, np.int16) for t, _, a in limbs])
        limb_ = np.concatenate([np.full(len(a), n, np.int16) for _, n, a in limbs])
        cols: list[Col] = [*(take(c, index) for c in keys), term_, limb_]
        terms = Delta(op.terms.schema, cols, np.concatenate([a for _, _, a in limbs]))
        return Totals(op.group, keys, weights, terms, sums)


def _column(s: Sum) -> str:
    return f"__tw_x{s.argument}"


def _limbs(first: int, last: int) -> range:
    """The limbs that hold bits 2 ** `first` to 2 ** `last`, the highest first."""
    return range(_limb(first), _limb(last) - 1, -1)


def _limb(bit: int) -> int:
    return bit // exact.DOUBLE_LIMB + exact.BIAS


def _unit(limb: int) -> float:
    """What one is worth in a limb; 0 where no double is so small."""
    return math.ldexp(1.0, exact.DOUBLE_LIMB * (limb - exact.BIAS))


def _cut(query: str, term: _Term) -> str:
    """A column for each limb of a column of doubles, and two for each product of two."""
    x = term.column
    for limb in term.limbs:
        unit, inverse = f"{_unit(limb)!r}::DOUBLE", 1 / _unit(limb)
        # to divide takes longer, as DuckDB looks for zeros
        quotient = f"{x} / {unit}" if math.isinf(inverse) else f"{x} * {inverse!r}::DOUBLE"
        if limb == term.limbs[-1]:
            query = f"SELECT *, {quotient} AS {x}_{limb} FROM ({query})"
            break
        query = f"SELECT *, {OWN}trunc({quotient}) AS {x}_{limb} FROM ({query})"
        query = f"SELECT * REPLACE ({x} - {x}_{limb} * {unit} AS {x}) FROM ({query})"
    if term.square is None:
        return query
    products = (f"{x}_{i} * {x}_{j} AS {x}_{i}_{j}_product" for i, j in term.products)
    query = f"SELECT *, {', '.join(products)} FROM ({query})"
    highs = (f"{OWN}trunc({x}_{i}_{j}_product / {_RADIX}) AS {x}_{i}_{j}" for i, j in term.products)
    return f"SELECT *, {', '.join(highs)} FROM ({query})"


def columns(table: pa.Table, schema: Schema) -> list[Col]:
    """The first columns of a table, as columns of the engine."""
    arrays = zip(table.columns[: len(schema)], schema.types, strict=True)
    return [from_arrow(a if a.type == t else a.cast(t)) for a, t in arrays]


def groups_alike(kind: pa.DataType) -> bool:
    """Are values of a type equal in DuckDB's GROUP BY only if they look the same?"""
    fixed = column_type(kind).dtype is not None and not pa.types.is_floating(kind)
    return fixed or pa.types.is_string(kind) or pa.types.is_binary(kind)


def _whole(part: str) -> str:
    return f"coalesce({part}, 0)::BIGINT"


_ROWS = _whole(f"{OWN}count(*)")
_NONE = ""  # in place of a part that is 0 in all groups
_UNKNOWN = Known(None, False)


def _copy(into: Int64s, column: pa.ChunkedArray) -> None:
    at = 0
    for chunk in column.chunks:
        into[at : at + len(chunk)] = numbers(chunk)
        at += len(chunk)


def _together(s: Sum) -> bool:
    """Does DuckDB give both parts of a sum together, then the last one?

    To sum decimals as they are takes a third of the time that their limbs take.
    """
    return len(s.parts) == 2 and pa.types.is_decimal128(s.kind)


def _parts(value: str, s: Sum, finite: bool, kept: Known) -> list[str]:
    """The parts of a running sum, as `Accumulate` adds them up, but see `_together`.

    What lies outside of the ends does no harm: its sum is right, in other parts.
    """
    count, ends = _ROWS if kept.filled else _whole(f"{OWN}count({value})"), kept.ends
    if s.counted:
        return [count]
    if s.truth:
        return [count, _whole(f"{OWN}count(*) FILTER (NOT {value})")]
    if s.float and finite:
        return [count, *[_NONE] * 3]
    if s.float:
        special = (f"{value} = '{end}'" for end in ("nan", "infinity", "-infinity"))
        return [count, *(_whole(f"{OWN}count(*) FILTER ({end})") for end in special)]
    low = ends is not None and ends[0] >= 0 and ends[1] * _unit_of(s) <= _MASK
    if _together(s):
        high = _NONE if low else _whole(f"{OWN}sum({_high(value, s, ends)})")
        return [count, f"coalesce({OWN}sum({value}), 0)", high]
    last = len(s.parts) - 1
    decimal = pa.types.is_decimal128(s.kind)
    if low or not last:
        whole = _unscaled(value, s.kind.scale) if decimal else value
        return [count, _whole(f"{OWN}sum({whole})"), *[_NONE] * last]
    limbs = _decimal_limbs(value, s.kind.scale) if decimal else _integer_limbs(value, len(s.parts))
    return [count, *(_whole(f"{OWN}sum({limb})") for limb in limbs)]


def _integer_limbs(value: str, count: int) -> list[str]:
    shifted = [value, *(f"({value} >> {exact.LIMB * i})" for i in range(1, count - 1))]
    return [*(f"{s} & {_MASK}" for s in shifted), f"{value} >> {exact.LIMB * (count - 1)}"]


def _decimal_limbs(value: str, scale: int) -> list[str]:
    """The four limbs of a decimal of more than 18 digits.

    Of most it is the low one, or their integers have 64 bits: no HUGEINT is computed for these.
    """
    most, unit = _most(scale), 10**scale
    limbs = _integer_limbs(_unscaled(value, scale), 4)
    if not most:
        return limbs
    short = f"({value}::DECIMAL(18, {scale}) * {unit})::BIGINT"
    shorts = [f"({short} >> {bits}) & {_MASK}" for bits in (0, exact.LIMB, 63)]
    few = zip((None, _low(scale), most, most), [*shorts, f"{short} >> 63"], limbs, strict=True)
    return [
        f"CASE {'' if nothing is None else f'WHEN {value} BETWEEN 0 AND {nothing} THEN 0 '}"
        f"WHEN {value} BETWEEN -{most} AND {most} THEN {part} ELSE ({limb})::BIGINT END"
        for nothing, part, limb in few
    ]


def _high(value: str, s: Sum, ends: Bounds | None) -> str:
    """What is left of a decimal of 18 digits, as an integer, without its low limb.

    Of most it is nothing. DuckDB's product of up to 18 digits is many times as fast as others.
    """
    scale, unit = s.kind.scale, _unit_of(s)
    most = _most(scale)
    whole, short = f"{_unscaled(value, scale)}::BIGINT", f"({value} * {unit})::BIGINT"
    always = s.kind.precision <= 18 - scale
    if ends is not None and (always or max(-ends[0], ends[1]) <= most):
        return f"{short} >> {exact.LIMB}"
    if always:
        whole = short
    elif most:
        whole = f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN {short} ELSE {whole} END"
    nothing = f"{value} BETWEEN 0 AND {_low(scale)}"
    return f"CASE WHEN {nothing} THEN 0 ELSE {whole} >> {exact.LIMB} END"


def _most(scale: int) -> int:
    """Up to which whole number DuckDB's product with the unit has no more than 18 digits."""
    return int(10 ** max(0, 18 - 2 * scale) - 1)


def _low(scale: int) -> str:
    """The largest decimal whose digits fit into one limb."""
    digits = str(_MASK).rjust(scale + 1, "0")
    return f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}"


def _unit_of(s: Sum) -> int:
    return int(10**s.kind.scale) if pa.types.is_decimal128(s.kind) else 1


def _unscaled(value: str, scale: int) -> str:
    """A decimal's digits as a HUGEINT; what is multiplied keeps within 38 digits."""
    whole, unit = f"{OWN}trunc({value})", 10**scale
    part = f"(({value} - {whole})::DECIMAL({scale + 1}, {scale}) * {unit})::HUGEINT"
    return f"({whole}::HUGEINT * {unit} + {part})"
