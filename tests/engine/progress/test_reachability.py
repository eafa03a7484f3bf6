"""The tracker against its definition, on random graphs and random histories."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.progress.change_batch import Pointstamp
from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.path_summary import (
    PathSummary,
    egress,
    feedback,
    identity,
    ingress,
)
from tidewheel.engine.progress.reachability import Topology, Tracker
from tidewheel.engine.progress.timestamp import Timestamp

Edge = tuple[int, int, PathSummary]


class Graph:
    """Locations in nested loops; cycles only through feedback summaries."""

    def __init__(self, rng: random.Random) -> None:
        self.depths: list[int] = []
        self.edges: list[Edge] = []
        self._loop(rng, 0, [self._add(0)], 0)
        self.topology = Topology()
        for location, depth in enumerate(self.depths):
            self.topology.add(location, depth)
        for edge in self.edges:
            self.topology.connect(*edge)

    def _add(self, depth: int) -> int:
        self.depths.append(depth)
        return len(self.depths) - 1

    def _loop(self, rng: random.Random, depth: int, here: list[int], level: int) -> None:
        for _ in range(rng.randint(1, 3)):
            if depth < 2 and rng.random() < 0.4 and level < 3:
                inside = [self._add(depth + 1)]
                self.edges.append((rng.choice(here), inside[0], ingress(depth)))
                self._loop(rng, depth + 1, inside, level + 1)
                self.edges.append((rng.choice(inside), inside[0], feedback(depth + 1)))
                out = self._add(depth)
                self.edges.append((rng.choice(inside), out, egress(depth + 1)))
                here.append(out)
            else:
                place = self._add(depth)
                for _ in range(rng.randint(1, 2)):
                    self.edges.append((rng.choice(here), place, identity(depth)))
                here.append(place)

    def could_result_in(self, p: Pointstamp, q: Pointstamp) -> bool:
        """By definition: follow every path, as long as it could still be in time."""
        seen: set[tuple[int, Timestamp]] = set()
        work = [(p.location, p.time)]
        while work:
            here, t = work.pop()
            if (here, t) in seen or t.epoch > q.time.epoch or any(c > 6 for c in t.counters):
                continue
            seen.add((here, t))
            if here == q.location and progress_leq(t, q.time):
                return True
            work.extend((b, s.apply(t)) for a, b, s in self.edges if a == here)
        return False

    def time(self, rng: random.Random, location: int) -> Timestamp:
        counters = tuple(rng.randrange(3) for _ in range(self.depths[location]))
        return Timestamp(rng.randrange(3), counters)


@settings(max_examples=150)
@given(st.integers(0, 10**9))
def test_could_result_in(seed: int) -> None:
    rng = random.Random(seed)
    graph = Graph(rng)
    for _ in range(20):
        p, q = (
            Pointstamp(loc, graph.time(rng, loc))
            for loc in (rng.randrange(len(graph.depths)), rng.randrange(len(graph.depths)))
        )
        assert graph.topology.could_result_in(p, q) == graph.could_result_in(p, q), (p, q)


@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_waits_are_over_exactly_when_nothing_precedes(seed: int) -> None:
    rng = random.Random(seed)
    graph = Graph(rng)
    tracker = Tracker(graph.topology)
    counts: dict[Pointstamp, int] = {}
    waiting: set[Pointstamp] = set()
    for _ in range(40):
        location = rng.randrange(len(graph.depths))
        p = Pointstamp(location, graph.time(rng, location))
        action = rng.random()
        if action < 0.3 and p not in waiting:
            waiting.add(p)
            tracker.watch(*p)
        elif action < 0.5 and counts:
            p = rng.choice(list(counts))
            delta = -rng.randint(1, counts[p]) if counts[p] > 0 else 1
            counts[p] += delta
            tracker.update(*p, delta)
        else:
            delta = 1 if rng.random() < 0.9 else -1  # counts may be negative for a while
            counts[p] = counts.get(p, 0) + delta
            tracker.update(*p, delta)
        if rng.random() < 0.7:
            active = {p for p, count in counts.items() if count > 0}
            over = tracker.settle()
            expected = {
                q
                for q in waiting
                if not any(p != q and graph.could_result_in(p, q) for p in active)
            }
            assert set(over) == expected
            assert len(over) == len(expected), "each is told once"
            assert [p.time for p in over] == sorted(p.time for p in over)
            waiting -= expected
            tracker.validate()
            assert set(tracker.active()) == active
            assert set(tracker.global_frontier()) == {
                q for q in active if not any(p != q and graph.could_result_in(p, q) for p in active)
            }


@settings(max_examples=50)
@given(st.integers(0, 10**9))
def test_frontier(seed: int) -> None:
    rng = random.Random(seed)
    graph = Graph(rng)
    tracker = Tracker(graph.topology)
    active = set()
    for _ in range(5):
        location = rng.randrange(len(graph.depths))
        p = Pointstamp(location, graph.time(rng, location))
        active.add(p)
        tracker.update(*p, 1)
    for location in range(len(graph.depths)):
        frontier = tracker.frontier(location)
        for _ in range(5):
            t = graph.time(rng, location)
            reachable = any(graph.could_result_in(p, Pointstamp(location, t)) for p in active)
            assert frontier.precedes(t) == reachable
            assert tracker.blocked(location, t) == reachable


def chain(length: int) -> Topology:
    topology = Topology()
    for location in range(length):
        topology.add(location, 0)
        if location:
            topology.connect(location - 1, location, identity(0))
    return topology


def test_what_came_and_went_costs_nothing() -> None:
    tracker = Tracker(chain(3))
    tracker.update(0, Timestamp(0), 1)
    tracker.update(1, Timestamp(0), 1)
    tracker.update(1, Timestamp(0), -1)
    tracker.settle()
    assert tracker.active() == [Pointstamp(0, Timestamp(0))]


def test_the_graph_grows_downstream_and_shrinks() -> None:
    topology = chain(2)
    tracker = Tracker(topology)
    tracker.update(0, Timestamp(0), 1)
    tracker.watch(1, Timestamp(0))
    assert tracker.settle() == []
    topology.add(2, 0)
    topology.connect(1, 2, identity(0))
    tracker.watch(2, Timestamp(0))
    assert tracker.settle() == []
    with pytest.raises(ValueError, match="in use"):
        topology.connect(0, 2, identity(0))
    tracker.forget([2])
    topology.remove([2])
    assert 2 not in topology
    tracker.update(0, Timestamp(0), -1)
    assert tracker.settle() == [Pointstamp(1, Timestamp(0))]


def test_an_event_is_compared_with_what_it_can_reach_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred independent chains, each with a wait: an event in one looks at that one's."""
    from tidewheel.engine.progress import reachability

    topology = Topology()
    for c in range(100):
        topology.add(2 * c, 0)
        topology.add(2 * c + 1, 0)
        topology.connect(2 * c, 2 * c + 1, identity(0))
    tracker = Tracker(topology)
    for c in range(100):
        tracker.update(2 * c, Timestamp(0), 1)
        tracker.watch(2 * c + 1, Timestamp(0))
    tracker.settle()
    compared = 0
    leads = reachability._leads

    def counting(*args: object) -> bool:
        nonlocal compared
        compared += 1
        return leads(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(reachability, "_leads", counting)
    tracker.update(0, Timestamp(0), -1)
    assert tracker.settle() == [Pointstamp(1, Timestamp(0))]
    assert compared == 1
