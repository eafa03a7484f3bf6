"""Columns of so few rows that they are kept as rows: tuples are quicker to handle than arrays.

A value is what a column of its type holds: integers for whatever is `integer` (days for a date),
the unscaled integer for a DECIMAL, and None for NULL. A column is made when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import getsizeof
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.state.columns import Col, ColumnType, MadeColumns

Row = tuple[Any, ...]
ByRow = Callable[[Row], Any]
"""A function of one row."""

FEW: Final = 16
"""More rows than this are quicker to handle as columns."""
_MANY: Final = 64
"""So many are no rows any more."""


class RowColumns(MadeColumns):
    """The columns of `rows`, whose values are of the types `kinds`."""

    __slots__ = ("kinds", "rows")

    def __init__(self, kinds: Sequence[ColumnType], rows: Sequence[Row]) -> None:
        self.kinds = kinds
        self.rows = rows
        super().__init__()

    def __len__(self) -> int:
        return len(self.kinds)

    def _make(self, index: int) -> Col:
        kind = self.kinds[index]  # raises IndexError at the end
        return kind.of([row[index] for row in self.rows])

    def lacks(self, index: int) -> bool:
        """Is there a NULL in a column?"""
        return None in [row[index] for row in self.rows]

    @property
    def nbytes(self) -> int:
        """Bytes held: the values, and the columns that were made of them."""
        return held(self.rows) + sum([int(col.nbytes) for col in list(self._made.values())])

    def apart(self) -> RowColumns:
        """The same rows: columns that are made of these from now on are not kept here."""
        found = RowColumns(self.kinds, self.rows)
        found._made = dict(self._made)
        return found

    def select(self, indices: Sequence[int], kinds: Sequence[ColumnType]) -> RowColumns:
        """Some of the columns, by position, whose types are `kinds`."""
        return RowColumns(kinds, [tuple([row[i] for i in indices]) for row in self.rows])


def held(values: Iterable[Any]) -> int:
    """Bytes of Python's values, what lists, tuples and dictionaries hold included."""
    size = 0
    for value in values:
        size += getsizeof(value)
        if isinstance(value, (list, tuple)):
            size += held(value)
        elif isinstance(value, dict):
            size += held(value.keys()) + held(value.values())
    return size


def rows_of(cols: Sequence[Col]) -> Sequence[Row] | None:
    """The rows of columns that are few rows; None for others."""
    return cols.rows if type(cols) is RowColumns else None


def row_at(kinds: Sequence[ColumnType], cols: Sequence[Col], at: int) -> Row:
    """One row of columns of the types `kinds`."""
    rows = rows_of(cols)
    if rows is not None:
        return rows[at]
    return tuple([kind.value(col, at) for kind, col in zip(kinds, cols, strict=True)])


def all_rows(kinds: Sequence[ColumnType], cols: Sequence[Col]) -> Sequence[Row]:
    """The rows of columns of the types `kinds`."""
    rows = rows_of(cols)
    if rows is not None:
        return rows
    return list(zip(*[k.values(c) for k, c in zip(kinds, cols, strict=True)], strict=True))


def few_rows(kinds: Sequence[ColumnType], cols: Sequence[Col], n: int) -> Sequence[Row] | None:
    """The rows, `n` of them, if they are few, and of numbers, times and texts, which are exact."""
    rows = rows_of(cols)
    if rows is not None or n > FEW or not cols:
        return rows if n <= FEW else None
    flat = all(kind.dtype is not None or pa.types.is_string(kind.arrow) for kind in kinds)
    return all_rows(kinds, cols) if flat else None


def concat(parts: Sequence[Sequence[Col]]) -> Sequence[Col] | None:
    """Rows one after the other, as columns if they are many; None where some are not rows."""
    rows: list[Row] = []
    for cols in parts:
        if type(cols) is not RowColumns:
            return None
        rows.extend(cols.rows)
    first = parts[0]
    assert isinstance(first, RowColumns)
    found = RowColumns(first.kinds, rows)
    return found if len(rows) <= _MANY else list(found)


PLUS: Final = np.array([1])
NEW_OLD: Final = np.array([1, -1])
"""Weights: of a row that comes, and of one that replaces another."""
