"""Operators on counts: distinct and the set operations, with and without ALL.

All of them are functions of how often a row stands in each input, so their state is one arrangement
of whole rows whose weight has one part per input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidewheel.engine.operators.keyed import Agenda
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Arrangement, Changed, Counters, Waiting, times_of
from tidewheel.engine.state.delta import Delta, Int64s, Schema, unique
from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import alike, sort_rows

Count = Callable[[Int64s], Int64s]
"""Counts per input, shape (rows, inputs) → how often each row stands in the output."""


def distinct(counts: Int64s) -> Int64s:
    """SELECT DISTINCT; with several inputs UNION."""
    return np.asarray(counts.sum(axis=1) > 0, np.int64)


def except_all(counts: Int64s) -> Int64s:
    """EXCEPT ALL: as many as the left has more."""
    return np.maximum(counts[:, 0] - np.maximum(counts[:, 1], 0), 0)


def except_distinct(counts: Int64s) -> Int64s:
    """EXCEPT: once, if left and not right."""
    return ((counts[:, 0] > 0) & (counts[:, 1] <= 0)).astype(np.int64)


def intersect_all(counts: Int64s) -> Int64s:
    """INTERSECT ALL: the smaller of both."""
    return np.asarray(np.maximum(counts.min(axis=1), 0))


def intersect_distinct(counts: Int64s) -> Int64s:
    """INTERSECT: once, if in both."""
    return np.asarray(counts.min(axis=1) > 0, np.int64)


class Tally(Operator):
    """A row's output weight is a function of its weights in the inputs. Law: keyed by whole rows.

    `count(0) = 0` is required: rows that are nowhere stay out. Outside loops the output before a
    change is computed from the counts before it; inside loops it is arranged, see `Keyed`.
    """

    def __init__(
        self,
        schema: Schema,
        count: Count = distinct,
        inputs: int = 1,
        depth: int = 0,
        name: str = "distinct",
        exactly: bool = False,
    ) -> None:
        self.schema = schema
        self.arity = inputs
        self.count = count
        self.name = name
        whole = range(len(schema))
        self.counts = Arrangement(schema, whole, depth, name=f"{name} counts", exactly=exactly)
        self.output: Arrangement | None = None
        if depth:
            self.output = Arrangement(schema, whole, depth, name=f"{name} output", exactly=exactly)
        self._agenda = Agenda()

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Where the function of the counts changed."""
        present = self._present(deltas, times_of(1, counters))
        if self.output is not None:
            return self._step_in_loop(self.output, counters, present)
        if present is None:
            return []
        change = sort_rows(present)
        if not len(change):
            return []
        waited = self.counts.waiting
        before = self._asked(change) if waited else self.counts.fetch(unique(change.keys))
        n = len(change)
        if self.counts.layout.loose:
            # What stands for rows that are equal may change with them.
            now = change if before is None else sort_rows(concat_rows([before, change]))
            rows = self._shown(alike(now), +1)
            if before is not None:
                said = self._shown(alike(sort_rows(before)), -1)
                rows = sort_rows(concat_rows([rows, said]))
            weights, n = rows.weights, len(rows)
        elif before is None:
            weights = self.count(change.weights)
            rows = change
        else:
            # Rows of before and change that are equal must add up: tell them apart by extra parts.
            m = self.arity
            wide = concat_rows([_widen(change, 0, m), _widen(before, m, 0)])
            rows = sort_rows(wide)
            old = rows.weights[:, m:]
            weights = self.count(old + rows.weights[:, :m]) - self.count(old)
            n = len(rows)
        if not waited:
            self.counts.spine.insert_run(change)
        index = weights.nonzero()[0]
        if not len(index):
            return []
        if len(index) == n:
            return [(0, counters, Delta(self.schema, rows.cols, weights))]
        kept = rows.take(index)
        return [(0, counters, Delta(self.schema, kept.cols, weights[index]))]

    def _shown(self, counts: Rows, sign: int) -> Rows:
        """The output for some rows with their counts."""
        return _reweigh(counts, sign * self.count(counts.weights))

    def begin(self, counted: Delta) -> Delta:
        """The output for the first rows, each once, weighted by how often it is there.

        Of several inputs the weights have as many parts. They are sorted when one of them changes.
        """
        counts = counted if counted.weights.ndim > 1 else _counts(counted)
        self.counts.post(counts)
        weights = self.count(counts.weights)
        found = Delta(self.schema, counts.cols, weights)
        return found if weights.all() else found.where(weights != 0)

    def wait(self, rows: Waiting) -> None:
        """Count nothing until somebody changes something; `rows` are those that came until then."""
        self.counts.wait(Changed(rows, _counts))

    def _asked(self, change: Rows) -> Rows | None:
        """The counts of changed rows before, where they wait; they have the change afterwards."""
        delta = change.delta()
        self.counts.post(delta)
        before = self.counts.before(delta, change.cols, self.counts.key, change.keys)
        found = before.lookup(unique(change.keys))
        return None if found is None else found[1]

    def _present(self, deltas: Sequence[Delta | None], times: Int64s | None) -> Rows | None:
        parts = []
        for i, delta in enumerate(deltas):
            if delta is not None and len(delta):
                weights = np.zeros((len(delta), self.arity), np.int64)
                weights[:, i] = delta.weights
                rows = self.counts.layout.rows(Delta(self.schema, delta.cols, weights))
                if times is not None:
                    rows.times = times.repeat(len(delta), axis=0)
                parts.append(rows)
        return concat_rows(parts) if parts else None

    def _step_in_loop(
        self, output: Arrangement, counters: Counters, present: Rows | None
    ) -> list[Emission]:
        change = None if present is None else sort_rows(present)
        keys = self._agenda.touched(counters, () if change is None else [change.keys])
        if not len(keys):
            return []
        # Read before the change is added: most rows of a loop come once, and are not there yet.
        now = self._at(self.counts, keys, counters)
        said = self._at(output, keys, counters)
        if change is not None:
            self.counts.spine.insert_run(change)
            now = change if now is None else sort_rows(concat_rows([now, change.untimed()]))
        elif now is not None:
            now = sort_rows(now)
        parts = []
        if now is not None:
            parts.append(self._shown(alike(now), +1))
        if said is not None:
            parts.append(_reweigh(said, -said.weights))
        if not parts:
            return []
        out = (
            parts[0].where(parts[0].weights != 0) if said is None else sort_rows(concat_rows(parts))
        )
        delta = Delta(self.schema, out.cols, out.weights)
        output.insert_run(delta, counters, out.keys)
        return emit(counters, delta)

    def _at(self, arrangement: Arrangement, keys: Int64s, counters: Counters) -> Rows | None:
        rows = arrangement.fetch(keys)
        return None if rows is None else self._agenda.counted(counters, rows)

    def due(self) -> Iterable[Counters]:
        """Interesting times."""
        return self._agenda.times()

    def abort_epoch(self) -> None:
        """Forget the times."""
        self._agenda.clear()

    def arrangements(self) -> Sequence[Arrangement]:
        """Counts of whole rows; in loops the output too."""
        return (self.counts,) if self.output is None else (self.counts, self.output)


def _counts(rows: Delta) -> Delta:
    return Delta(rows.schema, rows.cols, rows.weights[:, None])


def _reweigh(rows: Rows, weights: Int64s) -> Rows:
    return Rows(rows.layout, rows.keys, rows.rest, rows.rank, None, weights, rows.cols)


def _widen(rows: Rows, before: int, after: int) -> Rows:
    weights = np.pad(rows.weights, ((0, 0), (before, after)))
    return Rows(rows.layout, rows.keys, rows.rest, rows.rank, rows.times, weights, rows.cols)
