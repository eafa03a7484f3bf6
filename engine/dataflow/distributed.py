"""Progress by the distributed protocol, for the workers of one process.

    worker 0 ──┐                        ┌──▶ view of worker 0        NONE, LOCAL: every worker
    worker 1 ──┼─▶ links, first in  ────┼──▶ view of worker 1        sends to every worker
    worker 2 ──┘   first out            └──▶ view of worker 2

    worker 0 ──┐                        ┌──▶ view of worker 0        GLOBAL, BOTH: through one
    worker 1 ──┼─▶ accumulator ─────────┼──▶ view of worker 1        accumulator
    worker 2 ──┘                        └──▶ view of worker 2

A worker's notifications are granted by its own view alone. With `immediate` false nothing arrives
until `deliver` is called: the simulator decides on the delays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tidewheel.engine.dataflow.streams import Update, VertexStream
from tidewheel.engine.progress.antichain import Antichain
from tidewheel.engine.progress.broadcast import Accumulation, Participant, Updates
from tidewheel.engine.progress.change_batch import Location, Pointstamp
from tidewheel.engine.progress.reachability import Topology, Tracker
from tidewheel.engine.progress.timestamp import Timestamp

Link = tuple[int, int]
"""From worker to worker; ACCUMULATOR stands for the accumulator."""

ACCUMULATOR = -1


def encoded_size(updates: Updates) -> int:
    """Bytes of one message: a header of 8, then location, δ (4 each), epoch and counters (8)."""
    return 8 + sum(16 + 8 * len(p.time.counters) for p, _ in updates)


class BroadcastProgress:
    """The progress of a dataflow whose workers each have a view of their own."""

    def __init__(
        self,
        workers: int,
        accumulation: Accumulation = Accumulation.BOTH,
        *,
        immediate: bool = True,
        packet: Callable[[Updates], list[Updates]] | None = None,
    ) -> None:
        self.topology = Topology()
        self.accumulation = accumulation
        echo = not accumulation.central
        self.workers = [
            Participant(self.topology, accumulation.local, echo) for _ in range(workers)
        ]
        self.accumulator = Participant(self.topology, True) if accumulation.central else None
        self.links: dict[Link, deque[tuple[int, Updates]]] = {}  # (origin, updates)
        self.messages = 0  # sent over all links, those of a worker to itself not counted
        self.updates = 0
        self.bytes = 0  # as `encoded_size` has it
        self.truth = Tracker(self.topology)  # as if everything arrived at once; for questions
        self._immediate = immediate
        self._packet = packet or (lambda updates: [updates] if updates else [])
        self._streams: dict[int, VertexStream] = {}
        self._notified: set[Location] = set()
        self._waiting: list[dict[Pointstamp, list[int]]] = [{} for _ in range(workers)]

    # -- what the dataflow calls

    def begin(self, stream_id: int, stream: VertexStream) -> Iterable[int]:
        """Take a new (or reset) stream into account, and the events that it starts with.

        Every view knows these from the start: what the inputs of all workers hold, the first
        notifications of sources.
        """
        self._streams[stream_id] = stream
        if stream.notifiable:
            self._notified.add(stream.stage.id)
        updates = stream.take_progress()
        for tracker in self._trackers():
            tracker.update_all(updates)
        for location, time, _ in updates:
            if location in self._notified:
                self._await(stream_id, Pointstamp(location, time))
        return self._grant(stream.worker)

    def remove(self, stream_ids: Iterable[int], locations: Iterable[Location]) -> None:
        """Forget streams and their locations; only while no update is under way."""
        gone = set(locations)
        for stream_id in stream_ids:
            del self._streams[stream_id]
        for tracker in self._trackers():
            tracker.forget(gone)
        for waiting in self._waiting:
            for p in [p for p in waiting if p.location in gone]:
                del waiting[p]
        self._notified -= gone
        self.topology.remove(gone)

    def apply(self, stream_id: int, updates: Sequence[Update]) -> Iterable[int]:
        """A stream of one worker made progress: that worker tells the others."""
        worker = self._streams[stream_id].worker
        changes = []
        for location, time, delta in updates:
            p = Pointstamp(location, time)
            if delta:
                changes.append((p, delta))
            if delta >= 0 and location in self._notified:
                self._await(stream_id, p)
        self.truth.update_all(updates)
        self._send(worker, self.workers[worker].produce(changes))
        if self._immediate:
            return [*self._deliver_all(), *self._grant(worker)]
        return self._grant(worker)

    def idle(self) -> Iterable[int]:
        """Nothing can run: send what is held back for no more than a positive count."""
        woken: list[int] = []
        for worker in range(len(self.workers)):
            self.rest(worker)
        if self._immediate:
            woken.extend(self._deliver_all())
        for worker in range(len(self.workers)):
            woken.extend(self._grant(worker))
        return woken

    def blocked(self, location: Location, time: Timestamp) -> bool:
        """Can something still happen at `time` at a location, as worker 0 sees it?"""
        return self.workers[0].view.blocked(location, time)

    def frontier(self, location: Location) -> Antichain:
        """The times at which something can still happen at a location, as worker 0 sees it."""
        return self.workers[0].view.frontier(location)

    def outstanding(self) -> list[tuple[Location, Timestamp, int]]:
        """All pointstamps whose true count is not zero."""
        return [(p.location, p.time, count) for p, count in self.truth.occurrences()]

    def reset(self) -> None:
        """Forget all events."""
        fresh = BroadcastProgress(len(self.workers), self.accumulation)
        for old, new in zip(self._participants(), fresh._participants(), strict=True):
            old.view, old.held, old._flying = Tracker(self.topology), new.held, new._flying
        self.truth = Tracker(self.topology)
        self.links.clear()
        for waiting in self._waiting:
            waiting.clear()

    # -- the network

    def rest(self, worker: int) -> None:
        """A worker has nothing to do."""
        self._send(worker, self.workers[worker].rest())

    def deliver(self, link: Link, position: int = 0) -> list[int]:
        """Let the oldest message of a link arrive; ids of streams to wake.

        (`position` picks a younger one: it breaks the protocol, as tests must show.)
        """
        queue = self.links[link]
        origin, updates = queue[position]
        del queue[position]
        if not queue:
            del self.links[link]
        target = link[1]
        if target == ACCUMULATOR:
            assert self.accumulator is not None
            self._spread(ACCUMULATOR, self.accumulator.produce(updates))
            return []
        participant = self.workers[target]
        participant.receive(updates, own=origin == target)
        self._send(target, participant.poll())
        return list(self._grant(target))

    def _send(self, worker: int, updates: Updates) -> None:
        if not updates:
            return
        if self.accumulator is None:
            self._spread(worker, updates)
        else:
            for packet in self._packet(updates):
                self._post((worker, ACCUMULATOR), worker, packet)

    def _spread(self, origin: int, updates: Updates) -> None:
        """Broadcast. The accumulator's own view is brought up to date at once."""
        if not updates:
            return
        if origin == ACCUMULATOR:
            assert self.accumulator is not None
            self.accumulator.receive(updates, own=True)
        for packet in self._packet(updates):
            for target in range(len(self.workers)):
                self._post((origin, target), origin, packet)

    def _post(self, link: Link, origin: int, updates: Updates) -> None:
        self.links.setdefault(link, deque()).append((origin, updates))
        if link[0] != link[1]:
            self.messages += 1
            self.updates += len(updates)
            self.bytes += encoded_size(updates)

    def _deliver_all(self) -> list[int]:
        woken: list[int] = []
        while self.links:
            woken.extend(self.deliver(next(iter(self.links))))
        return woken

    def _await(self, stream_id: int, p: Pointstamp) -> None:
        worker = self._streams[stream_id].worker
        waiting = self._waiting[worker]
        if p not in waiting:
            waiting[p] = []
            self.workers[worker].view.watch(*p)
        waiting[p].append(stream_id)

    def _grant(self, worker: int) -> list[int]:
        woken = []
        waiting = self._waiting[worker]
        for p in self.workers[worker].view.settle():
            for stream_id in waiting.pop(p):
                self._streams[stream_id].grant(p.time)
                woken.append(stream_id)
        return woken

    def _participants(self) -> list[Participant]:
        return [*self.workers, *([self.accumulator] if self.accumulator is not None else [])]

    def _trackers(self) -> list[Tracker]:
        return [self.truth, *(p.view for p in self._participants())]
