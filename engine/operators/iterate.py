"""The head of a loop: the recursive variables of one loop context, and when the loop is over.

    anchor ──▶ ingress ──▶ ┌─────────┐ ──(what is new at c)──▶ step ──▶ feedback ─┐
                      ┌──▶ │ Iterate │ ──(the answer)──▶ egress                   │
                      │    └─────────┘                                            │
                      └───────────────────────────────────────────────────────────┘

Law: at (e, c) it is notified when all rows of counter c are there (anchors at 0, what the steps
made
of counter c - 1 otherwise). It adds them to its variables and, iff one of them changed, sends to
the
steps what they read. So each step runs once per counter, and the loop ends when nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.operators.budget import Budget, Meter, RecursionLimitError
from tidewheel.engine.operators.cycle import Cycle, bags
from tidewheel.engine.operators.merging import Merge
from tidewheel.engine.operators.rowset import repeats
from tidewheel.engine.operators.variable import Variable, VariableSpec
from tidewheel.engine.progress.timestamp import Timestamp

Part = Literal["delta", "all", "old", "answer"]


class Round(dict[tuple[int, str], pa.Table]):
    """What `Iterate` sends at one time: (variable's position, part) to rows."""

    @property
    def num_rows(self) -> int:
        """Rows that are new at this time, for who counts them."""
        return sum(t.num_rows for (_, part), t in self.items() if part in ("delta", "answer"))


Outer = tuple[int, tuple[int, ...]]


@dataclass
class _Run:
    """One run of the loop: its variables at one time of the place around it."""

    variables: list[Variable]
    meter: Meter
    arrived: dict[int, dict[int, list[pa.Table]]] = field(default_factory=dict)
    recent: list[pa.Table] = field(default_factory=list)
    cycle: Cycle = field(default_factory=Cycle)
    sent: bool = False
    over: bool = False


class Iterate(Vertex):
    """`specs` says what each variable is; port p brings rows of variable `ports[p]`.

    `wanted` are the (variable, part) that somebody reads. `limit`: RETURN AT or ERROR AT RECURSION
    LIMIT. `enough`: the answer may end at that many rows. `record(variable, counters, rows)` is
    given what each counter added to a variable (all its rows, where they are replaced). `closed`:
    what a counter adds follows from what the last one did, and from nothing else. `merges`: of each
    variable, what finds the best rows of its groups. It sends a `Round` per time, from which each
    `Pick` takes its part.
    """

    def __init__(
        self,
        specs: Sequence[VariableSpec],
        ports: Sequence[int],
        wanted: Sequence[tuple[int, Part]],
        budget: Budget,
        limit: tuple[str, int] | None = None,
        enough: int | None = None,
        record: Callable[[int, tuple[int, ...], pa.Table], None] | None = None,
        closed: bool = False,
        merges: Sequence[Merge | None] = (),
    ) -> None:
        self._record = record
        self._closed = closed and enough is None and budget.on_limit == "error"
        self._specs = tuple(specs)
        self._ports = tuple(ports)
        self._wanted = tuple(wanted)
        self._budget = budget
        self._limit = limit
        self._enough = enough
        self._merges = tuple(merges) or (None,) * len(specs)
        self._runs: dict[Outer, _Run] = {}

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        """Keep the rows until all of their counter are there."""
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        outer, counter = (time.epoch, time.counters[:-1]), time.counters[-1]
        run = self._runs.get(outer)
        if run is None:
            names = ", ".join(f'"{s.label}"' for s in self._specs)
            run = self._runs[outer] = _Run(
                [Variable(s, m) for s, m in zip(self._specs, self._merges, strict=True)],
                Meter(self._budget, names, self._specs[0].kind, reports=False),
            )
        variable = self._ports[port]
        run.arrived.setdefault(counter, {}).setdefault(variable, []).append(table)
        self.notify_at(time)

    def on_notify(self, time: Timestamp) -> None:
        """Add what arrived at this counter, send what is new, or end."""
        outer, counter = (time.epoch, time.counters[:-1]), time.counters[-1]
        run = self._runs[outer]
        arrived = run.arrived.pop(counter, {})
        if run.over:
            return
        rows = size = 0
        changed = False
        for i, variable in enumerate(run.variables):
            tables = arrived.get(i)
            if tables is None:
                variable.rest()
                continue
            delta = variable.absorb(tables)
            if self._budget.watch is not None:
                self._budget.watch(self._specs[i].label, time.counters, delta.num_rows)
            if self._record is not None and variable.changed:
                self._record(i, time.counters, variable.part("delta"))
            changed |= variable.changed
            rows += delta.num_rows
            size += delta.nbytes
        self._proceed(run, time, counter, rows, size, changed)

    def _proceed(
        self, run: _Run, time: Timestamp, counter: int, rows: int, size: int, changed: bool
    ) -> None:
        """Send what the steps read, or end the run."""
        starts = counter == 0 and any(s.kind == "mutual" or s.from_nothing for s in self._specs)
        if not changed and not starts:
            self._end(run, time)
            return
        bound = run.meter.spend(counter, rows, size)
        if bound is not None and self._budget.on_limit == "error":
            raise run.meter.error(bound, self._repeats(run))
        if bound is not None:
            self._end(run, time)
            return
        if self._closed:
            state = [v.part("delta") for v in run.variables]
            rows_of = [t.num_rows for t in state]
            since = run.cycle.since(counter, rows_of, lambda: bags(state))
            if since is not None:
                raise run.meter.endless(since)
        if self._limit is not None and counter >= self._limit[1]:
            if self._limit[0] == "error":
                raise RecursionLimitError(
                    f"{run.meter.name} still changes after {self._limit[1]} iterations, "
                    "the limit that the query sets",
                    run.meter.table,
                )
            self._end(run, time)
            return
        run.sent = True
        out = Round()
        for i, part in self._wanted:
            variable = run.variables[i]
            if part != "answer":
                out[i, part] = variable.part(part)
            elif variable.streams:
                out[i, part] = variable.delta
        if self._enough is not None and run.meter.rows >= self._enough:
            out = Round({key: rows for key, rows in out.items() if key[1] == "answer"})
            run.over = True
        self.send_by(0, out, time)
        if self._specs[0].kind == "mutual" and not run.over:
            # A binding that reads none of them brings nothing more: then this round was the last.
            self.notify_at(time.advance())
        if self._specs[0].kind == "union_all":
            run.recent = [*run.recent[-9:], run.variables[0].delta]

    def _end(self, run: _Run, time: Timestamp) -> None:
        """The run is over: send the answers that are known only now, or that are empty."""
        run.over = True
        out = Round()
        for i, part in self._wanted:
            variable = run.variables[i]
            if part == "answer" and not variable.streams:
                out[i, part] = variable.answer()
            elif part == "answer" and not run.sent:
                out[i, part] = variable.empty
        if out:
            self.send_by(0, out, time)
        run.variables, run.recent = [], []

    def _repeats(self, run: _Run) -> bool:
        """Did the last step of a UNION ALL give rows only that other steps gave?"""
        if self._specs[0].kind != "union_all" or not run.recent:
            return False
        return repeats(run.recent, run.variables[0].delta)


class Pick(Vertex):
    """Takes one part of one variable out of the rounds that `Iterate` sends."""

    def __init__(self, variable: int, part: Part) -> None:
        self._key = variable, part

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        """Pass the part on, where the round has it."""
        table = batch.get(self._key)
        if table is not None:
            self.send_by(0, table, time)
