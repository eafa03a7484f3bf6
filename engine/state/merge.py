"""Sorted runs that become one, a little at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import merge_runs

SLICE: Final = 1 << 15


class Merge:
    """Runs on their way to become one; readers use the runs until it is done."""

    def __init__(self, runs: Sequence[Rows]) -> None:
        self.runs = runs
        self._at = [0] * len(runs)
        self._done: list[Rows] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def work(self, fuel: int) -> None:
        """Merge at least `fuel` rows, or all that is left."""
        largest = self.runs[0]
        while fuel > 0 and not self.complete:
            end = min(self._at[0] + min(fuel, SLICE), len(largest))
            if end == len(largest):
                ends = [len(run) for run in self.runs]
            else:
                # Rows of one key stay in one piece.
                boundary = largest.keys[end - 1]
                ends = [int(run.keys.searchsorted(boundary, side="right")) for run in self.runs]
            slices = zip(self.runs, self._at, ends, strict=True)
            self._done.append(merge_runs([run.slice(begin, end) for run, begin, end in slices]))
            fuel -= sum(ends) - sum(self._at)
            self._at = ends

    @property
    def complete(self) -> bool:
        """All rows merged?"""
        return sum(self._at) == len(self)

    def result(self) -> Rows:
        """The merged run."""
        return concat_rows(self._done)
