"""What the runtime promises to vertices and callers, under the serial and parallel schedulers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidewheel.engine.dataflow.distributed import BroadcastProgress
from tidewheel.engine.dataflow.errors import ClosedError, DataflowError, TimeError
from tidewheel.engine.dataflow.graph import Graph, Stream
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.broadcast import Accumulation
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler import Aborted
from tidewheel.engine.scheduler.exec_stream import ExecResult

MODES: dict[str, dict[str, Any]] = {
    "serial": {},
    "threads": {"threads": 3},
    "broadcast": {"progress": lambda: BroadcastProgress(1)},
}


@pytest.fixture(params=list(MODES))
def run(request: pytest.FixtureRequest) -> Iterator[Callable[..., Dataflow]]:
    """Makes dataflows of one mode; closes them, and looks for a quiet end."""
    made: list[Dataflow] = []

    def make(graph: Graph, **options: Any) -> Dataflow:
        mode = {k: v() if callable(v) else v for k, v in MODES[request.param].items()}
        dataflow = Dataflow(graph, **{**mode, **options})
        made.append(dataflow)
        return dataflow

    yield make
    for dataflow in made:
        dataflow.close()


def times(found: list[tuple[Timestamp, Any]]) -> list[tuple[str, Any]]:
    return [(str(t), b) for t, b in found]


class Sum(Vertex):
    """Adds up the numbers of each time, sends the sum when the time is complete."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.sums: dict[Timestamp, int] = {}
        self.log = log if log is not None else []

    def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
        self.log.append(("recv", batch, time))
        if time not in self.sums:
            self.sums[time] = 0
            self.notify_at(time)
        self.sums[time] += batch

    def on_notify(self, time: Timestamp) -> None:
        self.log.append(("notify", time))
        self.send_by(0, self.sums.pop(time), time)


