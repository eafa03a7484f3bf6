"""Timestamps: the epoch of the input and one counter per enclosing loop context.

Source: Naiad (SOSP 2013), section 2.1.
"""

from __future__ import annotations

from typing import NamedTuple


class Timestamp(NamedTuple):
    """`(epoch, ⟨c1 … ck⟩)` at a place inside k nested loop contexts.

    A timestamp is a plain tuple, so it hashes, sorts and prints. Python's own `<` on it is a
    *linear extension* of both orders of `order.py`: good for sorting, wrong for deciding what may
    still arrive (`progress_leq`) or what adds up (`data_leq`).

    >>> Timestamp(3).enter().advance().enter()
    Timestamp(epoch=3, counters=(1, 0))
    """

    epoch: int
    counters: tuple[int, ...] = ()

    def enter(self) -> Timestamp:
        """The time behind an ingress: a counter 0 is appended."""
        return Timestamp(self.epoch, (*self.counters, 0))

    def leave(self) -> Timestamp:
        """The time behind an egress: the last counter is dropped."""
        return Timestamp(self.epoch, self.counters[:-1])

    def advance(self, by: int = 1) -> Timestamp:
        """The time behind a feedback: the last counter grows by `by`."""
        return Timestamp(self.epoch, (*self.counters[:-1], self.counters[-1] + by))

    def __str__(self) -> str:
        """`3` outside loops, `3⟨1,0⟩` inside."""
        if not self.counters:
            return str(self.epoch)
        return f"{self.epoch}⟨{','.join(map(str, self.counters))}⟩"
