"""A recursion whose step is structural, over values that may be any of their types.

Rows come from the rows of the step before. Under UNION ALL all stay; under UNION those that were
not there before. Law: the same rows as the loop context with a `Variable` of kind union_all, or
union. The program's arithmetic is that of the columns' types: beyond them `Unfit` is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers
from tidewheel.engine.operators.budget import Meter, compared
from tidewheel.engine.operators.cycle import Bags, Cycle
from tidewheel.engine.operators.lookup import Relation
from tidewheel.engine.operators.rowset import RowSet, repeats
from tidewheel.engine.operators.seen import FEW
from tidewheel.engine.operators.step_program import Ints, Program
from tidewheel.engine.operators.step_rows import Row, compiled

_WORTH = 500  # rows of a relation that are made Python's in the time of one small step
_AT_ONCE = 64  # small steps between two looks at the bounds
_ENDLESS = 1 << 62
_MOST = 1_000_000  # rows that are Python's, some 100 bytes each

Chunks = list[list[Ints]]


class Unbounded:
    """The rows of a UNION: Python's while steps have few, as deep and narrow recursions do."""

    def __init__(self) -> None:
        self._few: set[Row] | None = set()
        self._all: RowSet | None = None

    @property
    def few(self) -> bool:
        """Have all steps been small, and not too many?"""
        return self._few is not None and len(self._few) < _MOST

    def new(self, rows: list[Row]) -> list[Row]:
        """Of a few rows those that are new, each once; they are in the set now."""
        assert self._few is not None
        known = self._few
        fresh = [r for r in dict.fromkeys(rows) if r not in known]
        known.update(fresh)
        return fresh

    def fresh(self, columns: list[Ints]) -> list[Ints]:
        """The same of rows in columns."""
        width = len(columns)
        if self.few and len(columns[0]) <= FEW:
            return _arrays(self.new(list(zip(*(c.tolist() for c in columns), strict=True))), width)
        if self._all is None:
            self._all = RowSet(width)
            self._all.add(_table(_arrays(list(self._few or ()), width)))
            self._few = None
        return [numbers(c) for c in self._all.add(_table(columns)).columns]


@dataclass
class Appending:
    """One run of the loop. `nulls`: values may be NULL; `enough`: it may end at that many rows;
    `seen`: those of a UNION.
    """

    program: Program
    relations: Sequence[Relation]
    nulls: bool
    meter: Meter
    enough: int | None
    seen: Unbounded | None = None

    def run(self, anchor: list[Ints], told: Callable[[int, list[Ints]], None] | None) -> Chunks:
        """All rows, by iteration (small ones together). `told` is given each iteration."""
        program, meter = self.program, self.meter
        width = 8 * program.columns
        chunks: Chunks = []
        seen = self.seen
        columns, iteration, small_steps = anchor if seen is None else seen.fresh(anchor), 0, 0
        step = None
        size = sum(len(r) for r in self.relations)
        may_end = seen is not None or self.enough is not None or meter.budget.on_limit != "error"
        cycle = None if may_end else Cycle()
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
            if cycle is not None:
                since = cycle.since(iteration, [rows], partial(_bag, columns))
                if since is not None:
                    raise meter.endless(since)
            small = rows <= FEW and not self.nulls and told is None and (seen is None or seen.few)
            small_steps += small
            if small and small_steps * _WORTH >= size:
                step = step or compiled(program, self.relations)
                iteration, columns = self._small(step, columns, iteration, chunks)
            else:
                columns = program.run(columns, self.relations, self.nulls)
                columns = columns if seen is None else seen.fresh(columns)
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
            if self.seen is not None:
                rows = self.seen.new(rows)
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
            raise self.meter.error(bound, self._repeats(bound, columns, chunks))
        kept = rows
        if budget.iterations is not None and self.meter.iteration > budget.iterations:
            kept = 0
        elif budget.rows is not None:
            kept = min(rows, max(0, rows - (self.meter.rows - budget.rows)))
        return [c[:kept] for c in columns]

    def _repeats(self, bound: str, columns: list[Ints], chunks: Chunks) -> bool:
        """Did the last step give rows only that the steps before it gave?"""
        if self.seen is not None or not chunks or self.meter.rows > compared(bound):
            return False
        return repeats(map(_table, chunks), _table(columns))


def _bag(columns: Sequence[Ints]) -> Bags:
    return [Counter(zip(*(c.tolist() for c in columns), strict=True))]


def _arrays(rows: Sequence[Row], width: int) -> list[Ints]:
    found = np.array(rows, dtype=np.int64).reshape(len(rows), width)
    return list(np.ascontiguousarray(found.T))


def _table(columns: Sequence[Ints]) -> pa.Table:
    return pa.table({f"c{i}": array_of(c) for i, c in enumerate(columns)})
