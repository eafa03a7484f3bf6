"""The rows that a view began with, as they came, while changes take some of them out.

To sort millions of rows takes many times what their query takes, and scatters what lay together:
here rows stay where they are, and those that go are marked. They are sought among the keys of all
rows, which need not be good hashes; once that has taken as long as to sort these, by an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, taken
from tidewheel.engine.state.columns import Col, FixedType, Index, Mask, from_arrow, take
from tidewheel.engine.state.delta import Delta, Int64s
from tidewheel.engine.state.order import argsort
from tidewheel.engine.state.run import Layout, Rows, search, stretches

BLOCK: Final = 1 << 14  # rows that are written anew when one of them goes
_BATCH: Final = 1 << 17  # rows that a thread of DuckDB's reads at once
_LOOKS: Final = 16  # so often are all hashes looked through; to sort them takes as long
_BITS: Final = 1 << 16
_SHIFT: Final = 40  # the upper half of a product depends on all of its factor
_SHARE: Final = 16  # of all rows no more are compared with those that go
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
_NULL: Final = np.uint64(0x5851F42D4C957F2D)


class FirstTable:
    """Rows of weight 1, some of them gone. Law: what it began with less what was taken out."""

    def __init__(self, rows: Delta, layout: Layout) -> None:
        self._rows = rows.repeated()
        self._layout = layout
        self._live: Mask | None = None  # all are, before the first goes
        self._gone = 0
        kinds = enumerate(layout.schema.kinds)
        whole = [i for i, k in kinds if isinstance(k, FixedType) and _whole(k)]
        every = range(len(layout.schema))
        self._more: list[Sequence[int]] = [every, *([whole, whole[:2]] if whole else [])]
        self._told = self._more.pop()
        """The columns that make the keys, and which ones where these tell too little: integers
        are quickly told, others hashed."""
        self._keys: Int64s | None = None
        self._sorted: tuple[Int64s, Index] | None = None
        self._looks = _LOOKS
        self._whole: list[pa.RecordBatch] | None = None
        self._blocks: list[pa.RecordBatch] = []
        self._batches: list[pa.RecordBatch | None] = []  # what is there of each block, once known

    def __len__(self) -> int:
        return len(self._rows) - self._gone

    def worn(self, more: int = 0) -> bool:
        """Is it quicker to sort those that are left, once `more` are gone?"""
        return 4 * (self._gone + more) > len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = [self._live, self._keys, *(self._sorted or ())]
        return self._rows.nbytes + sum(int(a.nbytes) for a in held if a is not None)

    def rows(self) -> Delta:
        """Those that are there."""
        return self._rows if self._live is None else self._rows.where(self._live)

    def batches(self) -> list[pa.RecordBatch]:
        """The same for Arrow; those of a block in which nothing went are the same as before."""
        if self._live is None:
            if self._whole is None:
                self._whole = self._rows.to_arrow(None).to_batches(_BATCH)
            return [*self._whole]
        found: list[pa.RecordBatch] = []
        for i, known in enumerate(self._batches):
            if known is None:
                live = self._live[i * BLOCK : (i + 1) * BLOCK].nonzero()[0]
                known = self._batches[i] = taken(self._blocks[i], array_of(live))
            if len(known):
                found.append(known)
        return found

    def take_out(self, rows: Rows) -> Rows:
        """Takes rows out as often as their weights say, all below 0; gives back what is not there.

        No two of `rows` are the same.
        """
        at, places = self._found(rows)
        order = places.argsort(kind="stable")
        at, places = at[order], places[order]
        same = np.ones(len(at), bool)
        kinds = self._layout.schema.kinds
        for kind, ours, col in zip(kinds, self._at(places), rows.cols, strict=True):
            same &= kind.equal(ours, take(col, at), exactly=True)
        at, places = at[same], places[same]
        order = at.argsort(kind="stable")
        at, places = at[order], places[order]
        counts = np.bincount(at, minlength=len(rows))
        _, nth = stretches(np.zeros_like(counts), counts, len(at))
        wanted = nth < -rows.weights[at]
        self._mark(places[wanted])
        left = rows.weights + np.minimum(counts, -rows.weights)
        rest = rows.take(left.nonzero()[0])
        rest.weights = left[left != 0]
        return rest

    def _at(self, places: Index) -> Sequence[Col]:
        """The columns of the rows at some places, which ascend."""
        schema = self._layout.schema
        if not len(places):
            return [kind.empty() for kind in schema.kinds]
        blocks, first = np.unique(places // BLOCK, return_index=True)
        found = [
            taken(self._blocks[block], array_of(own - block * BLOCK))
            for block, own in zip(blocks.tolist(), np.split(places, first[1:]), strict=True)
        ]
        return Delta.from_arrow(pa.Table.from_batches(found), 1, schema).cols

    def _divided(self) -> None:
        table = self._rows.to_arrow(None)
        parts = (table.slice(begin, BLOCK) for begin in range(0, len(self._rows), BLOCK))
        self._blocks = [part.combine_chunks().to_batches()[0] for part in parts]
        self._batches = [*self._blocks]

    def _mark(self, places: Index) -> None:
        if not len(places):
            return
        if self._live is None:
            self._live, self._whole = np.ones(len(self._rows), bool), None
        self._live[places] = False
        self._gone += len(places)
        for block in np.unique(places // BLOCK).tolist():
            self._batches[block] = None

    def _found(self, rows: Rows) -> tuple[Index, Index]:
        """Pairs of a row, by position, and the place of one of ours that may be the same."""
        if not self._blocks:
            self._divided()
        if self._keys is None:
            self._keys = np.concatenate([self._of_block(block) for block in self._blocks])
        if self._sorted is None and not self._looks:
            order = argsort(self._keys)
            self._sorted = self._keys[order], order
        keys = self._made([rows.cols[i] for i in self._told], len(rows))
        if self._sorted is None:
            self._looks -= 1
            few = np.zeros(_BITS, bool)
            few[keys >> _SHIFT & (_BITS - 1)] = True
            may = few[self._keys >> _SHIFT & (_BITS - 1)]
            if self._live is not None:
                may &= self._live
            places = may.nonzero()[0]
            order = argsort(keys)
            low, counts = search(keys[order], self._keys[places])
            if self._too_many(counts):
                return self._found(rows)
            which, at = stretches(low, counts, int(counts.sum()))
            return order[at], places[which]
        low, counts = search(self._sorted[0], keys)
        if self._too_many(counts):
            return self._found(rows)
        at, found = stretches(low, counts, int(counts.sum()))
        places = self._sorted[1][found]
        if self._live is not None:
            there = self._live[places]
            at, places = at[there], places[there]
        return at, places

    def _too_many(self, counts: Index) -> bool:
        """Do the keys tell too few rows apart? Then more columns are to make them."""
        if not self._more or counts.sum() <= max(_BITS, len(self._rows) // _SHARE):
            return False
        self._told, self._keys, self._sorted = self._more.pop(), None, None
        return True

    def _of_block(self, block: pa.RecordBatch) -> Int64s:
        return self._made([from_arrow(block.column(i)) for i in self._told], len(block))

    def _made(self, cols: Sequence[Col], n: int) -> Int64s:
        """Keys of rows, of which these are the columns that are told by them."""
        if not self._more:
            return self._layout.key.keys(cols, n)
        keys = np.zeros(n, np.uint64)
        for i, col in zip(self._told, cols, strict=True):
            kind = self._layout.schema.kinds[i]
            assert isinstance(kind, FixedType)
            values, nulls = kind.split(col)
            part = values.astype(np.int64).view(np.uint64)
            if nulls is not None:
                part[nulls] = _NULL
            keys = (keys ^ part) * _ODD
        return keys.view(np.int64)


def _whole(kind: FixedType) -> bool:
    return kind.dtype is not None and kind.dtype.kind in "iu"
