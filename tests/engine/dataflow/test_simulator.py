"""The distributed progress protocol on random graphs, under adversarial delays.

The oracle knows all pending events of all workers (what lies in handoffs, which notifications are
asked for, which epochs are open) and explores by brute force what they could lead to.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidewheel.engine.dataflow.distributed import BroadcastProgress
from tidewheel.engine.dataflow.ends import InputStream
from tidewheel.engine.dataflow.graph import Graph, Kind, Stage, Stream
from tidewheel.engine.dataflow.loop_context import LoopContext
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.simulator import Simulation
from tidewheel.engine.dataflow.streams import VertexStream
from tidewheel.engine.dataflow.tracking import SharedProgress
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.broadcast import Accumulation, Updates
from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.timestamp import Timestamp


class Wrong(AssertionError):
    """A notification came too early."""


class World:
    """What is shared by all vertices of one simulation: the oracle, and chance."""

    def __init__(self, seed: int, events: int) -> None:
        self.random = random.Random(seed)
        self.budget = events  # sends and notification requests that are still allowed
        self.simulation: Simulation | Running | None = None
        self.notified = 0

    def pending(self) -> set[tuple[Stage, int | None, Timestamp]]:
        """Every event that is still to come: (stage, input port or None, time)."""
        assert self.simulation is not None
        found: set[tuple[Stage, int | None, Timestamp]] = set()
        for stream in self.simulation.streams:
            for handoff, port, _ in stream.edges:
                found.update((stream.stage, port, time) for time, _ in handoff._items)
            found.update((stream.stage, None, time) for time in stream.pending)
            if isinstance(stream, InputStream) and stream.open_epoch is not None:
                found.add((stream.stage, None, Timestamp(stream.open_epoch)))
        return found

    def check(self, stage: Stage, time: Timestamp) -> None:
        """Nothing pending may lead to `stage` at or before `time`."""
        self.notified += 1
        # A pending event is at a stage already: as a notification there, or as a message to it.
        starts = {
            (s, t)
            for s, port, t in self.pending()
            # Another worker's notification at this very pointstamp is no reason to wait.
            if not (s is stage and port is None and t == time)
        }
        seen: set[tuple[Stage, Timestamp]] = set()
        work = list(starts)
        while work:
            here, at = work.pop()
            shared = shared_loops(here.context, stage.context)
            # Only the counters of loops around both places matter; so the search is finite.
            at = Timestamp(at.epoch, at.counters[:shared] + (0,) * (here.depth - shared))
            late = at.epoch > time.epoch or at.counters[:shared] > time.counters[:shared]
            if (here, at) in seen or late:
                continue
            seen.add((here, at))
            if here is stage and progress_leq(at, time):
                raise Wrong(f"{stage.name} notified at {time}, but {starts} could lead to {at}")
            for stream in here.streams:
                for reader, _ in stream.stage.readers:
                    if stream in reader.inputs:
                        work.append((reader, STEP[here.kind](at)))


STEP = {
    Kind.INGRESS: Timestamp.enter,
    Kind.EGRESS: Timestamp.leave,
    Kind.FEEDBACK: Timestamp.advance,
    Kind.CONCAT: lambda t: t,
    Kind.VERTEX: lambda t: t,
    Kind.INPUT: lambda t: t,
}


def shared_loops(a: LoopContext | None, b: LoopContext | None) -> int:
    """How many loops lie around both places."""
    around = []
    while b is not None:
        around.append(b)
        b = b.parent
    while a is not None and a not in around:
        a = a.parent
    return a.depth if a is not None else 0


class Chaos(Vertex):
    """Sends and asks at random, now and ahead of time."""

    def __init__(self, world: World, outputs: int) -> None:
        self.world = world
        self.outputs = outputs

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        self.act(time)

    def on_notify(self, time: Timestamp) -> None:
        self.world.check(self.context.stage, time)
        self.act(time)

    def act(self, time: Timestamp) -> None:
        world = self.world
        for _ in range(world.random.randrange(3)):
            if world.budget <= 0:
                return
            world.budget -= 1
            at = self.later(time)
            if world.random.random() < 0.5:
                self.notify_at(at)
            else:
                self.send_by(world.random.randrange(self.outputs), world.random.random(), at)

    def later(self, time: Timestamp) -> Timestamp:
        rng = self.world.random
        if rng.random() < 0.7:
            return time
        counters = list(time.counters)
        if counters and rng.random() < 0.7:
            place = rng.randrange(len(counters))
            counters[place] += rng.randrange(3)
            counters[place + 1 :] = [rng.randrange(2) for _ in counters[place + 1 :]]
            if tuple(counters) < time.counters:
                counters = list(time.counters)
        return Timestamp(time.epoch + (rng.random() < 0.2), tuple(counters))


def anywhere(batch: Any, workers: int) -> list[Any]:
    """A partitioning function: the batch, a number in [0, 1), says where it goes."""
    parts: list[Any] = [None] * workers
    parts[int(batch * workers)] = batch
    return parts


class RandomGraph:
    """A random graph with nested loops; every stage is Chaos."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.random
        self.graph = Graph()
        self.count = 0
        self.inputs = [f"in{i}" for i in range(self.rng.randint(1, 2))]
        streams = [self.graph.input(name) for name in self.inputs]
        streams = self.body(None, streams, 0)
        self.graph.output("out", self.rng.choice(streams))

    def stage(self, inputs: list[Stream]) -> Stage:
        self.count += 1
        outputs = self.rng.randint(1, 2)
        return self.graph.stage(
            f"s{self.count}",
            lambda: Chaos(self.world, outputs),
            inputs,
            outputs,
            [anywhere if self.rng.random() < 0.6 else None for _ in inputs],
            notify_first=self.rng.random() < 0.2,
        )

    def body(self, context: LoopContext | None, streams: list[Stream], depth: int) -> list[Stream]:
        rng, made = self.rng, list(streams)
        for _ in range(rng.randint(1, 3)):
            if depth < 3 and rng.random() < 0.4:
                made.append(self.loop(context, rng.choice(made), depth + 1))
            else:
                chosen = [rng.choice(made) for _ in range(rng.randint(1, 2))]
                made.extend(self.stage(chosen).streams)
        return made

    def loop(self, context: LoopContext | None, stream: Stream, depth: int) -> Stream:
        self.count += 1
        name = f"loop{self.count}"
        loop = self.graph.loop(name) if context is None else context.loop(name)
        feedback = loop.feedback()
        variable = self.graph.concat(f"var{self.count}", [loop.ingress(stream), feedback.stream])
        inside = self.body(loop, [self.stage([variable]).streams[0]], depth)
        feedback.connect(inside[-1])
        return loop.egress(self.rng.choice(inside))


