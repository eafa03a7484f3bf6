"""The places that the n-th rows of a key have, in a spine whose rows have places.

    runs of a key, in order     1 1 2 4 4 . .      2 3 3 9      -4 5        weights of places
    weights up to a place         ^ ............... ^ ......... ^

A place is found by bisection, as each run knows how much its rows weigh up to any of them. So
nobody goes through the rows, and those that another run takes back weigh nothing.

Source: selection in sorted sequences, Frederickson and Johnson, "The complexity of selection and
ranking in X + Y and matrices with sorted columns" (JCSS 24, 1982), with the middle row of the
largest part that is left in place of a weighted median.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidewheel.engine.state.delta import Int64s
from tidewheel.engine.state.run import Rows
from tidewheel.engine.state.spine import Spine


class Stretch(NamedTuple):
    """The rows of a key in one run: `rows` from `begin` on."""

    rows: Rows
    begin: int
    ranks: Int64s
    sums: Int64s  # what rows before each weigh, and all


class Selection:
    """The rows of one key, in the order of their places. Outside loops."""

    def __init__(self, spine: Spine, key: int) -> None:
        self._stretches = []
        for rows, order, keys in spine.parts():
            found = rows if order is None else rows.take(order)
            of = rows.keys if keys is None else keys
            begin, end = int(of.searchsorted(key)), int(of.searchsorted(key, "right"))
            if end > begin:
                assert found.rank is not None
                ranks, sums = found.rank[begin:end], found.sums[begin : end + 1]
                self._stretches.append(Stretch(found, begin, ranks, sums))

    @property
    def weight(self) -> int:
        """That of all rows."""
        return sum(int(sums[-1] - sums[0]) for _, _, _, sums in self._stretches)

    def at(self, place: int) -> list[Rows]:
        """The rows at a place, as the runs have them: what cancels is there."""
        found = []
        for rows, first, ranks, _ in self._stretches:
            begin, end = int(ranks.searchsorted(place)), int(ranks.searchsorted(place, "right"))
            if end > begin:
                found.append(rows.slice(first + begin, first + end))
        return found

    def places(self, indices: Iterable[int]) -> dict[int, int]:
        """Of rows that so much weight comes before, ascending: the places."""
        found: dict[int, int] = {}
        low = [0] * len(self._stretches)
        place = upto = 0
        for index in indices:
            if not found or index >= upto:
                place, upto, low = self._place(index, low)
            found[index] = place
        return found

    def _place(self, index: int, low: list[int]) -> tuple[int, int, list[int]]:
        """A place; what weighs up to its end, and where that is. All before `low` comes before."""
        high = [len(ranks) for _, _, ranks, _ in self._stretches]
        # the first one is the next row, which it often is
        pivot = min(
            s.ranks[a] for s, a in zip(self._stretches, low, strict=True) if a < len(s.ranks)
        )
        while True:
            before = upto = 0
            begins, ends = [], []
            for (_, _, ranks, sums), a, b in zip(self._stretches, low, high, strict=True):
                part = ranks[a:b]
                begins.append(begin := a + int(part.searchsorted(pivot)))
                ends.append(end := a + int(part.searchsorted(pivot, "right")))
                before += int(sums[begin] - sums[0])
                upto += int(sums[end] - sums[0])
            if before > index:
                high = begins
            elif upto > index:
                return int(pivot), upto, ends
            else:
                low = ends
            widths = [b - a for a, b in zip(low, high, strict=True)]
            widest = max(widths)
            of = widths.index(widest)
            pivot = self._stretches[of].ranks[low[of] + widest // 2]
