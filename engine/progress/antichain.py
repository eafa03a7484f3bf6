"""Antichains: sets of incomparable times, the form of every frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.timestamp import Timestamp


class Antichain:
    """The minimal times of a set, in the progress order.

    An antichain stands for all times that are not before it: those that can still happen. The
    empty one says that nothing can happen any more.

    >>> frontier = Antichain([Timestamp(0, (3,)), Timestamp(1, (1,)), Timestamp(1, (4,))])
    >>> [str(t) for t in frontier]
    ['0⟨3⟩', '1⟨1⟩']
    >>> frontier.precedes(Timestamp(2, (1,))), frontier.precedes(Timestamp(0, (2,)))
    (True, False)
    """

    __slots__ = ("_elements",)

    def __init__(self, times: Iterable[Timestamp] = ()) -> None:
        self._elements: list[Timestamp] = []
        for t in times:
            self.insert(t)

    def insert(self, t: Timestamp) -> bool:
        """Add `t` unless an element is at or before it; drop the elements after it."""
        if self.precedes(t):
            return False
        self._elements = [e for e in self._elements if not progress_leq(t, e)]
        self._elements.append(t)
        return True

    def precedes(self, t: Timestamp) -> bool:
        """Is an element at or before `t`, so that `t` can still happen?"""
        return any(progress_leq(e, t) for e in self._elements)

    def leq(self, other: Antichain) -> bool:
        """Is this frontier at or behind `other`: can all that `other` allows still happen here?"""
        return all(self.precedes(t) for t in other._elements)

    def __iter__(self) -> Iterator[Timestamp]:
        return iter(sorted(self._elements))

    def __len__(self) -> int:
        return len(self._elements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Antichain) and set(self._elements) == set(other._elements)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Antichain({{{', '.join(map(str, self))}}})"
