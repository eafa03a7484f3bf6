"""Has a loop come back to where it was? Then it goes round for ever.

Where the next rows are a function of the last ones, the same rows a second time are a proof. One
state is kept, a later one after twice as many iterations each time (Brent, "An improved Monte Carlo
factorization algorithm", 1980): a cycle is found within three times the iterations that lead into
it and once around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_FROM = 64  # most loops have ended by then
_ROWS = 10_000  # more are not compared


class Cycle:
    """The states of one run of a loop: the rows, as bags, that its tables got at one iteration."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._kept: list[Counter[Any]] | None = None
        self._at = 0

    def since(self, iteration: int, state: Sequence[pa.Table]) -> int | None:
        """The earlier iteration that had the same rows, if it is known."""
        if iteration < _FROM:
            return None
        rows = [t.num_rows for t in state]
        if self._kept is not None and rows == self._rows and self._kept == _bags(state):
            return self._at
        if iteration & (iteration - 1) == 0:
            self._at, self._rows = iteration, rows
            self._kept = _bags(state) if sum(rows) <= _ROWS and all(map(_exact, state)) else None
        return None


def _exact(table: pa.Table) -> bool:
    """Are values that Python takes for one the same? (0.0 and -0.0 are not.)"""
    return all(
        pa.types.is_integer(t)
        or pa.types.is_string(t)
        or pa.types.is_boolean(t)
        or pa.types.is_date(t)
        or pa.types.is_timestamp(t)
        or pa.types.is_null(t)
        for t in table.schema.types
    )


def _bags(state: Sequence[pa.Table]) -> list[Counter[Any]]:
    return [Counter(zip(*(c.to_pylist() for c in t.columns), strict=True)) for t in state]
