"""The running sums of `Accumulate`, as DuckDB computes them from a query's rows.

They are the very integers that NumPy would add up from the rows one by one, so that rows that go
later leave no trace. For those of doubles see `view_doubles`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.arrow import numbers
from tidewheel.engine.operators import exact
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.limbs import LimbColumns
from tidewheel.engine.operators.running_sums import Sum, Totals
from tidewheel.engine.state.arrow_values import words
from tidewheel.engine.state.columns import Col, column_type, from_arrow
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.planner import view_doubles
from tidewheel.planner.plans import Queries
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import OWN, identifier, to_sql
from tidewheel.planner.view_bounds import Bounds, Known, known
from tidewheel.planner.view_doubles import Cut, Size, Term

_MASK = (1 << exact.LIMB) - 1
_MOST_DIGITS = 18  # behind the point, for DuckDB's products to fit


class Sums:
    """What an `Accumulate` gets from the rows of `query`, whose columns are called `names`.

    `kept`: what is known of columns (see `kept_of`). `rows`: as many as are expected.
    `calls` are computed, too: `others` are the groups with these, once the sums are known.
    """

    def __init__(
        self,
        op: Accumulate,
        query: str,
        names: Sequence[str],
        kept: Mapping[int, Known],
        rows: float = math.inf,
        calls: Sequence[str] = (),
    ) -> None:
        self.others: pa.Table | None = None
        self._calls = list(calls)
        self._op = op
        self._query = query
        self._rows = min(rows, _ROWS_EXPECTED)
        self._names = [to_sql(identifier(n)) for n in names]
        self._kept = kept

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
        op, names = self._op, self._names
        floats = [s for s in op.arguments if s.float]
        values = {s.argument: f"{names[s.argument]}::DOUBLE" for s in floats}
        sizes: dict[int, Size] | None = {}
        if floats and len(op.products) < _WORTH_A_LOOK:
            sizes = view_doubles.guessed(run, self._query, values, self._kept)
        elif floats:
            sizes = None
        rows, together = self._expected(), True
        for _ in range(_TRIES):
            if sizes is None:
                sizes = view_doubles.measured(run, self._query, values)
            terms = view_doubles.terms(floats, op.products, sizes, rows)
            found = None if terms is None else self._sums(run, sizes, terms, together)
            if terms is None or found is None:
                if all(size.most and size.least for size in sizes.values()):
                    return None
                sizes = None  # it was a wrong guess
                continue
            most = int(found.weights[:, 0].max()) if len(found) else 0
            if all(most <= t.most(together) for t in terms):
                return found
            rows, together = most, together and rows >= most
        return None

    def _expected(self) -> float:
        """The rows that the largest group may well have."""
        groups = groups_of(self._op, self._kept)
        return max(1, min(self._rows, self._rows * _UNEVEN / groups))

    def _sums(
        self,
        run: Queries,
        sizes: Mapping[int, Size],
        terms: Sequence[Cut],
        together: bool,
    ) -> Totals | None:
        """By one statement; None if a guess was wrong."""
        op, query, kept = self._op, self._query, self._kept
        group = [self._names[i] for i in op.key]
        parts = [_ROWS]
        for s in op.arguments:
            finite = s.float and sizes[s.argument].finite
            parts += _parts(self._names[s.argument], s, finite, kept.get(s.argument, _UNKNOWN))
        cut = {term.column for term in terms if isinstance(term, Term)}
        for s in op.arguments:
            if not s.float or view_doubles.column(s) not in cut:
                continue
            value = f"{self._names[s.argument]}::DOUBLE"
            if not sizes[s.argument].finite:
                value = f"CASE WHEN {OWN}isfinite({value}) THEN {value} ELSE 0 END"
            query = f"SELECT *, {value} AS {view_doubles.column(s)} FROM ({query})"
        for term in terms:
            query = term.cut(query)
        added = [part for term in terms for part in term.sums(together)]
        parts += [part for part, _, _ in added]
        # (in a CASE around a part it would take as long as the part's sum)
        tests = [f"{OWN}max({term.wrong})" for term in terms if term.wrong]
        wrong = [f"coalesce({test}, false)::UTINYINT" for test in tests]
        items = list(dict.fromkeys(part for part in parts if part != _NONE))
        by = f" GROUP BY {', '.join(group)}" if group else ""
        chosen = ", ".join([*group, *items, *wrong, *self._calls])
        table = run(f"SELECT {chosen} FROM ({query}){by}")
        checks = len(group) + len(items)
        calls = range(checks + len(wrong), table.num_columns)
        if calls:
            self.others = table.select([*range(len(group)), *calls])
        if any(numbers(c).any() for c in table.columns[checks : calls.start]):
            return None
        at = [items.index(part) if part != _NONE else None for part in parts]
        return self._taken(table, at, [(term, bit) for _, term, bit in added])

    def _taken(
        self, table: pa.Table, at: Sequence[int | None], places: Sequence[tuple[int, int]]
    ) -> Totals | None:
        """The result; `at` is where it has each part, None where that is nothing.

        Behind the parts of weights come sums of these terms and bits. None if some are NaN.
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
        amounts: list[Int64s] = []
        for place in at[op.width :]:
            amount = None if place is None else view_doubles.whole(found[place])
            if amount is None:
                return None
            amounts.append(amount)
        limbs = LimbColumns(view_doubles.limbs(places, amounts))
        return Totals(op.group, keys, weights, limbs, sums)


def kept_of(op: Accumulate, text: Text, run: Queries) -> dict[int, Known]:
    """What is known of the values of arguments, and of the columns of the group, by their places.

    `text`: the columns in terms of a table's.
    """
    columns_ = list(text.columns)
    places = [*op.key, *(s.argument for s in op.arguments)]
    names = {i: columns_[i] for i in places}
    found = known(text, list(names.values()), run)
    kept = {i: found[name] for i, name in names.items() if name in found}
    for s in op.arguments:
        term = text.columns[names[s.argument]]
        if s.float and s.argument in kept and term.find(exp.Add, exp.Sub):
            # doubles that cancel out leave more of their errors than of what they were
            kept[s.argument] = kept[s.argument]._replace(ends=None)
    return kept


def groups_of(op: Accumulate, kept: Mapping[int, Known]) -> float:
    """About how many groups there may be; columns of which nothing is known make no more."""
    return math.prod((kept[i].different if i in kept else None) or 1 for i in op.key)


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
_ROWS_EXPECTED = float(1 << 27)  # at most
_UNEVEN = 4  # so many times the rows that groups have on average the largest may well have
_TRIES = 5
_WORTH_A_LOOK = 2
"""Sums of products that take so much longer than to look how large all values are."""


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
    if s.bits:
        bits = len(s.parts) if ends is None or ends[0] < 0 else int(ends[1]).bit_length()
        each = [_whole(f"{OWN}sum(({value} >> {i}) & 1)") for i in range(bits)]
        return [count, *each, *[_NONE] * (len(s.parts) - bits)]
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
