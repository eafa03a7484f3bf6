"""The serial scheduler: degree of parallelism 1, no threads; the oracle for the parallel one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream, Quantum
from tidewheel.engine.scheduler.graph import StreamGraph
from tidewheel.engine.scheduler.handoff import Item
from tidewheel.engine.scheduler.transitions import Node, Transitions


class Aborted(Exception):
    """The run was ended from outside before it was complete."""


class ProgressOwner(Protocol):
    """Keeps the progress of a graph; called by the manager only, between quanta."""

    def apply(self, stream_id: int, updates: Sequence[Any]) -> Iterable[int]:
        """Take over a stream's updates; the ids of streams with deliverable notifications.

        Not called when a quantum made no updates.
        """


class SerialScheduler:
    """Runs a graph in the caller's thread, one quantum at a time."""

    degree = 1

    def __init__(
        self,
        graph: StreamGraph,
        owner: ProgressOwner | None = None,
        *,
        quantum: Quantum | None = None,
    ) -> None:
        self.graph = graph
        self.owner = owner
        self.quantum = quantum or Quantum()
        self.transitions = Transitions(graph)
        self.error: BaseException | None = None
        self._external: deque[int] = deque()
        self._arrived = threading.Event()
        self._waiting = False
        self._running: ExecStream | None = None
        self._active = False
        self._closed = False
        self._opened: list[ExecStream] = []

    # -- from any thread

    def wake(self, stream_id: int) -> None:
        """External input has arrived, or I/O has ended, for this stream. Runs nothing."""
        self._external.append(stream_id)
        if self._waiting:
            self._arrived.set()

    def abort(self, error: BaseException | None = None) -> None:
        """End the run: interrupts the running quantum; the caller gets `error` (or `Aborted`)."""
        if self.error is None:
            self.error = error if error is not None else Aborted("the run was aborted")
        running = self._running
        if running is not None:
            running.interrupt()
        self._arrived.set()

    # -- from one thread at a time

    def open(self) -> None:
        """Open all streams. Streams added to the graph later are opened before they run."""
        self._sync()

    def run_until_idle(self) -> None:
        """Run until no stream has anything to do; raises the first error of any stream."""
        self._enter()
        try:
            while self._step(reading=False):
                pass
        finally:
            self._active = False

    def read_stream(self, output_id: int) -> Item | None:
        """The next `(time, batch)` of an output, produced on demand.

        None when there is no more: for good when the output's `eos` is true, else until something
        is put into the graph from outside.
        """
        output = self.graph.output(output_id)
        self._enter()
        try:
            self.transitions.reach(output_id)
            while not output.ready:
                if output.ended or not self._step(reading=True):
                    return None
            item = output.ready.popleft()
            self.transitions.wake(output_id)
            return item
        finally:
            self._active = False

    def close(self) -> None:
        """Close every stream, also after an error; the first error of closing is raised last."""
        if self._closed:
            return
        self._closed = True
        error: BaseException | None = None
        for stream in reversed(self._opened):
            try:
                stream.close()
            except BaseException as exc:
                error = error or exc
        self._opened.clear()
        for handoff in self.graph.handoffs():
            handoff.close()
        if error is not None:
            raise error

    def reset(self) -> None:
        """After an error: drop what lies in handoffs and outputs, and be ready to run again.

        What the streams themselves hold is theirs to put back.
        """
        self.error = None
        self._external.clear()
        self.transitions.reset()
        for _, stream in self.graph.items():
            reset = getattr(stream, "reset", None)
            if reset is not None:
                reset()

    # -- inside

    def _enter(self) -> None:
        if self._closed:
            raise RuntimeError("the scheduler is closed")
        if self._active:
            raise RuntimeError(
                "the scheduler is already running: a stream may not run its own graph"
            )
        if self.error is not None:
            raise self.error
        if self.transitions.version != self.graph.version:
            self._sync()
        self._active = True

    def _sync(self) -> None:
        added, removed = self.transitions.sync()
        for node in removed:
            if node.stream in self._opened:
                self._opened.remove(node.stream)
            node.stream.close()
        for node in added:
            node.stream.open()
            self._opened.append(node.stream)

    def _step(self, *, reading: bool) -> bool:
        """Run one quantum; False when idle."""
        transitions, external = self.transitions, self._external
        if self.error is not None:
            raise self.error
        while external:
            transitions.wake(external.popleft())
        node = transitions.next()
        if node is None:
            if transitions.unblock(reading=reading):
                return True
            if transitions.yielded:
                self._wait()
                return True
            return False
        self._quantum(node)
        return True

    def _quantum(self, node: Node) -> None:
        stream = self._running = node.stream
        woken: Iterable[int] = ()
        try:
            result = stream.execute(self.quantum)
            updates = stream.take_progress()
            if updates and self.owner is not None:
                woken = self.owner.apply(node.id, updates)
        except BaseException as exc:
            if self.error is None:
                self.error = exc
            result = ExecResult.UNDERFLOW
        finally:
            self._running = None
        self.transitions.complete(node, result, woken)

    def _wait(self) -> None:
        """Every stream that could go on waits for something outside: sleep until it comes."""
        self._waiting = True
        try:
            while not self._external and self.error is None:
                self._arrived.wait()
                self._arrived.clear()
        finally:
            self._waiting = False
