"""Loop contexts: the only places where a graph may turn back on itself.

            ┌───────────── loop ─────────────┐
            │              ┌─ feedback ◀─┐   │
            │              ▼             │   │
    x ──▶ ingress ──▶ concat ──▶ body ───┴─▶ egress ──▶ y
            │ t.enter()      t.advance()     t.leave()
            └────────────────────────────────┘

Source: Naiad (SOSP 2013), sections 2.1 and 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewheel.engine.dataflow.errors import GraphError

if TYPE_CHECKING:
    from tidewheel.engine.dataflow.graph import Graph, Stage, Stream, StreamLike
    from tidewheel.engine.progress.timestamp import Timestamp

FeedbackHook = Callable[["Timestamp", Any], None]


class LoopContext:
    """One loop; its streams carry one counter more than those outside."""

    def __init__(self, graph: Graph, name: str, parent: LoopContext | None) -> None:
        self.graph = graph
        self.name = name
        self.parent = parent
        self.depth: int = 1 if parent is None else parent.depth + 1

    def loop(self, name: str) -> LoopContext:
        """A loop inside this one."""
        return LoopContext(self.graph, name, self)

    def ingress(self, stream: StreamLike, name: str | None = None) -> Stream:
        """Bring a stream of the parent in: at (e, c) it arrives as (e, c⟨0⟩)."""
        return self.graph._ingress(self, stream, name or f"{self.name}.ingress")

    def egress(self, stream: StreamLike, name: str | None = None) -> Stream:
        """Take a stream out to the parent: at (e, c⟨n⟩) it leaves as (e, c)."""
        return self.graph._egress(self, stream, name or f"{self.name}.egress")

    def feedback(
        self,
        name: str | None = None,
        *,
        schema: Any = None,
        max_iterations: int | None = None,
        on_feedback: FeedbackHook | None = None,
    ) -> Feedback:
        """A way back: its `stream` exists at once, what flows into it is connected later.

        `max_iterations`: the body sees the counters 0 … max_iterations - 1; what would be fed back
        to a later one is dropped. `on_feedback(time, batch)` is called for each batch before it is
        fed back, with the time that it will have (and before `max_iterations` drops it); what it
        raises stops the dataflow, which is how a caller enforces interrupts and budgets.
        """
        if max_iterations is not None and max_iterations < 1:
            raise GraphError(
                f"loop {self.name!r}: max_iterations is {max_iterations}; it must be at least 1"
            )
        return self.graph._feedback(
            self, name or f"{self.name}.feedback", schema, max_iterations, on_feedback
        )

    def __repr__(self) -> str:
        return f"LoopContext({self.name!r}, depth {self.depth})"


class Feedback:
    """A feedback stage: `stream` leaves it, `connect` says what enters it."""

    def __init__(self, graph: Graph, stage: Stage) -> None:
        self._graph = graph
        self.stage = stage

    @property
    def stream(self) -> Stream:
        """What was fed back, one iteration later."""
        return self.stage.stream

    def connect(self, stream: StreamLike) -> None:
        """Feed `stream` back. Once only."""
        self._graph.connect(stream, self.stage, 0)
