"""The physical graph: every vertex as an `ExecStream` of the scheduler.

Ingress, egress, feedback and concat have no vertices. What they do to a batch is done by the
sender, on the way to the handoff (`Route`), so that going round a loop costs one quantum for each
stage that does something.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidewheel.engine.dataflow.errors import TimeError
from tidewheel.engine.dataflow.graph import Kind, Partition, Stage
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.change_batch import Location
from tidewheel.engine.progress.path_summary import PathSummary, identity
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream, Quantum
from tidewheel.engine.scheduler.handoff import Handoff

Update = tuple[Location, Timestamp, int]
"""A change of an occurrence count; 0 at a stage asks to be notified without having an event."""


@dataclass(slots=True)
class Route:
    """The way from an output port of one vertex to an input port of a stage.

    `summary` is what the system stages on the way do to the time, None for nothing. With `loops`
    the way leads through feedbacks that look at what passes, and is gone step by step. `handoffs`
    has one entry, or with `partition` one per worker.
    """

    location: Location
    port: int
    summary: PathSummary | None
    loops: tuple[Stage, ...]
    handoffs: list[Handoff]
    partition: Partition | None
    target: VertexStream | None = None  # when the only target may be called directly

    @staticmethod
    def summarize(way: tuple[Stage, ...], depth: int) -> PathSummary:
        """The path summary of a sequence of system stages."""
        total = identity(depth)
        for stage in way:
            assert stage.summary is not None
            total = total.then(stage.summary)
        return total


class VertexStream(ExecStream):
    """Runs a vertex: drains handoffs into `on_recv`, delivers notifications, resumes iterators.

    Progress follows Naiad's rules: `send_by` and `notify_at` count up at once, a message or
    notification counts down when its callback, or the iterator that it returned, has ended.
    """

    notifiable = True  # its location holds notifications (an input's holds its open epoch)

    def __init__(self, stage: Stage, vertex: Vertex, worker: int, workers: int) -> None:
        self.name = stage.name if workers == 1 else f"{stage.name}[{worker}]"
        self.inputs = []
        self.outputs = []
        self.stage = stage
        self.worker = worker
        self.vertex = vertex
        vertex.name, vertex.worker, vertex.workers = stage.name, worker, workers
        vertex.context = self
        self.blocking, self.exclusive = vertex.blocking, vertex.exclusive
        self.routes: list[list[Route]] = [[] for _ in stage.streams]
        self.edges: list[tuple[Handoff, int, Location]] = []
        self.paused = False  # notifications are held back (checkpoint)
        self.pending: set[Timestamp] = set()  # asked for, not yet delivered
        self._location = stage.id
        self._depth = stage.depth
        self._notify_first = stage.options.notify_first
        self._reentrancy = stage.options.reentrancy
        self._reentered = 0
        self._now: Timestamp | None = None
        self._updates: list[Update] = []
        self._grants: deque[Timestamp] = deque()  # appended by the manager, also while this runs
        self._due: list[Timestamp] = []  # a heap
        self._work: Iterator[object] | None = None
        self._work_at: tuple[Location, Timestamp] | None = None
        self._sent = 0

    # -- what the vertex calls

    def send_by(self, port: int, batch: Any, time: Timestamp) -> None:
        """See `Vertex.send_by`."""
        if time is not self._now:
            self._check(time, "send")
        self._sent += 1
        updates = self._updates
        for route in self.routes[port]:
            at = time
            if route.loops:
                passed = _go_round(route.loops, time, batch)
                if passed is None:
                    continue
                at = passed
            elif route.summary is not None:
                at = route.summary.apply(time)
            if route.partition is None:
                if route.target is not None and self._reenter(route, batch, at):
                    continue
                route.handoffs[0].put(at, batch)
                updates.append((route.location, at, 1))
                continue
            parts = route.partition(batch, len(route.handoffs))
            for handoff, part in zip(route.handoffs, parts, strict=True):
                if part is not None:
                    handoff.put(at, part)
                    updates.append((route.location, at, 1))

    def watch(self, time: Timestamp) -> None:
        """Be notified at `time` without having an event there: it may lie before the present."""
        self._updates.append((self._location, time, 0))

    def notify_at(self, time: Timestamp) -> None:
        """See `Vertex.notify_at`."""
        if time is not self._now:
            self._check(time, "be notified")
        if time not in self.pending:
            self.pending.add(time)
            self._updates.append((self._location, time, 1))

    def _check(self, time: Timestamp, what: str) -> None:
        now = self._now
        if now is None:
            raise TimeError(f"{self.name!r} may only {what} within on_recv and on_notify")
        if len(time[1]) != self._depth:
            raise TimeError(
                f"{self.name!r} lies in {self._depth} loops, so the time {time} "
                f"should have {self._depth} counters"
            )
        if not (now[0] <= time[0] and now[1] <= time[1]):
            raise TimeError(f"{self.name!r} cannot {what} at {time}, which is not after now, {now}")

    def _reenter(self, route: Route, batch: Any, time: Timestamp) -> bool:
        """Deliver to this same vertex at once, unless too deep or others wait before it."""
        if self._reentered >= self._reentrancy or not route.handoffs[0].empty:
            return False
        now, self._now = self._now, time
        self._reentered += 1
        try:
            for _ in self.vertex.on_recv(route.port, batch, time) or ():
                pass
        finally:
            self._reentered -= 1
            self._now = now
        return True

    # -- what the manager calls

    def start(self, time: Timestamp) -> None:
        """Let a source be notified at its first epoch."""
        self.pending.add(time)
        self._updates.append((self._location, time, 1))

    def grant(self, time: Timestamp) -> None:
        """The notification at `time` may be delivered."""
        self._grants.append(time)

    @property
    def busy(self) -> bool:
        """True when a quantum would find something to do."""
        if self.unfinished:
            return True
        return bool(self._due or self._grants) and not self.paused

    def take_progress(self) -> list[Update]:
        updates, self._updates = self._updates, []
        return updates

    def open(self) -> None:
        self.vertex.open()

    def close(self) -> None:
        work, self._work = self._work, None
        try:
            if work is not None and hasattr(work, "close"):
                work.close()
        finally:
            self.vertex.close()

    def interrupt(self) -> None:
        self.vertex.interrupt()

    @property
    def unfinished(self) -> bool:
        """True while a message waits, or a callback's iterator has not ended."""
        return self._work is not None or any(not edge[0].empty for edge in self.edges)

    def reset(self) -> None:
        """Forget everything under way; the handoffs are emptied by the scheduler."""
        self.forget()
        self.vertex.reset()

    def forget(self) -> None:
        """Forget everything under way, but not the vertex's state."""
        work, self._work, self._work_at = self._work, None, None
        if work is not None and hasattr(work, "close"):
            work.close()
        self._now = None
        self._reentered = 0
        self.pending.clear()
        self._updates.clear()
        self._grants.clear()
        self._due.clear()

    # -- a quantum

    def execute(self, quantum: Quantum) -> ExecResult:
        left = quantum.batches
        self._sent = 0
        due, grants, edges = self._due, self._grants, self.edges
        for _ in range(len(grants)):  # those that come later belong to the next quantum
            heapq.heappush(due, grants.popleft())
        while True:
            if self._work is not None:
                result = self._resume(left)
                if result is not None:
                    return result
            first = None
            for edge in edges:
                if not edge[0].empty and (first is None or edge[0].peek()[0] < first[0].peek()[0]):
                    first = edge
            notify = due and not self.paused and (first is None or self._notify_first)
            if first is None and not notify:
                return ExecResult.UNDERFLOW
            for handoff in self.outputs:
                if handoff.full:
                    return ExecResult.OVERFLOW
            if left <= self._sent:
                return ExecResult.QUANTUM_EXPIRED
            left -= 1
            if notify:
                self._notify(heapq.heappop(due))
                continue
            assert first is not None
            handoff, port, location = first
            time, batch = handoff.take()
            self._now = time
            self._after(self.vertex.on_recv(port, batch, time), location, time)
            if self._notify_first and self.pending:
                return ExecResult.QUANTUM_EXPIRED  # it may be granted before the next message

    def _notify(self, time: Timestamp) -> None:
        self.pending.discard(time)
        self._now = time
        self._after(self.vertex.on_notify(time), self._location, time)

    def _after(self, work: Iterator[object] | None, location: Location, time: Timestamp) -> None:
        self._now = None
        if work is None:
            self._updates.append((location, time, -1))
        else:
            self._work, self._work_at = iter(work), (location, time)

    def _resume(self, limit: int) -> ExecResult | None:
        """Go on with an iterator; None when it has ended, else why it rests."""
        work, held = self._work, self._work_at
        assert work is not None
        assert held is not None
        self._now = held[1]
        try:
            for _ in range(limit):
                for handoff in self.outputs:
                    if handoff.full:
                        return ExecResult.OVERFLOW
                if self._sent >= limit:
                    break
                if next(work) is ExecResult.YIELD:
                    return ExecResult.YIELD
        except StopIteration:
            self._work = self._work_at = None
            self._updates.append((*held, -1))
            return None
        finally:
            self._now = None
        return ExecResult.QUANTUM_EXPIRED


def _go_round(loops: tuple[Stage, ...], time: Timestamp, batch: Any) -> Timestamp | None:
    """The time behind system stages, feedbacks among them; None when a loop's limit is reached."""
    for stage in loops:
        assert stage.summary is not None
        time = stage.summary.apply(time)
        if stage.kind is Kind.FEEDBACK:
            options = stage.options
            if options.on_feedback is not None:
                options.on_feedback(time, batch)
            if options.max_iterations is not None and time[1][-1] >= options.max_iterations:
                return None
    return time
