"""The running sums of `Accumulate`, as DuckDB computes them from a query's rows.

They are the very integers that NumPy would add up from the rows one by one, so that rows that go
later leave no trace. Doubles are cut into limbs (see `engine/operators/exact.py`) by arithmetic
that is exact: quotients by powers of two, whole parts, and what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.running_sums import Sum, Totals
from tidewheel.engine.state.columns import Col, column_type, from_arrow, take
from tidewheel.engine.state.delta import Delta, Int64s, Schema
from tidewheel.planner.maintain import Run
from tidewheel.planner.text import identifier, to_sql

_MASK = (1 << exact.LIMB) - 1
OWN = "system.main."  # whatever macros there are
_MOST_LIMBS = 10
_MOST_DIGITS = 18  # behind the point, for DuckDB's products to fit


@dataclass(frozen=True, slots=True)
class _Term:
    """A sum of doubles: of which argument, its number in `Accumulate`, a column, its limbs."""

    argument: int
    term: int
    column: str
    limbs: range


class Sums:
    """What an `Accumulate` gets from the rows of `query`, whose columns are called `names`."""

    def __init__(self, op: Accumulate, query: str, names: Sequence[str]) -> None:
        self._op = op
        self._query = query
        self._names = [to_sql(identifier(n)) for n in names]

    @staticmethod
    def possible(op: Accumulate, types: Sequence[pa.DataType]) -> bool:
        """Are DuckDB's groups those of `op`, and its sums?"""
        scales = (s.kind.scale for s in op.arguments if pa.types.is_decimal128(s.kind))
        within = all(scale <= _MOST_DIGITS for scale in scales)
        return within and all(groups_alike(types[i]) for i in op.key)

    def __call__(self, run: Run) -> Totals | None:
        """The groups with their sums; None where doubles lie too far apart for a statement."""
        op = self._op
        floats = [s for s in op.arguments if s.float]
        terms = self._terms(run, floats) if floats else []
        if terms is None:
            return None
        query = self._query
        group = [self._names[i] for i in op.key]
        parts = [f"{OWN}count(*)"]
        for s in op.arguments:
            parts += _parts(self._names[s.argument], s)
        for s in floats:
            x = f"__tw_x{s.argument}"
            value = f"{self._names[s.argument]}::DOUBLE"
            query = (
                f"SELECT *, CASE WHEN {OWN}isfinite({value}) THEN {value} ELSE 0 END AS {x} "
                f"FROM ({query})"
            )
            if s.argument in op.squares:
                query = _squared(query, x)
            for term in (t for t in terms if t.argument == s.argument):
                query = _cut(query, term)
                parts += [f"{OWN}sum({term.column}_{limb}::BIGINT)" for limb in term.limbs]
        items = [*group, *(f"coalesce({p}, 0)::BIGINT" for p in parts)]
        by = f" GROUP BY {', '.join(group)}" if group else ""
        return self._taken(run(f"SELECT {', '.join(items)} FROM ({query}){by}"), terms)

    def _terms(self, run: Run, floats: Sequence[Sum]) -> list[_Term] | None:
        """The sums of doubles to be made; None with too many or too small limbs."""
        items = []
        for s in floats:
            x = f"{self._names[s.argument]}::DOUBLE"
            there = f"FILTER ({OWN}isfinite({x}) AND {x} <> 0)"
            items += [f"{OWN}{end}({OWN}abs({x})) {there}" for end in ("max", "min")]
        ends = run.row(f"SELECT {', '.join(items)} FROM ({self._query})")
        found: list[_Term] = []
        for s, high, low in zip(floats, ends[::2], ends[1::2], strict=True):
            if high is None:
                continue
            x = f"__tw_x{s.argument}"
            first, last = math.frexp(high)[1] - 1, math.frexp(low)[1] - 53
            found.append(_Term(s.argument, s.term, x, _limbs(first, last)))
            square = self._op.squares.get(s.argument)
            if square is not None:
                if not exact.SQUARABLE[0] <= low <= high <= exact.SQUARABLE[1]:
                    return None
                limbs = _limbs(2 * first + 1, 2 * last)
                found += [_Term(s.argument, square, f"{x}_{part}", limbs) for part in "abc"]
        ready = all(len(t.limbs) <= _MOST_LIMBS and _unit(t.limbs[-1]) for t in found)
        return found if ready else None

    def _taken(self, table: pa.Table, sums: Sequence[_Term]) -> Totals:
        op = self._op
        if not op.key and table.column(0)[0].as_py() == 0:
            table = table.slice(1)  # no rows at all
        keys = columns(table, op.group)
        numbers = [c.to_numpy() for c in table.columns[len(op.group) :]]
        weights = np.stack(numbers[: op.width], axis=1)
        if op.terms is None:
            return Totals(op.group, keys, weights, None)
        amounts = iter(numbers[op.width :])
        at: list[Int64s] = []
        found: list[tuple[int, int, Int64s]] = []
        for s in sums:
            for limb in s.limbs:
                amount = next(amounts)
                index = amount.nonzero()[0]
                at.append(index)
                found.append((s.term, limb, amount[index]))
        if not at:
            return Totals(op.group, keys, weights, Delta.empty(op.terms.schema))
        index = np.concatenate(at)
        term = np.concatenate([np.full(len(a), t, np.int16) for t, _, a in found])
        limb_ = np.concatenate([np.full(len(a), n, np.int16) for _, n, a in found])
        cols: list[Col] = [*(take(c, index) for c in keys), term, limb_]
        terms = Delta(op.terms.schema, cols, np.concatenate([a for _, _, a in found]))
        return Totals(op.group, keys, weights, terms)


