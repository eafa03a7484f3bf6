"""Running a graph: `Dataflow`, its inputs, outputs and probes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from tidewheel.engine.dataflow import checkpoint
from tidewheel.engine.dataflow.checkpoint import Checkpoint
from tidewheel.engine.dataflow.ends import OPEN, InputStream, OutputStream
from tidewheel.engine.dataflow.errors import ClosedError, DataflowError
from tidewheel.engine.dataflow.expand import Expansion
from tidewheel.engine.dataflow.graph import Graph, Kind, Stage, Stream, StreamLike
from tidewheel.engine.dataflow.streams import VertexStream
from tidewheel.engine.dataflow.tracking import Progress, SharedProgress
from tidewheel.engine.progress.antichain import Antichain
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler import ParallelScheduler, make_scheduler
from tidewheel.engine.scheduler.exec_stream import Quantum


class Dataflow:
    """A running graph.

    `threads`: the degree of parallelism; with 1 everything runs inside `run` and while an output is
    read. `workers`: into how many vertices each stage is split. `prefetch`: batches that an output
    holds for its reader before production pauses; None: no limit. `epoch`: the first one. `lazy`:
    nothing runs before an output is read, and nothing that no read output needs; otherwise all
    runs as input comes, as for a maintained view. `options` go to the scheduler.

    The graph may grow while it runs; `run` takes over what is new. An exception raised in a vertex
    reaches the caller of `run` or of the output that is read, and ends the run: what is left to do
    is `close`, or `reset`.

    >>> from tidewheel.engine.dataflow.vertex import Vertex
    >>> class Double(Vertex):
    ...     def on_recv(self, port, batch, time):
    ...         self.send_by(0, batch * 2, time)
    >>> graph = Graph()
    >>> graph.output("doubled", graph.stage("double", Double, [graph.input("numbers")]))
    Stage('doubled', output)
    >>> with Dataflow(graph) as dataflow:
    ...     numbers = dataflow.input("numbers")
    ...     numbers.send(3)
    ...     numbers.close()
    ...     list(dataflow.output("doubled"))
    [(Timestamp(epoch=0, counters=()), 6)]
    """

    def __init__(
        self,
        graph: Graph,
        threads: int = 1,
        workers: int = 1,
        *,
        prefetch: int | None = None,
        quantum: Quantum | None = None,
        epoch: int = 0,
        progress: Progress | None = None,
        lazy: bool = False,
        **options: Any,
    ) -> None:
        self.graph = graph
        self.threads = threads
        self.workers = workers
        self.start = epoch
        self.running = False
        self.progress = progress if progress is not None else SharedProgress(eager=threads > 1)
        self.expansion = Expansion(graph, workers, self.progress, prefetch, not lazy, threads > 1)
        self.closed = False
        self.scheduler = make_scheduler(
            self.expansion.physical, self.progress, degree=threads, quantum=quantum, **options
        )
        self._inputs: dict[str, Input] = {}
        self.extend()

    # -- the graph

    def extend(self, epoch: int | None = None) -> None:
        """Take over what was added to the graph; new inputs and sources start at `epoch`.

        By default that is the first epoch that is still open at some input.
        """
        if self.closed:
            raise ClosedError("the dataflow is closed")
        if epoch is None:
            epoch = self.epoch
        with self._still():
            for stream in self.expansion.extend(epoch):
                stage = stream.stage
                if stage.kind is Kind.INPUT and stage.name not in self._inputs:
                    streams = self.expansion.streams[stage.id]
                    self._inputs[stage.name] = Input(self, stage, streams, epoch)
                self._begin(stream)

    def remove(self, *stages: Stage | Stream) -> None:
        """Take out stages that nobody else reads, with all that is under way in them."""
        gone = [s.stage if isinstance(s, Stream) else s for s in stages]
        for stage in gone:
            if stage.kind is Kind.INPUT:
                self._inputs.pop(stage.name, None)
        with self._still():
            self.expansion.remove(gone)

    @property
    def epoch(self) -> int:
        """The first epoch that is still open at some input."""
        return min((i.epoch for i in self._inputs.values() if not i.closed), default=self.start)

    # -- running

    def input(self, name: str) -> Input:
        """The input called `name`."""
        self._check()
        if name not in self._inputs:
            self.graph.named(Kind.INPUT, name)
        return self._inputs[name]

    def output(self, name: str) -> Output:
        """The output called `name`."""
        self._check()
        stage = self.graph.named(Kind.OUTPUT, name)
        stream = self.expansion.streams[stage.id][0]
        assert isinstance(stream, OutputStream)
        return Output(self, stream)

    def probe(self, place: StreamLike) -> Probe:
        """A probe that tells how far a stage, or a stream outside all loops, has come."""
        return Probe(self, place)

    def close_epoch(self) -> None:
        """Close the open epoch at every input that is not closed."""
        for entry in self._inputs.values():
            if not entry.closed:
                entry.close_epoch()

    def run(self) -> None:
        """Run until there is nothing left to do."""
        self._check()
        self.running = True
        try:
            self.scheduler.run_until_idle()
            while self._settle():
                self.scheduler.run_until_idle()
        finally:
            self.running = False

    @property
    def complete(self) -> bool:
        """True when all inputs are closed and nothing is under way."""
        with self._still():
            return not self.progress.outstanding()

    def reset(self, epoch: int | None = None) -> None:
        """After an error or an abort: drop everything under way and be ready for more input.

        Inputs that are not closed stand at `epoch`, or at the last one that they had opened.
        Every vertex's `reset` is called; what state it keeps is its own affair.
        """
        self.scheduler.reset()
        with self._still():
            self.progress.reset()
            for entry in self._inputs.values():
                entry._reopen(epoch)
            self._restart()

    def checkpoint(self) -> Checkpoint:
        """Deliver all messages, then take down every vertex's state; see `checkpoint.take`."""
        self._check()
        return checkpoint.take(self)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint, in a dataflow that has not run yet."""
        self._check()
        checkpoint.restore(self, saved)

    def abort(self, error: BaseException | None = None) -> None:
        """End a run from another thread; `run` or the reader raises `error` (or `Aborted`)."""
        self.scheduler.abort(error)

    def close(self) -> None:
        """Close every vertex. May be called after an error, and more than once."""
        if not self.closed:
            self.closed = True
            self.scheduler.close()

    def __enter__(self) -> Dataflow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside

    def _check(self) -> None:
        if self.closed:
            raise ClosedError("the dataflow is closed")
        if self.expansion.stale:
            self.extend()

    def _still(self) -> AbstractContextManager[None]:
        """Within it no quantum runs, so graph and progress may be touched."""
        if isinstance(self.scheduler, ParallelScheduler):
            return self.scheduler.paused()
        return _NOTHING

    def _settle(self) -> bool:
        """The scheduler is idle: grant what can be granted now; False when that is nothing."""
        with self._still():
            woken = list(self.progress.idle())
        for stream_id in woken:
            self.scheduler.wake(stream_id)
        return bool(woken)

    def _restart(self) -> None:
        """All streams have been put back: take over the events that they start with."""
        for entry in self._inputs.values():
            entry._follow()
        for stream in self.expansion.ids:
            self._begin(stream)

    def _begin(self, stream: VertexStream) -> None:
        for stream_id in self.progress.begin(self.expansion.ids[stream], stream):
            self.scheduler.wake(stream_id)


_NOTHING: AbstractContextManager[None] = nullcontext()


class Input:
    """The outside's end of an input: batches by epoch.

    To be used by one thread, and not while another runs a dataflow that has no threads itself.
    """

    def __init__(
        self, dataflow: Dataflow, stage: Stage, streams: list[VertexStream], epoch: int
    ) -> None:
        self.name = stage.name
        self.epoch = epoch
        self.closed = False
        self._dataflow = dataflow
        self._streams = [s for s in streams if isinstance(s, InputStream)]
        self._ids = [dataflow.expansion.ids[s] for s in streams]
        self._turn = 0

    def send(self, batch: Any, worker: int | None = None) -> None:
        """Put a batch into the open epoch, at one worker (by default each in turn)."""
        self._check()
        if worker is None:
            worker = self._turn
            self._turn = (worker + 1) % len(self._streams)
        self._streams[worker].inbox.append((self.epoch, batch))
        self._dataflow.scheduler.wake(self._ids[worker])

    def close_epoch(self) -> None:
        """Say that the open epoch is complete, and open the next."""
        self.advance_to(self.epoch + 1)

    def advance_to(self, epoch: int) -> None:
        """Close all epochs before `epoch`."""
        self._check()
        if epoch <= self.epoch:
            raise DataflowError(
                f"input {self.name!r} is at epoch {self.epoch}; it cannot go to {epoch}"
            )
        self.epoch = epoch
        self._put(epoch)

    def close(self) -> None:
        """Say that nothing more will come. May be called more than once."""
        if not self.closed:
            self._check()
            self.closed = True
            self._put(None)

    def _put(self, epoch: int | None) -> None:
        dataflow = self._dataflow
        for stream, stream_id in zip(self._streams, self._ids, strict=True):
            if dataflow.threads == 1 and not dataflow.running and not stream.inbox:
                # Nothing runs, so it needs no quantum.
                stream.open_at(epoch)
                for woken in dataflow.progress.apply(stream_id, stream.take_progress()):
                    dataflow.scheduler.wake(woken)
            else:
                stream.inbox.append((epoch, OPEN))
                dataflow.scheduler.wake(stream_id)

    def _reopen(self, epoch: int | None) -> None:
        if epoch is not None:
            self.epoch = epoch
        for stream in self._streams:
            stream.reopen(None if self.closed else self.epoch)

    def _follow(self) -> None:
        epoch = self._streams[0].open_epoch
        self.closed = epoch is None
        if epoch is not None:
            self.epoch = epoch

    def _check(self) -> None:
        if self.closed or self._dataflow.closed:
            raise ClosedError(f"input {self.name!r} is closed")


class Output:
    """The outside's end of an output: iterate over it for `(time, batch)`.

    Iterating runs the dataflow as far as it must. It ends when there is nothing left to do; after
    more input it can be iterated again.
    """

    def __init__(self, dataflow: Dataflow, stream: OutputStream) -> None:
        self.name = stream.name
        self._dataflow = dataflow
        self._stream = stream
        self._id = dataflow.expansion.ids[stream]

    def __iter__(self) -> Iterator[tuple[Timestamp, Any]]:
        while (item := self.read()) is not None:
            yield item

    def read(self) -> tuple[Timestamp, Any] | None:
        """The next batch; None when nothing is left to do."""
        dataflow = self._dataflow
        dataflow._check()
        dataflow.running = True
        try:
            item = dataflow.scheduler.read_stream(self._id)
            while item is None and dataflow._settle():
                item = dataflow.scheduler.read_stream(self._id)
            return item
        finally:
            dataflow.running = False

    def take(self) -> list[tuple[Timestamp, Any]]:
        """What is there already, without running anything."""
        out = []
        while self._stream.ready:
            out.append(self._stream.ready.popleft())
        self._dataflow.scheduler.wake(self._id)
        return out


class Probe:
    """Tells whether a time can still come at a stage (counting its own notifications)."""

    def __init__(self, dataflow: Dataflow, place: StreamLike) -> None:
        stage = place.stage if isinstance(place, Stream) else place
        if stage.summary is not None:
            raise DataflowError(f"{stage!r} has no vertex; probe the stage before or after it")
        self._dataflow = dataflow
        self._location = stage.id
        self._depth = stage.depth

    def passed(self, time: Timestamp | int) -> bool:
        """True when nothing at or before `time` (an epoch, or a timestamp) is left to do here."""
        at = Timestamp(time) if isinstance(time, int) else time
        if len(at.counters) != self._depth:
            raise DataflowError(f"{at} should have {self._depth} counters")
        with self._dataflow._still():
            return not self._dataflow.progress.blocked(self._location, at)

    def frontier(self) -> Antichain:
        """The times at which something can still happen here."""
        with self._dataflow._still():
            return self._dataflow.progress.frontier(self._location)

    def wait(self, time: Timestamp | int) -> None:
        """Run until `time` has passed; DataflowError when it cannot, as an input is still open."""
        if not self.passed(time):
            self._dataflow.run()
            if not self.passed(time):
                raise DataflowError(
                    f"{time} cannot pass: an input is still open, or an output is not read"
                )
