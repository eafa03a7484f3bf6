"""The distributed progress protocol: every worker has its own view of all occurrence counts.

Naiad (SOSP 2013), section 3.3. What a worker does changes no view at once, not even its own: it is
broadcast as updates ⟨pointstamp, δ⟩ over links that keep their order, and counts when it arrives.
Positive updates go before negative ones. Then no view's frontier is ever ahead of the true one:
until the updates by which an event ended arrive, it counts as not ended, and whatever it caused is
known by then (Abadi, McSherry, Murray, Rodeheffer: "Formal Analysis of a Distributed Algorithm for
Tracking Progress", FORTE 2013).

Updates may be held back and added up while nobody could learn anything from them:

1. an active pointstamp of the view, other than p, could result in p; or
2. p's net count (the view, what is held back, what is sent but has not arrived) is positive.

No network here: what a call returns is to be sent. `engine/dataflow/distributed.py` sends it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tidewheel.engine.progress.change_batch import ChangeBatch, Pointstamp
from tidewheel.engine.progress.reachability import Topology, Tracker

Updates = list[tuple[Pointstamp, int]]


class Accumulation(enum.Enum):
    """Where updates are held back and added up."""

    NONE = "none"
    LOCAL = "local"  # in each worker
    GLOBAL = "global"  # in one accumulator that all updates pass through
    BOTH = "both"

    @property
    def local(self) -> bool:
        return self in (Accumulation.LOCAL, Accumulation.BOTH)

    @property
    def central(self) -> bool:
        return self in (Accumulation.GLOBAL, Accumulation.BOTH)


class Participant:
    """A worker in the protocol, or the central accumulator: a view, and updates held back.

    Laws: the sum of all that `produce`, `poll` and `flush` ever return is the sum of all that was
    produced, less what is still held; each returned list has its positives before its negatives.
    """

    def __init__(self, topology: Topology, accumulate: bool, echo: bool = True) -> None:
        self.view = Tracker(topology)
        self.held = ChangeBatch()
        self.accumulate = accumulate
        self.echo = echo  # what it sends comes back to it as it was sent
        self._flying = ChangeBatch()  # sent by this one, not yet received back

    def produce(self, updates: Iterable[tuple[Pointstamp, int]]) -> Updates:
        """Something happened here; what must be sent now."""
        if not self.accumulate:
            return sorted(updates, key=_positives_first)
        self.held.extend(updates)
        return self.poll()

    def receive(self, updates: Iterable[tuple[Pointstamp, int]], own: bool) -> None:
        """Updates arrived; `own` if this one sent them. Ask `poll` afterwards."""
        own = own and self.accumulate and self.echo
        for p, delta in updates:
            self.view.update(p.location, p.time, delta)
            if own:
                self._flying.update(p, -delta)

    def poll(self) -> Updates:
        """What can be held back no longer, with all else that is held."""
        if all(self._covered(p) or self._positive(p) for p, _ in self.held):
            return []
        return self.flush()

    def rest(self) -> Updates:
        """There is nothing to do here: what is held only for condition 2 goes out.

        Two workers that have each ended one of two notifications at p would otherwise wait for
        each other: each sees the other's count.
        """
        if all(self._covered(p) for p, _ in self.held):
            return []
        return self.flush()

    def flush(self) -> Updates:
        """Everything that is held."""
        out = self.held.drain()
        if self.echo:
            self._flying.extend(out)
        return out

    def _covered(self, p: Pointstamp) -> bool:
        return self.view.precursors(p.location, p.time) > 0

    def _positive(self, p: Pointstamp) -> bool:
        return self.view.occurrence(p) + self.held.get(p) + self._flying.get(p) > 0


def _positives_first(update: tuple[Pointstamp, int]) -> int:
    return -update[1]
