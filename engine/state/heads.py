"""How far into each group rows are kept, where those behind are only counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tidewheel.engine.state.columns import Index, Mask
from tidewheel.engine.state.delta import Int64s
from tidewheel.engine.state.order import order_by

_MAX: Final = np.iinfo(np.int64).max
_DEEPER: Final = 4
WHOLE: Final = 1 << 16  # heads that would have more rows next time are the whole groups instead


class Heads:
    """The groups (by 64-bit key, ascending) that are not kept whole, and their last place kept.

    All rows of such a group up to that place are there, and none of the `behind` others.
    """

    def __init__(self, keys: Int64s, last: Int64s, behind: Int64s, depth: int) -> None:
        self.keys = keys
        self.last = last
        self.behind = behind
        self.depth = depth

    def take(self, keys: Int64s, ranks: Int64s, weights: Int64s) -> Mask:
        """Which rows of a change are to be kept? The others are counted."""
        other = self.others(keys, ranks)
        if other.any():
            at = self._find(keys[other])
            np.add.at(self.behind, at, weights[other])
            self.last[at[self.behind[at] == 0]] = _MAX  # what is kept is the group
        return ~other

    def move(self, ends: Callable[[Int64s], Int64s | None]) -> bool:
        """Rows have other places now: `ends` of the old ones, if they are known."""
        whole = self.last == _MAX
        moved = ends(self.last[~whole])
        if moved is None:
            return False
        self.last[~whole] = moved
        return True

    def others(self, keys: Int64s, ranks: Int64s) -> Mask:
        """Which rows are not kept?"""
        at = self._find(keys)
        return np.asarray((self.keys[at] == keys) & (ranks > self.last[at]))

    def _find(self, keys: Int64s) -> Int64s:
        at = self.keys.searchsorted(keys)
        at[at == len(self.keys)] = 0
        return at

    def short(self, count: int, keys: Int64s, weights: Int64s, touched: Int64s) -> Int64s:
        """The groups of `touched` (ascending) of whose first `count` rows some are not kept.

        `keys` and `weights`: the first rows that are kept of them.
        """
        sums = np.zeros(len(touched), np.int64)
        np.add.at(sums, touched.searchsorted(keys), weights)
        at = self._find(touched)
        more = (self.keys[at] == touched) & (self.behind[at] > 0)
        return np.asarray(touched[more & (sums < count)])

    def deepen(
        self, groups: Int64s, rows: Sequence[tuple[Int64s, Int64s, Int64s]]
    ) -> list[Index] | None:
        """Which rows have to be kept as well, so that `groups` have heads of the next `depth`?

        None if those are all rows that are not kept yet, of all groups. `rows`: keys, ranks and
        weights of all rows that are there, in deltas that add up to them; only the first adds rows
        that the others may take away.
        """
        self.depth *= _DEEPER
        if self.depth > WHOLE:
            return None
        wanted = np.full(len(self.keys), self.depth)
        deeper = np.zeros(len(self.keys), bool)
        deeper[self._find(groups)] = True
        found: list[tuple[Index, Int64s]] = []
        for keys, ranks, weights in rows:
            at = self._find(keys)
            mine = deeper[at] & (self.keys[at] == keys)
            lost = (mine & (weights < 0)).nonzero()[0]
            np.subtract.at(wanted, at[lost], weights[lost])
            mine &= ranks > self.last[at]
            index = mine.nonzero()[0]
            found.append((index, at[index]))
        index, at = found[0]
        ends = _ends(at, rows[0][1][index], wanted)
        self.last[deeper] = ends[deeper]
        self.behind[deeper] = 0
        kept: list[Index] = []
        for (index, at), (_, ranks, weights) in zip(found, rows, strict=True):
            mask = ranks[index] <= self.last[at]
            np.add.at(self.behind, at[~mask], weights[index[~mask]])
            kept.append(index[mask])
        self.last[deeper & (self.behind == 0)] = _MAX
        return kept


def _ends(groups: Int64s, ranks: Int64s, wanted: Int64s) -> Int64s:
    """The place of the last row `wanted` of each group (by number), the last of all without one."""
    ends = np.full(len(wanted), _MAX)
    if not len(groups):
        return ends
    if groups[0] == groups[-1] and (groups == groups[0]).all():
        depth = int(wanted[groups[0]])
        if len(ranks) > depth:
            ends[groups[0]] = np.partition(ranks, depth - 1)[depth - 1]
        return ends
    order, _ = order_by([groups, ranks])
    groups = groups[order]
    at = groups.searchsorted(np.arange(len(wanted))) + wanted - 1
    there = (at < len(groups)).nonzero()[0]
    there = there[groups[at[there]] == there]
    ends[there] = ranks[order[at[there]]]
    return ends
