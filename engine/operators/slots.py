"""Numbers for keys, so that what is known of a key lies in plain arrays and changes in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.hash_index import HashIndex
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Array, Col, ColumnType, Index, Mask
from tidewheel.engine.state.delta import Int64s, KeySpec, Schema

DENSE = 1 << 24  # integer keys below this are looked up in a table
_RATIO = 4  # chunks of a column are merged unless one is this much larger than the next


class Collision(Exception):
    """Two keys with one 64-bit hash: the loop must be run by operators that tell them apart."""


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
    """Keys (rows of `schema`) ↔ slots 0, 1, 2 …; slots are given out once and never taken back."""

    def __init__(self, schema: Schema, name: str) -> None:
        self.spec = KeySpec(schema, range(len(schema)))
        self.name = name
        self.size = 0
        self._pools = [_pool(kind) for kind in schema.kinds]
        self._table: Int64s | None = np.empty(0, np.int64) if self.spec.integer else None
        self._index = HashIndex()  # where there is no table

    def find(self, cols: Sequence[Col], n: int) -> Int64s:
        """The slots of keys, -1 for one that has none."""
        return self._find(self.spec.keys(cols, n), cols)

    def _find(self, keys: Int64s, cols: Sequence[Col]) -> Int64s:
        table = self._table
        if table is None:
            slots = self._index.find(keys)
        elif len(keys) == 1:
            key = int(keys[0])
            return np.array([table[key] if 0 <= key < len(table) else -1], np.int64)
        else:
            inside = keys.view(np.uint64) < np.uint64(len(table))
            if inside.all():
                slots = table[keys]
            else:
                slots = np.full(len(keys), -1, np.int64)
                slots[inside] = table[keys[inside]]
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
                raise Collision(self.name)

    def open(self, cols: Sequence[Col], n: int) -> Int64s:
        """The slots of keys, new ones for those that have none."""
        keys = self.spec.keys(cols, n)
        if self._table is not None:
            slots = self._find(keys, cols)
            if self._added(slots, keys, cols):
                return slots
        slots, fresh = self._index.add(keys)
        self._append(fresh, cols)
        if not self.spec.exact(cols):
            self._check(slots, cols)
        return slots

    def _added(self, slots: Int64s, keys: Int64s, cols: Sequence[Col]) -> bool:
        """Put keys without a slot into the table; if not all can be there, there is none then."""
        table = self._table
        assert table is not None
        missing = (slots < 0).nonzero()[0]
        if not len(missing):
            return True
        wanted = keys[missing]
        if not (self.spec.exact(cols) and wanted.min() >= 0 and wanted.max() < DENSE):
            numbers = np.empty(self.size, np.int64)
            old = (table >= 0).nonzero()[0]
            numbers[table[old]] = old
            self._index.add(numbers)
            self._table = None
            return False
        table = self._table = grown(table, int(wanted.max()) + 1, -1)
        # Of equal keys the one that is written last has the slot.
        table[wanted] = missing
        fresh = missing[table[wanted] == missing]
        table[keys[fresh]] = np.arange(self.size, self.size + len(fresh))
        self._append(fresh, cols)
        slots[missing] = table[wanted]
        return True

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
        index = self._index.nbytes if self._table is None else self._table.nbytes
        return index + sum(p.nbytes for p in self._pools)


class _Numbers:
    """A column of fixed width that grows."""

    def __init__(self, kind: columns_.FixedType) -> None:
        self._kind = kind
        self._values = np.empty(0, kind.dtype)
        self._nulls: Mask | None = None

    def append(self, at: int, col: Col) -> None:
        values, nulls = self._kind.split(col)
        self._values = grown(self._values, at + len(values))
        self._values[at : at + len(values)] = values
        if nulls is not None or self._nulls is not None:
            self._nulls = grown(
                np.zeros(0, bool) if self._nulls is None else self._nulls, len(self._values)
            )
            self._nulls[at : at + len(values)] = False if nulls is None else nulls

    def take(self, slots: Int64s) -> Col:
        values = self._values[slots]
        if self._nulls is None:
            return values
        nulls = self._nulls[slots]
        if not nulls.any():
            return values
        full = self._kind.dump(values)
        storage = full.storage if isinstance(full, pa.ExtensionArray) else full
        bits = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
        masked = pa.Array.from_buffers(storage.type, len(values), [bits, storage.buffers()[1]])
        if storage is full:
            return masked
        return pa.ExtensionArray.from_storage(full.type, masked)

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes)


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
            return self._chunks[0][:0]
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
