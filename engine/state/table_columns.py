"""Columns of an Arrow table that are taken out of it, and put in order, when somebody asks.

The first rows of a view are often read as they came, and changed much later. Then a change looks
for some of them by their key: that alone has to be in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidewheel.engine.arrow import array_of
from tidewheel.engine.arrow import taken as values_at
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, Index, MadeColumns, from_arrow
from tidewheel.engine.state.rowwise import RowColumns

_SMALL: Final = 2048  # rows of a chunk on average; if they are fewer, chunks are joined
_PART: Final = 8  # of so many rows one is not worth what it takes to make a column
MANY: Final = 65_536
"""Rows of up to four columns that are worth being put in order later: it takes two steps to find
one then."""
_WIDE: Final = 4


class TableColumns(MadeColumns):
    """The columns of a table, whose types are those that the rows shall have."""

    __slots__ = ("table",)

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        super().__init__()

    def __len__(self) -> int:
        return int(self.table.num_columns)

    def _make(self, index: int) -> Col:
        column = self.table.columns[index]
        if column.num_chunks > 1:  # once joined, they are not kept apart as well
            column = pa.chunked_array([pa.concat_arrays(column.chunks)])
            self.table = self.table.set_column(index, self.table.field(index), column)
        return from_arrow(column)

    @property
    def nbytes(self) -> int:
        """Bytes held, more or less."""
        return int(self.table.nbytes)

    def take(self, index: Index) -> Sequence[Col]:
        """Some of these rows."""
        if _later(index, self, self.table.num_rows):
            return OrderedColumns(self, self.table.num_rows, index)
        if len(index) * _PART > self.table.num_rows:
            return [columns_.take(c, index) for c in self]
        places = array_of(index)
        return [
            from_arrow(values_at(c, places))
            if i not in self._made and c.num_chunks == 1  # (Arrow would join chunks each time)
            else columns_.take(self[i], index)
            for i, c in enumerate(self.table.columns)
        ]

    def named(self, names: Sequence[str]) -> pa.Table:
        """The table with other names for its columns."""
        table = self.table
        if table.num_rows < _SMALL * table.columns[0].num_chunks:
            table = table.combine_chunks()
        return table.rename_columns(list(names))


class OrderedColumns(MadeColumns):
    """The columns of rows that are elsewhere: row i is row `index[i]` there.

    Once all columns are in order nothing else is kept.
    """

    __slots__ = ("_elsewhere", "_rows", "_width")

    def __init__(self, cols: Sequence[Col], rows: int, index: Index) -> None:
        """`rows`: how many there are elsewhere."""
        self._elsewhere: tuple[Sequence[Col], Index] | None = (cols, index)
        super().__init__()
        self._rows, self._width = rows, len(cols)

    def __len__(self) -> int:
        return self._width

    def _make(self, index: int) -> Col:
        elsewhere = self._elsewhere
        if elsewhere is None:
            if index not in self._made:
                raise IndexError(index)
            return self._made[index]  # another thread made the last ones
        cols, places = elsewhere
        found = self._made[index] = columns_.take(cols[index], places)
        if len(self._made) == self._width:
            self._elsewhere = None
        return found

    def sliced(self, begin: int, end: int) -> Sequence[Col]:
        """Rows `begin` to `end`: what is elsewhere stays there."""
        elsewhere = self._elsewhere
        if elsewhere is None:
            return [c[begin:end] for c in self]
        cols, places = elsewhere
        found = OrderedColumns(cols, self._rows, places[begin:end])
        found._made = {i: c[begin:end] for i, c in list(self._made.items())}
        return found

    @property
    def nbytes(self) -> int:
        """Bytes held, more or less."""
        made = sum(map(columns_.nbytes, list(self._made.values())))
        elsewhere = self._elsewhere
        if elsewhere is None:
            return made
        cols, places = elsewhere
        return nbytes(cols) + int(places.nbytes) + made

    def take(self, index: Index) -> Sequence[Col]:
        """Some of these rows."""
        elsewhere = self._elsewhere
        if elsewhere is None:
            return [columns_.take(c, index) for c in self]
        cols, places = elsewhere
        places = places[index]
        if _later(index, cols, self._rows):
            return OrderedColumns(cols, self._rows, places)
        return [
            columns_.take(cols[i], places)
            if (made := self._made.get(i)) is None
            else columns_.take(made, index)
            for i in range(self._width)
        ]


def _later(index: Index, cols: Sequence[Col], rows: int) -> bool:
    """Are some of `rows` worth being put in order later? All of them are kept until they are."""
    return len(index) * max(_WIDE, len(cols)) >= MANY * _WIDE and len(index) * 2 > rows


def ordered(cols: Sequence[Col], index: Index) -> Sequence[Col]:
    """Rows by position that are kept in this order: `taken`, or later."""
    if isinstance(cols, MadeColumns) or not cols or not _later(index, cols, len(cols[0])):
        return taken(cols, index)
    return OrderedColumns(cols, len(cols[0]), index)


def taken(cols: Sequence[Col], index: Index) -> Sequence[Col]:
    """Rows by position."""
    if isinstance(cols, TableColumns | OrderedColumns):
        return cols.take(index)
    return [columns_.take(c, index) for c in cols]


def sliced(cols: Sequence[Col], begin: int, end: int) -> Sequence[Col]:
    """Rows `begin` to `end`, without copying where they are in order."""
    if isinstance(cols, OrderedColumns):
        return cols.sliced(begin, end)
    return [c[begin:end] for c in cols]


def nbytes(cols: Sequence[Col]) -> int:
    """Bytes that columns hold."""
    if isinstance(cols, TableColumns | OrderedColumns | RowColumns):
        return cols.nbytes
    return sum(map(columns_.nbytes, cols))


def table_columns(table: pa.Table, types: Sequence[pa.DataType]) -> TableColumns | None:
    """The columns of a table, cast to `types`; None where the table can't show them as it is."""
    if not table.num_columns or any(map(pa.types.is_dictionary, (*types, *table.schema.types))):
        return None
    arrays = zip(table.columns, types, strict=True)
    cast = [a if a.type == t else a.cast(t) for a, t in arrays]
    return TableColumns(pa.Table.from_arrays(cast, names=[str(i) for i in range(len(cast))]))
