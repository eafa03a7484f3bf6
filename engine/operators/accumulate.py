"""Aggregates that are running sums: count, sum, avg, variance and their kin.

State per group is a handful of integers, whatever the size of the group. Sums are exact, so an
insert and its delete leave no trace (see `exact.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.accumulate_rows import GroupsByRow, by_row
from tidewheel.engine.operators.join import counts_at
from tidewheel.engine.operators.keyed import Agenda
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters, times_of
from tidewheel.engine.state.columns import Col, Mask
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate, unique
from tidewheel.engine.state.run import Rows, concat_rows, sort_rows

Function = Literal[
    "count_star",
    "count",
    "sum",
    "avg",
    "bool_and",
    "bool_or",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
]
FUNCTIONS: tuple[str, ...] = Function.__args__  # type: ignore[attr-defined]
_SQUARED = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its function, the position of its argument (None for count(*)), its type."""

    function: Function
    argument: int | None
    type: pa.DataType


def supports(function: str, argument: pa.DataType | None) -> bool:
    """Can `Accumulate` keep this aggregate?"""
    if function not in FUNCTIONS:
        return False
    if function in ("count_star", "count"):
        return True
    if argument is None:
        return False
    t = pa.types
    if function in ("bool_and", "bool_or"):
        return bool(t.is_boolean(argument) or isinstance(argument, pa.Bool8Type))
    if function in _SQUARED:
        return bool(t.is_float64(argument))
    number = t.is_integer(argument) or t.is_decimal128(argument) or t.is_floating(argument)
    return bool(number or _is_huge(argument))


def _is_huge(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.OpaqueType) and kind.type_name == "hugeint"


class Sum:
    """Where the running sum of one argument lies: parts of the weight, or rows of terms."""

    def __init__(
        self, argument: int, kind: pa.DataType, first: int, term: int, counted: bool
    ) -> None:
        self.argument = argument
        self.kind = kind
        self.count_part = first
        self.parts = range(first + 1, first + 1)
        self.counted = counted  # only its NULLs matter
        self.float = pa.types.is_floating(kind) and not counted
        self.term = term
        self.special: int | None = None
        self.truth = pa.types.is_boolean(kind) or isinstance(kind, pa.Bool8Type)
        if counted:
            self.width = 1
        elif self.float:
            self.special = first + 1  # NaN, +inf, -inf
            self.width = 4
        else:
            dtype = columns_.column_type(kind).dtype
            limbs = 4 if dtype is None else 1 if dtype.itemsize <= 4 else 2
            self.parts = range(first + 1, first + 1 + limbs)
            self.width = 1 + limbs

    def values(self, col: Col) -> tuple[Any, Mask | None]:
        """Numbers of a column (uint64 pairs for 128 bits) and the mask of NULLs."""
        if self.counted:
            return None, columns_.is_null(col)
        kind = columns_.column_type(self.kind)
        if kind.dtype is not None:
            return kind.split(col)  # type: ignore[attr-defined, no-any-return]
        storage = col.storage if isinstance(col, pa.ExtensionArray) else col
        return columns_.words(storage, 16), columns_.is_null(col)


class Totals(Delta):
    """Groups with what their sums grow by: weights (groups, parts), and limbs of sums of doubles.

    `terms` are rows of the group's columns, number of the argument, number of the limb.
    """

    __slots__ = ("terms",)

    def __init__(
        self, group: Schema, cols: Sequence[Col], weights: Int64s, terms: Delta | None
    ) -> None:
        super().__init__(group, cols, weights)
        self.terms = terms


