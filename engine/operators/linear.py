"""Linear operators without state: concat, negate, map.

Law: op(a + b) = op(a) + op(b), so a delta is treated as if it were the whole input and weights
pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.columns import Col, Mask
from tidewheel.engine.state.delta import Delta, Schema, concat, consolidate
from tidewheel.engine.state.rowwise import ByRow, Row, few_rows

Predicate = Callable[[Sequence[Col], int], Mask]
"""Columns and number of rows → the rows for which the predicate is TRUE."""

Compute = Callable[[Sequence[Col], int], Col]
"""Columns and number of rows → a new column."""

Rewrite = Callable[[Delta], Delta]
"""A linear function of a delta: `rewrite(a + b) = rewrite(a) + rewrite(b)`."""


class Concat(Operator):
    """UNION ALL: the sum of the inputs. Linear.

    `net`: rows that cancel out are left out. A loop without an operator that does so needs it: what
    a join derives from both sides' changes cancels in part, and would multiply in every round.
    """

    def __init__(self, schema: Schema, arity: int, name: str = "concat", net: bool = False) -> None:
        self.schema = schema
        self.arity = arity
        self.name = name
        self.net = net

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """The deltas added up (consolidated if `net`), under this operator's column names."""
        present = [Delta(self.schema, d.cols, d.weights) for d in deltas if d is not None]
        if not present:
            return []
        whole = concat(present)
        return emit(counters, consolidate(whole) if self.net else whole)


class Negate(Operator):
    """Each row with the opposite weight. Linear."""

    def __init__(self, schema: Schema, name: str = "negate") -> None:
        self.schema = schema
        self.name = name

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """The delta negated."""
        delta = deltas[0]
        return [] if delta is None else emit(counters, delta.negate())


class Map(Operator):
    """Filter, project, unnest: any linear function of a delta. Linear.

    `rewrite` is a kernel (one DuckDB statement over the delta) or structural (NumPy only, for
    column selection and the like: no statement for a tiny delta).

    What cancels out may break what no row of the answer breaks: where both sides of a join change,
    the new rows of one meet the old ones of the other. An error tells only of what is left.
    """

    def __init__(self, schema: Schema, rewrite: Rewrite, name: str = "map") -> None:
        self.schema = schema
        self.rewrite = rewrite
        self.name = name

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """The delta mapped."""
        delta = deltas[0]
        if delta is None or not len(delta):
            return []
        try:
            mapped = self.rewrite(delta)
        except (duckdb.Error, pa.ArrowInvalid, OverflowError):
            left = consolidate(delta)
            if len(left) == len(delta):
                raise
            mapped = self.rewrite(left)
        return emit(counters, mapped)


def selecting(indices: Sequence[int], schema: Schema) -> Rewrite:
    """Columns by position."""
    chosen = tuple(indices)
    return lambda delta: delta.select(chosen, schema)


def computing(
    columns: Sequence[int | Compute],
    schema: Schema,
    by_row: Sequence[ByRow] | None = None,
    texts: bool = False,
) -> Rewrite:
    """Each output column is an input column (its position) or computed from the input columns.

    `by_row` computes the same of one row. `texts`: of a few rows, too, that are columns.
    """
    parts = tuple(columns)

    def rewrite(delta: Delta) -> Delta:
        rows = _rows(delta, texts) if by_row is not None else None
        if rows is not None and by_row is not None:
            computed = [tuple([f(row) for f in by_row]) for row in rows]
            return Delta.of_rows(schema, computed, delta.weights)
        n = len(delta)
        cols: list[Any] = [delta.cols[p] if isinstance(p, int) else p(delta.cols, n) for p in parts]
        return Delta(schema, cols, delta.weights)

    return rewrite


def filtering(predicate: Predicate, by_row: ByRow | None = None) -> Rewrite:
    """The rows for which a predicate is TRUE; `by_row` as in `computing`."""

    def rewrite(delta: Delta) -> Delta:
        rows = _rows(delta) if by_row is not None else None
        if rows is not None and by_row is not None:
            kept = [i for i, row in enumerate(rows) if by_row(row)]
            if len(kept) == len(rows):
                return delta
            return Delta.of_rows(delta.schema, [rows[i] for i in kept], delta.weights[kept])
        return delta.where(predicate(delta.cols, len(delta)))

    return rewrite


def _rows(delta: Delta, texts: bool = False) -> Sequence[Row] | None:
    """The rows, if they are few; None where columns are quicker to handle."""
    n = len(delta)
    if n > 1 and delta.rows is None and not texts:
        return None
    return few_rows(delta.schema.kinds, delta.cols, n)


def chain(rewrites: Sequence[Rewrite]) -> Rewrite:
    """Several linear functions one after the other, as one."""
    steps = tuple(rewrites)

    def rewrite(delta: Delta) -> Delta:
        for step in steps:
            if not len(delta):
                break
            delta = step(delta)
        return delta

    return rewrite