def simulate(
    seed: int,
    workers: int,
    accumulation: Accumulation,
    events: int = 60,
    safety: bool = False,
    **how: Any,
) -> World:
    """One random graph and schedule, to its end."""
    world = World(seed, events)
    made = RandomGraph(world)
    simulation = Simulation(made.graph, workers, accumulation, seed, **how)
    world.simulation = simulation
    if safety:
        simulation._after_step = lambda: check_views(simulation)
    for name in made.inputs:
        for epoch in range(3):
            for worker in range(workers):
                if world.random.random() < max(0.1, 4 / workers):
                    simulation.send(name, worker, epoch, world.random.random())
            simulation.open_epoch(name, epoch + 1 if epoch < 2 else None)
    simulation.run()
    assert not world.pending()
    assert simulation.progress.outstanding() == []
    for participant in simulation.progress._participants():
        assert not list(participant.view.occurrences())
        assert not participant.held
    for stream in simulation.streams:
        if isinstance(stream, VertexStream):
            assert not stream.pending
    return world


def check_views(simulation: Simulation) -> None:
    """No worker's frontier is ahead of the true one."""
    progress = simulation.progress
    truth = progress.truth.active()
    could = progress.topology.could_result_in
    for participant in progress._participants():
        view = participant.view.active()
        for p in truth:
            assert any(could(q, p) for q in view), f"{p} is active, the view has only {view}"


@settings(max_examples=60)
@given(
    st.integers(0, 10**9),
    st.integers(1, 6),
    st.sampled_from(list(Accumulation)),
)
def test_notifications_are_right_and_runs_end(
    seed: int, workers: int, accumulation: Accumulation
) -> None:
    simulate(seed, workers, accumulation)


