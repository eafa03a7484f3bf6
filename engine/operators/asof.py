"""ASOF joins: each row of the left side with the row of the right side at the last place before it.

    right    r1 . . . . . r2 . . . . . . r3        by key, in the order of the places
    left        l1  l2  l3 . . l4 . l5             l1 to l3 have r1, l4 and l5 have r2

A left row looks for its partner. A right row that comes or goes makes a difference to the left rows
up to the next right row, and to no others: these look again, for what was there before, too. So a
change costs what it changes, not its group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.collisions import alike, check, group_of
from tidewheel.engine.operators.join import Join
from tidewheel.engine.operators.operator import Emission, emit
from tidewheel.engine.operators.ranged import ArrangePoints, without_nulls
from tidewheel.engine.operators.rank import Ranking
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Index
from tidewheel.engine.state.delta import Delta, KeySpec, Schema, concat, consolidate
from tidewheel.engine.state.nearest import LEAST, MOST, nearest
from tidewheel.engine.state.order import begins
from tidewheel.engine.state.run import Rows
from tidewheel.engine.state.spine import Spine


class AsofJoin(Join):
    """Left rows, each with one right row of its key at the last place up to its own. Law: keyed.

    `strictly`: before its own. `outer`: left rows without a partner are padded with NULLs. Of
    several right rows at one place, any may be the partner: it is always the same one of the same
    rows. Both sides are arranged in one order; outside loops only.
    """

    ranged = True

    def __init__(
        self,
        left: ArrangePoints,
        right: ArrangePoints,
        columns: Sequence[tuple[int, int]],
        schema: Schema,
        strictly: bool,
        outer: bool,
    ) -> None:
        kind = "left" if outer else "inner"
        super().__init__(left.arrangement, right.arrangement, columns, schema, f"asof {kind} join")
        self.strictly = strictly
        self.outer = outer
        self.points = left.point, right.point
        self.descending = left.order.descending
        self._places = Ranking(left.schema, left.order), Ranking(right.schema, right.order)
        self._asks = KeySpec(left.schema, (*left.arrangement.key.indices, left.point))
        self._whole = KeySpec(right.schema, range(len(right.schema)), exactly=True)

    @property
    def condition(self) -> tuple[int, str, int]:
        """How the place of a left row compares with that of its partner: columns, by position."""
        sign = f"{'<' if self.descending else '>'}{'' if self.strictly else '='}"
        return self.points[0], sign, self.points[1]

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New left rows, and those that have another partner now."""
        left, right = deltas
        first, self.begun = not self.begun, True
        if first:  # all that there is, is in the deltas
            waits = left is not None and self.left.waiting
            rows = left if waits else self.left.contents()
            assert rows is not None
            return emit(counters, self._paired_up(rows, self.right.spine))
        parts = []
        if right is not None and len(right):
            now = _of_keys(self.right, right, self.right.key)
            before = now.less(right)
            again = self._reached(right, before)
            parts += [self._paired_up(again, now), self._paired_up(again, before).negate()]
        if left is not None and len(left):
            partners = _of_keys(self.right, left, self.left.key)
            if right is not None and len(right):
                partners = partners.less(right)  # (what came was looked at again just now)
            parts.append(self._paired_up(left, partners))
        return emit(counters, consolidate(concat(parts))) if parts else []

    def contents(self) -> Delta:
        """All left rows with their partners by now."""
        return self._paired_up(self.left.contents(), self.right.spine)

    def partners(self, rights: Delta) -> Delta:
        """Of right rows those that may be partners: one for each place of a key."""
        rights = without_nulls(rights, (*self.right.key.indices, self.points[1]))
        check((self.right.key, rights))
        rows = self.right.layout.rows(rights)
        assert rows.rank is not None
        order = np.lexsort((rows.rank, rows.keys))
        first = begins(rows.keys[order]) | begins(rows.rank[order])
        _, chosen = _one_each(first.cumsum() - 1, rows.take(order), self._whole)
        return chosen.delta()

    def _paired_up(self, delta: Delta, rights: Spine) -> Delta:
        """Left rows with their partners among `rights`."""
        n = len(delta)
        limits = self._places[0](delta.cols, n)
        missing = self._asks.nulls(delta.cols)
        known = np.ones(n, bool) if missing is None else ~missing
        if self.strictly:
            known &= limits != LEAST
            limits = limits - 1
        index = known.nonzero()[0]
        keys = self.left.key.keys(delta.cols, n)[index]
        found = nearest(rights, keys, limits[index])
        if found is None:
            at, cols = np.empty(0, np.int64), [k.empty() for k in self.right.schema.kinds]
        else:
            at, rows = _one_each(*found, self._whole)
            at, cols = index[at], list(rows.cols)
            _same_keys(self.left.key, delta, at, self.right.key, rows)
        alone = np.empty(0, np.int64)
        if self.outer:
            known[:] = True
            known[at] = False
            alone = known.nonzero()[0]
        both = np.concatenate([at, alone])
        out = []
        for (side, i), kind in zip(self.columns, self.schema.kinds, strict=True):
            if side == 0:
                out.append(columns_.take(delta.cols[i], both))
            else:
                nulls = [kind.load(kind.nulls(len(alone)))] if len(alone) else []
                out.append(columns_.concat([cols[i], *nulls], kind))
        return Delta(self.schema, out, delta.weights[both])

    def _reached(self, delta: Delta, before: Spine) -> Delta:
        """Left rows, by now, between right rows that change and the next ones behind them."""
        n, key = len(delta), self.right.key
        check((key, delta))
        keys, places = key.keys(delta.cols, n), self._places[1](delta.cols, n)
        order = np.lexsort((places, keys))
        keys, places = keys[order], places[order]
        first = (begins(keys) | begins(places)).nonzero()[0]
        order, keys, places = order[first], keys[first], places[first]
        next_ = np.full(len(keys), MOST)
        open_ = np.ones(len(keys), bool)  # is there no right row behind it?
        same = (keys[1:] == keys[:-1]).nonzero()[0]
        next_[same], open_[same] = places[same + 1], False
        some = (places != MOST).nonzero()[0]
        found = nearest(before, keys[some], places[some] + 1, forward=True)
        if found is not None:
            at, rows = found
            at = some[at]
            assert rows.rank is not None
            _same_keys(key, delta, order[at], key, rows)
            next_[at], open_[at] = np.minimum(next_[at], rows.rank), False
        begin, end = places, next_ - ~open_
        if self.strictly:
            kept = (places != MOST).nonzero()[0]
            keys, begin, end = keys[kept], places[kept] + 1, next_[kept]
        lefts = _of_keys(self.left, delta, key).lookup(keys, (begin, end))
        return Delta.empty(self.left.schema) if lefts is None else lefts[1].delta()


