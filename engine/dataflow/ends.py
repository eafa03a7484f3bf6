"""The ends of a physical graph: inputs, fed by a caller, and outputs, read by one."""

from __future__ import annotations

from collections import deque
from typing import Any

from tidewheel.engine.dataflow.stage import Stage
from tidewheel.engine.dataflow.streams import VertexStream
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler.exec_stream import ExecResult, Quantum
from tidewheel.engine.scheduler.graph import Output as OutputSentinel


class InputVertex(Vertex):
    """Stands for the outside: what is put into `inbox` is sent on in the stream's next quantum."""


class InputStream(VertexStream):
    """An input's end in one worker. Holds the pointstamp of the epoch that is open."""

    notifiable = False

    def __init__(self, stage: Stage, worker: int, workers: int, epoch: int) -> None:
        super().__init__(stage, InputVertex(), worker, workers)
        self.inbox: deque[tuple[int | None, Any]] = (
            deque()
        )  # (epoch, batch), (epoch, OPEN), (None,)
        self.reopen(epoch)

    @property
    def busy(self) -> bool:
        return bool(self.inbox)

    @property
    def unfinished(self) -> bool:
        return bool(self.inbox)

    def forget(self) -> None:
        self.inbox.clear()
        super().forget()

    def reopen(self, epoch: int | None) -> None:
        """Start again at an epoch, or closed, after a reset."""
        self.open_epoch = epoch
        if epoch is not None:
            self._updates.append((self._location, Timestamp(epoch), 1))

    def execute(self, quantum: Quantum) -> ExecResult:
        inbox = self.inbox
        left = quantum.batches
        while inbox:
            for handoff in self.outputs:
                if handoff.full:
                    return ExecResult.OVERFLOW
            if left <= 0:
                return ExecResult.QUANTUM_EXPIRED
            epoch, batch = inbox.popleft()
            if batch is OPEN:
                self.open_at(epoch)
                continue
            assert epoch is not None
            self._now = Timestamp(epoch)
            self.send_by(0, batch, self._now)
            self._now = None
            left -= 1
        return ExecResult.UNDERFLOW

    def open_at(self, epoch: int | None) -> None:
        """Go on to an epoch; None: close."""
        assert self.open_epoch is not None
        if epoch is not None:
            self._updates.append((self._location, Timestamp(epoch), 1))
        self._updates.append((self._location, Timestamp(self.open_epoch), -1))
        self.open_epoch = epoch


OPEN: Any = object()
"""In an inbox: the epoch beside it is the open one now; None: the input is closed."""


class OutputVertex(Vertex):
    """Moves batches to `ready`, where a caller takes them; in order of epochs if `ordered`."""

    def __init__(self, epoch: int, ordered: bool) -> None:
        self.ready: deque[tuple[Timestamp, Any]] = deque()
        self.released = epoch  # batches up to this epoch go straight to `ready`
        self.ordered = ordered
        self.held: dict[int, list[tuple[Timestamp, Any]]] = {}

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        if not self.ordered or time.epoch <= self.released:
            self.ready.append((time, batch))
            return
        if time.epoch not in self.held:
            self.held[time.epoch] = []
            self.context.watch(Timestamp(time.epoch - 1))
        self.held[time.epoch].append((time, batch))

    def on_notify(self, time: Timestamp) -> None:
        self.released = max(self.released, time.epoch + 1)
        for epoch in sorted(e for e in self.held if e <= self.released):
            self.ready.extend(self.held.pop(epoch))

    def reset(self) -> None:
        self.ready.clear()
        self.held.clear()

    def checkpoint(self) -> Any:
        held = {epoch: list(batches) for epoch, batches in self.held.items()}
        return list(self.ready), held, self.released

    def restore(self, state: Any) -> None:
        ready, held, self.released = state
        self.ready.extend(ready)
        self.held = {epoch: list(batches) for epoch, batches in held.items()}
        for epoch in self.held:
            self.context.watch(Timestamp(epoch - 1))


class OutputStream(VertexStream, OutputSentinel):
    """An output: the scheduler's sentinel that also reports progress."""

    def __init__(self, stage: Stage, epoch: int, prefetch: int) -> None:
        OutputSentinel.__init__(self, stage.name, prefetch)
        vertex = OutputVertex(epoch, stage.options.ordered)
        VertexStream.__init__(self, stage, vertex, 0, 1)
        self.ready = vertex.ready

    def execute(self, quantum: Quantum) -> ExecResult:
        room = self.room()
        if room <= 0:
            return ExecResult.OVERFLOW
        return VertexStream.execute(self, Quantum(room) if room < quantum.batches else quantum)

    def _notify(self, time: Timestamp) -> None:
        self.vertex.on_notify(time)  # it was watched only, so there is no event to end
