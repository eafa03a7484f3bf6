"""Consistent checkpoints of a running dataflow.

Naiad (SOSP 2013), section 3.4: notifications are held back, messages are delivered until none is
left, then every vertex writes down its state. What remains of progress are the notifications that
are asked for and the epochs that are open, so these and the states are all that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.engine.dataflow.ends import InputStream
from tidewheel.engine.dataflow.errors import DataflowError
from tidewheel.engine.dataflow.streams import VertexStream
from tidewheel.engine.progress.timestamp import Timestamp

if TYPE_CHECKING:
    from tidewheel.engine.dataflow.runtime import Dataflow


@dataclass(frozen=True, slots=True)
class VertexCheckpoint:
    """One vertex: its state, the notifications that it waits for, an input's open epoch."""

    name: str
    worker: int
    state: Any
    pending: tuple[Timestamp, ...]
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A dataflow between two messages. Can be pickled if the vertices' states can."""

    workers: int
    vertices: tuple[VertexCheckpoint, ...]


def take(dataflow: Dataflow) -> Checkpoint:
    """Drain all messages and take a checkpoint; the dataflow can go on afterwards.

    DataflowError when messages cannot be drained, as an output is bounded and not read.
    """
    streams = list(dataflow.expansion.ids)
    _pause(dataflow, streams, True)
    try:
        dataflow.scheduler.run_until_idle()
        with dataflow._still():
            for stream in streams:
                if stream.unfinished:
                    raise DataflowError(
                        f"{stream.name!r} still has messages that cannot go on, as an output is "
                        "not read; read the outputs, then take the checkpoint"
                    )
            return Checkpoint(
                dataflow.workers,
                tuple(
                    VertexCheckpoint(
                        stream.stage.name,
                        stream.worker,
                        stream.vertex.checkpoint(),
                        tuple(sorted(stream.pending)),
                        stream.open_epoch if isinstance(stream, InputStream) else None,
                    )
                    for stream in streams
                ),
            )
    finally:
        _pause(dataflow, streams, False)


def restore(dataflow: Dataflow, checkpoint: Checkpoint) -> None:
    """Put a checkpoint into a dataflow of the same graph that has not run yet."""
    streams = list(dataflow.expansion.ids)
    found = [(s.stage.name, s.worker) for s in streams]
    wanted = [(v.name, v.worker) for v in checkpoint.vertices]
    if found != wanted:
        raise DataflowError(
            f"the checkpoint is of another graph: it has the vertices {wanted}, not {found}"
        )
    dataflow.scheduler.open()
    with dataflow._still():
        dataflow.progress.reset()
        for stream, saved in zip(streams, checkpoint.vertices, strict=True):
            stream.forget()
            if isinstance(stream, InputStream):
                stream.reopen(saved.epoch)
            else:
                for time in saved.pending:
                    stream.start(time)
            stream.vertex.restore(saved.state)
        dataflow._restart()


def _pause(dataflow: Dataflow, streams: list[VertexStream], paused: bool) -> None:
    with dataflow._still():
        for stream in streams:
            stream.paused = paused
    if not paused:
        for stream in streams:
            dataflow.scheduler.wake(dataflow.expansion.ids[stream])