def _limbs(first: int, last: int) -> range:
    """The limbs that hold bits 2 ** `first` to 2 ** `last`, the highest first."""
    return range(_limb(first), _limb(last) - 1, -1)


def _limb(bit: int) -> int:
    return (bit + exact.LIMB * exact.BIAS) // exact.LIMB


def _unit(limb: int) -> float:
    """What one is worth in a limb; 0 where no double is so small."""
    return math.ldexp(1.0, exact.LIMB * (limb - exact.BIAS))


def _squared(query: str, x: str) -> str:
    """Three columns more, which add up to the squares of `x` (see `exact.halves`)."""
    split = f"{exact.SPLITTER!r}::DOUBLE"
    query = f"SELECT *, {x} * {split} - ({x} * {split} - {x}) AS {x}_h FROM ({query})"
    query = f"SELECT *, {x} - {x}_h AS {x}_l FROM ({query})"
    return (
        f"SELECT *, {x}_h * {x}_h AS {x}_a, 2 * {x}_h * {x}_l AS {x}_b, "
        f"{x}_l * {x}_l AS {x}_c FROM ({query})"
    )


def _cut(query: str, term: _Term) -> str:
    """A column for each limb of a column of doubles."""
    x = term.column
    for limb in term.limbs:
        unit = f"{_unit(limb)!r}::DOUBLE"
        query = f"SELECT *, {OWN}trunc({x} / {unit}) AS {x}_{limb} FROM ({query})"
        query = f"SELECT * REPLACE ({x} - {x}_{limb} * {unit} AS {x}) FROM ({query})"
    return query


def columns(table: pa.Table, schema: Schema) -> list[Col]:
    """The first columns of a table, as columns of the engine."""
    arrays = zip(table.columns[: len(schema)], schema.types, strict=True)
    return [from_arrow(a if a.type == t else a.cast(t)) for a, t in arrays]


def groups_alike(kind: pa.DataType) -> bool:
    """Are values of a type equal in DuckDB's GROUP BY only if they look the same?"""
    fixed = column_type(kind).dtype is not None and not pa.types.is_floating(kind)
    return fixed or pa.types.is_string(kind) or pa.types.is_binary(kind)


def _parts(value: str, s: Sum) -> list[str]:
    """The parts of a running sum, as `Accumulate` adds them up."""
    count = f"{OWN}count({value})"
    if s.counted:
        return [count]
    if s.truth:
        return [count, f"{OWN}count(*) FILTER (NOT {value})"]
    if s.float:
        ends = (f"{value} = '{end}'" for end in ("nan", "infinity", "-infinity"))
        return [count, *(f"{OWN}count(*) FILTER ({end})" for end in ends)]
    if pa.types.is_decimal128(s.kind):
        scale, unit = s.kind.scale, 10**s.kind.scale
        if s.kind.precision <= 18:
            value = f"({value} * {unit})::BIGINT"
        else:
            whole = f"{OWN}trunc({value})"
            part = f"(({value} - {whole})::DECIMAL({scale + 1}, {scale}) * {unit})::HUGEINT"
            value = f"({whole}::HUGEINT * {unit} + {part})"
    if len(s.parts) == 1:
        return [count, f"{OWN}sum({value})"]
    if len(s.parts) == 2:
        return [count, f"{OWN}sum({value} & {_MASK})", f"{OWN}sum({value} >> {exact.LIMB})"]
    low = [f"{OWN}sum(({value} >> {exact.LIMB * i}) & {_MASK})" for i in range(3)]
    return [count, *low, f"{OWN}sum({value} >> {3 * exact.LIMB})"]
