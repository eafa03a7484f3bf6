"""Walks row by row: for recursions that are deep and narrow.

A round of NumPy costs some 100 µs, however few rows it moves. On a chain of thousands of rows a
Python loop over lists is a thousand times faster, but the lists take a pass over the relation. So
they are made once as much time as that has gone into narrow rounds: at worst an epoch takes twice
as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tidewheel.engine.operators.forest import ABSENT, Forest, ValuedForest
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.delta import Int64s

FEW: Final = 8  # a round of so many rows is narrow
WIDE: Final = 256  # a walk ends where a round has more
AT_ONCE: Final = 256  # rounds of a walk, where nobody watches it
MANY: Final = 2048  # slots whose order matters
PARTS: Final = 32
_PATIENCE: Final = 16  # narrow rounds, and one more for each _PASS rows of what a pass goes over
_PASS: Final = 1_500


class Narrow:
    """Counts narrow rounds; says when a pass over `rows` rows is worth its price."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows
        self._rounds = 0
        self._patience = -1

    def __call__(self, size: int) -> bool:
        """A round of `size` rows is about to be made."""
        if size > FEW:
            return False
        self._rounds += 1
        if self._rounds < _PATIENCE:
            return False
        if self._patience < 0:
            self._patience = _PATIENCE + self._rows() // _PASS
        if self._rounds < self._patience:
            return False
        self._rounds = 0
        return True


