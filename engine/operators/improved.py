"""The best row of each key, by arrays: what a grouped step of a loop improves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, empty
from tidewheel.engine.operators.collisions import HashCollision
from tidewheel.engine.operators.forest import ValuedForest
from tidewheel.engine.operators.step_program import Unfit
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Int64s, Schema

_DESCENDING = {"min": False, "bool_and": False, "max": True, "bool_or": True}


class Improved:
    """One row per key: the one whose `value` is the least, or the greatest, as `how` says.

    The value is a number, a date or a time, and NULL where all are. Columns that are neither the
    value nor of the `key` are those of the row that had it first.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[int], value: int, how: str) -> None:
        self._schema = schema
        self._key = tuple(key)
        self._value = value
        self._kind: Any = columns_.column_type(schema.types[value])
        types = [*schema.types]
        if isinstance(self._kind, columns_.FloatType):
            types[value] = pa.int64()
        self._forest = ValuedForest(
            Schema(schema.names, types), key, value, _DESCENDING[how], "loop"
        )
        self._rest = [i for i in range(len(schema)) if i != value and i not in self._key]
        # Those columns of the rows that were the best of their key some time.
        self._kept: list[pa.Table] = []
        self._count = 0

    @staticmethod
    def fits(schema: pa.Schema, merge: Sequence[str | None]) -> int | None:
        """The position of the value if there is one, by which all is chosen; None otherwise."""
        values = [i for i, how in enumerate(merge) if how in _DESCENDING]
        if len(values) != 1:
            return None
        at = values[0]
        if not {how for i, how in enumerate(merge) if i != at} <= {None, f"arg_{merge[at]}:{at}"}:
            return None
        kind = columns_.column_type(schema.types[at])
        return at if isinstance(kind, columns_.FloatType) or ValuedForest.keeps(kind) else None

    def improve(self, rows: pa.Table) -> pa.Table:
        """Take some rows; those of the keys that have a better value now.

        Unfit: they are not told apart by arrays; those that there were stay as they are.
        """
        forest = self._forest
        cols = [columns_.from_arrow(c) for c in rows.columns]
        if isinstance(self._kind, columns_.FloatType):
            values, nulls = self._kind.split(cols[self._value])
            whole: Any = forest.schema.kinds[self._value]
            cols[self._value] = whole.join(self._kind.ordered(values, exactly=True), nulls)
        forest.begin()
        try:
            places = forest.places(cols)
            slots = forest.open([cols[i] for i in self._key], rows.num_rows)
        except (OverflowError, HashCollision) as error:
            raise Unfit(str(error)) from error
        # (the first of equal rows is written last)
        better = forest.improve(slots[::-1], places[::-1], np.arange(rows.num_rows)[::-1])
        rest = rows.select(self._rest)
        if self._rest:
            rest = rest.take(array_of(np.asarray(forest.parent[better], np.int64)))
            forest.parent[better] = np.arange(self._count, self._count + len(better))
            self._count += len(better)
            self._kept.append(rest)
        return self._table(better, rest)

    def rows(self) -> pa.Table:
        """All rows."""
        forest = self._forest
        slots = np.flatnonzero(forest.there(np.arange(forest.slots.size)))
        if not self._kept:
            return self._table(slots, empty(self._schema).select(self._rest))
        self._kept = [pa.concat_tables(self._kept)]
        found = array_of(np.asarray(forest.parent[slots], np.int64))
        return self._table(slots, self._kept[0].take(found))

    def _table(self, slots: Int64s, rest: pa.Table) -> pa.Table:
        """Rows of some slots; `rest` has their other columns."""
        forest = self._forest
        cols = forest.rows(slots, forest.place_of(slots))
        arrays: list[Any] = [*cols]
        for i in (*self._key, self._value):
            arrays[i] = self._dumped(i, cols[i])
        for i, column in zip(self._rest, rest.columns, strict=True):
            arrays[i] = column
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _dumped(self, i: int, col: Col) -> pa.Array:
        kind: Any = self._forest.schema.kinds[i]
        if i == self._value and isinstance(self._kind, columns_.FloatType):
            values, nulls = kind.split(col)
            kind, col = self._kind, self._kind.join(self._kind.of_ordered(values), nulls)
        return kind.dump(col)
