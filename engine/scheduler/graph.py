"""The physical graph as the scheduler sees it: streams, the handoffs between them, outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream, Quantum
from tidewheel.engine.scheduler.handoff import Handoff, Item


class Output(ExecStream):
    """An output sentinel: a stream that moves batches to where a caller may take them.

    It is a stream like any other, so the rule that neighbours never run together protects its
    handoff, and a caller touches `ready` alone (a deque, whose ends are atomic). It holds at most
    `prefetch` batches for the caller; then it sleeps until the caller comes back.
    """

    def __init__(self, name: str, prefetch: int = 1) -> None:
        if prefetch < 1:
            raise ValueError(f"prefetch is {prefetch}; it must be at least 1")
        self.name = name
        self.inputs = []
        self.outputs = []
        self.prefetch = prefetch
        self.ready: deque[Item] = deque()
        self.ended = False
        self.last_room = 0
        self.forced_room: int | None = None  # in a replay: what it was in the recorded run

    def room(self) -> int:
        """How many batches this quantum may put into `ready`; asked once per quantum.

        The caller empties `ready` at any time, so this is the one thing a quantum sees that may
        change while it runs; it is recorded.
        """
        self.last_room = (
            max(0, self.prefetch - len(self.ready))
            if self.forced_room is None
            else self.forced_room
        )
        return self.last_room

    def execute(self, quantum: Quantum) -> ExecResult:
        source = self.inputs[0]
        room = self.room()
        while room > 0 and not source.empty:
            self.ready.append(source.take())
            room -= 1
        if source.eos:
            self.ended = True
            return ExecResult.EOS
        return ExecResult.UNDERFLOW if source.empty else ExecResult.OVERFLOW

    @property
    def eos(self) -> bool:
        """True when every batch has been taken and none will come."""
        return self.ended and not self.ready

    def reset(self) -> None:
        self.ready.clear()
        self.ended = False


class StreamGraph:
    """Streams and the handoffs that join them.

    May be extended and pruned whenever no quantum runs: between two calls of a serial scheduler, or
    inside `ParallelScheduler.paused()`. Identifiers are never used again.
    """

    def __init__(self) -> None:
        self.version = 0
        self._streams: dict[int, ExecStream] = {}
        self._eager: set[int] = set()
        self._next = 0
        self._touched: set[int] = set()

    # -- building

    def add_stream(self, stream: ExecStream, *, eager: bool = False) -> int:
        """Add a stream and return its id.

        An `eager` stream (a maintained view's sink) pulls on everything before it from the start;
        otherwise production waits until an output is read.
        """
        stream_id = self._next
        self._next += 1
        stream.inputs = getattr(stream, "inputs", None) or []
        stream.outputs = getattr(stream, "outputs", None) or []
        self._streams[stream_id] = stream
        if eager:
            self._eager.add(stream_id)
        self._touch(stream_id)
        return stream_id

    def connect(self, producer: int, consumer: int, handoff: Handoff | None = None) -> Handoff:
        """Join two streams; appends the handoff to the one's outputs and the other's inputs."""
        source, target = self._stream(producer), self._stream(consumer)
        handoff = handoff if handoff is not None else Handoff()
        if handoff.producer != -1 or handoff.consumer != -1:
            raise ValueError(f"{handoff!r} already joins two streams")
        if producer == consumer and not handoff.soft:
            raise ValueError(
                f"stream {source.name!r} feeds itself through a hard-bounded handoff, which can "
                "never drain while it is full; make it soft"
            )
        handoff.producer, handoff.consumer = producer, consumer
        source.outputs.append(handoff)
        target.inputs.append(handoff)
        self._touch(producer, consumer)
        return handoff

    def add_output(
        self, name: str, producer: int, handoff: Handoff | None = None, *, prefetch: int = 1
    ) -> int:
        """Put an output sentinel behind a stream; its id is what `read_stream` takes."""
        output = self.add_stream(Output(name, prefetch))
        self.connect(producer, output, handoff)
        return output

    def remove_stream(self, stream_id: int) -> None:
        """Take a stream out, with its handoffs. A scheduler that has opened it closes it."""
        stream = self._stream(stream_id)
        for handoff in [*stream.inputs, *stream.outputs]:
            self._touch(handoff.producer, handoff.consumer)
            for end in (
                self._streams[handoff.producer].outputs,
                self._streams[handoff.consumer].inputs,
            ):
                if handoff in end:
                    end.remove(handoff)
            handoff.close()
        del self._streams[stream_id]
        self._eager.discard(stream_id)
        self._touch(stream_id)

    def _touch(self, *stream_ids: int) -> None:
        self._touched.update(stream_ids)
        self.version += 1

    def take_touched(self) -> set[int]:
        """The ids added, removed or rewired since the last call; for the scheduler."""
        touched, self._touched = self._touched, set()
        return touched

    # -- reading

    def _stream(self, stream_id: int) -> ExecStream:
        try:
            return self._streams[stream_id]
        except KeyError:
            raise KeyError(f"the graph has no stream {stream_id}") from None

    def __getitem__(self, stream_id: int) -> ExecStream:
        return self._stream(stream_id)

    def __contains__(self, stream_id: object) -> bool:
        return stream_id in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def items(self) -> Iterator[tuple[int, ExecStream]]:
        yield from self._streams.items()

    def handoffs(self) -> Iterator[Handoff]:
        for stream in self._streams.values():
            yield from stream.outputs

    def is_eager(self, stream_id: int) -> bool:
        return stream_id in self._eager

    def output(self, stream_id: int) -> Output:
        stream: Any = self._stream(stream_id)
        if not isinstance(stream, Output):
            raise TypeError(f"stream {stream.name!r} ({stream_id}) is not an output")
        return stream
