"""A delta between a table, views and subscribers: as Arrow, or as the engine's columns.

Each form is made from the other when it is asked for, once: many views may read one change, and
most changes of views are read by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidewheel.engine.state.columns import Col, from_arrow
from tidewheel.engine.state.delta import WEIGHT, Delta, Int64s, Schema


class Change:
    """Rows with weights, columns by name. `len()` counts rows."""

    __slots__ = ("_cols", "_delta", "_names", "_table", "weights")

    def __init__(self, table: pa.Table) -> None:
        """The last column of `table`, an int64, is the weight, whatever its name."""
        self._table: pa.Table | None = table
        self._delta: Delta | None = None
        self._names: Sequence[str] = table.column_names
        self._cols: dict[str, tuple[pa.DataType, Col]] = {}
        self.weights: Int64s = np.asarray(from_arrow(table.columns[-1]))

    @classmethod
    def of(cls, delta: Delta, names: Sequence[str]) -> Change:
        """The change that `delta` is, its columns under `names`."""
        change = cls.__new__(cls)
        change._table, change._delta, change._names = None, delta, names
        change._cols, change.weights = {}, delta.weights
        return change

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def net(self) -> int:
        """How many rows more there are after it."""
        weights = self.weights
        return int(weights[0] if len(weights) == 1 else weights.sum())

    def negated(self) -> Change:
        """The change that undoes this one."""
        if self._delta is not None:
            return Change.of(self._delta.negate(), self._names)
        table = self.table()
        at = table.num_columns - 1
        return Change(table.set_column(at, WEIGHT, pa.array(-self.weights)))

    def column(self, name: str, kind: pa.DataType) -> Col:
        """A column as the engine has it, cast to `kind` if it is of another type."""
        # Arrow types are slow to hash, but quick to compare
        known = self._cols.get(name)
        if known is None or known[0] != kind:
            at = self._names.index(name)
            if self._delta is not None and self._delta.schema.types[at] == kind:
                known = kind, self._delta.cols[at]
            else:
                array = self.table().column(at)
                known = kind, from_arrow(array if array.type == kind else array.cast(kind))
            self._cols[name] = known
        return known[1]

    def delta(self, names: Sequence[str], schema: Schema) -> Delta:
        """Some columns by name, as a delta of `schema`."""
        known = self._delta
        if known is not None and known.rows is not None:
            at = [self._names.index(name) for name in names]
            if all(known.schema.types[i] == t for i, t in zip(at, schema.types, strict=True)):
                return known.select(at, schema)
        cols = [self.column(*c) for c in zip(names, schema.types, strict=True)]
        return Delta(schema, cols, self.weights)

    def table(self) -> pa.Table:
        """As an Arrow table whose last column is the weight."""
        if self._table is None:
            assert self._delta is not None
            self._table = self._delta.to_arrow(WEIGHT).rename_columns([*self._names, WEIGHT])
        return self._table

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        if self._delta is not None:
            return self._delta.nbytes
        return 0 if self._table is None else int(self._table.nbytes)
