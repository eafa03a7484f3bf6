"""Numbers for keys, so that what is known of a key lies in plain arrays and changes in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.collisions import HashCollision
from tidewheel.engine.operators.dense_index import DenseIndex, range_of
from tidewheel.engine.operators.hash_index import HashIndex
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Array, Col, ColumnType, Index, Mask
from tidewheel.engine.state.delta import Int64s, KeySpec, Schema

_RATIO = 4  # chunks of a column are merged unless one is this much larger than the next


def grown(array: Array, size: int, fill: int = 0) -> Array:
    """`array`, or a copy of at least twice its length, so that it has room for `size` items."""
    if len(array) >= size:
        return array
    length = max(size, 2 * len(array), 64)
    # (zeros take no memory until something is written there)
    larger = np.full(length, fill, array.dtype) if fill else np.zeros(length, array.dtype)
    larger[: len(array)] = array
    return larger


class Slots:
    """Keys (rows of `schema`) ↔ slots 0, 1, 2 …; slots are given out once and never taken back.

    Keys of integers that lie close together are looked up in a table, others by a hash.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.spec = KeySpec(schema, range(len(schema)))
        self.size = 0
        self._pools = [_pool(kind) for kind in schema.kinds]
        self._table: DenseIndex | None = None
        self._index = HashIndex()  # where there is no table
        self._numbers = [p for p in self._pools if isinstance(p, _Numbers) and p.signed]
        integers = len(self._numbers) == len(schema) > 0
        self._look = 0 if integers else None  # with so many keys a table may be worth it

    def find(self, cols: Sequence[Col], n: int) -> Int64s:
        """The slots of keys, -1 for one that has none."""
        if self._table is not None:
            return self._table.find(*self._integers(cols))
        slots = self._index.find(self.spec.keys(cols, n))
        if not self.spec.exact(cols):
            self._check(slots, cols)
        return slots

    def _check(self, slots: Int64s, cols: Sequence[Col]) -> None:
        known = (slots >= 0).nonzero()[0]
        if not len(known):
            return
        mine = self.take(slots[known])
        for kind, a, b in zip(self.spec.kinds, mine, cols, strict=True):
            if not kind.equal(a, columns_.take(b, known)).all():
                raise HashCollision

    def open(self, cols: Sequence[Col], n: int) -> Int64s:
        """The slots of keys, new ones for those that have none."""
        places = self._placed(cols, n)
        if places is not None:
            assert self._table is not None
            slots, fresh = self._table.add(places, self.size)
            self._append(fresh, cols)
            return slots
        slots, fresh = self._index.add(self.spec.keys(cols, n))
        self._append(fresh, cols)
        if not self.spec.exact(cols):
            self._check(slots, cols)
        return slots

    # -- the table -----------------------------------------------------------------------------

    def _integers(self, cols: Sequence[Col]) -> tuple[list[Array], Mask | None]:
        """Keys as arrays, and which have a NULL."""
        values: list[Array] = []
        nulls: Mask | None = None
        for pool, col in zip(self._numbers, cols, strict=True):
            found, missing = pool.kind.split(col)
            values.append(found)
            if missing is not None:
                nulls = missing if nulls is None else nulls | missing
        return values, nulls

    def _placed(self, cols: Sequence[Col], n: int) -> Int64s | None:
        """The places of keys in the table, which is made, or made larger, if that is worth it."""
        table = self._table
        if table is None and (self._look is None or self.size + n < self._look):
            return None
        values, nulls = self._integers(cols)
        if nulls is None and table is not None:
            places, inside = table.places(values)
            if inside is None:
                return places
        if nulls is not None or any(pool.nulls is not None for pool in self._numbers):
            self._look, ranges = None, None
        elif table is not None:
            self._look, ranges = 2 * (self.size + n), table.widened(values)
        else:
            self._look, ranges = 2 * (self.size + n), [range_of(v) for v in values]
            if self.size:
                ranges = [range_of(v, r) for v, r in zip(self._kept(), ranges, strict=True)]
        if ranges is not None and DenseIndex.worth(ranges, self.size + n):
            table = self._table = DenseIndex(ranges)
            self._index = HashIndex()
            if self.size:
                table.add(table.places(self._kept())[0], 0)
            return table.places(values)[0]
        if table is not None:
            self._table = None
            every = self.take(np.arange(self.size))
            self._index.add(self.spec.keys(every, self.size))
            if self._index.size < self.size:
                raise HashCollision
        return None

    def _kept(self) -> list[Array]:
        """The keys that there are, where they are integers."""
        return [pool.values[: self.size] for pool in self._numbers]

    def _append(self, fresh: Index, cols: Sequence[Col]) -> None:
        if len(fresh):
            for pool, col in zip(self._pools, cols, strict=True):
                pool.append(self.size, columns_.take(col, fresh))
            self.size += len(fresh)

    def take(self, slots: Int64s) -> list[Col]:
        """The key columns of slots."""
        return [pool.take(slots) for pool in self._pools]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = self._index if self._table is None else self._table
        return index.nbytes + sum(p.nbytes for p in self._pools)


