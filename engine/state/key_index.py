"""A table's rows by its primary key.

A statement that names one row by its key is told that row without a query: what looks it up in
DuckDB takes ten times as long. The rows lie in an arrangement, which follows the table's changes;
the last ones of few rows wait in a dictionary, and go there together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.change import Change, Taken
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, KeySpec, Schema, concat, consolidate, unique
from tidewheel.engine.state.order import argsort, ascends
from tidewheel.engine.state.rowwise import FEW, Row, RowColumns, all_rows, row_at

_WAITING = 1024
"""So many changes do not wait any longer."""


class KeyIndex:
    """All rows of a table, whose columns `key` (positions) no two rows share, and never are NULL.

    `version`: of what it was made under; whoever asks under another one makes it anew.
    """

    def __init__(
        self, names: Sequence[str], schema: Schema, key: Sequence[int], version: object
    ) -> None:
        self.version = version
        self._taken = Taken(names, schema)
        self._kinds = [schema.kinds[i] for i in key]
        self._spec = KeySpec(schema.select(key), range(len(key)))
        self._rows = Arrangement(schema, key)
        kind = self._kinds[0]
        self.ordered = len(key) == 1 and kind.integer and kind.dtype != np.uint64
        """Can `between` be asked? If the key is one column of integers, of at most 64 bits."""
        self._plain = all(kind.comparable for kind in self._kinds)
        self._late: list[Delta] = []
        """Changes that are not in the arrangement yet."""
        self._recent: dict[Row, dict[Row, int]] = {}
        """By key what these add up to: rows and their weights."""

    @property
    def detail(self) -> str:
        """The columns of the key."""
        return ", ".join(self._taken.names[i] for i in self._rows.key.indices)

    def __len__(self) -> int:
        return len(self._rows) + sum([int(delta.weights.sum()) for delta in self._late])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes + sum([delta.nbytes for delta in self._late])

    def fill(self, rows: Delta) -> None:
        """The rows that there are, each once."""
        keys = self._rows.key.keys(rows.cols, len(rows))
        if not ascends(keys):
            order = argsort(keys)
            rows, keys = rows.take(order), keys[order]
        self._rows.insert_run(rows, (), keys)

    def apply(self, change: Change) -> None:
        """The table has changed."""
        delta = self._taken.of(change)
        rows = delta.rows if self._plain and len(delta) <= FEW else None
        if rows is None:
            self._settle()
            self._rows.insert(delta)
            return
        recent = self._recent
        for row, weight in zip(rows, delta.weights.tolist(), strict=True):
            key = tuple([row[i] for i in self._rows.key.indices])
            there = recent.setdefault(key, {})
            there[row] = there.get(row, 0) + weight
            if not there[row]:  # what was refused is taken back
                del there[row]
                if not there:
                    del recent[key]
        self._late.append(delta)
        if len(self._late) >= _WAITING:
            self._settle()

    def _settle(self) -> None:
        """Take what is late into the arrangement."""
        if self._late:
            late, self._late = self._late, []
            self._recent.clear()
            self._rows.insert(consolidate(concat(late)))

    def between(self, low: int, high: int, most: int) -> Sequence[Row] | None:
        """The rows whose keys lie from `low` to `high`; None if more than `most`."""
        self._settle()
        found = self._rows.spine.between(low, high, 2 * most)
        if found is None or len(found) > most:
            return None
        return all_rows(self._rows.schema.kinds, found.cols)

    def takes(self, cols: Sequence[Col], n: int) -> bool:
        """Are the keys of n new rows, whose columns are `cols`, all different, and not there yet?

        False also where that is hard to tell: different keys may have one hash.
        """
        self._settle()
        keys = self._rows.key.keys(cols, n)
        if len(unique(keys)) < n:
            return False
        found = self._rows.match(cols, self._rows.key, keys)
        return found is None or not len(found[1])

    def find(self, key: Row) -> Row | None:
        """The row of a key, both of values as `rowwise` has them; None if there is none."""
        recent = self._recent.get(key)
        if recent is not None:
            for row, weight in recent.items():
                if weight > 0:
                    return row
            self._settle()  # it goes, or what was refused is taken back: the arrangement tells
        if self.ordered:
            parts = self._rows.spine.rows_of(key[0])
            if not parts:
                return None
            if len(parts) == len(parts[0]) == parts[0].weights[0] == 1:
                return row_at(self._rows.schema.kinds, parts[0].cols, 0)
        cols = RowColumns(self._kinds, [key])
        found = self._rows.match(cols, self._spec, self._spec.keys(cols, 1))
        if found is None or not len(found[1]):  # or what is found cancels
            return None
        rows = found[1]
        assert len(rows) == 1
        return row_at(self._rows.schema.kinds, rows.cols, 0)
