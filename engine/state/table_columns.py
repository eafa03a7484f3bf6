"""Columns of an Arrow table that are taken out of it when somebody asks for them.

The first rows of a view are often read as they came, and changed much later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload

import pyarrow as pa

from tidewheel.engine.state.columns import Col, from_arrow

_SMALL: Final = 2048  # rows of a chunk on average; if they are fewer, chunks are joined


class TableColumns(Sequence[Col]):
    """The columns of a table, whose types are those that the rows shall have."""

    __slots__ = ("_made", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._made: dict[int, Col] = {}

    def __len__(self) -> int:
        return int(self.table.num_columns)

    @overload
    def __getitem__(self, index: int) -> Col: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Col]: ...
    def __getitem__(self, index: int | slice) -> Col:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = from_arrow(self.table.columns[index])
        return found

    def named(self, names: Sequence[str]) -> pa.Table:
        """The table with other names for its columns."""
        table = self.table
        if table.num_rows < _SMALL * table.columns[0].num_chunks:
            table = table.combine_chunks()
        return table.rename_columns(list(names))


def table_columns(table: pa.Table, types: Sequence[pa.DataType]) -> TableColumns | None:
    """The columns of a table, cast to `types`; None where the table can't show them as it is."""
    if not table.num_columns or any(map(pa.types.is_dictionary, (*types, *table.schema.types))):
        return None
    arrays = zip(table.columns, types, strict=True)
    cast = [a if a.type == t else a.cast(t) for a, t in arrays]
    return TableColumns(pa.Table.from_arrays(cast, names=[str(i) for i in range(len(cast))]))