def _of_keys(side: Arrangement, delta: Delta, key: KeySpec) -> Spine:
    """The rows of a side by now, those at least that have one of the keys of a delta."""
    asked = side.asked(delta.cols, key, len(delta), after=True)
    return side.spine if asked is None else asked


def _one_each(at: Index, rows: Rows, whole: KeySpec) -> tuple[Index, Rows]:
    """Of the rows found for each place one, which depends on nothing but these rows."""
    if len(at) < 2 or np.bincount(at).max() < 2:
        return at, rows
    numbers = whole.keys(rows.cols, len(rows))
    order = np.lexsort((numbers, at))
    first = begins(at[order])
    twice = (~(first | begins(numbers[order]))).nonzero()[0]
    alike(whole.kinds, (rows.cols, order[twice]), (rows.cols, order[twice - 1]), exactly=True)
    chosen = order[first]
    return at[chosen], rows.take(chosen)


def _same_keys(key: KeySpec, delta: Delta, at: Index, other: KeySpec, rows: Rows) -> None:
    """HashCollision where one of `rows` has not the key of the row that it was found for."""
    if key.exact(delta.cols) and other.exact(rows.cols):
        return
    all_ = np.arange(len(rows))
    alike(key.kinds, (group_of(key, delta.cols), at), (group_of(other, rows.cols), all_))
