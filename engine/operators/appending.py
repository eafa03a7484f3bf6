"""A UNION ALL whose step is structural: rows come from the rows of the step before, and all stay.

Law: the same rows as the loop context with a `Variable` of kind union_all. The program's arithmetic
is that of the columns' types: beyond them `Unfit` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.budget import Meter
from tidewheel.engine.operators.lookup import Relation
from tidewheel.engine.operators.rowset import repeats
from tidewheel.engine.operators.seen import FEW
from tidewheel.engine.operators.step_program import Ints, Program
from tidewheel.engine.operators.step_rows import Row, compiled

_WORTH = 500  # rows of a relation that are made Python's in the time of one small step
_AT_ONCE = 64  # small steps between two looks at the bounds
_ENDLESS = 1 << 62
_COMPARED = 1_000_000  # rows that are compared to tell why a loop does not end

Chunks = list[list[Ints]]


@dataclass
class Appending:
    """One run of the loop. `nulls`: values may be NULL; `enough`: it may end at that many rows."""

    program: Program
    relations: Sequence[Relation]
    nulls: bool
    meter: Meter
    enough: int | None

    def run(self, anchor: list[Ints], told: Callable[[int, list[Ints]], None] | None) -> Chunks:
        """All rows, by iteration (small ones together). `told` is given each iteration."""
        program, meter = self.program, self.meter
        width = 8 * program.columns
        chunks: Chunks = []
        columns, iteration, small_steps = anchor, 0, 0
        step = None
        size = sum(len(r) for r in self.relations)
        while True:
            rows = len(columns[0])
            bound = meter.spend(iteration, rows, rows * width)
            if bound is not None:
                chunks.append(self._bounded(bound, columns, chunks))
                return chunks
            if rows == 0:
                return chunks
            if told is not None:
                told(iteration, columns)
            chunks.append(columns)
            if self.enough is not None and meter.rows >= self.enough:
                return chunks
            small = rows <= FEW and not self.nulls and told is None
            small_steps += small
            if small and small_steps * _WORTH >= size:
                step = step or compiled(program, self.relations)
                iteration, columns = self._small(step, columns, iteration, chunks)
            else:
                columns = program.run(columns, self.relations, self.nulls)
                iteration += 1

    def _small(
        self,
        step: Callable[[Sequence[Row]], list[Row]],
        columns: list[Ints],
        iteration: int,
        chunks: Chunks,
    ) -> tuple[int, list[Ints]]:
        """Go on while the steps are small; the next iteration, and its rows."""
        rows: list[Row] = list(zip(*(c.tolist() for c in columns), strict=True))
        every: list[Row] = []
        counts: list[int] = []
        budget, width = self.meter.budget, 8 * len(columns)
        last = budget.iterations or _ENDLESS
        room = min(budget.rows or _ENDLESS, self.enough or _ENDLESS) - self.meter.rows
        room = min(room, ((budget.bytes or _ENDLESS) - self.meter.bytes) // width)
        while True:
            rows = step(rows)
            iteration += 1
            if not 0 < len(rows) <= FEW or len(counts) == _AT_ONCE:
                break
            if iteration > last or len(every) + len(rows) >= room:
                break
            every += rows
            counts.append(len(rows))
        if counts:
            self.meter.spend_all(iteration - 1, counts, width)
            chunks.append(_arrays(every, len(columns)))
        return iteration, _arrays(rows, len(columns))

    def _bounded(self, bound: str, columns: list[Ints], chunks: Chunks) -> list[Ints]:
        """What stays of the step that passed a bound. Raises RecursionLimitError on `error`."""
        budget, rows = self.meter.budget, len(columns[0])
        if budget.on_limit == "error":
            raise self.meter.error(bound, self._repeats(columns, chunks))
        kept = rows
        if budget.iterations is not None and self.meter.iteration > budget.iterations:
            kept = 0
        elif budget.rows is not None:
            kept = min(rows, max(0, rows - (self.meter.rows - budget.rows)))
        return [c[:kept] for c in columns]

    def _repeats(self, columns: list[Ints], chunks: Chunks) -> bool:
        """Did the last step give rows only that the steps before it gave?"""
        if not chunks or self.meter.rows > _COMPARED:
            return False
        return repeats(map(_table, chunks), _table(columns))


def _arrays(rows: Sequence[Row], width: int) -> list[Ints]:
    found = np.array(rows, dtype=np.int64).reshape(len(rows), width)
    return list(np.ascontiguousarray(found.T))


def _table(columns: Sequence[Ints]) -> pa.Table:
    return pa.table({f"c{i}": c for i, c in enumerate(columns)})
