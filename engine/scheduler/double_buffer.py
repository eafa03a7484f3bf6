"""A handoff both of whose ends may run at the same time, still without a lock.

Source: LucidDB, "FennelParallelExecStreamScheduler" (Applicability: DoubleBufferExecStream). There
the buffer is a stream of its own that flips two pages; here it is a handoff of three areas, each
with one owner at any time:

    back    the producer's, while it runs
    middle  the manager's: what the producer has published and the consumer has not acquired
    front   the consumer's, while it runs

The manager moves back to middle when the producer's quantum ends, and middle to an empty front when
the consumer's begins. So what a quantum can see is fixed when it begins, and a run can be replayed.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tidewheel.engine.scheduler.handoff import Handoff, Item, row_count


class DoubleBuffer(Handoff):
    """A handoff that does not make its two ends neighbours.

    `max_batches` and `max_bytes` bound one page: the producer may fill one while the consumer works
    on another, and one may lie between them.
    """

    __slots__ = ("_back", "_back_bytes", "_front_finished", "_middle", "_room")

    concurrent = True

    def __init__(
        self, *, max_batches: int | None = 16, max_bytes: int | None = None, soft: bool = False
    ) -> None:
        super().__init__(max_batches=max_batches, max_bytes=max_bytes, soft=soft)
        self._back: list[Item] = []
        self._back_bytes = 0
        self._middle: deque[Item] = deque()  # `_items` is the front
        self._front_finished = False
        self._room: float = float("inf") if max_batches is None else max_batches

    def put(self, time: Any, batch: Any) -> None:
        if self.finished:
            raise RuntimeError("put() on a handoff whose producer has already finished")
        self._back.append((time, batch))
        self.put_batches += 1
        if self.max_bytes is not None:
            self._back_bytes += int(getattr(batch, "nbytes", 0))
        if self.profile:
            self.put_rows += row_count(batch)

    @property
    def over(self) -> bool:
        if len(self._back) >= self._room:
            return True
        return self.max_bytes is not None and self._back_bytes >= self.max_bytes

    def take(self) -> Item:
        item = self._items.popleft()
        self.taken_batches += 1
        if self.profile:
            self.taken_rows += row_count(item[1])
        return item

    @property
    def eos(self) -> bool:
        return self._front_finished and not self._items

    @property
    def deliverable(self) -> bool:
        return bool(self._middle) or bool(self._items)

    def publish(self) -> None:
        if not self.abandoned:
            self._middle.extend(self._back)
            self._bytes += self._back_bytes
            if self._back:
                self.requested = False
        self._back.clear()
        self._back_bytes = 0
        self._measure()

    def acquire(self, producer_running: bool) -> None:
        if not self._items:  # else a consumer that is stopped itself would hoard without bound
            self._items.extend(self._middle)
            self._middle.clear()
            self._bytes = 0
        self._front_finished = self.finished and not self._middle
        if not producer_running:
            self._measure()

    def _measure(self) -> None:
        """How many batches the producer's next quantum may put."""
        if self.max_bytes is not None and self._bytes >= self.max_bytes:
            self._room = 0
        elif self.max_batches is None:
            self._room = float("inf")
        else:
            self._room = self.max_batches - len(self._middle)

    def abandon(self) -> None:
        # Leaves `_back` alone: the producer may be running.
        self.abandoned = True
        self._items.clear()
        self._middle.clear()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items) + len(self._middle) + len(self._back)

    def grow(self) -> None:
        super().grow()
        self._measure()

    def reset(self) -> None:
        super().reset()
        self._back.clear()
        self._middle.clear()
        self._back_bytes = 0
        self._front_finished = False
        self._measure()
