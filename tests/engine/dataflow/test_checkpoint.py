"""Stopping, restoring into a fresh graph, and going on gives what never stopping gives."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.dataflow.errors import DataflowError
from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.runtime import Dataflow, Input
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.timestamp import Timestamp


class Total(Vertex):
    """Sums of each epoch, and of all epochs before it."""

    def __init__(self) -> None:
        self.total = 0
        self.sums: dict[Timestamp, int] = {}

    def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
        self.sums[time] = self.sums.get(time, 0) + batch
        self.notify_at(time)

    def on_notify(self, time: Timestamp) -> None:
        self.total += self.sums.pop(time)
        self.send_by(0, (self.worker, self.total), time)

    def checkpoint(self) -> Any:
        return self.total, dict(self.sums)

    def restore(self, state: Any) -> None:
        self.total, self.sums = state[0], dict(state[1])


class Collatz(Vertex):
    """One step per iteration, told by a notification; counts the steps."""

    def __init__(self) -> None:
        self.waiting: dict[Timestamp, list[tuple[int, int]]] = {}

    def on_recv(self, port: int, batch: int | tuple[int, int], time: Timestamp) -> None:
        self.waiting.setdefault(time, []).append(batch if isinstance(batch, tuple) else (batch, 0))
        self.notify_at(time)

    def on_notify(self, time: Timestamp) -> None:
        for n, steps in self.waiting.pop(time):
            if n <= 1:
                self.send_by(1, steps, time)
            else:
                self.send_by(0, (n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1), time)

    def checkpoint(self) -> Any:
        return {t: list(w) for t, w in self.waiting.items()}

    def restore(self, state: Any) -> None:
        self.waiting = {t: list(w) for t, w in state.items()}


def modulo(batch: Any, workers: int) -> list[Any]:
    n = batch if isinstance(batch, int) else batch[0]
    return [batch if n % workers == w else None for w in range(workers)]


def build() -> Graph:
    graph = Graph()
    source = graph.input("in")
    loop = graph.loop("loop")
    feedback = loop.feedback()
    variable = graph.concat("variable", [loop.ingress(source), feedback.stream])
    body = graph.stage("collatz", Collatz, [variable], outputs=2, partition=[modulo])
    feedback.connect(body.streams[0])
    steps = loop.egress(body.streams[1])
    graph.output("totals", graph.stage("total", Total, [steps], partition=[modulo]))
    return graph


Step = tuple[str, int]


def drive(steps: list[Step], stops: set[int], workers: int, threads: int = 1) -> list[Any]:
    """Do the steps; at each stop take a checkpoint and go on in a fresh dataflow."""
    dataflow = Dataflow(build(), threads, workers)
    entry: Input = dataflow.input("in")
    got: list[Any] = []
    for place, (what, n) in enumerate(steps):
        if place in stops:
            saved = pickle.loads(pickle.dumps(dataflow.checkpoint()))
            dataflow.close()
            dataflow = Dataflow(build(), threads, workers)
            dataflow.restore(saved)
            entry = dataflow.input("in")
        if what == "send":
            entry.send(n)
        elif what == "close":
            entry.close_epoch()
        else:
            dataflow.run()
            got.extend(dataflow.output("totals").take())
    entry.close()
    got.extend(dataflow.output("totals"))
    assert dataflow.complete
    dataflow.close()
    return sorted(got)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["close", "run"]), st.just(0)),
    ),
    max_size=15,
)


@settings(max_examples=60)
@given(steps, st.sets(st.integers(0, 14), max_size=3), st.integers(1, 3))
def test_stopping_makes_no_difference(made: list[Step], stops: set[int], workers: int) -> None:
    assert drive(made, stops, workers) == drive(made, set(), workers)


def test_with_threads() -> None:
    rng = random.Random(1)
    made: list[Step] = []
    for _ in range(6):
        made += [("send", rng.randint(1, 40)) for _ in range(4)]
        made.append(("close", 0))
    assert drive(made, {3, 11, 20}, 2, threads=2) == drive(made, set(), 2)


def test_going_on_after_a_checkpoint_changes_nothing() -> None:
    with Dataflow(build()) as dataflow:
        entry = dataflow.input("in")
        entry.send(6)
        dataflow.checkpoint()
        entry.send(7)
        entry.close_epoch()
        saved = dataflow.checkpoint()
        entry.close()
        want = list(dataflow.output("totals"))
        assert [b for _, b in want] == [(0, 8 + 16)]
    with Dataflow(build()) as dataflow:
        dataflow.restore(saved)
        assert dataflow.input("in").epoch == 1
        dataflow.input("in").close()
        assert list(dataflow.output("totals")) == want


def test_a_checkpoint_of_another_graph_is_refused() -> None:
    with Dataflow(build()) as dataflow:
        saved = dataflow.checkpoint()
    graph = Graph()
    graph.output("totals", graph.input("in"))
    with Dataflow(graph) as other, pytest.raises(DataflowError, match="of another graph"):
        other.restore(saved)


def test_an_output_that_is_not_read_is_named() -> None:
    class Copy(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            self.send_by(0, batch, time)

    graph = Graph()
    graph.output("out", graph.stage("copy", Copy, [graph.input("in")]))
    with Dataflow(graph, prefetch=1) as dataflow:
        for n in range(50):
            dataflow.input("in").send(n)
        with pytest.raises(DataflowError, match=r"not read; read the outputs"):
            dataflow.checkpoint()
        dataflow.input("in").close()
        assert [b for _, b in dataflow.output("out")] == list(range(50)), "nothing is lost"


def test_state_without_restore_is_refused() -> None:
    class Forgetful(Vertex):
        def checkpoint(self) -> Any:
            return 1

    def make() -> Graph:
        graph = Graph()
        graph.stage("forgetful", Forgetful, [graph.input("in")])
        return graph

    with Dataflow(make()) as dataflow:
        saved = dataflow.checkpoint()
    with Dataflow(make()) as dataflow, pytest.raises(NotImplementedError, match="no restore"):
        dataflow.restore(saved)
