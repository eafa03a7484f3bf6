"""Progress tracking: which notifications no outstanding event can precede any more.

Naiad (SOSP 2013), section 2.3, with one change. Naiad keeps a precursor count for every active
pointstamp. Here it is kept for those that somebody waits for (notifications, probes), and changes
are first added up, so that a message that has come and gone between two questions costs nothing.
An event then costs its own count plus one comparison per awaited time that its place can reach.

Locations are numbers; the tracker knows only how they are joined (`Topology`). It is given the
projection of the physical graph to the logical one, and so does not know workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewheel.engine.progress.antichain import Antichain
from tidewheel.engine.progress.change_batch import Location, Pointstamp
from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.path_summary import PathSummary, identity, minimal
from tidewheel.engine.progress.timestamp import Timestamp

Summaries = tuple[PathSummary, ...] | None
"""The minimal summaries between two locations; None stands for the identity alone."""


class Topology:
    """How locations follow each other: for each, its predecessors and the way from them.

    Grows at its downstream end only: a location that has been asked about gets no further
    predecessors, so what was computed stays right when the graph is extended.
    """

    def __init__(self) -> None:
        self._depth: dict[Location, int] = {}
        self._before: dict[Location, list[tuple[Location, PathSummary]]] = {}
        self._ancestors: dict[Location, dict[Location, Summaries]] = {}
        self._reaches: dict[Location, dict[Location, Summaries]] = {}

    def add(self, location: Location, depth: int) -> None:
        """Add a location whose timestamps have `depth` counters."""
        self._depth[location] = depth
        self._before[location] = []
        self._reaches[location] = {}

    def connect(self, source: Location, target: Location, summary: PathSummary) -> None:
        """Say that what is at `source` may go straight on to `target`."""
        if target in self._ancestors:
            raise ValueError(f"location {target} is in use; it cannot get another predecessor")
        self._before[target].append((source, summary))

    def remove(self, locations: Iterable[Location]) -> None:
        """Take out locations that lead to no others but themselves."""
        gone = set(locations)
        for location in gone:
            for ancestor in self._ancestors.pop(location, ()):
                if ancestor in self._reaches:
                    self._reaches[ancestor].pop(location, None)
            del self._depth[location], self._before[location], self._reaches[location]

    def __contains__(self, location: object) -> bool:
        return location in self._depth

    def locations(self) -> Iterator[Location]:
        """All locations."""
        return iter(self._depth)

    def ancestors(self, location: Location) -> dict[Location, Summaries]:
        """Every location with a path to this one (itself included) and the minimal summaries."""
        found = self._ancestors.get(location)
        if found is None:
            found = self._ancestors[location] = self._search(location)
            for ancestor, summaries in found.items():
                self._reaches[ancestor][location] = summaries
        return found

    def reaches(self, location: Location) -> dict[Location, Summaries]:
        """Those of the locations asked about so far that have a path from this one."""
        return self._reaches[location]

    def _search(self, location: Location) -> dict[Location, Summaries]:
        """Walk backwards; a path is followed for as long as it gives a new minimal summary.

        It ends, because going round a cycle again only adds to a counter.
        """
        best: dict[Location, tuple[PathSummary, ...]] = {
            location: (identity(self._depth[location]),)
        }
        work = [location]
        while work:
            here = work.pop()
            for source, step in self._before[here]:
                old = best.get(source, ())
                new = minimal((*old, *(step.then(s) for s in best[here])))
                if new != old:
                    best[source] = new
                    work.append(source)
        return {
            source: None if summaries == (identity(self._depth[source]),) else summaries
            for source, summaries in best.items()
        }

    def could_result_in(self, p: Pointstamp, q: Pointstamp) -> bool:
        """Can an event at `p` still cause one at `q`? (Naiad, section 2.3.)"""
        ancestors = self.ancestors(q.location)
        if p.location not in ancestors:
            return False
        return _leads(ancestors[p.location], p.time, q.time)


def _leads(summaries: Summaries, start: Timestamp, end: Timestamp) -> bool:
    if summaries is None:
        return start[0] <= end[0] and start[1] <= end[1]
    return any(progress_leq(s.apply(start), end) for s in summaries)


class Tracker:
    """Occurrence counts of all pointstamps, precursor counts of those that are waited for.

    `update` changes an occurrence count; counts may be negative for a while when updates come from
    several workers. A pointstamp is active while its count is positive. `watch` begins to wait for
    a pointstamp; `settle` tells which waits are over: no *other* active pointstamp could result in
    them. Each is told once.

    >>> topology = Topology()
    >>> for location in (0, 1, 2):
    ...     topology.add(location, depth=0)
    >>> topology.connect(0, 1, identity(0))
    >>> topology.connect(1, 2, identity(0))
    >>> tracker, now, later = Tracker(topology), Timestamp(0), Timestamp(1)
    >>> tracker.update(0, now, +1)
    >>> tracker.update(2, now, +1)
    >>> tracker.watch(2, now)
    >>> tracker.settle(), tracker.precursors(2, now)
    ([], 1)
    >>> tracker.update(0, later, +1)
    >>> tracker.update(0, now, -1)
    >>> tracker.settle()
    [Pointstamp(location=2, time=Timestamp(epoch=0, counters=()))]
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._changes: dict[tuple[Location, Timestamp], int] = {}
        self._counts: dict[Location, dict[Timestamp, int]] = {}
        self._watched: dict[Location, dict[Timestamp, int]] = {}
        self._new: list[tuple[Location, Timestamp]] = []

    # -- changes

    def update(self, location: Location, time: Timestamp, delta: int) -> None:
        """Add `delta` to the occurrence count of (time, location)."""
        self.update_all(((location, time, delta),))

    def update_all(self, updates: Iterable[tuple[Location, Timestamp, int]]) -> None:
        """Several `update`s."""
        changes = self._changes
        for location, time, delta in updates:
            key = (location, time)
            count = changes.get(key, 0) + delta
            if count:
                changes[key] = count
            elif delta:
                del changes[key]

    def watch(self, location: Location, time: Timestamp) -> None:
        """Wait until no other event could result in (time, location)."""
        self._new.append((location, time))

    def settle(self) -> list[Pointstamp]:
        """Take the changes into account; the waits that are over, in the order of their times."""
        changes = self._changes
        over: list[Pointstamp] = []
        if changes:
            self._changes = {}
            for (location, time), delta in changes.items():
                self._change(location, time, delta, over)
        if self._new:
            new, self._new = self._new, []
            for location, time in new:
                count = self._count_precursors(location, time)
                if count:
                    self._watched.setdefault(location, {})[time] = count
                else:
                    over.append(Pointstamp(location, time))
        if over:
            # One change may have brought a count to zero and a later one raised it again.
            over = [p for p in dict.fromkeys(over) if self._finish(p)]
            over.sort(key=_by_time)
        return over

    def _change(
        self, location: Location, time: Timestamp, delta: int, over: list[Pointstamp]
    ) -> None:
        counts = self._counts.get(location)
        if counts is None:
            counts = self._counts[location] = {}
        old = counts.get(time, 0)
        new = old + delta
        if new:
            counts[time] = new
        else:
            del counts[time]
            if not counts:
                del self._counts[location]
        if (old > 0) == (new > 0):
            return
        step = 1 if new > 0 else -1
        watched = self._watched
        reaches = self.topology.reaches(location)
        # Whichever is fewer: what is watched at all, or what can be reached from here.
        targets = watched if len(watched) < len(reaches) else reaches
        for target in targets:
            if target not in watched or target not in reaches:
                continue
            summaries = reaches[target]
            precursors = watched[target]
            for end, count in precursors.items():
                if _leads(summaries, time, end) and not (target == location and end == time):
                    precursors[end] = count + step
                    if count + step == 0:
                        over.append(Pointstamp(target, end))

    def _finish(self, p: Pointstamp) -> bool:
        waiting = self._watched.get(p.location)
        if waiting is None or p.time not in waiting:
            return True  # was never blocked
        if waiting[p.time]:
            return False
        del waiting[p.time]
        if not waiting:
            del self._watched[p.location]
        return True

    def _count_precursors(self, location: Location, end: Timestamp) -> int:
        ancestors, counts = self.topology.ancestors(location), self._counts
        count = 0
        for source in ancestors if len(ancestors) < len(counts) else counts:
            if source not in counts or source not in ancestors:
                continue
            summaries = ancestors[source]
            for start, occurrences in counts[source].items():
                if (
                    occurrences > 0
                    and _leads(summaries, start, end)
                    and not (source == location and start == end)
                ):
                    count += 1
        return count

    def forget(self, locations: Iterable[Location]) -> None:
        """Drop everything at locations that are taken out of the topology."""
        gone = set(locations)
        for location in gone:
            self._counts.pop(location, None)
            self._watched.pop(location, None)
        self._changes = {k: d for k, d in self._changes.items() if k[0] not in gone}
        self._new = [k for k in self._new if k[0] not in gone]

    # -- questions

    def precursors(self, location: Location, time: Timestamp) -> int:
        """How many other active pointstamps could result in (time, location)."""
        self._apply()
        return self._count_precursors(location, time)

    def blocked(self, location: Location, time: Timestamp) -> bool:
        """Can an event at another pointstamp, or one at this, still cause one at this?"""
        self._apply()
        active = self._counts.get(location, {}).get(time, 0) > 0
        return active or self._count_precursors(location, time) > 0

    def frontier(self, location: Location) -> Antichain:
        """The times at which something may still happen at a location."""
        self._apply()
        out = Antichain()
        for source, summaries in self.topology.ancestors(location).items():
            for start, occurrences in self._counts.get(source, {}).items():
                if occurrences > 0:
                    for s in summaries or (None,):
                        out.insert(start if s is None else s.apply(start))
        return out

    def active(self) -> list[Pointstamp]:
        """All active pointstamps."""
        self._apply()
        return [p for p, count in self.occurrences() if count > 0]

    def occurrences(self) -> Iterator[tuple[Pointstamp, int]]:
        """All pointstamps with a count that is not zero."""
        self._apply()
        for location, counts in self._counts.items():
            for time, count in counts.items():
                yield Pointstamp(location, time), count

    def occurrence(self, p: Pointstamp) -> int:
        """The occurrence count of one pointstamp."""
        known = self._counts.get(p.location, {}).get(p.time, 0)
        return known + self._changes.get((p.location, p.time), 0)

    def global_frontier(self) -> list[Pointstamp]:
        """The active pointstamps without precursors: Naiad's frontier."""
        return [p for p in self.active() if not self._count_precursors(*p)]

    def _apply(self) -> None:
        """Apply changes without reporting: waits that end now are reported by the next settle."""
        if self._changes:
            new, self._new = self._new, []
            over = self.settle()
            self._new = [*new, *((p.location, p.time) for p in over)]

    def validate(self) -> None:
        """Check precursor counts against their definition; for tests."""
        self._apply()
        for location, waiting in self._watched.items():
            for time, count in waiting.items():
                truth = self._count_precursors(location, time)
                assert count == truth, f"{Pointstamp(location, time)}: counted {count}, is {truth}"


def _by_time(p: Pointstamp) -> Timestamp:
    return p.time
