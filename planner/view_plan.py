"""One maintained view: its circuit, how it is filled, how an epoch goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.circuit import Circuit, Loop, Node
from tidewheel.engine.operators.join import Join
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Operator
from tidewheel.engine.operators.quantiles import Quantiles
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.sink import Sink
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.state.arrangement import Counters
from tidewheel.engine.state.change import Change, Replaced
from tidewheel.engine.state.delta import Delta, net
from tidewheel.engine.state.memory import Excess, ensure
from tidewheel.engine.state.rowwise import Row
from tidewheel.planner import logical as L
from tidewheel.planner import (  # noqa: F401  (rules)
    lower_view_aggregate,
    lower_view_asof,
    lower_view_join,
    lower_view_nodes,
    lower_view_recursion,
    lower_view_window,
    view_choice,
)
from tidewheel.planner.circuit_statistics import statistics
from tidewheel.planner.iterations import Iterations
from tidewheel.planner.lower_view import NoDeltaRule, ViewLowering
from tidewheel.planner.lower_view_nodes import source_key
from tidewheel.planner.meaning import Meaning
from tidewheel.planner.plans import Deltas, Run
from tidewheel.planner.recompute import Recompute, compared
from tidewheel.planner.recursion_watch import Watch
from tidewheel.planner.rewrites.enum_places import enum_places
from tidewheel.planner.rewrites.for_views import rewritten
from tidewheel.planner.rewrites.measured import Measures
from tidewheel.planner.rewrites.prune import wanted
from tidewheel.planner.view_kernels import under
from tidewheel.planner.view_statements import as_delta
from tidewheel.planner.view_waiting import Sizes, put_off

_LOOKED_AT = 1_000  # rows of a change of all sorts that are compared with one another


class Incremental:
    """A view kept by operators on deltas."""

    reason = ""

    def __init__(self, node: L.Node, run: Run, rows_prefix: str) -> None:
        self._measures = Measures(run.rows, run.remembered)
        self._measures.count(node, lambda table: source_key(table, rows_prefix), run.held)
        self.node = node = rewritten(enum_places(node, run), self._measures)
        self.circuit = Circuit()
        self._low = ViewLowering(self.circuit, run, rows_prefix, wanted(node))
        self.keeper: object = self._low
        self.held: dict[str, int] = {}
        """Rows of the tables and views that it reads."""
        stream = self._low.place(node)
        self._labels = [c.label for c in stream.schema]
        self.sink = Sink(stream.placed.op.schema)
        self.circuit.add(self.sink, stream.placed)
        self._rows: tuple[pa.Table, pa.Table] | None = None
        self.recursive = list(_recursive(self.circuit))
        ops = [n.op for n in self.circuit.nodes if n is not None]
        self.settles = any(op.settles for op in ops)
        self.slow = any(isinstance(op, Loop) and op.slow for op in ops)
        """Does it take many times as long to fill as the query?"""
        self._looking = [op for op in ops if op.looks or isinstance(op, Regroup | Quantiles)]
        self._look()

    def iterations(self) -> list[Iterations]:
        """What the last step (or filling) changed in the recursive tables."""
        found: list[Iterations] = []
        for name, op in self.recursive:
            if op.rounds:
                found += _added_up(name, op.rounds)
                op.rounds = []
        return found

    def counts(self) -> list[int]:
        """The rows of each table or view that it reads."""
        return self._measures.rows([source.table for source in self._low.inputs])

    def fill(self, run: Run) -> None:
        """Take everything that there is through the circuit, as one delta per table."""
        rows: dict[Node, int] = {}
        constants: dict[Node, Delta] = {}
        for placed, sql in self._low.constants:
            constants[placed] = as_delta(run(sql), placed.op.schema)
            rows[placed] = len(constants[placed])
        for source, count in zip(self._low.inputs, self.counts(), strict=True):
            self.held[source.key] = rows[source.node] = count
        self._low.contents.rows = rows
        self._low.contents.read = self._low.contents.now = run
        sizes = Sizes(self._low.contents, self._measures)
        self._low.contents.begin(run, sizes)
        if run.shared is not None:
            put_off(self.circuit, self._low.contents, run.shared, sizes)
        self._low.contents.fill(self.circuit, run, constants)
        self.circuit.run()
        self.circuit.end_epoch()
        self.sink.begin()
        self._look()
        for node in self.circuit.nodes:
            if node is not None and isinstance(node.op, Join):
                node.op.begun = True  # one side may wait for the other, which is empty

    def _look(self) -> None:
        """Some operators begin to ask tables when they have rows, or have done with it."""
        self.looks = any(op.looks for op in self._looking)

    def step(self, changes: Deltas, run: Run, read: bool = True) -> Change:
        """One epoch; not `read`: nobody asks for `before`."""
        self._low.contents.read, self._low.contents.now = run.committed, run
        for source in self._low.inputs:
            change = changes.get(source.key)
            if change is not None and len(change):
                delta = source.taken.of(change)
                # of an UPDATE of others nothing is left, but where rows lie (to find equal ones
                # among many takes as long as operators do with them)
                partly = len(delta.schema) < len(change.names) and not (self.looks or self.settles)
                if partly and (len(delta) <= _LOOKED_AT or not change.net):
                    delta = net(delta)
                if len(delta):
                    self.circuit.push(source.node, delta)
        for key, change in changes.items():
            if key in self.held:
                self.held[key] += change.net
        self.circuit.run()
        self.circuit.end_epoch()
        self._look()
        return Change.of(self.sink.taken(read), self._labels)

    def rows(self) -> pa.Table:
        """The view's rows; the same object until they change."""
        table = self.sink.rows()
        if self._rows is None or self._rows[0] is not table:
            self._rows = (table, table.rename_columns(self._labels))
        return self._rows[1]

    def before(self) -> pa.Table:
        """See `Plan.before`."""
        return self.sink.before().rename_columns(self._labels)

    def settle(self) -> None:
        """See `Plan.settle`."""
        self.sink.settle()

    def find(self, columns: tuple[int, ...], values: Row) -> pa.Table | None:
        """See `Plan.find`."""
        found = self.sink.find(columns, values)
        if found is None:
            return None
        return found.repeated().to_arrow(weight=None).rename_columns(self._labels)

    def statistics(self) -> list[dict[str, Any]]:
        """One record per operator, those in loops behind the loop."""
        return statistics(self.circuit)