@settings(max_examples=40)
@given(st.integers(0, 10**9), st.integers(2, 4), st.sampled_from(list(Accumulation)))
def test_no_view_is_ahead_of_the_truth(seed: int, workers: int, accumulation: Accumulation) -> None:
    simulate(seed, workers, accumulation, events=25, safety=True, packet=singly)


@pytest.mark.parametrize("accumulation", list(Accumulation))
def test_many_workers(accumulation: Accumulation) -> None:
    assert simulate(7, 16, accumulation).notified


@pytest.mark.long
@pytest.mark.parametrize("accumulation", list(Accumulation))
@pytest.mark.parametrize("workers", [2, 8, 64])
def test_thousands_of_graphs(accumulation: Accumulation, workers: int) -> None:
    notified = 0
    for seed in range({2: 1500, 8: 300, 64: 3}[workers]):
        notified += simulate(seed, workers, accumulation, events=100).notified
    assert notified > 100


def singly(updates: Updates) -> list[Updates]:
    return [[update] for update in updates]


def negatives_first(updates: Updates) -> list[Updates]:
    return [[update] for update in reversed(updates)]


@pytest.mark.parametrize(
    "broken",
    [{"packet": negatives_first}, {"packet": singly, "fifo": False}],
    ids=["negatives first", "no order"],
)
def test_a_broken_protocol_is_caught(broken: dict[str, Any]) -> None:
    def caught(seed: int) -> bool:
        try:
            simulate(seed, 3, Accumulation.NONE, safety=True, events=25, **broken)
        except AssertionError:
            return True
        return False

    assert all(simulate(seed, 3, Accumulation.NONE, events=25, packet=singly) for seed in range(20))
    assert sum(caught(seed) for seed in range(20)) >= 15


def test_a_broken_protocol_gives_wrong_notifications() -> None:
    """The oracle itself, without a look at the views, notices within some tens of runs."""

    def wrong(seed: int) -> bool:
        try:
            simulate(seed, 4, Accumulation.NONE, packet=negatives_first)
        except Wrong:
            return True
        except AssertionError:
            return False
        return False

    assert any(wrong(seed) for seed in range(60))


class Running:
    """A dataflow in the place of a simulation, for the oracle."""

    def __init__(self, dataflow: Dataflow) -> None:
        self.dataflow = dataflow

    @property
    def streams(self) -> list[VertexStream]:
        return list(self.dataflow.expansion.ids)


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.integers(1, 3), st.booleans(), st.booleans())
@example(76, 1, False, False)  # a stream with a full output is notified by its own quantum
def test_notifications_are_right_on_the_serial_scheduler(
    seed: int, workers: int, eager: bool, broadcast: bool
) -> None:
    world = World(seed, 60)
    made = RandomGraph(world)
    progress = BroadcastProgress(workers) if broadcast else SharedProgress(eager)
    with Dataflow(made.graph, workers=workers, progress=progress) as dataflow:
        world.simulation = Running(dataflow)
        for epoch in range(3):
            for name in made.inputs:
                for _ in range(2):
                    dataflow.input(name).send(world.random.random())
            if world.random.random() < 0.5:
                dataflow.run()
            for name in made.inputs:
                if epoch < 2:
                    dataflow.input(name).close_epoch()
                else:
                    dataflow.input(name).close()
        dataflow.run()
        assert not world.pending()
        assert dataflow.complete


@settings(max_examples=15)
@given(st.integers(0, 10**9), st.integers(1, 3))
def test_runs_end_on_the_parallel_scheduler(seed: int, workers: int) -> None:
    world = World(seed, 60)
    made = RandomGraph(world)
    world.check = lambda stage, time: None  # type: ignore[method-assign]  # others run meanwhile
    with Dataflow(made.graph, 3, workers) as dataflow:
        world.simulation = Running(dataflow)
        for name in made.inputs:
            dataflow.input(name).send(world.random.random())
            dataflow.input(name).close_epoch()
            dataflow.input(name).send(world.random.random())
            dataflow.input(name).close()
        dataflow.run()
        assert not world.pending()
        assert dataflow.complete
