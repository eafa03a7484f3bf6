"""Who keeps a dataflow's progress: the link between the scheduler and the tracker.

The scheduler hands over each quantum's updates and is told which streams to wake. `SharedProgress`
keeps one tracker for all workers; `engine/dataflow/distributed.py` gives each worker its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidewheel.engine.dataflow.streams import Update, VertexStream
from tidewheel.engine.progress.antichain import Antichain
from tidewheel.engine.progress.change_batch import Location
from tidewheel.engine.progress.reachability import Topology, Tracker
from tidewheel.engine.progress.timestamp import Timestamp


class Progress(Protocol):
    """What a dataflow needs of the owner of its progress."""

    topology: Topology

    def begin(self, stream_id: int, stream: VertexStream) -> Iterable[int]: ...
    def remove(self, stream_ids: Iterable[int], locations: Iterable[Location]) -> None: ...
    def apply(self, stream_id: int, updates: Sequence[Update]) -> Iterable[int]: ...
    def idle(self) -> Iterable[int]: ...
    def blocked(self, location: Location, time: Timestamp) -> bool: ...
    def frontier(self, location: Location) -> Antichain: ...
    def outstanding(self) -> list[tuple[Location, Timestamp, int]]: ...
    def reset(self) -> None: ...


class SharedProgress:
    """One tracker, owned by the manager.

    With `eager` false, notifications are looked for only when no message is under way: messages go
    before notifications everywhere, and what comes and goes in between costs nothing.
    """

    def __init__(self, eager: bool) -> None:
        self.topology = Topology()
        self.eager = eager
        self._tracker = Tracker(self.topology)
        self._streams: dict[int, VertexStream] = {}
        self._notified: set[Location] = set()  # locations of stages, where notifications wait
        self._messages = 0
        self._waiting: dict[tuple[Location, Timestamp], list[int]] = {}
        self._inputs: set[Location] = set()

    def begin(self, stream_id: int, stream: VertexStream) -> Iterable[int]:
        """Take a new (or reset) stream into account, and the events that it starts with."""
        self._streams[stream_id] = stream
        (self._notified if stream.notifiable else self._inputs).add(stream.stage.id)
        self.eager = self.eager or stream.stage.options.notify_first
        updates = stream.take_progress()
        return self.apply(stream_id, updates) if updates else ()

    def remove(self, stream_ids: Iterable[int], locations: Iterable[Location]) -> None:
        """Forget streams and their locations."""
        gone = set(locations)
        for stream_id in stream_ids:
            del self._streams[stream_id]
        self._messages -= sum(
            count
            for p, count in self._tracker.occurrences()
            if p.location in gone
            and p.location not in self._notified
            and p.location not in self._inputs
        )
        self._notified -= gone
        self._inputs -= gone
        self._waiting = {k: v for k, v in self._waiting.items() if k[0] not in gone}
        self._tracker.forget(gone)
        self.topology.remove(gone)

    def apply(self, stream_id: int, updates: Sequence[Update]) -> Iterable[int]:
        """See `ProgressOwner.apply`."""
        notified, inputs, tracker = self._notified, self._inputs, self._tracker
        messages = 0
        for location, time, delta in updates:
            if location in notified:
                if delta >= 0:
                    key = (location, time)
                    waiting = self._waiting.get(key)
                    if waiting is None:
                        self._waiting[key] = [stream_id]
                        tracker.watch(location, time)
                    else:
                        waiting.append(stream_id)
            elif location not in inputs:
                messages += delta
        self._messages += messages
        tracker.update_all(updates)
        if self._messages == 0 or self.eager:
            return self.idle()
        return ()

    def idle(self) -> Iterable[int]:
        """Grant what can be granted now; the streams that have got something."""
        woken = []
        for key in self._tracker.settle():
            for stream_id in self._waiting.pop(key):
                self._streams[stream_id].grant(key.time)
                woken.append(stream_id)
        return woken

    def blocked(self, location: Location, time: Timestamp) -> bool:
        """Can something still happen at `time` at a location?"""
        return self._tracker.blocked(location, time)

    def frontier(self, location: Location) -> Antichain:
        """The times at which something can still happen at a location."""
        return self._tracker.frontier(location)

    def outstanding(self) -> list[tuple[Location, Timestamp, int]]:
        """All pointstamps whose count is not zero."""
        return [(p.location, p.time, count) for p, count in self._tracker.occurrences()]

    def reset(self) -> None:
        """Forget all events."""
        self._tracker = Tracker(self.topology)
        self._messages = 0
        self._waiting.clear()
