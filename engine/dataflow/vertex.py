"""Vertices: the code that a stage runs on each worker.

Source: Naiad (SOSP 2013), section 2.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.engine.dataflow.streams import VertexStream
    from tidewheel.engine.progress.timestamp import Timestamp

Work = Iterator[object] | None
"""What a callback returns: nothing, or an iterator that does the rest bit by bit."""


class Vertex:
    """The base of all vertices: two callbacks, two calls.

    `on_recv(port, batch, time)` is called for each batch, in the order in which it was sent on one
    edge. `on_notify(time)` is called once for each time asked for with `notify_at`, when no message
    at or before that time can arrive any more, and earlier times first.

    Within a callback at `now` a vertex may `send_by` and `notify_at` for `now` or any later time
    (progress order). A callback may return an iterator (usually it is a generator): it is resumed
    quantum by quantum, rests while an output is full, and its time counts as not finished until it
    ends. No other callback of the vertex runs in between.

    The batch is opaque to the core. One vertex's callbacks never run at the same time; they may run
    on different threads.
    """

    name: str = ""  # the stage's
    worker: int = 0  # 0 … workers - 1
    workers: int = 1
    context: VertexStream
    blocking: bool = False  # see `ExecStream.blocking`
    exclusive: Hashable | None = None  # see `ExecStream.exclusive`

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> Work:
        """A batch arrived at input `port`."""
        raise NotImplementedError(f"{type(self).__name__} has inputs but no on_recv")

    def on_notify(self, time: Timestamp) -> Work:
        """Nothing at or before `time` can arrive any more."""
        raise NotImplementedError(
            f"{type(self).__name__} asked to be notified but has no on_notify"
        )

    def send_by(self, port: int, batch: Any, time: Timestamp) -> None:
        """Send a batch by output `port`; TimeError when `time` is not at or after the present."""
        self.context.send_by(port, batch, time)

    def notify_at(self, time: Timestamp) -> None:
        """Ask for `on_notify(time)`; asking twice for a time that is not yet delivered is once."""
        self.context.notify_at(time)

    def open(self) -> None:
        """Called once before anything else; acquire what is needed here, not in the factory."""

    def close(self) -> None:
        """Called once at the end, after errors too; release everything."""

    def interrupt(self) -> None:
        """End the running callback soon; called from any thread, must not block."""

    def reset(self) -> None:
        """What was under way is dropped (`Dataflow.reset`): put the state back as it was before."""

    def checkpoint(self) -> Any:
        """The state, in a form that later callbacks do not change; None for a stateless vertex."""
        return None

    def restore(self, state: Any) -> None:
        """Take over what `checkpoint` returned; called after `open`, before any callback."""
        if state is not None:
            raise NotImplementedError(f"{type(self).__name__} has checkpoint but no restore")