def _added_up(table: str, parts: Sequence[tuple[Counters, Sequence[int]]]) -> list[Iterations]:
    """Iterations of changes that may speak of a counter several times."""
    ends: dict[tuple[int, ...], int] = {}
    for (*outer, first), rows in parts:
        end = first + len(rows)
        ends[tuple(outer)] = max(ends.get(tuple(outer), 0), end)
    changes = {outer: np.zeros(end, np.int64) for outer, end in ends.items()}
    for (*outer, first), rows in parts:
        changes[tuple(outer)][first : first + len(rows)] += np.array(rows, np.int64)
    found = []
    for loops, sums in changes.items():
        places = sums.nonzero()[0]
        if len(places):
            begin = int(places[0])
            found.append(Iterations(table, loops, begin, sums[begin : int(places[-1]) + 1]))
    return found


def _recursive(circuit: Circuit) -> Iterator[tuple[str, Operator]]:
    """The recursive tables, by name, and the operators that tell what each counter changes."""
    for node in circuit.nodes:
        if node is None:
            continue
        op = node.op
        if not isinstance(op, Loop):
            if op.rounds is not None or hasattr(op, "watch"):
                op.rounds = []
                _watched_by(op, op)
                yield op.name.removeprefix("recursion "), op
            continue
        for union in {id(r): r for n in op.inner.nodes for r in _fed_back(n)}.values():
            readers = [r for r, _, _ in union.readers[0]]
            single = len(readers) == 1 and isinstance(readers[0].op, (Tally, Keyed))
            head = readers[0].op if single else union.op
            head.rounds = []
            _watched_by(op, head)
            yield union.op.name.removesuffix(" all"), head
        yield from _recursive(op.inner)


def _watched_by(loop: Operator, head: Operator) -> None:
    watch = getattr(loop, "watch", None)
    if isinstance(watch, Watch):
        watch.heads.append(head)


def _fed_back(node: Node | None) -> Iterator[Node]:
    """Who reads the variables that `node` is fed back to."""
    for readers in node.readers if node is not None else ():
        for variable, _, delay in readers:
            if delay:
                yield from (r for r, _, _ in variable.readers[0])


@contextmanager
def _out_of_range() -> Iterator[None]:
    """What is too large for a type is DuckDB's error."""
    try:
        yield
    except OverflowError as error:
        raise duckdb.OutOfRangeException(f"Out of Range Error: {error}") from None


