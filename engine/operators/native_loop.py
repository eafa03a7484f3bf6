"""A recursion that DuckDB runs alone, read as a stream until it goes too far.

The statement has a LIMIT behind that: what is left of it is read too, for a recursion that is not
read to its end may leave DuckDB 2.0 waiting for its own threads for ever. Only one that is late is
interrupted.

Law: the same rows as the loop context. A statement that could go on for ever carries the iteration
as its last column (see sql/recursion_native.py); rows and bytes are counted as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.operators.budget import Budget, Meter, RecursionLimitError, compared
from tidewheel.engine.operators.rowset import repeats
from tidewheel.engine.progress.timestamp import Timestamp


class NativeLoop(Vertex):
    """`open_reader` starts the statement, `interrupt` stops it; `counted`: its last column is the
    iteration.

    `enough`: the answer may end at that many rows.
    """

    def __init__(
        self,
        open_reader: Callable[[], Any],
        label: str,
        kind: str,
        counted: bool,
        budget: Budget,
        interrupt: Callable[[], None],
        enough: int | None = None,
    ) -> None:
        self._open = open_reader
        self._interrupt = interrupt
        self._counted = counted
        self._budget = budget
        self._enough = enough
        self._label, self._kind = label, kind

    def on_notify(self, time: Timestamp) -> None:
        """Read everything (no other kernel can run meanwhile), then send it."""
        budget = self._budget
        meter = Meter(budget, f'"{self._label}"', self._kind, reports=False)
        counters: list[Any] = []
        reader = self._open()
        batches: list[pa.RecordBatch] = []
        finished = stopped = late = False
        try:
            for batch in reader:
                iteration = 0
                if self._counted:
                    steps = numbers(batch.column(batch.num_columns - 1))
                    batch = batch.select(range(batch.num_columns - 1))
                    iteration = int(steps.max()) if len(steps) else 0
                    counters.append(steps)
                    self._report(steps)
                elif budget.watch is not None:
                    budget.watch(self._label, (), batch.num_rows)
                bound = meter.spend(iteration, batch.num_rows, batch.nbytes)
                late = bound == "statement_timeout"
                if bound is not None and budget.on_limit == "return":
                    if budget.iterations is not None and iteration > budget.iterations:
                        batch = batch.filter(array_of(steps <= budget.iterations))
                    if budget.rows is not None and meter.rows > budget.rows:
                        batch = batch.slice(0, max(0, batch.num_rows - meter.rows + budget.rows))
                    batches.append(batch)
                    stopped = True
                    break
                if bound is not None:
                    per_step = (
                        np.bincount(np.concatenate(counters)) if counters else np.zeros(0, int)
                    )
                    meter.deltas.clear()
                    meter.deltas.extend(int(n) for n in per_step[-10:])
                    raise meter.error(bound, self._repeats(bound, [*batches, batch], per_step))
                batches.append(batch)
                if self._enough is not None and meter.rows >= self._enough:
                    stopped = True
                    break
            schema = reader.schema
            finished = not stopped
        except RecursionLimitError:
            raise
        except Exception as error:
            # The statement's alarm may have ended DuckDB's before the clock was looked at here.
            if not (budget.late() and meter.iteration):
                raise
            raise meter.error("statement_timeout") from error
        finally:
            if late or (not finished and not _drained(reader)):
                self._interrupt()  # closing alone would wait for the iteration that runs
            reader.close()
        if self._counted:
            schema = schema.remove(len(schema) - 1)
        self.send_by(0, pa.Table.from_batches(batches, schema), time)

    def _report(self, steps: Any) -> None:
        """Tell of a batch: how many rows each iteration added to it."""
        if self._budget.watch is not None:
            counts = np.bincount(steps)
            for step in np.flatnonzero(counts).tolist():
                self._budget.watch(self._label, (step,), int(counts[step]))

    def _repeats(self, bound: str, batches: list[pa.RecordBatch], per_step: Any) -> bool:
        """Did the last step give rows only that the steps before it gave?"""
        if not len(per_step) or sum(b.num_rows for b in batches) > compared(bound):
            return False
        table = pa.Table.from_batches(batches)
        last = table.slice(max(0, table.num_rows - int(per_step[-1])))
        return repeats([table.slice(0, table.num_rows - last.num_rows)], last)


def _drained(reader: Iterable[pa.RecordBatch]) -> bool:
    """Read what is left; False if that fails."""
    try:
        for _ in reader:
            pass
    except Exception:  # the rows that were wanted are there
        return False
    return True