class Accumulate(Operator):
    """GROUP BY with aggregates that are functions of sums. Law: keyed; the sums are linear.

    Outside loops the output before a change is computed from the sums before it; inside loops it is
    arranged (see `Keyed`). Without key columns there is one group always, also for no rows.
    In place of rows it takes `Totals` of them.
    """

    def __init__(
        self,
        input_schema: Schema,
        key: Sequence[int],
        aggregates: Sequence[Aggregate],
        schema: Schema,
        depth: int = 0,
        name: str = "reduce",
    ) -> None:
        self.schema = schema
        self.name = name
        self.key = tuple(key)
        self.aggregates = tuple(aggregates)
        self._sums: dict[int, Sum] = {}
        self.squares: dict[int, int] = {}  # by argument, where the sum of its squares lies
        terms = 0
        self.width = 1
        for a in self.aggregates:
            if a.argument is None:
                continue
            kind = input_schema.types[a.argument]
            if a.argument not in self._sums:
                counted = all(
                    b.function == "count" for b in self.aggregates if b.argument == a.argument
                )
                s = Sum(a.argument, kind, self.width, terms, counted)
                self._sums[a.argument] = s
                self.width += s.width
                terms += 1
            if a.function in _SQUARED and a.argument not in self.squares:
                self.squares[a.argument] = terms
                terms += 1
        self.group = input_schema.select(self.key)
        positions = range(len(self.key))
        self.sums = Arrangement(self.group, positions, depth, name=f"{name} sums")
        self.terms: Arrangement | None = None
        if any(s.float for s in self._sums.values()):
            names = (*self.group.names, "__tw_term", "__tw_limb")
            schema_ = Schema(names, (*self.group.types, pa.int16(), pa.int16()))
            self.terms = Arrangement(schema_, positions, depth, name=f"{name} limbs")
        self.output = (
            Arrangement(schema, positions, depth, name=f"{name} output") if depth else None
        )
        self._agenda = Agenda()
        if not self.key:
            self._agenda.put((0,) * depth, np.zeros(1, np.int64))
        self._begun = False
        self._by_row: GroupsByRow | None = None
        if not depth:
            self._by_row = by_row(self.key, self.sums, self.arguments, self.aggregates, schema)

    @property
    def arguments(self) -> Sequence[Sum]:
        """The running sums, in the order in which their parts lie in a weight."""
        return list(self._sums.values())

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New aggregates − old ones, of all touched groups."""
        delta = deltas[0]
        if self._by_row is not None:
            if delta is not None and len(delta) == 1 and (rows := delta.rows) is not None:
                self._agenda.clear()
                return emit(counters, self._by_row.step(rows[0], int(delta.weights[0])))
            if not self.key:
                self._agenda.clear()
                added = [0] * self.width
                if delta is not None and len(delta):
                    added = self._contribution(delta, counters)[0].weights[0].tolist()
                return emit(counters, self._by_row.add((), added))
            self._by_row.forget()
        touched = self._agenda.take(counters)
        sums: Rows | None = None
        terms: Rows | None = None
        if delta is not None and len(delta):
            sums, terms = self._contribution(delta, counters)
            # Sums may cancel where terms do not: 2.0 for -3.25 leaves the counts as they were.
            touched.append(unique(sums.keys))
            if terms is not None:
                touched.append(unique(terms.keys))
        if not touched:
            return []
        keys = touched[0] if len(touched) == 1 else unique(np.concatenate(touched))
        old: Delta | None = None
        if self.output is None:
            before = self._at(self.sums, keys, counters)
            if self.terms is None and self.key:
                self._begun = True
                self._insert(sums, None)
                return emit(counters, self._changed(before, _plus(before, sums)))
            term_rows = self._at(self.terms, keys, counters) if self.terms is not None else None
            if self._begun or self.key:
                old = self._finish(before, term_rows)
            self._begun = True
            now = _plus(before, sums)
            now_terms = _plus(term_rows, terms)
            self._insert(sums, terms)
        else:
            self._insert(sums, terms)
            now = self._at(self.sums, keys, counters)
            now_terms = self._at(self.terms, keys, counters) if self.terms is not None else None
            said = self._at(self.output, keys, counters)
            old = None if said is None else said.delta()
        new = self._finish(now, now_terms)
        change = consolidate(new if old is None else concat([new, old.negate()]))
        if self.output is not None:
            self.output.insert(change, counters)
        return emit(counters, change)

    def _changed(self, before: Rows | None, now: Rows | None) -> Delta:
        """New output − old output, both computed in one go."""
        parts = [rows for rows in (now, before) if rows is not None]
        if not parts:
            return Delta.empty(self.schema)
        rows = concat_rows(parts)
        signs = np.ones(len(rows), np.int64)
        if before is not None:
            signs[len(rows) - len(before) :] = -1
        there = rows.weights[:, 0] > 0
        if not there.all():
            rows, signs = rows.where(there), signs[there]
        out = self._finish(rows, None)
        return consolidate(Delta(self.schema, out.cols, signs))

    def _insert(self, sums: Rows | None, terms: Rows | None) -> None:
        if sums is not None:
            self.sums.spine.insert(sums)
        if terms is not None and self.terms is not None:
            self.terms.spine.insert(terms)

    def _at(self, arrangement: Arrangement, keys: Int64s, counters: Counters) -> Rows | None:
        rows = arrangement.fetch(keys)
        if rows is None:
            return None
        self._agenda.interesting(counters, rows)
        mask = counts_at(rows, counters)
        return sort_rows((rows if mask is None else rows.where(mask)).untimed())

    # -- deltas to sums ------------------------------------------------------------------------

    def _contribution(self, delta: Delta, counters: Counters) -> tuple[Rows, Rows | None]:
        n = len(delta)
        if isinstance(delta, Totals):
            return self._totalled(delta, counters)
        weights = np.zeros((n, self.width), np.int64)
        w = delta.weights
        weights[:, 0] = w
        group = [delta.cols[i] for i in self.key]
        term_parts: list[tuple[Int64s, Int64s, Int64s, int]] = []
        for s in self._sums.values():
            values, nulls = s.values(delta.cols[s.argument])
            weights[:, s.count_part] = w if nulls is None else np.where(nulls, 0, w)
            if s.counted:
                continue
            if s.float:
                self._float(s, values, nulls, w, weights, term_parts)
                continue
            if values.ndim == 2:
                limbs = exact.split_wide(values)
            elif s.truth:
                limbs = [(values == 0).astype(np.int64)]  # counts what is false
            else:
                limbs = exact.split_integers(values)
            for part, limb in zip(s.parts, limbs, strict=True):
                product = limb * w
                weights[:, part] = product if nulls is None else np.where(nulls, 0, product)
        if not self.key:
            weights, n = weights.sum(axis=0, keepdims=True), 1
        times = times_of(n, counters)
        sums = self.sums.layout.rows(Delta(self.group, group, weights), times)
        sums = sort_rows(sums) if n > 1 else sums
        if self.terms is None:
            return sums, None
        at = np.concatenate([p[0] for p in term_parts]) if term_parts else np.empty(0, np.int64)
        if not len(at):
            return sums, None
        limb = np.concatenate([p[1] for p in term_parts]).astype(np.int16)
        amount = np.concatenate([p[2] for p in term_parts]) * w[at]
        term = np.concatenate([np.full(len(p[0]), p[3], np.int16) for p in term_parts])
        cols = [*(columns_.take(c, at) for c in group), term, limb]
        rows = self.terms.layout.rows(
            Delta(self.terms.schema, cols, amount), times_of(len(at), counters)
        )
        return sums, sort_rows(rows)

    def _totalled(self, totals: Totals, counters: Counters) -> tuple[Rows, Rows | None]:
        sums = sort_rows(self.sums.layout.rows(totals, times_of(len(totals), counters)))
        if self.terms is None or totals.terms is None or not len(totals.terms):
            return sums, None
        times = times_of(len(totals.terms), counters)
        return sums, sort_rows(self.terms.layout.rows(totals.terms, times))

    def _float(
        self,
        s: Sum,
        values: Any,
        nulls: Mask | None,
        w: Int64s,
        weights: Int64s,
        out: list[tuple[Int64s, Int64s, Int64s, int]],
    ) -> None:
        values = values.astype(np.float64)
        finite = np.isfinite(values)
        if nulls is not None:
            finite &= ~nulls
        if not finite.all():
            assert s.special is not None
            present = w if nulls is None else np.where(nulls, 0, w)
            weights[:, s.special] = np.where(np.isnan(values), present, 0)
            weights[:, s.special + 1] = np.where(values == math.inf, present, 0)
            weights[:, s.special + 2] = np.where(values == -math.inf, present, 0)
            values = np.where(finite, values, 0.0)
        out.append((*exact.split_doubles(values), s.term))
        if s.argument in self.squares:
            out.append((*exact.split_squares(values), self.squares[s.argument]))

    # -- sums to output ------------------------------------------------------------------------

    def _finish(self, sums: Rows | None, terms: Rows | None) -> Delta:
        """One output row per group with rows; one always where there is no key."""
        if sums is not None:
            sums = sums.where(sums.weights[:, 0] > 0)
        if sums is None or not len(sums):
            if self.key:
                return Delta.empty(self.schema)
            weights = np.zeros((1, self.width), np.int64)
            group: Sequence[Col] = []
            terms = None
        else:
            weights, group = sums.weights, sums.cols
        totals = self._totals(sums, terms) if self.terms is not None else {}
        cols = [*group]
        for a in self.aggregates:
            cols.append(self._column(a, weights, totals))
        return Delta(self.schema, cols, np.ones(len(weights), np.int64))

    def _totals(self, sums: Rows | None, terms: Rows | None) -> dict[int, list[int]]:
        """Per term the exact sum of each group, times 2 ** (32 * BIAS)."""
        count = len(sums) if sums is not None and len(sums) else 1
        numbers = [s.term for s in self._sums.values() if s.float] + list(self.squares.values())
        totals = {t: [0] * count for t in numbers}
        if terms is None or not len(terms):
            return totals
        group = self._group_of(sums, terms) if sums is not None and self.key else [0] * len(terms)
        rows = zip(
            group,
            terms.cols[-2].tolist(),
            terms.cols[-1].tolist(),
            terms.weights.tolist(),
            strict=True,
        )
        for g, term, limb, amount in rows:
            if g >= 0:
                totals[term][g] += amount << (exact.LIMB * limb)
        return totals

    def _group_of(self, sums: Rows, terms: Rows) -> list[int]:
        """For each term row the position of its group in `sums`, -1 where the group is gone."""
        low = sums.keys.searchsorted(terms.keys)
        high = sums.keys.searchsorted(terms.keys, side="right")
        out = np.where(low < high, low, -1)
        exact_keys = self.sums.key.exact(sums.cols) and self.terms.key.exact(terms.cols)  # type: ignore[union-attr]
        if not exact_keys:
            # Equal hashes may hide several groups: walk through them until the values agree.
            todo = (out >= 0).nonzero()[0]
            while len(todo):
                same = np.ones(len(todo), bool)
                for i, kind in enumerate(self.group.kinds):
                    same &= kind.equal(
                        columns_.take(sums.cols[i], out[todo]), columns_.take(terms.cols[i], todo)
                    )
                todo = todo[~same]
                out[todo] += 1
                gone = out[todo] >= high[todo]
                out[todo[gone]] = -1
                todo = todo[~gone]
        return list(out.tolist())

    def _column(self, a: Aggregate, weights: Int64s, totals: dict[int, list[int]]) -> Col:
        kind = columns_.column_type(a.type)
        if a.function in ("count_star", "count") and kind.dtype == np.int64:
            part = 0 if a.argument is None else self._sums[a.argument].count_part
            return np.ascontiguousarray(weights[:, part])
        return kind.load(self._value(a, weights, totals))

    def _value(self, a: Aggregate, weights: Int64s, totals: dict[int, list[int]]) -> pa.Array:
        if a.function == "count_star" or a.argument is None:
            return exact.integers_to_arrow(weights[:, 0], None, a.type)
        s = self._sums[a.argument]
        count = weights[:, s.count_part]
        if a.function == "count":
            return exact.integers_to_arrow(count, None, a.type)
        valid = count > 0
        if s.truth:
            false = weights[:, s.parts[0]]
            value = false == 0 if a.function == "bool_and" else false < count
            return pa.array(value, pa.bool_(), mask=~valid).cast(a.type)
        if s.float:
            return self._float_value(a, s, weights, totals)
        sums = exact.join_limbs([weights[:, p] for p in s.parts])
        if a.function == "sum":
            if pa.types.is_floating(a.type):
                floats = [float(v) for v in (sums if isinstance(sums, list) else sums.tolist())]
                return pa.array(floats, a.type, mask=~valid)
            return exact.integers_to_arrow(sums, valid, a.type)
        scale = 10**s.kind.scale if pa.types.is_decimal128(s.kind) else 1
        integers = sums if isinstance(sums, list) else sums.tolist()
        means = [
            v / (c * scale) if c else None for v, c in zip(integers, count.tolist(), strict=True)
        ]
        return pa.array(means, a.type)

    def _float_value(
        self, a: Aggregate, s: Sum, weights: Int64s, totals: dict[int, list[int]]
    ) -> pa.Array:
        assert s.special is not None
        counts = weights[:, s.count_part].tolist()
        special = weights[:, s.special : s.special + 3].tolist()
        first = totals[s.term]
        second = totals[self.squares[s.argument]] if s.argument in self.squares else first
        finish = _FINISH[a.function]
        out: list[float | None] = []
        for n, (nan, plus, minus), x, xx in zip(counts, special, first, second, strict=True):
            if n <= 0:
                out.append(None)
            elif a.function in _SQUARED:
                if n == 1:  # whatever it is
                    out.append(None if "samp" in a.function else 0.0)
                else:
                    out.append(math.nan if nan or plus or minus else finish(x, xx, n))
            elif nan or (plus and minus):
                out.append(math.nan)
            elif plus or minus:
                out.append(math.inf if plus else -math.inf)
            else:
                out.append(finish(x, xx, n))
        return pa.array(out, a.type)

    def due(self) -> Iterable[Counters]:
        """Interesting times, and the first one where there is no key."""
        return list(self._agenda.times()) if self._agenda else ()

    def abort_epoch(self) -> None:
        """Forget the times."""
        self._agenda.clear()

    def arrangements(self) -> Sequence[Arrangement]:
        """Running sums, limbs of floating-point sums, in loops the output."""
        if self._by_row is not None:
            self._by_row.settle()
        return [a for a in (self.sums, self.terms, self.output) if a is not None]


def _plus(before: Rows | None, change: Rows | None) -> Rows | None:
    if before is None or change is None:
        return change if before is None else before
    return sort_rows(concat_rows([before, change.untimed()]))


_ONE = 1 << (exact.LIMB * exact.BIAS)


def _variance(x: int, xx: int, n: int, less: int) -> float:
    # n Σx² − (Σx)² over n (n − less), all exact until the one division.
    return exact.ratio(n * xx * _ONE - x * x, _ONE * _ONE * n * (n - less))


_FINISH: dict[str, Callable[[int, int, int], float]] = {
    "sum": lambda x, xx, n: exact.ratio(x),
    "avg": lambda x, xx, n: exact.ratio(x, _ONE * n),
    "var_samp": lambda x, xx, n: _variance(x, xx, n, 1),
    "var_pop": lambda x, xx, n: _variance(x, xx, n, 0),
    "stddev_samp": lambda x, xx, n: math.sqrt(_variance(x, xx, n, 1)),
    "stddev_pop": lambda x, xx, n: math.sqrt(_variance(x, xx, n, 0)),
}