class ViewPlan:
    """How one view is kept: by deltas where every part of its query has a rule, else recomputed."""

    def __init__(
        self,
        sql: str,
        scratch: Callable[..., pa.Table],
        rows_prefix: str,
        meaning: Meaning = (),
    ) -> None:
        self.reason = ""
        self._meaning = meaning
        self._sql = sql
        self._scratch = scratch
        self._recompute: Callable[[str], Recompute] = lambda reason: Recompute(sql, reason, scratch)
        self._rows_prefix = rows_prefix
        self._plan: Incremental | Recompute | None = None
        self.seconds = self.worth = self.anew = 0.0

    def hydrate(self, run: Run, spent: float, rests: int) -> None:
        """See `Plan.hydrate`."""
        with under(self._meaning), run.there(), _out_of_range():
            self._hydrate(run, spent, rests)

    def _hydrate(self, run: Run, spent: float, rests: int) -> None:
        started = perf_counter()
        try:
            plan = Incremental(run.bind(self._sql), run, self._rows_prefix)
            self.reason = ""
            if (plan.slow or rests) and self._put_off(run, spent, rests, sum(plan.counts())):
                return
            plan.fill(run)
        except (NoDeltaRule, RecursionError, Unkept, Excess) as error:
            deep = isinstance(error, RecursionError)
            self.reason = "its plan nests too deep" if deep else str(error)
            if isinstance(error, Excess):
                self._ensure_room(run)
            fallback = self._recompute(self.reason)
            fallback.hydrate(run)
            self._plan = fallback
            return
        self._plan = plan
        self.seconds = perf_counter() - started

    def _put_off(self, run: Run, spent: float, rests: int, rows: int) -> bool:
        """Is the view computed anew for now? State that takes long to fill has to be worth it."""
        reason = "its operators take long to fill: once changes have taken as long"
        if rests:
            reason = "its operators took longer than its query: they are tried again later"
        started = perf_counter()
        anew = self._recompute(reason)
        anew.hydrate(run)
        self.anew = seconds = perf_counter() - started
        worth = view_choice.worth(seconds, rows, rests)
        if (seconds < view_choice.AT_ONCE and not rests) or spent > worth:
            return False
        self._plan, self.reason, self.worth = anew, reason, worth
        return True

    def _measured(self, seconds: float) -> None:
        """The view was computed anew, in less than at first (which loads modules), it may be."""
        least = min(self.anew, seconds)
        self.worth, self.anew = self.worth * least / self.anew, least

    def step(self, changes: Deltas, run: Run, read: bool = True) -> Change | Replaced:
        """The view's delta for the deltas of what it reads; not `read`: by no other view."""
        assert self._plan is not None
        with under(self._meaning), _out_of_range():
            try:
                started = perf_counter()
                found = self._plan.step(changes, run, read)
                if self.worth:
                    self._measured(perf_counter() - started)
                return found
            except Unkept as error:
                if run.ahead:  # tables do not have the change yet
                    raise
                self.reason = str(error)
                fallback = self._recompute(self.reason)
                fallback.take_over(self._plan.rows())
                self._plan = fallback
                return fallback.step(changes, run)

    def _ensure_room(self, run: Run) -> None:
        """MemoryError if DuckDB's answer to the query does not fit either."""
        ensure(run.row(f"SELECT count(*) FROM (\n{self._sql}\n)")[0], "rows of a view")

    def rows(self) -> pa.Table:
        """The view's rows after the last step."""
        assert self._plan is not None
        return self._plan.rows()

    def before(self) -> pa.Table:
        """See `Plan.before`."""
        assert self._plan is not None
        return self._plan.before()

    def settle(self) -> None:
        """See `Plan.settle`."""
        if self._plan is not None:
            self._plan.settle()

    def find(self, columns: tuple[int, ...], values: Row) -> pa.Table | None:
        """See `Plan.find`."""
        plan = self._plan
        return plan.find(columns, values) if isinstance(plan, Incremental) else None

    @property
    def circuit(self) -> Circuit | None:
        """The operators; None while there are none, as the view is recomputed."""
        return self._plan.circuit if self._plan is not None else None

    def looks(self, one: bool) -> bool:
        """Must tables have a change before the view can take it? `one`: of a row that comes."""
        plan = self._plan
        return not isinstance(plan, Incremental) or plan.looks or (plan.settles and not one)

    @property
    def keeper(self) -> object | None:
        """Who keeps the view's part of shared arrangements."""
        return self._plan.keeper if self._plan is not None else None

    def held(self, key: str) -> int:
        """Rows of a table or view that it reads."""
        return self._plan.held.get(key, 0) if isinstance(self._plan, Incremental) else 0

    @property
    def size(self) -> int:
        """Rows of the view."""
        plan = self._plan
        return plan.sink.state_rows if isinstance(plan, Incremental) else self.rows().num_rows

    @property
    def pace(self) -> float:
        """About how many seconds the operators take for a changed row, among many.

        Measured on tables of a million rows and graphs of 500,000 edges: 0.3 to 0.7 µs where
        nothing recurses, 0.5 to 14 µs where something does.
        """
        return 3e-6 if isinstance(self._plan, Incremental) and self._plan.recursive else 5e-7

    def compared(self, old: pa.Table, new: pa.Table) -> Change | Replaced:
        """`new` − `old` as a delta that no view reads."""
        return compared(old, new, self._scratch, read=False)

    def iterations(self) -> list[Iterations]:
        """What the last step changed in recursive tables."""
        assert self._plan is not None
        return self._plan.iterations()

    def statistics(self) -> list[dict[str, Any]]:
        """One record per vertex."""
        assert self._plan is not None
        return self._plan.statistics()