class _Numbers:
    """A column of fixed width that grows."""

    @property
    def signed(self) -> bool:
        """Are they integers, of at most 64 bits and a sign?"""
        return self.kind.integer and self.kind.dtype != np.uint64

    def __init__(self, kind: columns_.FixedType) -> None:
        self.kind = kind
        self.values = np.empty(0, kind.dtype)
        self.nulls: Mask | None = None

    def append(self, at: int, col: Col) -> None:
        values, nulls = self.kind.split(col)
        self.values = grown(self.values, at + len(values))
        self.values[at : at + len(values)] = values
        if nulls is not None or self.nulls is not None:
            self.nulls = grown(
                np.zeros(0, bool) if self.nulls is None else self.nulls, len(self.values)
            )
            self.nulls[at : at + len(values)] = False if nulls is None else nulls

    def take(self, slots: Int64s) -> Col:
        nulls = None if self.nulls is None else self.nulls[slots]
        return self.kind.join(self.values[slots], nulls)

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)


class _Values:
    """A column of any Arrow type that grows: chunks of geometrically growing size."""

    def __init__(self, kind: ColumnType) -> None:
        self._kind = kind
        self._chunks: list[Col] = []
        self._starts: list[int] = []

    def append(self, at: int, col: Col) -> None:
        self._chunks.append(col)
        self._starts.append(at)
        while len(self._chunks) > 1 and len(self._chunks[-2]) < _RATIO * len(self._chunks[-1]):
            self._chunks[-2:] = [columns_.concat(self._chunks[-2:], self._kind)]
            del self._starts[-1]

    def take(self, slots: Int64s) -> Col:
        if len(self._chunks) == 1:
            return columns_.take(self._chunks[0], slots)
        which = np.searchsorted(np.array(self._starts), slots, side="right") - 1
        order = which.argsort(kind="stable")
        parts = []
        for i, chunk in enumerate(self._chunks):
            mine = slots[which == i]
            if len(mine):
                parts.append(columns_.take(chunk, mine - self._starts[i]))
        if not parts:
            return self._kind.empty()
        back = np.empty(len(slots), np.int64)
        back[order] = np.arange(len(slots))
        return columns_.take(columns_.concat(parts, self._kind), back)

    @property
    def nbytes(self) -> int:
        return sum(columns_.nbytes(c) for c in self._chunks)


def _pool(kind: ColumnType) -> _Numbers | _Values:
    fixed = isinstance(kind, columns_.FixedType) and not isinstance(kind, columns_.BoolType)
    if fixed and not isinstance(kind, columns_.DecimalType):
        assert isinstance(kind, columns_.FixedType)
        return _Numbers(kind)
    return _Values(kind)
