"""Has a loop come back to where it was? Then it goes round for ever.

Where the next rows are a function of the last ones, the same rows a second time are a proof. One
state is kept, a later one after twice as many iterations each time (Brent, "An improved Monte Carlo
factorization algorithm", 1980): a cycle is found within three times the iterations that lead into
it and once around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidewheel.engine.state.delta import Delta, consolidate
from tidewheel.engine.state.python_values import counted
from tidewheel.engine.state.rowwise import all_rows

_FROM = 64  # most loops have ended by then
_ROWS = 10_000  # more are not compared


Bags = Sequence[Collection[Any]]


class Cycle:
    """The states of one run of a loop: the rows, as bags, that its tables got at one iteration."""

    def __init__(self) -> None:
        self._rows: Sequence[int] = []
        self._kept: Bags | None = None
        self._at = 0

    def since(
        self, iteration: int, rows: Sequence[int], bags: Callable[[], Bags | None]
    ) -> int | None:
        """The earlier iteration that had the same rows, if it is known.

        Some iterations may be left out. `rows`: how many each table got. `bags`: these, where they
        can be compared.
        """
        if iteration < _FROM:
            return None
        if self._kept is not None and rows == self._rows and self._kept == bags():
            return self._at
        if iteration >= 2 * self._at:
            self._at, self._rows = iteration, rows
            self._kept = bags() if sum(rows) <= _ROWS else None
        return None


class Drift:
    """By how much the tables of one run of a loop have changed since an iteration.

    If it is nothing, they are what they were, and where the next tables follow from the last ones
    the loop goes round for ever. The iteration is chosen as in `Cycle`.
    """

    def __init__(self) -> None:
        self._net: list[dict[tuple[Any, ...], int]] | None = None
        self._at = 0

    def since(self, iteration: int, state: Sequence[Delta | None]) -> int | None:
        """The earlier iteration that had the same tables, if it is known.

        `state`: how each table changed at this iteration; none may be left out where one did.
        """
        if self._net is not None:
            found = changes(state)
            if found is None or sum(map(len, self._net)) > _ROWS:
                self._net = None
            elif self._comes_back(found, self._net):
                return self._at
        if iteration >= max(_FROM, 2 * self._at):
            self._at, self._net = iteration, [{} for _ in state]
        return None

    @staticmethod
    def _comes_back(found: Bags, net: list[dict[tuple[Any, ...], int]]) -> bool:
        for rows, of_table in zip(found, net, strict=True):
            for row, weight in rows:
                left = of_table.get(row, 0) + weight
                if left:
                    of_table[row] = left
                else:
                    of_table.pop(row, None)
        return not any(net)


def bags(state: Sequence[pa.Table]) -> Bags | None:
    """Rows of some tables, if values that Python takes for one are the same."""
    if not all(_exact(t.schema.types) for t in state):
        return None
    return [Counter(zip(*(counted(c).to_pylist() for c in t.columns), strict=True)) for t in state]


def changes(state: Sequence[Delta | None]) -> Bags | None:
    """Changes of some tables, with their weights, likewise."""
    if not all(_exact(d.schema.types) for d in state if d is not None):
        return None
    return [frozenset(() if d is None else _weighted(consolidate(d))) for d in state]


def _weighted(delta: Delta) -> Iterable[tuple[Any, ...]]:
    return zip(all_rows(delta.schema.kinds, delta.cols), delta.weights.tolist(), strict=True)


def _exact(types: Sequence[pa.DataType]) -> bool:
    """(0.0 and -0.0 are not.)"""
    return all(
        pa.types.is_integer(t)
        or pa.types.is_string(t)
        or pa.types.is_boolean(t)
        or pa.types.is_date(t)
        or pa.types.is_timestamp(t)
        or pa.types.is_null(t)
        for t in types
    )
