"""What is computed of one row, of columns: some hundred rows take less than a statement does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.linear import Compute, Predicate
from tidewheel.engine.state.columns import Col, Mask, column_type
from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import ByRow, rows_of
from tidewheel.planner.number import NeedsKernel

MOST: Final = 500
"""Of more rows a statement is as quick."""

Values = Callable[[Sequence[Col], int], list[Any]]
"""Columns and number of rows → one value for each."""


class ByRows:
    """A function of one row, for each row of columns; more than `MOST` are DuckDB's to compute."""

    def __init__(self, of_row: ByRow, expression: exp.Expr, schema: Schema) -> None:
        names = {c.name for c in expression.find_all(exp.Column)}
        self._of_row = of_row
        self._width = len(schema)
        self._read = [(i, schema.kinds[i]) for i, n in enumerate(schema.names) if n in names]

    def __call__(self, cols: Sequence[Col], n: int) -> list[Any]:
        """The values; raises NeedsKernel."""
        if n > MOST:
            raise NeedsKernel
        rows = rows_of(cols)
        if rows is None:
            given: list[Iterable[Any]] = [repeat(None, n) for _ in range(self._width)]
            for i, kind in self._read:
                given[i] = kind.values(cols[i])
            rows = list(zip(*given, strict=True))
        return list(map(self._of_row, rows))


def column_of(values: Values, kind: pa.DataType) -> Compute:
    """They as a column."""
    column = column_type(kind)
    return lambda cols, n: column.of(values(cols, n))


def mask_of(values: Values) -> Predicate:
    """The rows for which they are true."""

    def test(cols: Sequence[Col], n: int) -> Mask:
        return np.array(values(cols, n), bool)

    return test
