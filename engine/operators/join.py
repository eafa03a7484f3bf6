"""Equi-joins of two arranged collections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.operators.shared import Shared
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Changed, Counters, Waiting
from tidewheel.engine.state.delta import Delta, Int64s, Schema, net
from tidewheel.engine.state.rowwise import FEW
from tidewheel.engine.state.run import Rows
from tidewheel.engine.state.spine import Spine

_MANY = 1 << 58
_NETTED = 256
"""So many rows can be counted, and some dozens of times as many."""


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
        exactly: bool = False,
    ) -> None:
        self.schema = schema
        self.null_keys = null_keys
        self.name = name
        self.shared = shared
        if shared is None:
            self.arrangement = Arrangement(schema, key, depth, name=name, exactly=exactly)
        else:
            self.arrangement = shared.arrangement

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """The delta as it is now part of the arrangement."""
        if deltas[0] is None:
            return []
        delta = self._found(deltas[0])
        if counters and self.shared is None and len(delta) > _NETTED:
            return emit(counters, self.arrangement.netted(delta, counters))
        if not self.arrangement.key.indices or (self.shared is None and len(delta) <= _NETTED):
            # a row that was replaced by an equal one would meet all of its partners, twice
            delta = net(delta)
        if self.shared is None or self.shared.claim():
            if counters:
                self.arrangement.insert(delta, counters)
            else:
                self.arrangement.post(delta)
        return emit(counters, delta)

    def _found(self, delta: Delta) -> Delta:
        """The rows that a join can find."""
        nulls = None if self.null_keys else self.arrangement.key.nulls(delta.cols)
        return delta if nulls is None else delta.where(~nulls)

    @property
    def has_all(self) -> bool:
        """Does it hold, or not need, what it would get in this turn?"""
        there = self.shared is not None and self.shared.is_written
        return there or self.arrangement.waiting

    def wait(self, rows: Waiting) -> None:
        """Hold nothing until somebody reads; `rows` are those that came in until then."""
        self.arrangement.wait(Changed(rows, self._found))

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
    ranged = False
    """Are partners found otherwise than by equal keys?"""

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
        self.begun = False

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """All pairs in which a present delta takes part."""
        left, right = deltas
        # The first time, the deltas are all that the arrangements hold: one term says it all.
        first, self.begun = not self.begun, True
        if first and left is not None and self.left.waiting:
            return self._meet(0, left, self._keys(0, left), counters)
        if first and right is not None and self.right.waiting:
            return self._meet(1, right, self._keys(1, right), counters)
        late = left is None and right is not None and self.left.ends(len(right))
        if first and (left is not None or late) and not counters:
            run = self.left.spine.single
            if run is not None:  # the same rows, sorted: neighbours meet the same rows
                return self._meet(0, run.delta(), run.keys, counters)
            if left is not None:
                right = None
        if left is None or right is None:
            side, delta = (0, left) if right is None else (1, right)
            assert delta is not None
            return self._meet(side, delta, self._keys(side, delta), counters)
        lefts, rights = self._keys(0, left), self._keys(1, right)
        if counters or self.ranged:
            both = Spine(self.right.layout)
            both.insert(self.right.layout.rows(right.negate(), None, rights))
            return [
                *self._meet(0, left, lefts, counters),
                *self._meet(1, right, rights, counters),
                *self._meet(0, left, lefts, counters, both),
            ]
        # One of the terms with what was there before: else all that both sides add, or take
        # away, comes twice and is taken back once. That is read first, see `Arrangement.before`.
        if self.left.lacks(left) or (not self.right.lacks(right) and len(left) <= len(right)):
            return [
                *self._meet(1, right, rights, counters, self._before(0, left, right, rights)),
                *self._meet(0, left, lefts, counters),
            ]
        return [
            *self._meet(0, left, lefts, counters, self._before(1, right, left, lefts)),
            *self._meet(1, right, rights, counters),
        ]

    def _before(self, side: int, delta: Delta, other: Delta, keys: Int64s) -> Spine:
        """What one side held, before its delta, for the keys of the other's."""
        own, there = (self.left, self.right) if side == 0 else (self.right, self.left)
        return own.before(delta, other.cols, there.key, keys)

    def contents(self) -> Delta:
        """All pairs that there are by now; outside loops."""
        rows = self.left.spine.single or self.left.spine.all()
        pairs = self._meet(0, rows.delta(), rows.keys, ())
        return pairs[0][2] if pairs else Delta.empty(self.schema)

    def _keys(self, side: int, delta: Delta) -> Int64s:
        return (self.left, self.right)[side].key.keys(delta.cols, len(delta))

    def _meet(
        self, side: int, delta: Delta, keys: Int64s, counters: Counters, spine: Spine | None = None
    ) -> list[Emission]:
        """Pairs of a delta of one side with the rows of the other, or those in `spine`."""
        own, other = (self.left, self.right) if side == 0 else (self.right, self.left)
        if len(keys) == 1 and not counters:
            pairs = self._of_row(side, delta, int(keys[0]), spine)
            if pairs is not None:
                return emit(counters, pairs)
        found = other.match(delta.cols, own.key, keys, spine)
        if found is None:
            return []
        return self._paired(side, delta, counters, *found)

    def _of_row(self, side: int, delta: Delta, key: int, spine: Spine | None) -> Delta | None:
        """The pair of one row with the one row that an array by value may have for its key."""
        own, other = (self.left, self.right) if side == 0 else (self.right, self.left)
        rows = delta.rows
        if rows is None or not own.key.integer or (spine is None and other.waiting):
            return None
        (row,) = rows
        value = row[own.key.indices[0]]
        weight = None if value is None else (other.spine if spine is None else spine).weight(key)
        if weight is None:
            return None
        weight *= int(delta.weights[0])
        if abs(weight) >= _MANY:
            return None
        both = (row, (value,)) if side == 0 else ((value,), row)
        pairs = [tuple([both[of][i] for of, i in self.columns])] if weight else []
        return Delta.of_rows(self.schema, pairs, np.array([weight][: len(pairs)], np.int64))

    def _paired(
        self, side: int, delta: Delta, counters: Counters, at: Int64s, rows: Rows
    ) -> list[Emission]:
        """Pairs of rows of one side's delta, by position, with rows of the other."""
        cols = [
            columns_.take(delta.cols[i], at) if of == side else rows.cols[i]
            for of, i in self.columns
        ]
        pairs = Delta(self.schema, cols, _products(delta.weights[at], rows.weights))
        return at_lub(counters, rows.times, pairs)


def _products(left: Int64s, right: Int64s) -> Int64s:
    """The weights of pairs; OverflowError where their sum might not be one.

    Loops under UNION ALL count rows that are many times more with each iteration.
    """
    found = left * right
    if len(found) and _largest(left) * _largest(right) * len(found) >= _MANY:
        total = float((abs(left).astype(float) * abs(right)).sum())
        if total >= _MANY:
            raise OverflowError(f"a join gives some {total:.1e} rows, more than can be counted")
    return found


def _largest(weights: Int64s) -> int:
    if len(weights) <= FEW:  # quicker than to ask for two arrays
        values: list[int] = weights.tolist()
        return max(map(abs, values))
    return int(abs(weights).max())


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
    if len(counters) == 1:
        mask = rows.times[:, 0] <= counters[0]
    else:
        mask = np.asarray((rows.times <= np.array(counters, np.int64)).all(axis=1))
    return None if mask.all() else mask