class BestFirst:
    """Which of many slots with better values are spread first: those with the best ones.

    Any order ends in the same values, but what is spread early is more likely to get better again,
    with all that was derived from it. Those beyond a bound wait until all others are done.
    """

    def __init__(self) -> None:
        self._bound: int | None = None
        self._waiting: list[tuple[Int64s, Int64s]] = []  # slots and their values then

    def __call__(self, slots: Int64s, values: Int64s) -> Int64s:
        """`slots` got better, to what `values` tells; those to spread now, none if all are done."""
        if self._bound is not None:
            slots = self._until(self._bound, slots, values[slots])
            if not len(slots) and self._waiting:
                slots, then = (np.concatenate(c) for c in zip(*self._waiting, strict=True))
                slots = slots[values[slots] == then]
                self._bound, self._waiting = None, []
        if len(slots) <= 2 * MANY:
            return slots
        found = values[slots]
        middle = max(MANY, len(slots) // PARTS)
        self._bound = int(np.partition(found, middle)[middle])
        return self._until(self._bound, slots, found)

    def _until(self, bound: int, slots: Int64s, values: Int64s) -> Int64s:
        late = values > bound
        if not late.any():
            return slots
        self._waiting.append((slots[late], values[late]))
        return slots[~late]


def below(slots: Int64s, parent: Int64s) -> Int64s:
    """`slots` and all below them in the forest of parents (where negative: a root).

    By pointer doubling: after round k it is known of those less than 2^(k+1) generations below. If
    there are none 2^k generations below, there are none that are farther.
    """
    found = np.zeros(len(parent), bool)
    found[slots] = True
    up = np.where(parent < 0, np.arange(len(parent)), parent)
    before, now = 0, len(slots)
    while before != now:
        found |= found[up]
        up = up[up]
        before, now = now, int(np.count_nonzero(found))
    return found.nonzero()[0]


class Walk:
    """Who derives whom, as lists: slot s derives ``targets[starts[s] : starts[s + 1]]``.

    ``only[s]``: the one that it derives; -1 where there is none, -2 where there are several.
    """

    def __init__(self, sources: Int64s, targets: Int64s, size: int) -> None:
        ordered = targets[sources.argsort(kind="stable")]
        counts = np.bincount(sources, minlength=size)
        ends = counts.cumsum()
        only = np.where(counts > 1, -2, -1)
        one = (counts == 1).nonzero()[0]
        only[one] = ordered[ends[one] - 1]
        self.only: list[int] = only.tolist()
        self.starts: list[int] = [0, *ends.tolist()]
        self.targets: list[int] = ordered.tolist()

    def spread(
        self,
        level: list[int],
        absent: bytearray,
        most: int,
        sources: list[int],
        found: list[int],
    ) -> tuple[list[int], list[int]]:
        """What `level` derives of what is `absent`, and so on: `most` rounds, or till one is wide.

        Added to `found`, with who derives it in `sources`. Returns the rows of each round, and the
        last level.
        """
        only, starts, targets = self.only, self.starts, self.targets
        sizes: list[int] = []
        while 0 < len(level) <= WIDE and len(sizes) < most:
            if len(level) == 1 and (target := only[level[0]]) >= 0 and absent[target]:
                chain = level.copy()
                for _ in range(most - len(sizes)):
                    if target < 0 or not absent[target]:
                        break
                    absent[target] = 0
                    chain.append(target)
                    target = only[target]
                sources += chain[:-1]
                found += chain[1:]
                sizes += [1] * (len(chain) - 1)
                level = chain[-1:]
                continue
            following: list[int] = []
            for source in level:
                for target in targets[starts[source] : starts[source + 1]]:
                    if absent[target]:
                        absent[target] = 0
                        sources.append(source)
                        following.append(target)
            found += following
            sizes.append(len(following))
            level = following
        return sizes, level


Watch = Callable[[Counters], int]
"""Told of a round; gives the round before which it wants to be told again. May raise."""
Rounds = list[tuple[Counters, list[int]]]
"""The first round of some, and how many rows came in each."""


def walk_set(
    walk: Walk,
    forest: Forest,
    frontier: Int64s,
    rounds: int,
    watch: Watch | None,
    report: Rounds | None,
) -> tuple[Int64s, int]:
    """Spread a set from `frontier`, while few rows come in a round; what is left, and the round."""
    absent = bytearray((forest.parent[: forest.slots.size] == ABSENT).tobytes())
    level = frontier.tolist()
    sources: list[int] = []
    found: list[int] = []
    while 0 < len(level) <= WIDE:
        most = AT_ONCE if watch is None else watch((rounds,)) - rounds
        sizes, level = walk.spread(level, absent, max(most, 1), sources, found)
        if report is not None:
            report.append(((rounds,), sizes))
        rounds += len(sizes)
    if watch is not None:
        watch((rounds,))
    come = np.array(found, np.int64)
    forest.add(come, sources)
    return np.array(level, np.int64), rounds


def walk_values(
    walk: Walk,
    forest: ValuedForest,
    frontier: Int64s,
    rounds: int,
    watch: Watch | None,
    report: Rounds | None,
) -> tuple[Int64s, int]:
    """The same where a row hands on its value."""
    # (an item of a memoryview costs half of an array's)
    parent, place, stamp = forest.parent.data, forest.place.data, forest.stamp.data
    was, old, epoch = forest.was.data, forest.old.data, forest.epoch
    starts, targets = walk.starts, walk.targets
    moved: list[int] = []
    sizes: list[int] = []
    level = frontier.tolist()
    first = ask = rounds
    while 0 < len(level) <= WIDE:
        if rounds >= ask and watch is not None:
            if report is not None:
                report.append(((first,), sizes))
            first, sizes = rounds, []
            ask = watch((rounds,))
        rounds += 1
        following: list[int] = []
        for source in level:
            value = place[source]
            for target in targets[starts[source] : starts[source + 1]]:
                absent = parent[target] == ABSENT
                if not absent and value >= place[target]:
                    continue
                if stamp[target] != epoch:
                    stamp[target] = epoch
                    was[target] = not absent
                    old[target] = place[target]
                    moved.append(target)
                parent[target] = source
                place[target] = value
                following.append(target)
        level = following
        sizes.append(len(level))
    if report is not None:
        report.append(((first,), sizes))
    if rounds < ask and watch is not None:
        watch((rounds,))
    forest.touched.append(np.array(moved, np.int64))
    return forest.distinct(np.array(level, np.int64)), rounds
