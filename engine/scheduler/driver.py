"""What the serial and the parallel scheduler have in common."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from tidewheel.engine.scheduler.exec_stream import ExecStream, Quantum
from tidewheel.engine.scheduler.graph import Output, StreamGraph
from tidewheel.engine.scheduler.handoff import Item
from tidewheel.engine.scheduler.journal import Journal
from tidewheel.engine.scheduler.node import Node
from tidewheel.engine.scheduler.pauses import quiet_collector
from tidewheel.engine.scheduler.recording import Recorder, Step
from tidewheel.engine.scheduler.transitions import Transitions

#: ns for which a run may keep the garbage collector off.
QUIET_FOR = 1_000_000_000
#: ns of a quantum below which handing it to a worker would cost more than it could gain.
QUICK = 200_000


class Aborted(Exception):
    """The run was ended from outside before it was complete."""


class ProgressOwner(Protocol):
    """Keeps the progress of a graph; called by the manager only, between quanta."""

    def apply(self, stream_id: int, updates: Sequence[Any], /) -> Iterable[int]:
        """Take over a stream's updates; the ids of streams with deliverable notifications.

        Not called when a quantum made no updates.
        """


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What one stream has done so far. Rows are counted under `profile=True` only."""

    id: int
    name: str
    quanta: int
    busy: float  # seconds inside `execute`
    batches_in: int
    batches_out: int
    rows_in: int
    rows_out: int
    batches_waiting: int  # in its inputs
    bytes_waiting: int  # of those, in handoffs that are bounded by bytes


class Scheduler(ABC):
    """Runs the streams of one graph. `degree` is the number of quanta that may run at once.

    `journal` takes notes of all that happens; `profile` counts rows; `record` is a list that takes
    the decisions, for `Replay`.

    Errors: the first exception of a stream is raised by `run_until_idle` and `read_stream`, then
    and on every later call until `reset`; exceptions after it are attached to it as notes.
    """

    degree: int = 1

    def __init__(
        self,
        graph: StreamGraph,
        owner: ProgressOwner | None = None,
        *,
        quantum: Quantum | None = None,
        journal: Journal | None = None,
        profile: bool = False,
        record: list[Step] | None = None,
    ) -> None:
        self.graph = graph
        self.owner = owner
        self.quantum = quantum or Quantum()
        self.journal = journal
        self.profile = profile
        self.transitions = Transitions(graph) if record is None else Recorder(graph, record)
        if journal is not None:
            self.transitions.story = journal.story
        self.error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._aborted = False
        self._closed = False
        self._opened: dict[int, ExecStream] = {}
        self._quiet_until = 0  # ns; 0 while the garbage collector is left alone

    # -- from any thread

    @abstractmethod
    def wake(self, stream_id: int) -> None:
        """External input has arrived, or I/O has ended, for this stream. Runs nothing itself."""

    @abstractmethod
    def abort(self, error: BaseException | None = None) -> None:
        """End the run: interrupts what is running; the callers get `error` (or `Aborted`)."""

    # -- from the caller's thread

    @abstractmethod
    def open(self) -> None:
        """Open all streams. Streams added to the graph later are opened before they run."""

    @abstractmethod
    def run_until_idle(self) -> None:
        """Run until no stream has anything to do; raises the first error of any stream."""

    @abstractmethod
    def read_stream(self, output_id: int) -> Item | None:
        """The next `(time, batch)` of an output, produced on demand.

        None when there is no more: for good when the output's `eos` is true, else until something
        is put into the graph from outside.
        """

    @abstractmethod
    def reset(self) -> None:
        """After an error: drop what lies in handoffs and outputs, and be ready to run again.

        Each stream's own `reset` is called; what it held is its to put back.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop, and close every stream, also after an error; safe to call twice."""

    def __enter__(self) -> Scheduler:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def stats(self) -> list[StreamStats]:
        """The counters of all streams, in order of their ids."""
        return [
            StreamStats(
                id=stream_id,
                name=node.stream.name,
                quanta=node.quanta,
                busy=node.busy_ns / 1e9,
                batches_in=sum(h.taken_batches for h in node.stream.inputs),
                batches_out=sum(h.put_batches for h in node.stream.outputs),
                rows_in=sum(h.taken_rows for h in node.stream.inputs),
                rows_out=sum(h.put_rows for h in node.stream.outputs),
                batches_waiting=sum(len(h) for h in node.stream.inputs),
                bytes_waiting=sum(h.nbytes for h in node.stream.inputs),
            )
            for stream_id, node in sorted(self.transitions.nodes.items())
        ]

    # -- for the drivers

    def _sync(self) -> None:
        """Take over changes of the graph: close what went, open what came."""
        added, removed = self.transitions.sync()
        for node in removed:
            self._opened.pop(node.id, None)
            node.stream.close()
        for node in added:
            self._adopt(node)
        if self.profile:
            for handoff in self.graph.handoffs():
                handoff.profile = True

    def _adopt(self, node: Node) -> None:
        node.estimate = node.stream.expected_ns
        node.quick = (
            node.stream.blocking or 0 <= node.estimate < QUICK or isinstance(node.stream, Output)
        )
        if self.journal is not None:
            self.journal.name(node.id, node.stream.name)
        self._opened[node.id] = node.stream  # before `open`: also a half-opened stream is closed
        node.stream.open()

    def _close_streams(self) -> None:
        """Close all; what the first `close` to fail raised is raised when all have been closed."""
        error: BaseException | None = None
        for stream in reversed(list(self._opened.values())):
            try:
                stream.close()
            except BaseException as exc:
                error = error or exc
        self._opened.clear()
        for handoff in self.graph.handoffs():
            handoff.close()
        if error is not None:
            raise error

    def _reset_state(self) -> None:
        self.error = self._traceback = None
        self._aborted = False
        self.transitions.reset()
        for _, stream in self.graph.items():
            stream.reset()

    def _fail(self, error: BaseException, node: Node | None = None) -> None:
        """Take an error: the first one wins, later ones are noted on it."""
        where = "" if node is None else f" in stream {node.stream.name!r}"
        if self.error is None:
            self._traceback = error.__traceback__
            self.error = error
        elif error is not self.error and not self._aborted:
            self.error.add_note(f"later{where}: {type(error).__name__}: {error}")
        self._note("error", -1 if node is None else node.id, f"{type(error).__name__}: {error}")

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("the scheduler is closed")
        if self.error is not None:
            raise self.error.with_traceback(self._traceback)

    def _quiet(self) -> None:
        """Keep the garbage collector out of what follows, but not for longer than a second."""
        quiet_collector.begin()
        self._quiet_until = time.perf_counter_ns() + QUIET_FOR

    def _unquiet(self) -> None:
        if self._quiet_until:
            self._quiet_until = 0
            quiet_collector.end()

    def _note(self, kind: str, stream_id: int, detail: str = "") -> None:
        if self.journal is not None:
            now = time.perf_counter_ns()
            self.journal.add((kind, stream_id, now, now, detail, ""))
