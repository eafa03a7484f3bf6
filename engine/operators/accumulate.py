"""Aggregates that are running sums: count, sum, avg, variances, covariances and their kin.

State per group is a handful of integers, whatever the size of the group. Sums are exact, so an
insert and its delete leave no trace (see `exact.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.accumulate_rows import GroupsByRow, by_row
from tidewheel.engine.operators.finish import Finish
from tidewheel.engine.operators.keyed import Agenda
from tidewheel.engine.operators.limbs import LaterRows
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.operators.running_sums import BITS, Aggregate, Factors, Sum, Totals
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters, Waiting, times_of
from tidewheel.engine.state.columns import Mask
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate
from tidewheel.engine.state.rowwise import Row, few_rows
from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import alike, sort_rows

_AT_ONCE: Final = 1 << 15


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
        self.products: dict[Factors, int] = {}  # where the sums of products of arguments lie
        terms = 0
        self.width = 1
        for a in self.aggregates:
            for argument in a.arguments:
                if argument in self._sums:
                    continue
                of = [b.function for b in self.aggregates if argument in b.arguments]
                counted = all(function == "count" for function in of)
                bits = all(function in BITS for function in of)
                s = Sum(argument, input_schema.types[argument], self.width, terms, counted, bits)
                self._sums[argument] = s
                self.width += s.width
                terms += 1
            for factors in a.products:
                if factors not in self.products:
                    self.products[factors] = terms
                    terms += 1
        self.group = input_schema.select(self.key)
        positions = range(len(self.key))
        self.sums = Arrangement(self.group, positions, depth, name=f"{name} sums")
        self.terms: Arrangement | None = None
        if any(s.float for s in self._sums.values()):
            names = (*self.group.names, "__tw_term", "__tw_limb")
            schema_ = Schema(names, (*self.group.types, pa.int16(), pa.int16()))
            self.terms = Arrangement(schema_, positions, depth, name=f"{name} limbs")
        self._finish = Finish(
            self.group, self.aggregates, schema, self._sums, self.products, self.width
        )
        self.output = (
            Arrangement(schema, positions, depth, name=f"{name} output") if depth else None
        )
        self._agenda = Agenda()
        if not self.key:
            self._agenda.put((0,) * depth, np.zeros(1, np.int64))
        self._begun = False
        self._by_row: GroupsByRow | None = None
        if not depth:
            self._by_row = by_row(
                self.key,
                self.sums,
                self.terms,
                self.arguments,
                self.products,
                self.aggregates,
                schema,
            )

    @property
    def arguments(self) -> Sequence[Sum]:
        """The running sums, in the order in which their parts lie in a weight."""
        return list(self._sums.values())

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New aggregates − old ones, of all touched groups."""
        delta = deltas[0]
        if self._by_row is not None and not self.sums.waiting:
            if delta is not None and (rows := self._rows(delta)):
                self._agenda.clear()
                begun, self._begun = self._begun or bool(self.key), True
                return emit(counters, self._by_row.step(rows, delta.weights.tolist(), begun))
            if not self.key and self.terms is None:
                self._agenda.clear()
                added = [0] * self.width
                if delta is not None and len(delta):
                    added = self._added(delta, counters)
                begun, self._begun = self._begun, True
                return emit(counters, self._by_row.add({(): added}, begun))
            self._by_row.forget()
        if isinstance(delta, Totals) and self.key and not self._begun and not counters:
            return emit(counters, self._begin(delta))
        sums: Rows | None = None
        terms: Rows | None = None
        if delta is not None and len(delta):
            sums, terms = self._contribution(delta, counters)
        # Sums may cancel where terms do not: 2.0 for -3.25 leaves the counts as they were.
        come = (rows.keys for rows in (sums, terms) if rows is not None)
        keys = self._agenda.touched(counters, come)
        if not len(keys):
            return []
        old: Delta | None = None
        if self.output is None:
            if self.terms is None and self.key:
                self._begun = True
                before = self._exchanged(keys, sums, counters)
                return emit(counters, self._changed(before, _plus(before, sums)))
            before = self._at(self.sums, keys, counters)
            term_rows = self._at(self.terms, keys, counters) if self.terms is not None else None
            if self._begun or self.key:
                old = self._finish(_groups(before), term_rows)
            self._begun = True
            now = _plus(before, sums)
            now_terms = _plus(term_rows, terms)
            self._insert(sums, terms)
            self._let_go(keys, now, now_terms)
        else:
            self._insert(sums, terms)
            now = self._at(self.sums, keys, counters)
            now_terms = self._at(self.terms, keys, counters) if self.terms is not None else None
            said = self._at(self.output, keys, counters)
            old = None if said is None else said.delta()
        new = self._finish(_groups(now), now_terms)
        change = consolidate(new if old is None else concat([new, old.negate()]))
        if self.output is not None:
            self.output.insert(change, counters)
        return emit(counters, change)

    @staticmethod
    def _rows(delta: Delta) -> Sequence[Row] | None:
        """The rows of a delta, if they are few and plain."""
        if isinstance(delta, Totals):
            return None
        return few_rows(delta.schema.kinds, delta.cols, len(delta))

    def wait(self, rows: Waiting) -> None:
        """Leave the sums of all groups to `rows` until a change asks. No doubles, no loop."""
        self._begun = True
        self.sums.wait(rows)

    def _exchanged(self, keys: Int64s, sums: Rows | None, counters: Counters) -> Rows | None:
        """The sums so far of the groups in `sums`, which are added to them."""
        if sums is None or not self.sums.waiting:
            before = self._at(self.sums, keys, counters)
            self._insert(sums, None)
            return before
        self.sums.post(sums.delta())
        found = self.sums.asked(sums.cols, self.sums.key, len(sums), after=False)
        if found is None:  # all have been read, and what is posted is among them
            gone = self.sums.layout.rows(sums.delta().negate())
            return _plus(self._at(self.sums, keys, counters), sort_rows(gone))
        rows = found.lookup(keys)
        return None if rows is None else sort_rows(rows[1])

    def given(self, keys: Int64s) -> Delta:
        """The output by now for some keys (each once), in their order. Outside loops."""
        if self._by_row is not None:
            self._by_row.settle()
        sums = self._at(self.sums, keys, ())
        terms = None if self.terms is None else self._at(self.terms, keys, ())
        return self._finish(_groups(sums), terms)

    def _added(self, delta: Delta, counters: Counters) -> list[int]:
        """What rows add to the only group."""
        if self._by_row is not None and (rows := delta.rows) is not None:
            return self._by_row.added_up(rows, delta.weights.tolist())
        added: list[int] = self._contribution(delta, counters)[0].weights[0].tolist()
        return added

    def _begin(self, totals: Totals) -> Delta:
        """The output for the first groups, each once: sorted when one of them changes."""
        self._begun = True
        self.sums.post(totals)
        if self.terms is not None:
            self.terms.wait(LaterRows(totals.limbs, self.terms.schema, totals.cols))
        return self._finish(self.sums.layout.rows(totals), totals.limbs, totals.sums)

    def _changed(self, before: Rows | None, now: Rows | None) -> Delta:
        """New output − old output, both computed in one go."""
        now, before = _groups(now), _groups(before)
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
        return consolidate(Delta(self.schema, out.cols, signs, before is None))

    def _insert(self, sums: Rows | None, terms: Rows | None) -> None:
        if sums is not None:
            self.sums.spine.insert_run(sums)
        if terms is not None and self.terms is not None:
            self.terms.spine.insert_run(terms)

    def _let_go(self, keys: Int64s, sums: Rows | None, terms: Rows | None) -> None:
        """Groups without rows keep no limbs.

        There may be some: a sum that comes of a filling has other ones than its values have.
        """
        there = keys[:0] if sums is None else sums.keys[sums.weights[:, 0] != 0]
        if self.terms is None or terms is None or len(there) == len(keys):
            return
        gone = np.isin(terms.keys, there, invert=True)
        if gone.any():
            self.terms.insert(terms.where(gone).delta().negate())

    def _at(self, arrangement: Arrangement, keys: Int64s, counters: Counters) -> Rows | None:
        rows = arrangement.fetch(keys)
        return None if rows is None else sort_rows(self._agenda.counted(counters, rows))

    # -- deltas to sums ------------------------------------------------------------------------

    def _contribution(self, delta: Delta, counters: Counters) -> tuple[Rows, Rows | None]:
        n = len(delta)
        if isinstance(delta, Totals):
            return self._totalled(delta, counters)
        if n > _AT_ONCE and not self.key and self.terms is None:
            parts = (self._contribution(d, counters)[0].weights for d in _pieces(delta))
            total = Delta(self.group, [], np.sum(list(parts), axis=0))
            return self.sums.layout.rows(total, times_of(1, counters)), None
        weights = np.zeros((n, self.width), np.int64)
        w = delta.weights
        weights[:, 0] = w
        group = [delta.cols[i] for i in self.key]
        term_parts: list[tuple[Int64s, Int64s, Int64s, int]] = []
        finite: dict[int, Any] = {}
        for s in self._sums.values():
            values, nulls = s.values(delta.cols[s.argument])
            weights[:, s.count_part] = w if nulls is None else np.where(nulls, 0, w)
            if s.counted:
                continue
            if s.float:
                values = finite[s.argument] = self._finite(s, values, nulls, w, weights)
                term_parts.append((*exact.split_doubles(values), s.term))
                continue
            if values.ndim == 2:
                limbs = exact.split_wide(values)
            elif s.truth:
                limbs = [(values == 0).astype(np.int64)]  # counts what is false
            elif s.bits:
                limbs = exact.split_bits(values)
            else:
                limbs = exact.split_integers(values)
            for part, limb in zip(s.parts, limbs, strict=True):
                product = limb * w
                weights[:, part] = product if nulls is None else np.where(nulls, 0, product)
        for factors, term in self.products.items():
            term_parts.append((*exact.split_products([finite[f] for f in factors]), term))
        if not self.key:
            weights, n = weights.sum(axis=0, keepdims=True), 1
        times = times_of(n, counters)
        sums = self.sums.layout.rows(Delta(self.group, group, weights), times)
        sums = sort_rows(sums) if n > 1 else sums
        if self.terms is None or not term_parts:
            return sums, None
        at = np.concatenate([p[0] for p in term_parts])
        limb = np.concatenate([p[1] for p in term_parts]).astype(np.int16)
        amount = np.concatenate([p[2] for p in term_parts]) * w[at]
        terms = np.concatenate([np.full(len(p[0]), p[3], np.int16) for p in term_parts])
        cols = [*(columns_.take(c, at) for c in group), terms, limb]
        return sums, _sorted(self.terms, Delta(self.terms.schema, cols, amount), counters)

    def _totalled(self, totals: Totals, counters: Counters) -> tuple[Rows, Rows | None]:
        sums = sort_rows(self.sums.layout.rows(totals, times_of(len(totals), counters)))
        if self.terms is None:
            return sums, None
        limbs = totals.limbs.rows(self.terms.schema, totals.cols)
        return sums, _sorted(self.terms, limbs, counters)

    @staticmethod
    def _finite(s: Sum, values: Any, nulls: Mask | None, w: Int64s, weights: Int64s) -> Any:
        """Doubles, 0 in place of what is not finite: that is counted in `weights`."""
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
        return values

    def due(self) -> Iterable[Counters]:
        """Interesting times, and the first one where there is no key."""
        return self._agenda.times()

    def abort_epoch(self) -> None:
        """Forget the times."""
        self._agenda.clear()

    def arrangements(self) -> Sequence[Arrangement]:
        """Running sums, limbs of floating-point sums, in loops the output."""
        if self._by_row is not None:
            self._by_row.settle()
        return [a for a in (self.sums, self.terms, self.output) if a is not None]


def _sorted(arrangement: Arrangement, delta: Delta, counters: Counters) -> Rows | None:
    """The rows of a delta as an arrangement has them; None if there are none."""
    if not len(delta):
        return None
    return sort_rows(arrangement.layout.rows(delta, times_of(len(delta), counters)))


def _groups(sums: Rows | None) -> Rows | None:
    """Each group once: its rows may have keys that are equal and do not look the same."""
    return None if sums is None else alike(sums)


def _plus(before: Rows | None, change: Rows | None) -> Rows | None:
    if before is None or change is None:
        return change if before is None else before
    return sort_rows(concat_rows([before, change.untimed()]))


def _pieces(delta: Delta) -> Iterator[Delta]:
    """A delta's rows a part at a time, such that what is made of them stays in the cache."""
    for begin in range(0, len(delta), _AT_ONCE):
        rows = slice(begin, begin + _AT_ONCE)
        yield Delta(delta.schema, [c[rows] for c in delta.cols], delta.weights[rows])
