"""One row per key, of any types: what a recursion that replaces or improves rows has found.

Rows stay in Arrow from where they came: not every value has a way to Python and back (a date may be
infinite, a member of a UNION has a tag). What is compared is only whether two values are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, empty
from tidewheel.engine.operators.merging import CHOOSE, COMBINE, GROUP, ROW, Merge
from tidewheel.engine.operators.rowset import Codes, Ints, as_bytes
from tidewheel.engine.state.columns import Mask, column_type, from_arrow

_SPARE: Final = 4096  # so many rows are kept in vain before the others are copied


class KeyedRows:
    """Rows by slots, one for each key in the order in which the keys came. NULLs are equal."""

    def __init__(self, schema: pa.Schema, key: Sequence[int]) -> None:
        self._key = tuple(key)
        self._codes = [Codes() for _ in self._key]
        self._slots: dict[bytes, int] = {}
        self._at = np.empty(0, np.int64)  # a slot's row, by its number among all that are kept
        self._kept: list[pa.Table] = [empty(schema)]
        self._count = 0
        self._spare = _SPARE

    def rows(self) -> pa.Table:
        """All rows."""
        return self._take(self._at)

    def replace(self, arrived: pa.Table, changes_only: bool) -> pa.Table:
        """Rows that replace those of their keys, the last of a key. What differs, or all rows."""
        slots = self._open(arrived)
        distinct, first = np.unique(slots, return_index=True)
        _, last = np.unique(slots[::-1], return_index=True)
        order = first.argsort()
        distinct, last = distinct[order], len(slots) - 1 - last[order]
        rows = _picked(arrived, last)
        old = self._at[distinct]
        known = np.flatnonzero(old >= 0)
        before = self._take(old[known])
        self._put(distinct, rows)
        if not changes_only:
            return arrived
        if not len(known):
            return rows
        now = _picked(rows, known)
        same = np.ones(len(known), bool)
        for x, y in zip(before.columns, now.columns, strict=True):
            same &= equal(x, y)
        return _picked(rows, np.delete(np.arange(len(distinct)), known[same]))

    def improve(self, arrived: pa.Table, how: Sequence[str | None], merge: Merge) -> pa.Table:
        """Merge rows into those of their keys; the rows of the keys that have a better one now.

        `how` as in `VariableSpec.merge`.
        """
        slots = self._open(arrived)
        distinct, first, inverse = np.unique(slots, return_index=True, return_inverse=True)
        order = first.argsort()
        distinct = distinct[order]
        old = self._at[distinct]
        known = np.flatnonzero(old >= 0)
        if not len(known) and len(distinct) == len(slots):
            self._put(slots, arrived)
            return arrived
        groups = np.concatenate((known, order.argsort()[inverse]))
        rows = pa.concat_tables([self._take(old[known]), arrived]).combine_chunks()
        numbered = rows.append_column(GROUP, array_of(groups))
        found = merge(numbered.append_column(ROW, array_of(np.arange(len(groups)))))
        found = _picked(found, from_arrow(found.column(GROUP)).argsort())
        merged, better = _merged(rows, groups, found, how)
        index = np.flatnonzero(better | (old < 0))
        improved = _picked(merged, index)
        self._put(distinct[index], improved)
        return improved

    def _open(self, rows: pa.Table) -> Ints:
        """The slot of each row's key."""
        if not self._key:
            slots = np.zeros(rows.num_rows, np.int64)
            size = max(len(self._at), min(rows.num_rows, 1))
        else:
            known = self._slots
            codes = [c.encode(rows.column(i)) for c, i in zip(self._codes, self._key, strict=True)]
            slots = np.array([known.setdefault(k, len(known)) for k in as_bytes(codes)], np.int64)
            size = len(known)
        if size > len(self._at):
            self._at = np.concatenate((self._at, np.full(size - len(self._at), -1)))
        return slots

    def _put(self, slots: Ints, rows: pa.Table) -> None:
        """Have rows in slots, each once."""
        self._at[slots] = np.arange(self._count, self._count + rows.num_rows)
        self._kept.append(rows)
        self._count += rows.num_rows
        if self._count > 2 * len(self._at) + self._spare:
            self._kept = [self.rows()]
            self._count = len(self._at)
            self._at = np.arange(self._count)
        # few pieces, of which each is at least twice as long as the next one
        while len(self._kept) > 1 and self._kept[-2].num_rows < 2 * self._kept[-1].num_rows:
            self._kept[-2:] = [pa.concat_tables(self._kept[-2:]).combine_chunks()]

    def _take(self, numbers: Ints) -> pa.Table:
        """Rows by their numbers. (Arrow would join all pieces for that.)"""
        ends = np.cumsum([t.num_rows for t in self._kept])
        piece = np.searchsorted(ends, numbers, side="right")
        parts, places = [self._kept[0].slice(0, 0)], []
        for p in np.unique(piece):
            at = np.flatnonzero(piece == p)
            first = ends[p] - self._kept[p].num_rows
            parts.append(self._kept[p].take(array_of(numbers[at] - first)))
            places.append(at)
        found = pa.concat_tables(parts)
        if len(places) < 2:
            return found
        return _picked(found.combine_chunks(), np.concatenate(places).argsort())


def _merged(
    rows: pa.Table, groups: Ints, found: pa.Table, how: Sequence[str | None]
) -> tuple[pa.Table, Mask]:
    """The row of each group as a `Merge` has `found` it; which are better than their first row."""
    _, first = np.unique(groups, return_index=True)
    better = np.zeros(len(first), bool)
    chosen: dict[int, Ints] = {}
    for i, which in enumerate(how):
        if which in CHOOSE:
            chosen[i] = from_arrow(found.column(i))
            better |= chosen[i] != first
    columns: list[pa.ChunkedArray] = []
    for i, which in enumerate(how):
        if which in COMBINE:
            columns.append(found.column(i))
            better |= ~equal(columns[i], rows.column(i).take(array_of(first)))
        else:
            _, _, by = (which or "").partition(":")
            at = chosen.get(int(by) if by else i, first)
            columns.append(rows.column(i).take(array_of(at)))
    return pa.Table.from_arrays(columns, schema=rows.schema), better


def _picked(rows: pa.Table, index: Ints) -> pa.Table:
    same = len(index) == rows.num_rows and bool((index == np.arange(len(index))).all())
    return rows if same else rows.take(array_of(index))


def equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """Which values of two columns of one type and length are equal, as in DISTINCT."""
    return column_type(one.type).equal(from_arrow(one), from_arrow(other))
