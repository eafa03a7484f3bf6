"""The buffer on an edge: a queue of `(time, batch)` pairs between two streams.

Sources: LucidDB, "FennelParallelExecStreamScheduler" (buffer states, double buffering); Hydro's
architecture notes (handoffs with hard and soft bounds).

A handoff has no lock. It may be touched by the stream that runs at one of its ends, or by the
manager while neither end runs; the scheduler sees to that.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Any

Item = tuple[Any, Any]
"""A `(time, batch)` pair; both are opaque to the scheduler."""


class HandoffState(enum.Enum):
    """What the two ends of a handoff may expect of it."""

    EMPTY = "empty"  # nothing here, and nobody asked
    UNDERFLOW = "underflow"  # nothing here, and the consumer waits for more
    NONEMPTY = "nonempty"  # the consumer can go on
    OVERFLOW = "overflow"  # at or past its bound
    EOS = "eos"  # nothing here, and nothing will come


class Handoff:
    """A first-in first-out queue of `(time, batch)` with a bound.

    `max_batches` and `max_bytes` are the bound; None means none. A hard-bounded handoff is `full`
    at its bound: its producer must stop with OVERFLOW. A `soft` one only *reports* OVERFLOW, which
    makes the scheduler prefer its consumer; its producer goes on. Bounds are checked between
    batches, so that a single batch of any size always passes.
    """

    __slots__ = (
        "_bytes",
        "_items",
        "_sizes",
        "abandoned",
        "consumer",
        "finished",
        "max_batches",
        "max_bytes",
        "producer",
        "profile",
        "put_batches",
        "put_rows",
        "requested",
        "soft",
        "taken_batches",
        "taken_rows",
    )

    #: True for a handoff whose two ends may run at the same time.
    concurrent = False

    def __init__(
        self,
        *,
        max_batches: int | None = 16,
        max_bytes: int | None = None,
        soft: bool = False,
    ) -> None:
        if max_batches is not None and max_batches < 1:
            raise ValueError(f"max_batches is {max_batches}; it must be at least 1, or None")
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}; it must be at least 1, or None")
        self._items: deque[Item] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self.max_batches = max_batches
        self.max_bytes = max_bytes
        self.soft = soft
        self.producer = -1
        self.consumer = -1
        self.requested = False
        self.finished = False
        self.abandoned = False
        self.profile = False
        self.put_batches = 0
        self.put_rows = 0
        self.taken_batches = 0
        self.taken_rows = 0

    # -- the producer's end

    def put(self, time: Any, batch: Any) -> None:
        """Append one batch. Never refuses: ask `full` before the next one."""
        if self.finished:
            raise RuntimeError("put() on a handoff whose producer has already finished")
        if self.abandoned:
            return
        self._items.append((time, batch))
        self.put_batches += 1
        self.requested = False
        if self.max_bytes is not None:
            size = int(getattr(batch, "nbytes", 0))
            self._sizes.append(size)
            self._bytes += size
        if self.profile:
            self.put_rows += row_count(batch)

    def finish(self) -> None:
        """Say that no further batch will come. The scheduler calls it when the producer ends."""
        self.finished = True

    @property
    def full(self) -> bool:
        """True when the producer must stop."""
        return not self.soft and self.over

    @property
    def over(self) -> bool:
        """True at or past the bound, be it hard or soft."""
        most = self.max_batches
        if most is not None and len(self._items) >= most:
            return True
        most = self.max_bytes
        return most is not None and self._bytes >= most

    # -- the consumer's end

    def take(self) -> Item:
        """Remove and return the oldest `(time, batch)`; IndexError when there is none."""
        item = self._items.popleft()
        self.taken_batches += 1
        if self.max_bytes is not None:
            self._bytes -= self._sizes.popleft()
        if self.profile:
            self.taken_rows += row_count(item[1])
        return item

    def peek(self) -> Item:
        """The oldest `(time, batch)`, left in place; IndexError when there is none."""
        return self._items[0]

    def request(self) -> None:
        """Say that the consumer waits for more."""
        self.requested = True

    def abandon(self) -> None:
        """Say that the consumer has ended: what is here, and what will come, is dropped."""
        self.abandoned = True
        self._items.clear()
        self._sizes.clear()
        self._bytes = 0

    @property
    def eos(self) -> bool:
        """True when the handoff is drained and its producer has finished."""
        return self.finished and self.empty

    @property
    def empty(self) -> bool:
        return not self._items

    def __len__(self) -> int:
        """Batches held."""
        return len(self._items)

    def __bool__(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        """Bytes held (0 unless the handoff is bounded by bytes)."""
        return self._bytes

    @property
    def state(self) -> HandoffState:
        if self.empty:
            if self.finished:
                return HandoffState.EOS
            return HandoffState.UNDERFLOW if self.requested else HandoffState.EMPTY
        return HandoffState.OVERFLOW if self.over else HandoffState.NONEMPTY

    # -- for the scheduler

    @property
    def deliverable(self) -> bool:
        """True when the consumer, run now, would find something."""
        return bool(self._items)

    def publish(self) -> None:
        """The producer's quantum has ended. Called on `concurrent` handoffs only."""

    def acquire(self, producer_running: bool) -> None:
        """The consumer's quantum begins. Called on `concurrent` handoffs only."""

    def grow(self) -> None:
        """Double the bound: the scheduler's way out of an artificial deadlock."""
        if self.max_batches is not None:
            self.max_batches = max(self.max_batches * 2, len(self) + 1)
        if self.max_bytes is not None:
            self.max_bytes = max(self.max_bytes * 2, self._bytes + 1)

    def reset(self) -> None:
        """Drop what is here and start over, as after an aborted run."""
        self._items.clear()
        self._sizes.clear()
        self._bytes = 0
        self.requested = self.finished = self.abandoned = False

    def close(self) -> None:
        """Release everything held."""
        self.reset()
        self.finished = True

    def __repr__(self) -> str:
        return f"Handoff({self.producer}→{self.consumer}, {self.state.name}, {len(self)})"


def row_count(batch: Any) -> int:
    """Rows of a batch: `num_rows`, else `len`, else 1."""
    rows = getattr(batch, "num_rows", None)
    if rows is not None:
        return int(rows)
    try:
        return len(batch)
    except TypeError:
        return 1
