"""Walks through a relation row by row: for recursions that are deep and narrow.

A round of NumPy costs some 100 µs, however few rows it moves. On a chain of thousands of rows a
Python loop over lists is twenty times faster, but the lists take a pass over the relation. So they
are made once as much time as that has gone into narrow rounds: at worst an epoch takes twice as
long.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from tidewheel.engine.state.delta import Int64s

FEW: Final = 8  # a round of so many rows is narrow
WIDE: Final = 256  # a walk ends where a round has more
_PATIENCE: Final = 16  # narrow rounds, and one more for each _PASS rows of the relation
_PASS: Final = 1_500
_TAKEN: Final = -3


class Relations(Protocol):
    """What a walk goes through."""

    @property
    def related(self) -> int:
        """Rows of all relations."""

    def pairs(self) -> tuple[Int64s, Int64s, int] | None:
        """Slots of deriving rows, and of the rows derived; how many slots there are."""


class Walk:
    """Who derives whom, as lists: slot s derives ``targets[starts[s] : starts[s + 1]]``."""

    def __init__(self, sources: Int64s, targets: Int64s, size: int) -> None:
        order = sources.argsort(kind="stable")
        counts = np.bincount(sources, minlength=size)
        self.starts: list[int] = [0, *counts.cumsum().tolist()]
        self.targets: list[int] = targets[order].tolist()

    def below(self, frontier: Int64s, parent: Int64s) -> Int64s:
        """`frontier` and all rows below it in the tree of parents; their parents are set to < 0."""
        found = frontier.tolist()
        parent[frontier] = _TAKEN
        starts, targets, parents = self.starts, self.targets, parent.data
        for slot in found:  # which grows meanwhile
            for target in targets[starts[slot] : starts[slot + 1]]:
                if parents[target] == slot:
                    parents[target] = _TAKEN
                    found.append(target)
        return np.array(found, np.int64)


class Narrow:
    """Counts narrow rounds; gives a walk when one is worth its price."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self._rounds = 0
        self._patience = -1

    def __call__(self, size: int) -> Walk | None:
        """A round of `size` rows is about to be made."""
        if size > FEW:
            return None
        self._rounds += 1
        if self._rounds < _PATIENCE:
            return None
        if self._patience < 0:
            self._patience = _PATIENCE + self._relations.related // _PASS
        if self._rounds < self._patience:
            return None
        self._rounds = 0
        pairs = self._relations.pairs()
        if pairs is None:
            self._patience = 1 << 62
            return None
        return Walk(*pairs)