class Apply(Vertex):
    """Sends f(batch)."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.f = f

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        self.send_by(0, self.f(batch), time)


class Countdown(Vertex):
    """Feeds n back as n - 1; by output 1 leaves what has come to zero."""

    def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
        self.send_by(1 if batch == 0 else 0, max(batch - 1, 0), time)


def countdown(graph: Graph, source: Stream, **options: Any) -> Stream:
    loop = graph.loop("loop")
    feedback = loop.feedback(**options)
    variable = graph.concat("variable", [loop.ingress(source), feedback.stream])
    body = graph.stage("countdown", Countdown, [variable], outputs=2)
    feedback.connect(body.streams[0])
    return loop.egress(body.streams[1])


def test_epochs(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    graph.output("sums", graph.stage("sum", Sum, [graph.input("in")]))
    dataflow = run(graph)
    entry, sums = dataflow.input("in"), dataflow.output("sums")
    for epoch in range(3):
        for n in range(4):
            entry.send(10 * epoch + n)
        assert list(sums) == [], "the epoch is still open"
        entry.close_epoch()
        assert times(list(sums)) == [(str(epoch), 40 * epoch + 6)]
    entry.close()
    entry.close()
    assert list(sums) == []
    assert dataflow.complete
    with pytest.raises(ClosedError, match="input 'in' is closed"):
        entry.send(1)


def test_several_epochs_in_flight(run: Callable[..., Dataflow]) -> None:
    """Later epochs are received while an earlier one is open at another input."""
    log: list[Any] = []
    graph = Graph()
    a, b = graph.input("a"), graph.input("b")
    both = graph.stage("sum", lambda: Sum(log), [graph.concat("both", [a, b])])
    graph.output("sums", graph.stage("twice", lambda: Apply(lambda x: 2 * x), [both]))
    dataflow = run(graph)
    for epoch in range(3):
        dataflow.input("a").send(epoch)
        dataflow.input("a").close_epoch()
    dataflow.run()
    assert [e[0] for e in log] == ["recv"] * 3, "epochs 1 and 2 are there while 0 is open"
    assert dataflow.output("sums").take() == []
    dataflow.input("b").send(100)
    dataflow.input("b").advance_to(2)
    assert times(list(dataflow.output("sums"))) == [("0", 200), ("1", 2)]
    dataflow.input("b").close()
    assert times(list(dataflow.output("sums"))) == [("2", 4)]


def test_outputs_come_in_order_of_epochs(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    a, b = graph.input("a"), graph.input("b")
    graph.output("ordered", graph.concat("both", [a, b]))
    graph.output("as made", graph.concat("both too", [a, b]), ordered=False)
    dataflow = run(graph)
    dataflow.input("b").close_epoch()
    dataflow.input("b").close_epoch()
    dataflow.input("b").send("late")
    dataflow.run()
    dataflow.input("a").send("early")
    dataflow.run()
    assert times(dataflow.output("as made").take()) == [("2", "late"), ("0", "early")]
    assert times(dataflow.output("ordered").take()) == [("0", "early")]
    dataflow.input("a").advance_to(2)
    dataflow.run()
    assert times(dataflow.output("ordered").take()) == [("2", "late")]


def test_loop(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    graph.output("zero", countdown(graph, graph.input("in")))
    dataflow = run(graph)
    dataflow.input("in").send(7)
    dataflow.input("in").close_epoch()
    dataflow.input("in").send(3)
    dataflow.input("in").close()
    assert times(list(dataflow.output("zero"))) == [("0", 0), ("1", 0)]
    assert dataflow.complete


def test_nested_loops_carry_two_counters(run: Callable[..., Dataflow]) -> None:
    seen: list[str] = []

    class Outer(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            seen.append(f"outer {time}")
            self.send_by(0 if batch else 1, batch, time)

    class Inner(Vertex):
        def on_recv(self, port: int, batch: tuple[int, int], time: Timestamp) -> None:
            seen.append(f"inner {time}")
            n, left = batch
            self.send_by(0 if left else 1, (n, left - 1), time)

    graph = Graph()
    outer = graph.loop("outer")
    back = outer.feedback()
    first = graph.concat("o", [outer.ingress(graph.input("in")), back.stream])
    gate = graph.stage("gate", Outer, [first], outputs=2)
    inner = outer.loop("inner")
    again = inner.feedback()
    pairs = graph.stage("pair", lambda: Apply(lambda n: (n, 1)), [gate.streams[0]])
    body = graph.stage(
        "body", Inner, [graph.concat("i", [inner.ingress(pairs), again.stream])], outputs=2
    )
    again.connect(body.streams[0])
    less = graph.stage("less", lambda: Apply(lambda p: p[0] - 1), [inner.egress(body.streams[1])])
    back.connect(less)
    graph.output("out", outer.egress(gate.streams[1]))
    dataflow = run(graph)
    dataflow.input("in").send(2)
    dataflow.input("in").close()
    assert times(list(dataflow.output("out"))) == [("0", 0)]
    assert seen == [
        "outer 0⟨0⟩",
        "inner 0⟨0,0⟩",
        "inner 0⟨0,1⟩",
        "outer 0⟨1⟩",
        "inner 0⟨1,0⟩",
        "inner 0⟨1,1⟩",
        "outer 0⟨2⟩",
    ]


def test_max_iterations_and_hook(run: Callable[..., Dataflow]) -> None:
    seen: list[str] = []
    graph = Graph()
    source = graph.input("in")
    graph.output(
        "zero",
        countdown(
            graph, source, max_iterations=3, on_feedback=lambda t, b: seen.append(f"{t} {b}")
        ),
    )
    dataflow = run(graph)
    dataflow.input("in").send(100)
    dataflow.input("in").close()
    assert list(dataflow.output("zero")) == []
    assert seen == ["0⟨1⟩ 99", "0⟨2⟩ 98", "0⟨3⟩ 97"]
    assert dataflow.complete


def test_a_hook_stops_the_loop(run: Callable[..., Dataflow]) -> None:
    class Budget(Exception):
        pass

    def hook(time: Timestamp, batch: Any) -> None:
        if time.counters[-1] == 5:
            raise Budget(f"at {time}")

    graph = Graph()
    graph.output("zero", countdown(graph, graph.input("in"), on_feedback=hook))
    dataflow = run(graph)
    dataflow.input("in").send(10**9)
    dataflow.input("in").close()
    with pytest.raises(Budget, match="at 0⟨5⟩"):
        dataflow.run()


def test_notifications_in_order_and_once(run: Callable[..., Dataflow]) -> None:
    got: list[int] = []

    class Ask(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            for ahead in (3, 1, 2, 1, 0, 3):
                self.notify_at(Timestamp(time.epoch + ahead))

        def on_notify(self, time: Timestamp) -> None:
            got.append(time.epoch)

    graph = Graph()
    graph.stage("ask", Ask, [graph.input("in")])
    dataflow = run(graph)
    dataflow.input("in").send(1)
    dataflow.run()
    assert got == []
    dataflow.input("in").advance_to(2)
    dataflow.run()
    assert got == [0, 1]
    dataflow.input("in").close()
    dataflow.run()
    assert got == [0, 1, 2, 3]


def test_messages_before_notifications_unless_told_otherwise() -> None:
    def order(notify_first: bool) -> list[str]:
        log: list[str] = []

        class Both(Vertex):
            def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
                log.append(f"recv {time}")
                self.notify_at(time)
                if time.epoch == 0:
                    for epoch in (1, 2):
                        self.send_by(0, None, Timestamp(epoch, (5,)))

            def on_notify(self, time: Timestamp) -> None:
                log.append(f"notify {time}")

        graph = Graph()
        loop = graph.loop("loop")
        feedback = loop.feedback()
        start = loop.ingress(graph.input("in"))
        both = graph.stage(
            "both",
            Both,
            [graph.concat("v", [start, feedback.stream])],
            notify_first=notify_first,
        )
        feedback.connect(both)
        with Dataflow(graph) as dataflow:
            dataflow.input("in").send(None)
            dataflow.input("in").close()
            dataflow.run()
        return log

    assert order(False)[:3] == ["recv 0⟨0⟩", "recv 1⟨6⟩", "recv 2⟨6⟩"]
    assert order(True)[:2] == ["recv 0⟨0⟩", "notify 0⟨0⟩"]
    assert sorted(order(False)) == sorted(order(True))


def test_send_ahead(run: Callable[..., Dataflow]) -> None:
    """What is sent ahead waits for its own time, and holds later notifications back."""

    class Ahead(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            self.send_by(0, batch, Timestamp(time.epoch + 2))

    graph = Graph()
    ahead = graph.stage("ahead", Ahead, [graph.input("in")])
    graph.output("sums", graph.stage("sum", Sum, [ahead]))
    dataflow = run(graph)
    dataflow.input("in").send(5)
    dataflow.input("in").close_epoch()
    assert list(dataflow.output("sums")) == []
    dataflow.input("in").send(7)
    dataflow.input("in").advance_to(3)
    assert times(list(dataflow.output("sums"))) == [("2", 5)]
    dataflow.input("in").close()
    assert times(list(dataflow.output("sums"))) == [("3", 7)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda v, t: v.send_by(0, 1, Timestamp(0)), "cannot send at 0, which is not after now, 1"),
        (lambda v, t: v.notify_at(Timestamp(0)), "cannot be notified at 0"),
        (lambda v, t: v.send_by(0, 1, t.enter()), "should have 0 counters"),
    ],
)
def test_no_way_back_in_time(
    run: Callable[..., Dataflow], bad: Callable[[Vertex, Timestamp], None], message: str
) -> None:
    class Bad(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            bad(self, time)

    graph = Graph()
    graph.stage("bad", Bad, [graph.input("in")])
    dataflow = run(graph)
    dataflow.input("in").close_epoch()
    dataflow.input("in").send(1)
    with pytest.raises(TimeError, match=message):
        dataflow.run()


def test_no_sending_outside_of_a_callback() -> None:
    made: list[Vertex] = []

    def factory() -> Vertex:
        made.append(Sum())
        return made[0]

    graph = Graph()
    graph.stage("sum", factory, [graph.input("in")])
    with Dataflow(graph), pytest.raises(TimeError, match="only send within"):
        made[0].send_by(0, 1, Timestamp(0))


@pytest.mark.parametrize(("bound", "deepest"), [(0, 1), (3, 4), (100, 11)])
def test_reentrancy_is_bounded(bound: int, deepest: int) -> None:
    depth = most = 0

    class Self(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            nonlocal depth, most
            depth += 1
            most = max(most, depth)
            if batch:
                self.send_by(0, batch - 1, time)
            else:
                self.send_by(1, f"at {time}", time)
            depth -= 1

    graph = Graph()
    loop = graph.loop("loop")
    feedback = loop.feedback()
    start = loop.ingress(graph.input("in"))
    body = graph.stage(
        "self", Self, [graph.concat("v", [start, feedback.stream])], outputs=2, reentrancy=bound
    )
    feedback.connect(body.streams[0])
    graph.output("out", loop.egress(body.streams[1]))
    with Dataflow(graph) as dataflow:
        dataflow.input("in").send(10)
        dataflow.input("in").close()
        assert times(list(dataflow.output("out"))) == [("0", "at 0⟨10⟩")]
        assert dataflow.complete
    assert most == deepest


def test_source_stage(run: Callable[..., Dataflow]) -> None:
    class Source(Vertex):
        def on_notify(self, time: Timestamp) -> None:
            self.send_by(0, f"epoch {time}", time)
            if time.epoch < 2:
                self.notify_at(Timestamp(time.epoch + 1))

    graph = Graph()
    graph.output("out", graph.stage("source", Source))
    assert [b for _, b in run(graph).output("out")] == ["epoch 0", "epoch 1", "epoch 2"]


class Stream1000(Vertex):
    """Streams a thousand batches, as far as its reader takes them."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = False

    def on_notify(self, time: Timestamp) -> Iterator[None]:
        try:
            for n in range(1000):
                self.made = n + 1
                self.send_by(0, n, time)
                yield
        finally:
            self.closed = True


