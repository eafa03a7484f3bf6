"""A table's rows by its primary key.

A statement that names one row by its key is told that row without a query: what looks it up in
DuckDB takes ten times as long. The rows lie in an arrangement, which follows the table's changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta, KeySpec, Schema
from tidewheel.engine.state.rowwise import Row, RowColumns, row_at


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
        """The rows that there are."""
        self._rows.insert(rows)

    def apply(self, change: Change) -> None:
        """The table has changed."""
        self._rows.insert(change.delta(self._names, self._schema))

    def find(self, key: Row) -> Row | None:
        """The row of a key, both of values as `rowwise` has them; None if there is none."""
        cols = RowColumns(self._kinds, [key])
        found = self._rows.match(cols, self._spec, self._spec.keys(cols, 1))
        if found is None or not len(found[1]):  # or what is found cancels
            return None
        rows = found[1]
        assert len(rows) == 1
        return row_at(self._schema.kinds, rows.cols, 0)
