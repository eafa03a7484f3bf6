"""The unit of scheduling: a stream that runs one quantum at a time.

Source: LucidDB, "FennelParallelExecStreamScheduler" (Scheduling, Result Processing).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.engine.scheduler.handoff import Handoff


class ExecResult(enum.Enum):
    """What a quantum ended with."""

    UNDERFLOW = "underflow"  # needs input (or a frontier change) to go on
    OVERFLOW = "overflow"  # an output handoff is full
    EOS = "eos"  # will never produce again
    QUANTUM_EXPIRED = "quantum_expired"  # has more to do, used up its quantum
    YIELD = "yield"  # has more to do later, waits for something outside (I/O)


@dataclass(frozen=True, slots=True)
class Quantum:
    """How much one call of `execute` may do: at most `batches` batches are sent or received."""

    batches: int = 16


class ExecStream(ABC):
    """A vertex of the physical graph as the scheduler sees it.

    The scheduler guarantees that adjacent streams never execute at the same time, so
    `execute` may touch its handoffs without a lock.
    """

    name: str
    inputs: list[Handoff]
    outputs: list[Handoff]

    #: True for a stream whose quanta may block on I/O: it gets a thread of its own, beyond the
    #: degree of parallelism. Put a `DoubleBuffer` behind it, else its neighbours wait with it.
    blocking: bool = False

    #: Streams with the same key (a database connection, say) never run at the same time.
    exclusive: Hashable | None = None

    #: How long a quantum is expected to take, from earlier runs, in ns; -1: unknown.
    expected_ns: int = -1

    @abstractmethod
    def execute(self, quantum: Quantum) -> ExecResult:
        """Run one quantum; called by a worker (or inline by the manager), never concurrently."""

    def take_progress(self) -> Sequence[Any]:
        """The progress updates made since the last call; read by the manager after a quantum."""
        return ()

    def open(self) -> None:
        """Acquire what the stream needs; called once before the first quantum."""

    def close(self) -> None:
        """Release everything; called once, also after an error."""

    def interrupt(self) -> None:
        """End a running quantum soon; called from any thread, must not block.

        Called again and again until the quantum has ended: a kernel that had not begun yet when the
        first call came must not escape it.
        """

    def reset(self) -> None:
        """Put back what an aborted run left half done; called by the scheduler's `reset`."""
