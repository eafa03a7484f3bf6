"""The rows of a fixpoint by slots: who each was derived from, and how good its value is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.slots import Slots, grown
from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.engine.state.delta import Int64s, Schema

ANCHOR = -1  # the parent of a row that the anchor gives
ABSENT = -2  # the parent of a row that is not there
TOP = np.iinfo(np.int64).max  # worse than any value: NULL, or no value yet
NONE = np.empty(0, np.int64)


class Forest:
    """Per slot a row's `parent` (a slot, ANCHOR or ABSENT) and the `place` of its value.

    A place is an integer; the least one is the best. `key` and `value` as in `Fixpoint`. What is
    about to change in an epoch is noted (`touch`), so that `changes` can tell what did.
    """

    def __init__(
        self, schema: Schema, key: Sequence[int], value: int | None, descending: bool, name: str
    ) -> None:
        self.schema = schema
        self.key = tuple(key)
        self.keys = schema.select(self.key)
        self.value = value
        self.descending = descending
        self.name = name
        self._clear()

    def _clear(self) -> None:
        self.slots = Slots(self.keys, self.name)
        self.parent = NONE
        self.place = NONE
        self.was = np.empty(0, bool)  # there before this epoch, and its place: where touched
        self.old = NONE
        self.stamp = NONE
        self._scratch = NONE
        self.epoch = 0
        self.touched: list[Int64s] = []

    def begin(self) -> None:
        """A new epoch."""
        self.epoch += 1
        self.touched = []

    def there(self, slots: Int64s) -> Mask:
        """Which slots (-1: none) have a row."""
        if not self.slots.size:
            return np.zeros(len(slots), bool)
        return np.asarray((slots >= 0) & (self.parent[slots] != ABSENT))

    def open(self, cols: Sequence[Col], n: int) -> Int64s:
        """The slots of keys, new ones for those that have none."""
        if not n:
            return NONE
        slots = self.slots.open(cols, n)
        size = self.slots.size
        if len(self.parent) < size:
            self.parent = grown(self.parent, size, ABSENT)
            self.place = grown(self.place, size, TOP)
            self.was = grown(self.was, size)
            self.old = grown(self.old, size)
            self.stamp = grown(self.stamp, size)
            self._scratch = grown(self._scratch, size)
        return slots

    def distinct(self, slots: Int64s) -> Int64s:
        """Each slot once."""
        if len(slots) <= 1:
            return slots
        numbers = np.arange(len(slots))
        self._scratch[slots] = numbers
        last = self._scratch[slots] == numbers
        return slots if last.all() else np.asarray(slots[last])

    def touch(self, slots: Int64s) -> None:
        """Note what was there before this epoch."""
        fresh = slots[self.stamp[slots] != self.epoch]
        if len(fresh):
            self.stamp[fresh] = self.epoch
            self.was[fresh] = self.parent[fresh] != ABSENT
            self.old[fresh] = self.place[fresh]
            self.touched.append(fresh)

    def take_out(self, slots: Int64s) -> None:
        """Rows that are there no more."""
        self.touch(slots)
        self.parent[slots] = ABSENT
        self.place[slots] = TOP

    def improve(self, slots: Int64s, places: Int64s, sources: Int64s) -> Int64s:
        """Take what is better than what is there; the slots that have it."""
        better = self.parent[slots] == ABSENT
        if self.value is not None:
            better |= places < self.place[slots]
        if not better.all():
            index = better.nonzero()[0]
            slots, places, sources = slots[index], places[index], sources[index]
        self.touch(slots)
        if self.value is not None:
            np.minimum.at(self.place, slots, places)
            best = (places == self.place[slots]).nonzero()[0]
            slots, sources = slots[best], sources[best]
        self.parent[slots] = sources
        return self.distinct(slots)

    def changes(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots whose old row is gone, that have a new one, and that had none or have none now."""
        if not self.touched:
            return NONE, NONE, NONE
        slots = self.distinct(np.concatenate(self.touched))
        was, now = self.was[slots], self.parent[slots] != ABSENT
        if self.value is None:
            changed = was != now
        else:
            changed = (was != now) | (was & (self.old[slots] != self.place[slots]))
        return slots[was & changed], slots[now & changed], slots[was != now]

    def compact(self) -> tuple[list[Col], Int64s]:
        """Give up the slots of rows that are not there; the keys of the others, and their slots."""
        kept = (self.parent != ABSENT).nonzero()[0]
        parents, places, size = self.parent[kept], self.place[kept], self.slots.size
        cols = self.slots.take(kept)
        numbers = np.empty(size, np.int64)
        numbers[kept] = np.arange(len(kept))
        self._clear()
        slots = self.open(cols, len(kept))
        if len(kept):
            self.parent[slots] = np.where(parents >= 0, numbers[parents], parents)
            self.place[slots] = places
        return cols, slots

    # -- values --------------------------------------------------------------------------------

    def places(self, cols: Sequence[Col]) -> Int64s:
        """The value column as integers of which the least is the best."""
        if self.value is None:
            return np.zeros(len(cols[0]), np.int64)
        kind: Any = self.schema.kinds[self.value]
        values, nulls = kind.split(cols[self.value])
        places = values.astype(np.int64)
        if self.descending:
            places = ~places
        if nulls is not None:
            places[nulls] = TOP
            if (places[~nulls] == TOP).any():
                raise OverflowError(f"{self.name}: a value at the end of its type's range")
        elif kind.dtype.itemsize == 8 and (places == TOP).any():
            raise OverflowError(f"{self.name}: a value at the end of its type's range")
        return np.asarray(places)

    def rows(self, slots: Int64s, places: Int64s) -> list[Col]:
        """The columns of rows."""
        keys = self.slots.take(slots)
        cols: list[Any] = [None] * len(self.schema)
        for i, col in zip(self.key, keys, strict=True):
            cols[i] = col
        if self.value is not None:
            cols[self.value] = self._column(places)
        return cols

    def _column(self, places: Int64s) -> Col:
        assert self.value is not None
        kind = self.schema.kinds[self.value]
        assert kind.dtype is not None
        nulls = places == TOP
        values: Array = ~places if self.descending else places
        if not nulls.any():
            return values.astype(kind.dtype)
        values = np.where(nulls, 0, values).astype(kind.dtype)
        array = kind.dump(values)
        return kind.load(pa.array(array.to_pylist(), array.type, mask=nulls))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.parent, self.place, self.was, self.old, self.stamp, self._scratch)
        return self.slots.nbytes + sum(a.nbytes for a in arrays)
