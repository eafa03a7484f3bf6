"""Joins on inequalities without an equality: points of one side in ranges of the other.

Both sides are arranged in the order of what is compared: a change finds the rows it meets by binary
search. Ranges with two ends are kept by the order of magnitude of their length besides: where a
range is at most as long as some power of two, it begins no further before a point that it holds. So
few rows are looked at that do not match; the join's condition is still asked of those found.

Source: the levels are those of hierarchical binning (Kent et al., "The human genome browser at
UCSC", Genome Research 2002, pp. 1003-1004), a level for each power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.operator import Emission
from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.operators.shared import Shared
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import is_null
from tidewheel.engine.state.delta import Delta, Int64s, Schema
from tidewheel.engine.state.spine import Spine

_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Ends:
    """The columns of a range, by position: what it begins with, and ends with, if it does."""

    low: int | None
    high: int | None

    @property
    def columns(self) -> tuple[int, ...]:
        """Those that there are."""
        return tuple(c for c in (self.low, self.high) if c is not None)


def points_of(
    schema: Schema, order: Order, depth: int, name: str, key: Sequence[int] = ()
) -> Arrangement:
    """An arrangement of points, or of those of each key."""
    return Arrangement(schema, key, depth, Ranking(schema, order), name)


class ArrangePoints(Arrange):
    """Keeps rows in the order of one column, perhaps by a key.

    Those without a value there match nothing: `padded`, they are kept nevertheless.
    """

    def __init__(
        self,
        schema: Schema,
        order: Order,
        depth: int,
        name: str,
        shared: Shared | None = None,
        key: Sequence[int] = (),
        padded: bool = False,
    ) -> None:
        super().__init__(schema, key, depth, padded, name, shared)
        self.order = order
        self.point = order.column
        if shared is None:
            self.arrangement = points_of(schema, order, depth, name, key)

    def _found(self, delta: Delta) -> Delta:
        if self.null_keys:
            return delta
        return without_nulls(delta, (self.point, *self.arrangement.key.indices))


class ArrangeRanges(Arrange):
    """Keeps ranges in the order of one end, those with two ends by level as a last column."""

    def __init__(self, schema: Schema, ends: Ends, depth: int, name: str) -> None:
        super().__init__(schema, (), depth, name=name)
        first = ends.columns[0]
        self.ends = ends
        self.levels: list[int] = []
        self._order = Ranking(schema, Order(first))
        self._last = Ranking(schema, Order(ends.columns[-1]))
        self._schema = schema
        key: tuple[int, ...] = ()
        if len(ends.columns) > 1:
            self._schema = Schema((*schema.names, "__tw_level"), (*schema.types, pa.int64()))
            key = (len(schema),)
        self.arrangement = Arrangement(self._schema, key, depth, self._order, name)

    def _found(self, delta: Delta) -> Delta:
        delta = without_nulls(delta, self.ends.columns)
        if len(self.ends.columns) == 1:
            return delta
        n = len(delta)
        # differences of 64-bit integers may need all 64 bits; ranges that hold nothing are level 0
        low, high = self._order(delta.cols, n), self._last(delta.cols, n)
        length = np.where(high > low, high.view(np.uint64) - low.view(np.uint64), np.uint64(0))
        level = np.zeros(n, np.int64)
        while (longer := length > 0).any():
            level += longer
            length >>= np.uint64(1)
        self.levels = sorted({*self.levels, *np.unique(level).tolist()})
        return Delta(self._schema, [*delta.cols, level], delta.weights)


class RangeJoin(Join):
    """Pairs of a point and a range that may hold it. Bilinear; see `Join`.

    `points`: the side of the points, 0 or 1. Inputs are an `ArrangePoints` and an `ArrangeRanges`.
    """

    ranged = True

    def __init__(
        self,
        left: Arrange,
        right: Arrange,
        columns: Sequence[tuple[int, int]],
        schema: Schema,
        name: str,
    ) -> None:
        super().__init__(left.arrangement, right.arrangement, columns, schema, name)
        self.points = 0 if isinstance(left, ArrangePoints) else 1
        points, ranges = (left, right) if self.points == 0 else (right, left)
        assert isinstance(points, ArrangePoints)
        assert isinstance(ranges, ArrangeRanges)
        self.point, self.ranges = points.point, ranges
        self._place = Ranking(points.schema, Order(self.point))
        self.moving: int | None = None
        """A side of which nobody sees which row meets another one, as long as it does."""
        self._ends = [
            None if end is None else Ranking(ranges.schema, Order(end))
            for end in (ranges.ends.low, ranges.ends.high)
        ]

    @property
    def two_ended(self) -> bool:
        """Have ranges two ends?"""
        return len(self.ranges.ends.columns) > 1

    def _meet(
        self, side: int, delta: Delta, keys: Int64s, counters: Counters, spine: Spine | None = None
    ) -> list[Emission]:
        if spine is None:  # read before `_of_points` asks for the levels, in case it waited
            spine = (self.right if side == 0 else self.left).spine
        of, probes, within = (self._of_points if side == self.points else self._of_ranges)(delta)
        if side == self.moving and len(probes) == 2 and not delta.weights.sum():
            # a bound that moves: what lies on one side of both places comes, and goes again
            place = within[(side == self.points) == (self.ranges.ends.high is None)]
            within = place.min().repeat(2), place.max().repeat(2)
        found = spine.lookup(probes, within)
        if found is None:
            return []
        at, rows = found
        return self._paired(side, delta, counters, at if of is None else of[at], rows)

    def _of_ranges(self, delta: Delta) -> tuple[None, Int64s, tuple[Int64s, Int64s]]:
        """The places of the points in some ranges."""
        n = len(delta)
        low, high = self._ends
        least = np.full(n, _LIMITS.min) if low is None else low(delta.cols, n)
        most = np.full(n, _LIMITS.max) if high is None else high(delta.cols, n)
        return None, np.zeros(n, np.int64), (least, most)

    def _of_points(self, delta: Delta) -> tuple[Int64s | None, Int64s, tuple[Int64s, Int64s]]:
        """For some points, and levels: which point, the level, where ranges around it lie."""
        n = len(delta)
        place = self._place(delta.cols, n)
        if self.ranges.ends.low is None:
            return None, np.zeros(n, np.int64), (place, np.full(n, _LIMITS.max))
        if self.ranges.ends.high is None:
            return None, np.zeros(n, np.int64), (np.full(n, _LIMITS.min), place)
        levels = np.array(self.ranges.levels, np.int64)
        reach = np.array([(1 << level) - 1 for level in self.ranges.levels], np.uint64)
        of = np.arange(n).repeat(len(levels))
        most = place[of]
        room = most.view(np.uint64) - np.int64(_LIMITS.min).view(np.uint64)
        least = most.view(np.uint64) - np.minimum(np.tile(reach, n), room)
        return of, np.tile(levels, n), (least.view(np.int64), most)


def without_nulls(delta: Delta, columns: Sequence[int]) -> Delta:
    """The rows that have values in some columns."""
    for i in columns:
        nulls = is_null(delta.cols[i])
        if nulls is not None:
            delta = delta.where(~nulls)
    return delta