def test_generators_stop_at_a_full_output_and_hold_their_time(
    run: Callable[..., Dataflow],
) -> None:
    source = Stream1000()
    graph = Graph()
    stage = graph.stage("source", lambda: source)
    graph.output("out", stage)
    dataflow = run(graph, prefetch=2)
    probe = dataflow.probe(stage)
    out = dataflow.output("out")
    assert times([next(iter(out)) for _ in range(3)]) == [("0", 0), ("0", 1), ("0", 2)]
    assert not probe.passed(0)
    assert source.made < 50
    with pytest.raises(DataflowError, match="cannot pass"):
        probe.wait(0)
    assert [b for _, b in out] == list(range(3, 1000))
    assert probe.passed(0)
    assert source.closed


def test_closing_ends_generators(run: Callable[..., Dataflow]) -> None:
    source = Stream1000()
    graph = Graph()
    graph.output("out", graph.stage("source", lambda: source))
    dataflow = run(graph, prefetch=1)
    next(iter(dataflow.output("out")))
    dataflow.close()
    assert source.closed
    with pytest.raises(ClosedError):
        dataflow.run()


def test_generators_that_wait_for_the_outside() -> None:
    ready = threading.Event()

    class Waiting(Vertex):
        def on_notify(self, time: Timestamp) -> Iterator[object]:
            while not ready.is_set():
                yield ExecResult.YIELD
            self.send_by(0, "came", time)

    graph = Graph()
    stage = graph.stage("source", Waiting)
    graph.output("out", stage)
    with Dataflow(graph) as dataflow:
        (stream,) = dataflow.expansion.streams[stage.id]

        def come() -> None:
            ready.set()
            dataflow.scheduler.wake(dataflow.expansion.ids[stream])

        threading.Timer(0.05, come).start()
        assert [b for _, b in dataflow.output("out")] == ["came"]


