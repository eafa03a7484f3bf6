"""The rows of a fixpoint by slots: who each was derived from, and how good its value is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.operators.slots import Slots, grown
from tidewheel.engine.state.columns import (
    Array,
    BoolType,
    Col,
    ColumnType,
    FixedType,
    FloatType,
    Mask,
)
from tidewheel.engine.state.delta import Int64s, Schema

ANCHOR = -1  # the parent of a row that the anchor gives
ABSENT = -2  # the parent of a row that is not there
TOP = np.iinfo(np.int64).max  # worse than any other value: NULL, the last of all, or none yet
NONE = np.empty(0, np.int64)
_NARROW: Final = np.iinfo(np.int32).max  # slots that four bytes tell apart
Numbers = npt.NDArray[np.signedinteger[Any]]


class Forest:
    """A set: per slot a row's `parent`, a slot, ANCHOR or ABSENT.

    In an epoch rows are taken out first, then others come; `changes` tells what both came to.
    Candidates have `places` here too, which say nothing.
    """

    def __init__(self, schema: Schema, key: Sequence[int], name: str) -> None:
        self.schema = schema
        self.key = tuple(key)
        self.keys = schema.select(self.key)
        self.name = name
        self._clear()

    def _clear(self) -> None:
        self.slots = Slots(self.keys)
        self.parent: Numbers = np.empty(0, np.int32)
        self._scratch: Numbers = np.empty(0, np.int32)
        self.begin()

    def begin(self) -> None:
        """A new epoch."""
        self._out: list[Int64s] = []
        self._in: list[Int64s] = []
        self._first = not self.slots.size  # then all that will be there has come

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
        if len(self.parent) < self.slots.size:
            self._grow(self.slots.size)
        return slots

    def _grow(self, size: int) -> None:
        kind: Any = np.int32 if size <= _NARROW else np.int64
        self.parent = grown(self.parent.astype(kind, copy=False), size, ABSENT)
        self._scratch = np.empty(len(self.parent), kind)

    def distinct(self, slots: Int64s) -> Int64s:
        """Each slot once."""
        if len(slots) <= 1:
            return slots
        numbers = np.arange(len(slots), dtype=self._scratch.dtype)
        self._scratch[slots] = numbers
        last = self._scratch[slots] == numbers
        return slots if last.all() else np.asarray(slots[last])

    def take_out(self, slots: Int64s) -> None:
        """Rows that are there no more."""
        self._out.append(slots)
        self.parent[slots] = ABSENT

    def add(self, slots: Int64s, sources: Int64s | list[int]) -> None:
        """Rows that were not there, each once."""
        self._in.append(slots)
        self.parent[slots] = sources

    def improve(self, slots: Int64s, places: Int64s, sources: Int64s) -> Int64s:
        """Take what is better than what is there; the slots that have it."""
        new = self.parent[slots] == ABSENT
        if not new.all():
            slots, sources = slots[new], sources[new]
        self.parent[slots] = sources
        slots = self.distinct(slots)
        self._in.append(slots)
        return slots

    def changes(self) -> tuple[Int64s, Int64s]:
        """Slots whose old row is gone, and those that have a new one."""
        if self._first:
            return NONE, self._present()
        out, come = (np.concatenate(p) if p else NONE for p in (self._out, self._in))
        if not len(out) or not len(come):
            return out, come
        self._scratch[come] = 0
        self._scratch[out] = 1  # was there
        return out[self.parent[out] == ABSENT], come[self._scratch[come] == 0]

    def compact(self) -> None:
        """Give up the slots of rows that are not there."""
        self._keep(self._present())

    def _present(self) -> Int64s:
        return np.flatnonzero(self.parent[: self.slots.size] != ABSENT)

    def _keep(self, kept: Int64s) -> Int64s:
        """Keep the rows of some slots; their slots from now on."""
        parents, size = self.parent[kept], self.slots.size
        cols = self.slots.take(kept)
        numbers = np.empty(size, np.int64)
        numbers[kept] = np.arange(len(kept))
        self._clear()
        slots = self.open(cols, len(kept))
        if len(kept):
            self.parent[slots] = np.where(parents >= 0, numbers[parents], parents)
        return slots

    # -- rows ----------------------------------------------------------------------------------

    def places(self, cols: Sequence[Col]) -> Int64s:
        """The values of rows as integers of which the least is the best."""
        return np.broadcast_to(np.int64(0), len(cols[0]))

    def place_of(self, slots: Int64s) -> Int64s:
        """The places of the rows that slots have."""
        return np.broadcast_to(np.int64(0), len(slots))

    def rows(self, slots: Int64s, places: Int64s) -> list[Col]:
        """The columns of rows."""
        keys = self.slots.take(slots)
        cols: list[Any] = [None] * len(self.schema)
        for i, col in zip(self.key, keys, strict=True):
            cols[i] = col
        return cols

    def changed(self, gone: Int64s, come: Int64s) -> list[Col]:
        """The columns of the rows that were there, then of those that are."""
        return self.rows(np.concatenate((gone, come)), NONE)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.slots.nbytes + self.parent.nbytes + self._scratch.nbytes


class ValuedForest(Forest):
    """A value for each key: per slot also its `place`, an integer of which the least is the best.

    `value` and `descending` as in `Fixpoint`. What is about to change in an epoch is noted
    (`touch`), so that `changes` can tell what did.
    """

    def __init__(
        self, schema: Schema, key: Sequence[int], value: int, descending: bool, name: str
    ) -> None:
        self.value = value
        self.descending = descending
        # The last place is NULL's: of timestamps 'infinity' has it, and none has the first.
        self._down = int(pa.types.is_timestamp(schema.types[value]) and not descending)
        super().__init__(schema, key, name)

    @staticmethod
    def keeps(kind: ColumnType) -> bool:
        """Are the values of a type numbers, dates or times, which `place` has room for?"""
        return isinstance(kind, FixedType) and not (
            isinstance(kind, BoolType) or kind.dtype in (np.uint64, np.float32)
        )

    def _clear(self) -> None:
        self.place = NONE
        self.was = np.empty(0, bool)  # there before this epoch, and its place: where touched
        self.old = NONE
        self.stamp = np.empty(0, np.int64)
        self.epoch = 0
        self._meant: set[str] = set()  # what TOP stands for
        super()._clear()

    def begin(self) -> None:
        """A new epoch."""
        super().begin()
        self.epoch += 1
        self.touched: list[Int64s] = []

    def _grow(self, size: int) -> None:
        super()._grow(size)
        self.place = grown(self.place, size, TOP)
        self.was = grown(self.was, size)
        self.old = grown(self.old, size)
        self.stamp = grown(self.stamp, size)

    def touch(self, slots: Int64s) -> None:
        """Note what was there before this epoch."""
        if self._first:
            return
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
        better = places < self.place[slots]
        if len(places) and places.max() == TOP:
            better |= self.parent[slots] == ABSENT
        if not better.all():
            index = better.nonzero()[0]
            slots, places, sources = slots[index], places[index], sources[index]
        self.touch(slots)
        np.minimum.at(self.place, slots, places)
        best = (places == self.place[slots]).nonzero()[0]
        slots, sources = slots[best], sources[best]
        self.parent[slots] = sources
        return self.distinct(slots)

    def changes(self) -> tuple[Int64s, Int64s]:
        """Slots whose old row is gone, and those that have a new one."""
        if self._first:
            return NONE, self._present()
        if not self.touched:
            return NONE, NONE
        slots = self.distinct(np.concatenate(self.touched))
        was, now = self.was[slots], self.parent[slots] != ABSENT
        changed = (was != now) | (was & (self.old[slots] != self.place[slots]))
        return slots[was & changed], slots[now & changed]

    def _keep(self, kept: Int64s) -> Int64s:
        """Keep the rows of some slots; their slots from now on."""
        places = self.place[kept]
        slots = super()._keep(kept)
        if len(kept):
            self.place[slots] = places
        return slots

    def places(self, cols: Sequence[Col]) -> Int64s:
        """The value column as integers."""
        kind: Any = self.schema.kinds[self.value]
        values, nulls = kind.split(cols[self.value])
        if isinstance(kind, FloatType):
            places = kind.ordered(values, exactly=True)  # which are to become the values again
        else:
            places = values.astype(np.int64) - self._down
        if self.descending:
            places = ~places
        meant = set(self._meant)
        known = places if nulls is None else places[~nulls]
        if kind.dtype.itemsize == 8 and (known == TOP).any():
            meant.add("a value")
        if nulls is not None and nulls.any():
            places[nulls] = TOP
            meant.add("NULL")
        if len(meant) > 1:
            end = ~TOP if self.descending else TOP
            raise OverflowError(f"{self.name}: NULL and {end} cannot both be values here")
        self._meant = meant
        return np.asarray(places)

    def place_of(self, slots: Int64s) -> Int64s:
        """The places of the rows that slots have."""
        return self.place[slots]

    def rows(self, slots: Int64s, places: Int64s) -> list[Col]:
        """The columns of rows."""
        cols = super().rows(slots, places)
        cols[self.value] = self._column(places)
        return cols

    def changed(self, gone: Int64s, come: Int64s) -> list[Col]:
        """The columns of the rows that were there, then of those that are."""
        places = np.concatenate((self.old[gone], self.place[come]))
        return self.rows(np.concatenate((gone, come)), places)

    def _column(self, places: Int64s) -> Col:
        kind: Any = self.schema.kinds[self.value]
        values: Array = ~places if self.descending else places + self._down
        nulls = places == TOP if "NULL" in self._meant else None
        if nulls is not None:
            values = np.where(nulls, 0, values)
        if isinstance(kind, FloatType):
            return kind.join(kind.of_ordered(values), nulls)
        return kind.join(values.astype(kind.dtype), nulls)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.place, self.was, self.old, self.stamp)
        return super().nbytes + sum(a.nbytes for a in arrays)
