"""The head of a spine: rows too few to be sorted each time that some more come.

One key is looked up in a dictionary, which grows with the rows; many keys are sought in an order by
key, which is made anew for them.
"""

from __future__ import annotations

import numpy as np

from tidewheel.engine.state.columns import Index
from tidewheel.engine.state.delta import Int64s
from tidewheel.engine.state.run import Rows, concat_rows


class Head:
    """Small batches of rows in the order in which they came."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self._size = 0
        self._sorted: tuple[Rows, Index, Int64s] | None = None
        self._places: dict[int, list[tuple[Rows, int]]] = {}
        self._placed = 0  # how many parts are in `_places`

    def __len__(self) -> int:
        return self._size

    def add(self, rows: Rows) -> None:
        """Keep some more rows."""
        self.parts.append(rows)
        self._size += len(rows)
        self._sorted = None

    def clear(self) -> None:
        """Keep nothing."""
        self.parts = []
        self._size = self._placed = 0
        self._sorted = None
        self._places = {}

    def by_key(self) -> tuple[Rows, Index, Int64s]:
        """All rows, their order by key and rank, and the keys in this order."""
        if self._sorted is None:
            rows = concat_rows(self.parts)
            self.parts, self._places, self._placed = [rows], {}, 0
            ranks = rows.keys if rows.rank is None else rows.rank
            by_key = np.lexsort((ranks, rows.keys))
            self._sorted = (rows, by_key, rows.keys[by_key])
        return self._sorted

    def of(self, key: int) -> list[Rows]:
        """The rows of one key, each by itself."""
        for part in self.parts[self._placed :]:
            for i, k in enumerate(part.keys.tolist()):
                self._places.setdefault(k, []).append((part, i))
        self._placed = len(self.parts)
        found = self._places.get(key, ())
        return [part if len(part) == 1 else part.slice(i, i + 1) for part, i in found]
