"""Run a logical plan: lower it, fuse it, put it on the scheduler, read batches from its output."""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from tidewheel.engine.dataflow.graph import Stream
from tidewheel.engine.dataflow.runtime import Dataflow, Output
from tidewheel.engine.kernels.connection import KernelConnection
from tidewheel.engine.kernels.duckdb import roll_back
from tidewheel.engine.scheduler.journal import Journal
from tidewheel.planner import lower_recursion  # noqa: F401  (registers LetRec)
from tidewheel.planner.build import OUTPUT, build
from tidewheel.planner.choice import Choice
from tidewheel.planner.context import Context, Settings
from tidewheel.planner.degree import Learned, cursor, degree, leave
from tidewheel.planner.flow import Flow, Operator
from tidewheel.planner.fuse import KernelPlan, fuse
from tidewheel.planner.logical import Block, LetRec, Node
from tidewheel.planner.lower import lower
from tidewheel.planner.rewrites import rewritten

PREFETCH = 2
"""Batches that a result holds ready for its reader."""


class Watch(Protocol):
    """What looks on while a plan runs (EXPLAIN ANALYZE)."""

    journal: Journal
    places: dict[Operator, Stream]  # filled: what each operator became
    dataflow: Dataflow  # set

    def profile(self, sql: str, measured: str) -> None:
        """DuckDB's profile of a kernel's statement, as JSON."""


class BatchStream(Protocol):
    """A result: Arrow batches of one schema, computed as they are asked for."""

    @property
    def schema(self) -> pa.Schema: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __next__(self) -> pa.RecordBatch: ...

    def close(self) -> None:
        """Stop the computation and free what it holds; safe to call at any time, again too."""


def whole(sql: str, reason: str = "as written") -> Block:
    """A query as one kernel, its text untouched; DuckDB names and types its columns."""
    return Block(sql, (), (), (), reason)


@dataclass(frozen=True, slots=True)
class Physical:
    """A plan made ready: the operators and the kernels that they were cut into."""

    flow: Flow
    kernels: tuple[KernelPlan, ...]
    labels: tuple[str, ...] | None  # None: as DuckDB names them
    learned: Learned = field(default_factory=Learned, compare=False)
    choice: Choice | None = None  # where DuckDB could run the query, too


def physical(node: Node, settings: Settings, known: Choice | None = None) -> Physical:
    """Rewrite, lower and fuse a plan. `known`: what there is from runs before it was planned."""
    labels = None if _is_whole(node) else tuple(c.label for c in node.schema)
    if labels is not None:
        node = rewritten(node)
    choice = None
    if isinstance(node, LetRec) and node.whole is not None and settings.fusion:
        choice = known or Choice(node.whole)
        choice.limited, choice.ends = node.limited, node.ends
        choice.slow = any(b.kind == "using_key" for b in node.bindings)
    flow = lower(node, settings.fusion)
    kernels = tuple(fuse(flow, settings.fusion))
    return Physical(flow, kernels, labels, choice=choice)


def run(node: Node, context: Context) -> BatchStream:
    """Start a plan. Errors of binding are raised here, errors of running by the stream."""
    return start(physical(node, context.settings), context)


def start(plan: Physical, context: Context, ask: bool = True) -> BatchStream:
    """Run a plan the way that is thought to be the faster, up to its first batch.

    Unless `ask`, DuckDB has been asked already in this run, or is not to be.
    """
    choice = plan.choice
    if choice is None:
        return launch(plan, context)
    if ask and (answer := whole_answer(choice, context)) is not None:
        return answer
    begun = clock.perf_counter()
    result = launch(plan, context)
    choice.note_loop(clock.perf_counter() - begun)
    return result


def whole_answer(choice: Choice, context: Context) -> BatchStream | None:
    """DuckDB's own answer, if it is its turn, and it has it in time."""
    seconds = choice.begin(context)
    if seconds <= 0:
        return None
    begun = clock.perf_counter()
    answer: BatchStream | None = choice.run(seconds, context)
    choice.note_whole(clock.perf_counter() - begun, answer is not None)
    return answer


