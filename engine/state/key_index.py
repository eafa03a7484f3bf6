"""A table's rows by its primary key.

A statement that names one row by its key is told that row without a query: what looks it up in
DuckDB takes ten times as long. The rows lie in an arrangement, which follows the table's changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, KeySpec, Schema, unique
from tidewheel.engine.state.order import argsort, ascends
from tidewheel.engine.state.rowwise import Row, RowColumns, all_rows, row_at


class KeyIndex:
    """All rows of a table, whose columns `key` (positions) no two rows share, and never are NULL.

    `version`: of what it was made under; whoever asks under another one makes it anew.
    """

    def __init__(
        self, names: Sequence[str], schema: Schema, key: Sequence[int], version: object
    ) -> None:
        self.version = version
        self._names = tuple(names)
        self._schema = schema
        self._kinds = [schema.kinds[i] for i in key]
        self._spec = KeySpec(schema.select(key), range(len(key)))
        self._rows = Arrangement(schema, key)

    @property
    def detail(self) -> str:
        """The columns of the key."""
        return ", ".join(self._names[i] for i in self._rows.key.indices)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

    def fill(self, rows: Delta) -> None:
        """The rows that there are, each once."""
        keys = self._rows.key.keys(rows.cols, len(rows))
        if not ascends(keys):
            order = argsort(keys)
            rows, keys = rows.take(order), keys[order]
        self._rows.insert_run(rows, (), keys)

    def apply(self, change: Change) -> None:
        """The table has changed."""
        self._rows.insert(change.delta(self._names, self._schema))

    @property
    def ordered(self) -> bool:
        """Can `between` be asked? If the key is one column of integers, of at most 64 bits."""
        kind = self._kinds[0]
        return len(self._kinds) == 1 and kind.integer and kind.dtype != np.uint64

    def between(self, low: int, high: int, most: int) -> Sequence[Row] | None:
        """The rows whose keys lie from `low` to `high`; None if more than `most`."""
        found = self._rows.spine.between(low, high, 2 * most)
        if found is None or len(found) > most:
            return None
        return all_rows(self._schema.kinds, found.cols)

    def takes(self, cols: Sequence[Col], n: int) -> bool:
        """Are the keys of n new rows, whose columns are `cols`, all different, and not there yet?

        False also where that is hard to tell: different keys may have one hash.
        """
        keys = self._rows.key.keys(cols, n)
        if len(unique(keys)) < n:
            return False
        found = self._rows.match(cols, self._rows.key, keys)
        return found is None or not len(found[1])

    def find(self, key: Row) -> Row | None:
        """The row of a key, both of values as `rowwise` has them; None if there is none."""
        cols = RowColumns(self._kinds, [key])
        found = self._rows.match(cols, self._spec, self._spec.keys(cols, 1))
        if found is None or not len(found[1]):  # or what is found cancels
            return None
        rows = found[1]
        assert len(rows) == 1
        return row_at(self._schema.kinds, rows.cols, 0)
