"""First rows of groups as Python values, in their order: what a change of few rows looks at."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from math import copysign
from operator import itemgetter
from typing import Any, Final

from tidewheel.engine.operators.rank import Order, is_text, whole
from tidewheel.engine.state.columns import ColumnType
from tidewheel.engine.state.delta import Delta, KeySpec, Schema
from tidewheel.engine.state.rowwise import Row, all_rows

MOST: Final = 1000
"""More first rows than this take longer to copy than to be found."""

_SPARE: Final = 8  # times the rows wanted are kept at most, and half as many once there are more
_LEAST: Final = 16
_CROWD: Final = 8 * MOST + _LEAST  # rows that are too many to be put in order here
_GROUPS: Final = 4096

Place = tuple[Any, ...]
Entry = tuple[Place, Row]
Changes = dict[Row, int]
_PLACE = itemgetter(0)


class _Down:
    """A value among others in descending order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and bool(self.value == other.value)

    def __lt__(self, other: _Down) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def comparable(kind: ColumnType) -> bool:
    """Does Python put values of a type in DuckDB's order?"""
    return kind.dtype is not None or whole(kind) or is_text(kind)


def places(orders: Sequence[Order], kinds: Sequence[ColumnType]) -> Callable[[Row], Place] | None:
    """What rows are put in order by; None if Python cannot compare some values as DuckDB does."""
    if not all(comparable(kinds[o.column]) for o in orders):
        return None
    items = [
        (o.column, o.descending, 0 if o.nulls_first else 2, kinds[o.column].dtype is not None)
        for o in orders
    ]

    def place(row: Row) -> Place:
        found: list[Any] = []
        for column, down, null, number in items:
            value = row[column]
            if value is None:
                found += (null, 0)
            elif not down:
                found += (1, value)
            else:
                found += (1, -value if number else _Down(value))
        return tuple(found)

    return place


def peculiar(row: Row) -> bool:
    """Has a row a value that is not equal to itself, or to one that looks otherwise?"""
    floats = (v for v in row if type(v) is float)
    return any(v != v or (v == 0 and copysign(1, v) < 0) for v in floats)


class _Group:
    """The first rows of a group, `count` of which are the output.

    `entries`: all rows up to the last one, each as often as it is there, in order. `complete`: the
    group has no others.
    """

    __slots__ = ("complete", "count", "entries", "group")

    def __init__(self, entries: list[Entry], count: int, complete: bool, group: Row) -> None:
        self.entries = entries
        self.count = count
        self.complete = complete
        self.group = group

    def after(self, changes: Sequence[tuple[Entry, int]]) -> tuple[_Group, Changes] | None:
        """The first rows after some came or went, and what that does to the output.

        None if there are too few to say which rows move up, or one that goes is not there.
        """
        entries, count = self.entries.copy(), self.count
        last = None if self.complete else entries[-1][0]
        said: Changes = {}
        for (place, row), weight in changes:
            if last is not None and place > last:
                continue
            for _ in range(weight):
                if len(entries) >= count and place < entries[count - 1][0]:
                    _add(said, entries[count - 1][1], -1)
                    _add(said, row, +1)
                elif len(entries) < count:
                    _add(said, row, +1)
                insort(entries, (place, row), key=_PLACE)
        for (place, row), weight in changes:
            if last is not None and place > last:
                continue
            for _ in range(-weight):
                at = bisect_left(entries, place, key=_PLACE)
                if at == len(entries) or entries[at][1] != row:
                    return None
                del entries[at]
                if at < count:
                    _add(said, row, -1)
                    if len(entries) >= count:
                        _add(said, entries[count - 1][1], +1)
        complete = self.complete
        if not complete and len(entries) < count:
            return None
        if len(entries) > _SPARE * count + _LEAST:
            del entries[_SPARE // 2 * count + _LEAST :]
            complete = False
        return _Group(entries, count, complete, self.group), said


def _add(changes: Changes, row: Row, weight: int) -> None:
    changes[row] = changes.get(row, 0) + weight


Read = Callable[[int], tuple[Delta, bool]]
"""The key of a group → its first rows, or more of them, and whether it has no others."""


class FirstRows:
    """The first `count` rows of groups that few rows have changed."""

    def __init__(self, place: Callable[[Row], Place], key: KeySpec, count: int) -> None:
        self._place: Callable[[Row], Place] | None = place
        self._key = key.indices
        self._count = count
        self._groups: dict[int, _Group] = {}

    @staticmethod
    def of(orders: Sequence[Order], key: KeySpec, schema: Schema, count: int) -> FirstRows | None:
        """None if rows may tie that differ, or cannot be compared in Python as DuckDB does."""
        every = {o.column for o in orders} == set(range(len(schema)))
        place = places(orders, schema.kinds) if every and 0 < count <= MOST else None
        return None if place is None else FirstRows(place, key, count)

    def forget(self) -> None:
        """Other rows have changed."""
        self._groups.clear()

    def change(
        self, keys: Sequence[int], rows: Sequence[Row], weights: Sequence[int], read: Read
    ) -> Changes | None:
        """What a change does to the output, if that is known; else its groups are forgotten."""
        found: dict[int, _Group] = {}
        said: Changes = {}
        for key in dict.fromkeys(keys):
            changes = [(r, w) for k, r, w in zip(keys, rows, weights, strict=True) if k == key]
            after = self._after(key, changes, read)
            if after is None:
                for each in keys:
                    self._groups.pop(each, None)
                return None
            found[key], changed = after
            said |= changed
        if len(self._groups) >= _GROUPS:
            self._groups.clear()
        self._groups |= found
        return {row: weight for row, weight in said.items() if weight}

    def _after(
        self, key: int, changes: Sequence[tuple[Row, int]], read: Read
    ) -> tuple[_Group, Changes] | None:
        if any(peculiar(row) for row, _ in changes):
            self._place = None
        place = self._place
        if place is None:
            return None
        known = self._groups.get(key) or self._read(read, key, place)
        if known is None or {self._group(row) for row, _ in changes} != {known.group}:
            return None
        return known.after([((place(row), row), weight) for row, weight in changes])

    def _read(self, read: Read, key: int, place: Callable[[Row], Place]) -> _Group | None:
        present, complete = read(key)
        rows = all_rows(present.schema.kinds, present.cols)
        groups = set(map(self._group, rows))
        several = int(present.weights.sum())
        if len(rows) > _CROWD or several > _CROWD or any(map(peculiar, rows)):
            self._place = None  # it will be so the next time
            return None
        if len(groups) != 1 or (not complete and several < self._count):
            return None
        entries: list[Entry] = []
        for row, weight in zip(rows, present.weights.tolist(), strict=True):
            entries += [(place(row), row)] * weight
        entries.sort(key=_PLACE)
        return _Group(entries, self._count, complete, groups.pop())

    def _group(self, row: Row) -> Row:
        return tuple([row[i] for i in self._key])