def launch(plan: Physical, context: Context, watch: Watch | None = None) -> Result:
    """Put a plan on the scheduler and compute its first batch."""
    threads = degree(plan.flow, plan.kernels, plan.learned, context.settings.threads)
    if threads > 1:
        # The caller holds the session's lock while it waits for workers: they need their own.
        context = dataclasses.replace(context, lock=threading.RLock())
    batch_rows, once = context.settings.batch_rows, not context.in_transaction
    connection = KernelConnection(
        context.connection, context.lock, batch_rows, access=context.access, once=once
    )
    apart: dict[str, KernelConnection] = {}
    if threads > 1:
        for name in leave(plan.kernels, plan.learned, context):
            own = cursor(context, plan.learned)
            apart[name] = KernelConnection(
                own, threading.RLock(), batch_rows, connection, once=once
            )
    parameters: Any = context.parameters
    if plan.labels is not None and parameters is not None and not isinstance(parameters, Mapping):
        # Parts of a text name its parameters by number.
        parameters = {str(i): value for i, value in enumerate(parameters, 1)}
    connections = [connection, *apart.values()]
    if watch is None:
        graph = build(plan.flow, plan.kernels, connection, parameters, context, apart)
        dataflow = Dataflow(graph, threads, prefetch=PREFETCH, lazy=True)
    else:
        for each in connections:
            each.measure(watch.profile)
        graph = build(plan.flow, plan.kernels, connection, parameters, context, apart, watch.places)
        dataflow = Dataflow(
            graph, threads, prefetch=PREFETCH, lazy=True, journal=watch.journal, profile=True
        )
        watch.dataflow = dataflow
    if threads > 1:
        plan.learned.give(dataflow)
    return Result(dataflow, plan, context, connections)


def _is_whole(node: Node) -> bool:
    return isinstance(node, Block) and not node.inputs and not node.columns


class Result:
    """Reads the output of a dataflow that runs as far as it is read.

    Kernels that read tables must see one snapshot: a plan of several runs inside a transaction of
    its own, unless the user has one open.
    """

    schema: pa.Schema

    def __init__(
        self,
        dataflow: Dataflow,
        plan: Physical,
        context: Context,
        connections: Sequence[KernelConnection],
    ) -> None:
        self.dataflow = dataflow
        self._context = context
        self._connections = connections
        self._labels = plan.labels
        self._learned = plan.learned if len(plan.kernels) > 1 else None
        self._transaction = False
        self._closed = False
        self._output: Output | None = None
        self._ahead: pa.RecordBatch | None = None
        try:
            if dataflow.threads > 1:
                context.aborts.add(self._abort)
            if len(plan.kernels) > 1 or any(k.inputs for k in plan.kernels):
                for connection in connections:
                    connection.open()
                if not context.in_transaction:
                    with context.lock:
                        context.connection.begin()
                    self._transaction = True
            self._output = dataflow.output(OUTPUT)
            # The first batch tells the schema, and raises what DuckDB says of the text.
            self._ahead = self._read()
            if self._ahead is None:
                raise RuntimeError("internal: the plan ended without a batch")
            self.schema = self._ahead.schema
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._ahead is not None:
            batch, self._ahead = self._ahead, None
            return batch
        if self._closed:
            raise StopIteration
        try:
            found = self._read()
        except BaseException:
            self.close()
            raise
        if found is None:
            self.close()
            raise StopIteration
        return found

    def _read(self) -> pa.RecordBatch | None:
        assert self._output is not None
        if self._context.interrupted.is_set():
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        item = self._output.read()
        if item is None:
            return None
        return self._labelled(item[1])

    def _labelled(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        if isinstance(batch, pa.Table):
            batches = batch.combine_chunks().to_batches()
            schema = batch.schema
            batch = batches[0] if batches else _empty(schema)
        if self._labels is None or len(self._labels) != batch.num_columns:
            return batch  # (PIVOT makes columns of the rows that it finds)
        names = list(self._labels)
        fields = [f.with_name(n) for f, n in zip(batch.schema, names, strict=True)]
        return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))

    def close(self) -> None:
        """Stop, and give the connection free."""
        if self._closed:
            return
        self._closed = True
        self._context.aborts.discard(self._abort)
        try:
            self.dataflow.close()
        finally:
            if self._learned is not None:
                self._learned.note(self.dataflow)
            if self._transaction:
                with self._context.lock:
                    roll_back(self._context.connection)
            for connection in self._connections:
                connection.close()

    def _abort(self) -> None:
        self.dataflow.abort(duckdb.InterruptException("INTERRUPT Error: Interrupted!"))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema)
