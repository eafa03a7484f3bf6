"""A delta between a table, views and subscribers: as Arrow, or as the engine's columns.

Each form is made from the other when it is asked for, once: many views may read one change, and
most changes of views are read by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ReferenceType, ref

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of
from tidewheel.engine.state.columns import Col, from_arrow
from tidewheel.engine.state.delta import WEIGHT, Delta, Int64s, Schema, concat, consolidate
from tidewheel.engine.state.rowwise import RowColumns


class Taken:
    """Some columns of each change, by name, as deltas of `schema`."""

    __slots__ = ("_at", "_names", "_source", "names", "schema")

    def __init__(self, names: Sequence[str], schema: Schema) -> None:
        self.names = tuple(names)
        self.schema = schema
        self._names: Sequence[str] | None = None
        self._source: Schema | None = None
        self._at: Sequence[int] | None = None

    def of(self, change: Change) -> Delta:
        """These columns of a change."""
        delta = change.few
        if delta is not None:
            if delta.schema is not self._source or change.names is not self._names:
                self._source, self._names = delta.schema, change.names
                self._at = self._places(delta.schema.types, change.names)
            if self._at is not None:
                return delta.select(self._at, self.schema)
        cols = [change.column(*c) for c in zip(self.names, self.schema.types, strict=True)]
        return Delta(self.schema, cols, change.weights)

    def _places(self, types: Sequence[pa.DataType], names: Sequence[str]) -> Sequence[int] | None:
        """Where the columns are; None where one is of another type."""
        at = [names.index(name) for name in self.names]
        same = all(types[i] == t for i, t in zip(at, self.schema.types, strict=True))
        return at if same else None


class Change:
    """Rows with weights, columns by name. `len()` counts rows."""

    __slots__ = ("_cols", "_delta", "_lent", "_table", "names", "weights")

    def __init__(self, table: pa.Table) -> None:
        """The last column of `table`, an int64, is the weight, whatever its name."""
        self._table: pa.Table | None = table
        self._delta: Delta | None = None
        self._lent: ReferenceType[pa.Table] | None = None
        self.names: Sequence[str] = table.column_names[:-1]
        self._cols: dict[str, tuple[pa.DataType, Col]] = {}
        self.weights: Int64s = np.asarray(from_arrow(table.columns[-1]))

    @classmethod
    def of(cls, delta: Delta, names: Sequence[str]) -> Change:
        """The change that `delta` is, its columns under `names`."""
        change = cls.__new__(cls)
        change._table, change._delta, change.names = None, delta, names
        change._cols, change._lent, change.weights = {}, None, delta.weights
        return change

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def rows(self) -> int:
        """The same, as `Replaced` has it."""
        return len(self.weights)

    @property
    def few(self) -> Delta | None:
        """The delta, where it is kept as rows."""
        return self._delta if self._delta is not None and self._delta.rows is not None else None

    @property
    def net(self) -> int:
        """How many rows more there are after it."""
        weights = self.weights
        return int(weights[0] if len(weights) == 1 else weights.sum())

    def negated(self) -> Change:
        """The change that undoes this one."""
        if self._delta is not None:
            return Change.of(self._delta.negate(), self.names)
        table = self.table()
        at = table.num_columns - 1
        return Change(table.set_column(at, WEIGHT, array_of(-self.weights)))

    def column(self, name: str, kind: pa.DataType) -> Col:
        """A column as the engine has it, cast to `kind` if it is of another type."""
        # Arrow types are slow to hash, but quick to compare
        known = self._cols.get(name)
        if known is None or known[0] != kind:
            at = self.names.index(name)
            if self._delta is not None and self._delta.schema.types[at] == kind:
                known = kind, self._delta.cols[at]
            else:
                array = self.table().column(at)
                known = kind, from_arrow(array if array.type == kind else array.cast(kind))
            self._cols[name] = known
        return known[1]

    def table(self) -> pa.Table:
        """As an Arrow table whose last column is the weight.

        That of a few rows takes five times as much as the rows: it is not kept for longer than
        somebody has it, for the history of what subscribers are told holds thousands of changes.
        """
        found = self._table if self._lent is None else self._lent()
        if found is not None:
            return found
        delta = self._delta
        assert delta is not None
        rows = delta.rows
        if isinstance(delta.cols, RowColumns):  # what is made of them now would stay with it
            delta = Delta(delta.schema, delta.cols.apart(), delta.weights)
        found = delta.to_arrow(WEIGHT).rename_columns([*self.names, WEIGHT])
        if rows is None:
            self._table = found
        else:
            self._lent = ref(found)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        if self._delta is not None:
            return self._delta.nbytes
        return 0 if self._table is None else int(self._table.nbytes)


class Replaced:
    """A view's rows before an epoch and after it: what differs is found when somebody asks."""

    __slots__ = ("_found", "_tables", "nbytes")
    rows = None
    """How many differ is not known."""

    def __init__(self, old: pa.Table, new: pa.Table) -> None:
        self._tables: tuple[pa.Table, pa.Table] | None = (old, new)
        self._found: pa.Table | None = None
        self.nbytes = int(old.nbytes) + int(new.nbytes)
        """Bytes held, at most: the new rows may be the view's own, or the next one's old ones."""

    def table(self) -> pa.Table:
        """As `Change.table`. Subscribers call it in threads of their own: twice does no harm."""
        tables = self._tables
        if tables is not None:
            self._found = difference(*tables).to_arrow(WEIGHT)
            self._tables = None
        assert self._found is not None
        return self._found


def difference(old: pa.Table, new: pa.Table) -> Delta:
    """`new` − `old`, of the same types."""
    schema = Schema.of(new.schema)
    both = [Delta.from_arrow(new, 1, schema), Delta.from_arrow(old, -1, schema)]
    return consolidate(concat(both))