def test_probes(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    source = graph.input("in")
    loop = graph.loop("loop")
    feedback = loop.feedback()
    variable = graph.concat("variable", [loop.ingress(source), feedback.stream])
    body = graph.stage("body", Countdown, [variable], outputs=2)
    feedback.connect(body.streams[0])
    end = graph.output("out", loop.egress(body.streams[1]))
    dataflow = run(graph)
    probe, inside = dataflow.probe(end), dataflow.probe(body)
    assert repr(probe.frontier()) == "Antichain({0})"
    assert repr(inside.frontier()) == "Antichain({0⟨0⟩})"
    dataflow.input("in").send(3)
    dataflow.input("in").close_epoch()
    probe.wait(0)
    assert probe.passed(0)
    assert not probe.passed(1)
    assert repr(inside.frontier()) == "Antichain({1⟨0⟩})"
    assert inside.passed(Timestamp(0, (99,)))
    with pytest.raises(DataflowError, match="should have 1 counters"):
        inside.passed(0)
    with pytest.raises(DataflowError, match="probe the stage before or after"):
        dataflow.probe(variable)
    dataflow.input("in").close()
    dataflow.run()
    assert len(probe.frontier()) == 0


def test_an_error_reaches_the_caller_and_closing_is_clean(run: Callable[..., Dataflow]) -> None:
    closed: list[str] = []

    class Fails(Vertex):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            self.send_by(0, 10 // batch, time)

        def close(self) -> None:
            closed.append(self.name)

    graph = Graph()
    graph.output("out", graph.stage("fails", Fails, [graph.input("in")]))
    dataflow = run(graph)
    dataflow.input("in").send(0)
    with pytest.raises(ZeroDivisionError):
        list(dataflow.output("out"))
    with pytest.raises(ZeroDivisionError):
        dataflow.run()
    dataflow.close()
    dataflow.close()
    assert closed == ["fails"]


def test_reset_after_an_error(run: Callable[..., Dataflow]) -> None:
    """The failed epoch is dropped, its number can be used again."""

    class Picky(Sum):
        def on_recv(self, port: int, batch: int, time: Timestamp) -> None:
            if batch < 0:
                raise ValueError("negative")
            super().on_recv(port, batch, time)

        def reset(self) -> None:
            self.sums.clear()

    graph = Graph()
    graph.output("sums", graph.stage("sum", Picky, [graph.input("in")]))
    dataflow = run(graph)
    entry, sums = dataflow.input("in"), dataflow.output("sums")
    entry.send(1)
    entry.close_epoch()
    assert times(list(sums)) == [("0", 1)]
    entry.send(2)
    entry.send(-1)
    entry.close_epoch()
    with pytest.raises(ValueError, match="negative"):
        dataflow.run()
    dataflow.reset(epoch=1)
    entry.send(5)
    entry.close()
    assert times(list(sums)) == [("1", 5)]
    assert dataflow.complete


def test_abort_from_another_thread(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    graph.output("zero", countdown(graph, graph.input("in")))
    dataflow = run(graph)
    dataflow.input("in").send(10**9)
    threading.Timer(0.05, dataflow.abort).start()
    with pytest.raises(Aborted):
        dataflow.run()


def test_the_graph_grows_and_shrinks_while_it_runs(run: Callable[..., Dataflow]) -> None:
    graph = Graph()
    source = graph.input("in")
    doubled = graph.stage("double", lambda: Apply(lambda x: 2 * x), [source])
    first = graph.output("first", doubled)
    dataflow = run(graph)
    entry = dataflow.input("in")
    entry.send(1)
    entry.close_epoch()
    dataflow.run()

    total = graph.stage("sum", Sum, [doubled])
    second = graph.output("second", total)
    extra = graph.input("extra")
    third = graph.output("third", graph.concat("both", [doubled, extra]))
    entry.send(2)
    entry.send(3)
    assert dataflow.input("extra").epoch == 1, "a new input starts at the open epoch"
    dataflow.input("extra").send("x")
    dataflow.close_epoch()
    dataflow.run()
    assert times(dataflow.output("first").take()) == [("0", 2), ("1", 4), ("1", 6)]
    assert times(dataflow.output("second").take()) == [("1", 10)]
    assert sorted(b for _, b in dataflow.output("third").take() if b != "x") == [4, 6]

    dataflow.remove(second, total)
    entry.send(4)
    dataflow.close_epoch()
    dataflow.run()
    assert times(dataflow.output("first").take()) == [("2", 8)]
    assert dataflow.probe(first).passed(2)
    with pytest.raises(DataflowError, match="no output 'second'"):
        dataflow.output("second")
    dataflow.remove(third.inputs[0].stage, third)
    entry.close()
    dataflow.input("extra").close()
    dataflow.run()
    assert dataflow.complete


def test_removing_stages_with_work_under_way() -> None:
    graph = Graph()
    source = graph.input("in")
    kept = graph.output("kept", graph.stage("sum", Sum, [source]))
    gone = graph.stage("gone", Sum, [source])
    with Dataflow(graph) as dataflow:
        dataflow.input("in").send(1)
        dataflow.run()
        dataflow.remove(gone)
        dataflow.input("in").close()
        dataflow.run()
        assert times(dataflow.output("kept").take()) == [("0", 1)]
        assert dataflow.complete
        assert dataflow.probe(kept).passed(0)


def test_a_vertex_without_callbacks_says_so() -> None:
    graph = Graph()
    graph.stage("nothing", Vertex, [graph.input("in")])
    with Dataflow(graph) as dataflow:
        dataflow.input("in").send(1)
        with pytest.raises(NotImplementedError, match="no on_recv"):
            dataflow.run()


@pytest.mark.parametrize("accumulation", list(Accumulation))
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_workers_exchange_by_key(accumulation: Accumulation, workers: int, threads: int) -> None:
    """Each worker adds up its own numbers; the distributed protocol tells when they are all in."""

    def by_value(batch: int, count: int) -> list[Any]:
        return [batch if batch % count == w else None for w in range(count)]

    class Tagged(Sum):
        def on_notify(self, time: Timestamp) -> None:
            self.send_by(0, (self.worker, self.sums.pop(time)), time)

    graph = Graph()
    graph.output("sums", graph.stage("sum", Tagged, [graph.input("in")], partition=[by_value]))
    progress = BroadcastProgress(workers, accumulation)
    with Dataflow(graph, threads, workers, progress=progress) as dataflow:
        entry = dataflow.input("in")
        for epoch in range(3):
            for n in range(30):
                entry.send(n + epoch)
            entry.close_epoch()
        entry.close()
        got = sorted((t.epoch, b) for t, b in dataflow.output("sums"))
        assert dataflow.complete
    assert got == [
        (epoch, (w, sum(n + epoch for n in range(30) if (n + epoch) % workers == w)))
        for epoch in range(3)
        for w in range(workers)
    ]


def test_no_exchange_where_the_partitioning_fits() -> None:
    calls = 0

    def by_value(batch: int, count: int) -> list[Any]:
        nonlocal calls
        calls += 1
        return [batch if batch % count == w else None for w in range(count)]

    def build(keeps: bool) -> None:
        nonlocal calls
        calls = 0
        graph = Graph()
        known = [by_value] if keeps else None
        first = graph.stage(
            "first",
            lambda: Apply(lambda x: x),
            [graph.input("in")],
            partition=[by_value],
            partitioned_by=known,
        )
        second = graph.stage("second", lambda: Apply(lambda x: x), [first], partition=[by_value])
        graph.output("out", second)
        with Dataflow(graph, workers=2) as dataflow:
            for n in range(10):
                dataflow.input("in").send(n)
            dataflow.input("in").close()
            assert sorted(b for _, b in dataflow.output("out")) == list(range(10))

    build(False)
    assert calls == 20
    build(True)
    assert calls == 10


class Echo(Vertex):
    """Counts what it gets, and passes it on."""

    def __init__(self) -> None:
        self.got = 0

    def on_recv(self, port, batch, time):
        self.got += 1
        self.send_by(0, batch, time)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_lazy_dataflow_runs_what_its_read_outputs_need(threads):
    graph = Graph()
    numbers = graph.input("numbers")
    read, unread = Echo(), Echo()
    graph.output("read", graph.stage("read", lambda: read, [numbers]))
    graph.output("unread", graph.stage("unread", lambda: unread, [numbers]))
    with Dataflow(graph, threads, lazy=True) as dataflow:
        for n in range(5):
            dataflow.input("numbers").send(n)
        dataflow.run()
        assert (read.got, unread.got) == (0, 0)  # nobody has asked
        dataflow.input("numbers").close()
        assert [batch for _, batch in dataflow.output("read")] == list(range(5))
        assert (read.got, unread.got) == (5, 0)
        assert [batch for _, batch in dataflow.output("unread")] == list(range(5))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_eager_dataflow_runs_everything(threads):
    graph = Graph()
    numbers = graph.input("numbers")
    echo = Echo()
    graph.output("out", graph.stage("echo", lambda: echo, [numbers]))
    with Dataflow(graph, threads) as dataflow:
        for n in range(5):
            dataflow.input("numbers").send(n)
        dataflow.run()
        assert echo.got == 5
