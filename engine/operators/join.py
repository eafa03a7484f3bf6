"""Equi-joins of two arranged collections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.operators.shared import Shared
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Index
from tidewheel.engine.state.delta import Delta, Int64s, Schema, unique
from tidewheel.engine.state.run import Rows, concat_rows


class Arrange(Operator):
    """Keeps a collection by key for all who need that key; passes the delta on. Linear.

    Unless `null_keys`, rows with a NULL in the key are left out: an equi-join never finds them.
    With `shared` the arrangement is other circuits' too, and one of them writes each delta.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        depth: int = 0,
        null_keys: bool = False,
        name: str = "arrange",
        shared: Shared | None = None,
    ) -> None:
        self.schema = schema
        self.null_keys = null_keys
        self.name = name
        self.shared = shared
        if shared is None:
            self.arrangement = Arrangement(schema, key, depth, name=name)
        else:
            self.arrangement = shared.arrangement

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """The delta as it is now part of the arrangement."""
        delta = deltas[0]
        if delta is None:
            return []
        if not self.null_keys:
            nulls = self.arrangement.key.nulls(delta.cols)
            if nulls is not None:
                delta = delta.where(~nulls)
        if self.shared is None or self.shared.claim():
            self.arrangement.insert(delta, counters)
        return emit(counters, delta)

    def arrangements(self) -> Sequence[Arrangement]:
        """The one arrangement."""
        return (self.arrangement,)


class Join(Operator):
    """Inner join of two arrangements on equal keys; without key columns a cross join. Bilinear.

    Inputs are the two `Arrange` operators. Both arrangements already hold the present deltas when
    this runs, hence δ(L⋈R) = δL⋈R + L⋈δR - δL⋈δR; outside loops one of R and L is taken without its
    delta instead. A delta at counters c that meets a row of
    counters t speaks about their least upper bound: rows of later iterations that are already
    there get their due ahead of time.

    `columns` are the output columns: (0 or 1 for left or right, position).
    """

    arity = 2

    def __init__(
        self,
        left: Arrangement,
        right: Arrangement,
        columns: Sequence[tuple[int, int]],
        schema: Schema,
        name: str = "join",
    ) -> None:
        self.left = left
        self.right = right
        self.columns = tuple(columns)
        self.schema = schema
        self.name = name
        self._begun = False

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """All pairs in which a present delta takes part."""
        left, right = deltas
        out: list[Emission] = []
        # The first time, the deltas are all that the arrangements hold: one term says it all.
        first, self._begun = not self._begun, True
        run: Rows | None = None
        if first and left is not None and not counters:
            right, run = None, self.left.spine.single
        olds: list[Arrangement] = [self.left, self.right]
        if left is not None and right is not None and not counters:
            # One of the terms with what was there before: else all that both sides add, or take
            # away, comes twice and is taken back once. The smaller delta is subtracted sooner.
            if len(left) <= len(right):
                olds[0] = _before(self.left, left, self.right.key.keys(right.cols, len(right)))
            else:
                olds[1] = _before(self.right, right, self.left.key.keys(left.cols, len(left)))
        if left is not None:
            if run is not None:  # the same rows, sorted: neighbours meet the same rows
                left, keys = run.delta(), run.keys
            else:
                keys = self.left.key.keys(left.cols, len(left))
            found = olds[1].match(left.cols, self.left.key, keys)
            if found is not None:
                at, rows = found
                weights = left.weights[at] * rows.weights
                delta = self._pairs(left.cols, at, rows.cols, None, weights)
                out.extend(at_lub(counters, rows.times, delta))
        if right is not None:
            keys = self.right.key.keys(right.cols, len(right))
            found = olds[0].match(right.cols, self.right.key, keys)
            if found is not None:
                at, rows = found
                weights = right.weights[at] * rows.weights
                delta = self._pairs(rows.cols, None, right.cols, at, weights)
                out.extend(at_lub(counters, rows.times, delta))
            if left is not None and counters:
                out.extend(emit(counters, self._both(left, right)))
        return out

    def _both(self, left: Delta, right: Delta) -> Delta:
        """Minus δL⋈δR, which the two terms above count twice."""
        small = Arrangement(self.right.schema, self.right.key.indices)
        small.spine.insert(small.layout.rows(right))
        found = small.match(left.cols, self.left.key, self.left.key.keys(left.cols, len(left)))
        if found is None:
            return Delta.empty(self.schema)
        at, rows = found
        return self._pairs(left.cols, at, rows.cols, None, -left.weights[at] * rows.weights)

    def _pairs(
        self,
        left: Sequence[columns_.Col],
        left_at: Index | None,
        right: Sequence[columns_.Col],
        right_at: Index | None,
        weights: Int64s,
    ) -> Delta:
        cols = []
        for side, i in self.columns:
            col, at = (left[i], left_at) if side == 0 else (right[i], right_at)
            cols.append(col if at is None else columns_.take(col, at))
        return Delta(self.schema, cols, weights)


def _before(arrangement: Arrangement, delta: Delta, keys: Int64s) -> Arrangement:
    """What an arrangement held under `keys` before `delta`, which it has taken in, was added."""
    probes = unique(keys)
    gone = arrangement.layout.rows(delta.negate())
    place = probes.searchsorted(gone.keys)
    place[place == len(probes)] = 0
    common = probes[place] == gone.keys
    if not common.any():
        return arrangement
    gone = gone.where(common)
    small = Arrangement(arrangement.schema, arrangement.key.indices)
    found = arrangement.fetch(probes)
    small.spine.insert(gone if found is None else concat_rows([found, gone]))
    return small


def at_lub(counters: Counters, times: Int64s | None, delta: Delta) -> list[Emission]:
    """`delta`, row i at the least upper bound of `counters` and `times[i]`, grouped by time."""
    if times is None or not counters:
        return emit(counters, delta)
    now = np.array(counters, np.int64)
    if (times <= now).all():
        return emit(counters, delta)
    meets = np.maximum(times, now)
    if meets.shape[1] == 1:
        distinct, which = np.unique(meets[:, 0], return_inverse=True)
        distinct = distinct[:, None]
    else:
        distinct, which = np.unique(meets, axis=0, return_inverse=True)
        which = which.ravel()
    if len(distinct) == 1:
        return emit(tuple(distinct[0].tolist()), delta)
    order = which.argsort(kind="stable")
    ends = np.bincount(which).cumsum()
    out: list[Emission] = []
    begin = 0
    for time, end in zip(distinct.tolist(), ends.tolist(), strict=True):
        out.append((0, tuple(time), delta.take(order[begin:end])))
        begin = end
    return out


def counts_at(rows: Rows, counters: Counters) -> columns_.Mask | None:
    """Rows that count at `counters` (product order); None where all of them do."""
    if rows.times is None or not counters:
        return None
    mask = np.asarray((rows.times <= np.array(counters, np.int64)).all(axis=1))
    return None if mask.all() else mask
