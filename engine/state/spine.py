"""A spine: a few sorted runs of geometrically growing size, merged a little at a time.

Adding n rows costs O(n log N) in all and a bounded amount at once; looking up k keys costs
k log N. Tiny batches collect unsorted in a *head* of at most `HEAD` rows, for sorting them one by
one would cost more than looking through them. Rows that are one integer each, close to each other,
are an array by value instead (`engine.state.dense`).

Source: O'Neil et al., "The log-structured merge-tree" (1996); McSherry et al., "Shared
Arrangements" (VLDB 2020), section 4.2, for merging with fuel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import numpy as np

from tidewheel.engine.state.columns import Index
from tidewheel.engine.state.delta import Delta, Int64s
from tidewheel.engine.state.dense import LEAST, Dense
from tidewheel.engine.state.found import CACHED, collect, netted, without_none
from tidewheel.engine.state.head import Head
from tidewheel.engine.state.merge import Merge
from tidewheel.engine.state.order import argsort, begins
from tidewheel.engine.state.run import Layout, Rows, concat_rows, narrowed, stretches
from tidewheel.engine.state.sorting import sort_rows, sort_run

HEAD: Final = 64
RATIO: Final = 8  # a run is merged with all smaller ones unless it is this much larger;
LARGE: Final = 512  # from this size on, where merging costs more than a run more to look into,
LARGE_RATIO: Final = 0.6  # once they have more than half as much again
_PART: Final = 16  # a batch of such a part of the largest run is worth a copy of its weights
_CROWD: Final = 16  # rows of a key that are compared with one that goes
AT_ONCE: Final = 8192  # merges of so many rows are done at once
FUEL: Final = 16  # rows merged per row added


class Spine:
    """Sorted runs, the largest first, and the head."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._runs: list[Rows | Merge] = []
        self._head = Head()
        self._dense: Dense | None = None  # all rows, if they are of that kind
        self._scattered = False  # they were, and are not any more

    def __len__(self) -> int:
        if self._dense is not None:
            return len(self._dense)
        return sum(map(len, self._runs)) + len(self._head)

    @property
    def nbytes(self) -> int:
        """Bytes held by all rows."""
        if self._dense is not None:
            return self._dense.nbytes
        return sum(r.nbytes for r in self.runs())

    def insert(self, rows: Rows) -> None:
        """Add rows in any order."""
        if not len(rows) or self._taken(rows):
            return
        rows = self._absorbed(rows)
        n = len(rows)
        if len(self._head) + n <= HEAD:
            self._head.add(rows)
        else:
            if len(self._head):
                rows = concat_rows([*self._head.parts, rows])
                self._head.clear()
            self._push(sort_run(rows))
        self._work(FUEL * n)

    def add_row(self, delta: Delta) -> bool:
        """Add one row to those that are kept by value; False, and nothing is done, for others."""
        if self._dense is None or delta.weights.ndim > 1 or (rows := delta.rows) is None:
            return False
        return self._dense.add_one(rows[0][0], int(delta.weights[0]))

    def insert_run(self, run: Rows) -> None:
        """Add rows that are a run already."""
        if len(self._head) or len(run) <= HEAD or self._dense is not None:
            self.insert(run)
        elif not self._taken(run):
            self._push(run)
            self._work(FUEL * len(run))

    def replace(self, key: int, first: int, last: int, rows: Rows) -> None:
        """Have sorted rows in place of all those of a key whose ranks are from `first` to `last`.

        That moves all rows, but sorts none.
        """
        head, self._runs = self._head.parts, list(self._parted())
        self._head.clear()
        for i, run in enumerate(cast("list[Rows]", self._runs)):
            assert run.rank is not None
            begin, end = (int(run.keys.searchsorted(key, side)) for side in ("left", "right"))
            ranks = run.rank[begin:end]
            end = begin + int(ranks.searchsorted(last, "right"))
            begin += int(ranks.searchsorted(first))
            parts = [
                run.slice(0, begin),
                rows.slice(0, 0 if i else len(rows)),
                run.slice(end, len(run)),
            ]
            self._runs[i] = concat_rows([p for p in parts if len(p)] or parts[:1])
        if not self._runs:
            self._runs.append(rows)
        self._runs = [run for run in self._runs if len(run)]
        for part in head:
            assert part.rank is not None
            left = part.where((part.keys != key) | (part.rank < first) | (part.rank > last))
            if len(left):
                self._head.add(left)

    def _parted(self) -> Iterator[Rows]:
        """All runs, those that are being merged, too."""
        for run in self._runs:
            if isinstance(run, Merge):
                yield from run.runs
            else:
                yield run

    def _taken(self, rows: Rows) -> bool:
        """Do rows become part of an array by value?"""
        if self._dense is None:
            if len(rows) >= LEAST and not self._runs and not len(self._head):
                self._densely(rows)
            return self._dense is not None
        if self._dense.add(rows):
            return True
        run = self._dense.all()
        self._runs, self._dense, self._scattered = [run] if len(run) else [], None, True
        return False

    def _densely(self, rows: Rows) -> None:
        if not self._scattered:
            self._dense = Dense.of(rows)

    def _absorbed(self, rows: Rows) -> Rows:
        """Rows without those of many that go which the largest run has: it has them no more.

        Else whoever looks for their keys would find them there, and among those that go.
        """
        run = self._runs[0] if self._runs else None
        if not isinstance(run, Rows) or not len(run) >= LEAST or len(rows) * _PART < len(run):
            return rows
        if rows.weights.ndim > 1 or rows.rank is not None or rows.times is not None:
            return rows
        gone = (rows.weights < 0).nonzero()[0]
        if not len(gone) or not self.layout.exact(rows.cols) or not self.layout.exact(run.cols):
            return rows
        some = rows.take(gone)
        low, counts = run.find(some.keys)
        total = int(counts.sum())
        if total > _CROWD * len(some):
            return rows
        at, place = stretches(low, counts, total)
        if some.rest is not None and run.rest is not None:
            same = some.rest[at] == run.rest[place]
            at, place = at[same], place[same]
        once = begins(at)
        at, place = at[once], place[once]
        weights = run.weights.copy()
        np.add.at(weights, place, some.weights[at])
        left = Rows(run.layout, run.keys, run.rest, None, None, weights, run.cols)
        if np.count_nonzero(weights) * 2 <= len(run):
            left = without_none(left)
        self._runs[:1] = [left] if len(left) else []
        kept = np.ones(len(rows), bool)
        kept[gone[at]] = False
        return rows.where(kept)

    def _push(self, run: Rows) -> None:
        if not len(run):
            return
        self._runs.append(run)
        self._settle()

    def _settle(self) -> None:
        """Merge the last runs, from the largest on that is due to be merged with all behind it."""
        behind, due = 0, len(self._runs)
        for i in range(len(self._runs) - 1, -1, -1):
            run = self._runs[i]
            if isinstance(run, Merge):
                break
            if len(run) <= _ratio(behind) * behind:
                due = i
            behind += len(run)
        if due < len(self._runs):
            merge = Merge(cast("list[Rows]", self._runs[due:]))
            self._runs[due:] = [merge]
            if len(merge) <= AT_ONCE:
                merge.work(len(merge))
                self._finish(due)

    def _work(self, fuel: int) -> None:
        for i in range(len(self._runs) - 1, -1, -1):
            # (A merge that ends may take runs before it along.)
            merge = self._runs[i] if i < len(self._runs) else None
            if isinstance(merge, Merge):
                merge.work(fuel)
                if merge.complete:
                    self._finish(i)
                    self._settle()

    def _finish(self, i: int) -> None:
        merge = self._runs[i]
        assert isinstance(merge, Merge)
        run = merge.result()
        if i == 0 and len(self._runs) == 1 and len(run) >= LEAST:
            self._densely(run)
            if self._dense is not None:
                rest = [*self._head.parts]
                self._runs.clear()
                self._head.clear()
                for rows in rest:
                    self.insert(rows)
                return
        self._runs[i : i + 1] = [run] if len(run) else []

    def compact(self) -> None:
        """Merge everything into one run, whatever it costs."""
        if self._dense is not None:
            return
        rows = self.all()
        self._runs = [rows] if len(rows) else []
        self._head.clear()

    def runs(self) -> Iterator[Rows]:
        """All runs and the parts of the head; together they are the contents."""
        if self._dense is not None:
            yield self._dense.all()
        yield from self._parted()
        yield from self._head.parts

    def parts(self) -> Iterator[tuple[Rows, Index | None, Int64s | None]]:
        """All rows that are not kept by value: those of runs, and of the head as one.

        The head has an order by key and rank, and its keys in this order.
        """
        for rows in self._parted():
            yield rows, None, None
        if len(self._head):
            yield self._head.by_key()

    def less(self, delta: Delta) -> Spine:
        """The contents without a delta, as long as nobody adds more."""
        found = Spine(self.layout)
        found._runs = [r if order is None else r.take(order) for r, order, _ in self.parts()]
        gone = sort_run(self.layout.rows(delta.negate()))
        found._runs += [gone] if len(gone) else []
        return found

    @property
    def single(self) -> Rows | None:
        """All contents, where they are one run."""
        if self._dense is not None:
            return self._dense.all()
        run = self._runs[0] if len(self._runs) == 1 else None
        return (
            None if run is None or len(self._head) or isinstance(run, Merge) else without_none(run)
        )

    def all(self) -> Rows:
        """The contents as one run."""
        parts = list(self.runs())
        if not parts:
            return empty_rows(self.layout)
        return sort_rows(concat_rows(parts))

    def lookup(
        self, probes: Int64s, within: tuple[Int64s, Int64s] | None = None, net: bool = True
    ) -> tuple[Index, Rows] | None:
        """Rows with one of the keys `probes`: (position in `probes`, row), or None if none.

        Each occurrence of a key in `probes` finds its rows; `within`: only those whose rank lies
        between two limits of the probe, which may be met. Outside loops rows that were taken back
        are left out with what takes them back, though several runs hold them, or the head; not
        `net`, they are among the rows.
        """
        if len(probes) == 1 and within is None:
            parts = map(without_none, self.rows_of(int(probes[0])))
            rows_of = [rows for rows in parts if len(rows)]
            if not rows_of:
                return None
            rows = concat_rows(rows_of)
            at = np.zeros(len(rows), np.int64)
            return netted(at, rows) if net and len(rows) > 1 else (at, rows)
        if self._dense is not None:
            return self._dense.find(probes)
        order: Index | None = None
        many = len(probes) > 1024 and len(self) > CACHED and within is None
        if many and (probes[1:] < probes[:-1]).any():
            order = argsort(probes)  # neighbouring probes share cache lines
            probes = probes[order]
        place: Index | None = None
        if many:
            first = begins(probes)
            if np.count_nonzero(first) <= len(probes) // 2:
                place = first.cumsum() - 1  # each key is sought once
                probes = probes[first]
        found_at: list[Index] = []
        found: list[Rows] = []
        for rows, by_key, keys in self.parts():
            low, counts = rows.find(probes, keys)
            if within is not None:
                assert rows.rank is not None
                ranks = rows.rank if by_key is None else rows.rank[by_key]
                low, counts = narrowed(ranks, low, counts, within)
            collect(rows, low, counts, by_key, place, found_at, found)
        if not found:
            return None
        at = found_at[0] if len(found) == 1 else np.concatenate(found_at)
        rows = concat_rows(found)
        if net:
            at, rows = netted(at, rows)
        return (at if order is None else order[at]), rows

    def weight(self, key: int) -> int | None:
        """The weight of the row that is one integer; None if rows are not kept by value."""
        return None if self._dense is None else self._dense.weight(key)

    def rows_of(self, key: int) -> list[Rows]:
        """The rows of one key, as they lie in the runs: what cancels, or was absorbed, is there."""
        if self._dense is not None:
            return self._dense.row(key)
        found: list[Rows] = []
        for rows in self._parted():
            begin = int(rows.keys.searchsorted(key))
            if begin < len(rows.keys) and rows.keys[begin] == key:
                found.append(rows.slice(begin, int(rows.keys.searchsorted(key, "right"))))
        return found + self._head.of(key) if len(self._head) else found

    def between(self, low: int, high: int, most: int) -> Rows | None:
        """The rows whose keys lie from `low` to `high`, consolidated; None if they are too many.

        `most`: rows that may be looked at, those included that cancel.
        """
        if self._dense is not None:
            places, rows = self._dense.between(low, high)
            return rows if places <= most else None
        found: list[Rows] = []
        for rows in self._parted():
            begin = int(rows.keys.searchsorted(low))
            end = int(rows.keys.searchsorted(high, side="right"))
            if end > begin:
                found.append(rows.slice(begin, end))
                most -= end - begin
                if most < 0:
                    return None
        if len(self._head):
            rows = self._head.by_key()[0]
            within = (rows.keys >= low) & (rows.keys <= high)
            if within.any():
                found.append(rows.where(within))
        return sort_rows(concat_rows(found)) if found else empty_rows(self.layout)

    def first(self, key: int, wanted: int) -> tuple[list[Rows], int | None]:
        """The first rows of a key by rank: at most `wanted` of each run.

        Also a bound: all rows of lower rank are among them; None if these are all rows of the key.
        """
        if self._dense is not None:
            return self._dense.row(key), None
        parts: list[Rows] = []
        bound: int | None = None
        for rows in self._parted():
            begin = int(rows.keys.searchsorted(key))
            end = int(rows.keys.searchsorted(key, side="right"))
            if end - begin > wanted:
                end = begin + wanted
                assert rows.rank is not None
                last = int(rows.rank[end - 1])
                bound = last if bound is None else min(bound, last)
            if end > begin:
                parts.append(rows.slice(begin, end))
        return parts + self._head.of(key), bound


def _ratio(behind: int) -> float:
    return RATIO if behind < LARGE else LARGE_RATIO


def empty_rows(layout: Layout) -> Rows:
    """No rows of a layout."""
    none = np.empty(0, np.int64)
    return Rows(
        layout,
        none,
        None if layout.rest is None else none,
        None if layout.rank is None else none,
        np.empty((0, layout.depth), np.int64) if layout.depth else None,
        none,
        [k.empty() for k in layout.schema.kinds],
    )
