"""Stages and streams: the parts that a logical graph is made of.

Sources: Naiad (SOSP 2013), sections 2.1 and 3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidewheel.engine.dataflow.errors import GraphError
from tidewheel.engine.dataflow.loop_context import FeedbackHook, LoopContext
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.path_summary import PathSummary


class Kind(enum.Enum):
    """What a stage is. Only the first three have vertices when the graph runs."""

    INPUT = "input"
    VERTEX = "vertex"
    OUTPUT = "output"
    INGRESS = "ingress"
    EGRESS = "egress"
    FEEDBACK = "feedback"
    CONCAT = "concat"


PHYSICAL = frozenset({Kind.INPUT, Kind.VERTEX, Kind.OUTPUT})


class Partition(Protocol):
    """A partitioning function: sends each row of a batch to one of `workers` workers.

    Two that compare equal must send equal rows to the same worker: the runtime leaves the exchange
    out where a stream already is partitioned as its reader asks.
    """

    def __call__(self, batch: Any, workers: int) -> Sequence[Any]:
        """`workers` batches, those without rows as None."""


@dataclass(frozen=True, slots=True)
class StageOptions:
    """How a stage is run.

    `notify_first`: deliver its notifications before waiting messages (default: messages first).
    `reentrancy`: how deep `send_by` may call `on_recv` of the same vertex directly when an output
    leads straight back to it; deeper ones, and all by default, wait in the handoff.
    `buffer`: batches that an input's handoff holds before its producer must pause; None: no bound.
    `ordered`: of outputs. `max_iterations`, `on_feedback`: of feedback stages.
    """

    notify_first: bool = False
    reentrancy: int = 0
    buffer: int | None = 16
    ordered: bool = True
    max_iterations: int | None = None
    on_feedback: FeedbackHook | None = None


DEFAULT_OPTIONS = StageOptions()


@dataclass(eq=False, slots=True)
class Stream:
    """One output port of a stage: what a connector carries."""

    stage: Stage
    port: int
    context: LoopContext | None
    schema: Any = None
    partitioned_by: Partition | None = None

    @property
    def depth(self) -> int:
        """Counters in the timestamps on this stream."""
        return self.context.depth if self.context is not None else 0

    def __repr__(self) -> str:
        return f"Stream({self.stage.name!r}:{self.port})"


@dataclass(eq=False, slots=True)
class Stage:
    """A stage: a set of vertices made by one factory, one per worker."""

    id: int
    name: str
    kind: Kind
    context: LoopContext | None
    inputs: list[Stream | None]
    edges: list[int]  # the progress location of each input
    streams: tuple[Stream, ...] = ()
    factory: Callable[[], Vertex] | None = None
    partition: tuple[Partition | None, ...] = ()
    expects: tuple[Any, ...] = ()
    summary: PathSummary | None = None  # of system stages
    options: StageOptions = DEFAULT_OPTIONS
    readers: list[tuple[Stage, int]] = field(default_factory=list)

    @property
    def stream(self) -> Stream:
        """The only output."""
        if len(self.streams) != 1:
            raise GraphError(f"stage {self.name!r} has {len(self.streams)} outputs; name one")
        return self.streams[0]

    @property
    def depth(self) -> int:
        """Counters in the timestamps at this stage."""
        return self.context.depth if self.context is not None else 0

    def __repr__(self) -> str:
        return f"Stage({self.name!r}, {self.kind.value})"


StreamLike = Stream | Stage
