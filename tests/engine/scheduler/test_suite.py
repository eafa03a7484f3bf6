"""One suite of graphs under every scheduler: serial, parallel at 2, 4 and 8, random schedules.

Each test takes `run`, which builds, watches and checks a graph under one scheduler; a test that is
run with random schedules is run once per seed. In all of them a monitor inside `execute` looks for
neighbours that run together.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.scheduler import (
    Aborted,
    DoubleBuffer,
    ExecResult,
    Handoff,
    ParallelScheduler,
    Quantum,
    RandomScheduler,
    Scheduler,
    SerialScheduler,
    SpillingHandoff,
    StreamGraph,
)
from tidewheel.engine.scheduler.testing import (
    Apply,
    Barrier,
    Collect,
    Inbox,
    LoopHead,
    MockStream,
    Monitor,
    Values,
    Waiter,
)

Make = Callable[..., Scheduler]
SEEDS = 80  # per test in the default run, so well over 500 in all
LONG_SEEDS = 500


def makers(seeds: int) -> dict[str, list[Make]]:
    def parallel(degree: int) -> Make:
        return lambda graph, owner=None, **kw: ParallelScheduler(graph, owner, degree=degree, **kw)

    def seeded(seed: int) -> Make:
        return lambda graph, owner=None, **kw: RandomScheduler(graph, owner, seed=seed, **kw)

    return {
        "serial": [SerialScheduler],
        **{f"parallel-{n}": [parallel(n)] * 3 for n in (2, 4, 8)},
        "random": [seeded(seed) for seed in range(seeds)],
    }


class Runner:
    """Runs graphs under one scheduler and checks what must hold under any."""

    def __init__(self, make: Make) -> None:
        self.make = make

    @contextmanager
    def __call__(self, graph: StreamGraph, **options: Any) -> Iterator[Scheduler]:
        monitor = Monitor(graph)
        streams = [s for _, s in graph.items() if isinstance(s, MockStream)]
        for stream in streams:
            stream.monitor = monitor
        scheduler = self.make(graph, **options)
        scheduler.open()
        try:
            yield scheduler
        finally:
            scheduler.close()
        assert monitor.violations == []
        assert all(s.opened == 1 and s.closed == 1 for s in streams), "opened and closed once"
        if scheduler.error is None and not isinstance(scheduler, RandomScheduler):
            scheduler.transitions.validate()


Test = Callable[[Runner], None]
TESTS: list[Test] = []


def scenario(test: Test) -> Test:
    TESTS.append(test)
    return test


def read_all(scheduler: Scheduler, output: int) -> list[Any]:
    out = []
    while (item := scheduler.read_stream(output)) is not None:
        out.append(item[1])
    return out


def chain(graph: StreamGraph, first: MockStream, *rest: MockStream, **bounds: Any) -> list[int]:
    ids = [graph.add_stream(stream) for stream in (first, *rest)]
    for before, after in itertools.pairwise(ids):
        graph.connect(before, after, Handoff(**bounds))
    return ids


# -- shapes


@scenario
def straight_chain(run: Runner) -> None:
    graph = StreamGraph()
    ids = chain(
        graph,
        Values("values", range(20)),
        Apply("double", lambda v: v * 2),
        Apply("twice", lambda v: [v, v]),
        max_batches=2,
    )
    output = graph.add_output("out", ids[-1])
    with run(graph, quantum=Quantum(3)) as scheduler:
        assert read_all(scheduler, output) == [v * 2 for v in range(20) for _ in range(2)]
        assert graph.output(output).eos
        assert scheduler.read_stream(output) is None


@scenario
def empty_source(run: Runner) -> None:
    graph = StreamGraph()
    ids = chain(graph, Values("values", []), Apply("same"))
    output = graph.add_output("out", ids[-1])
    with run(graph) as scheduler:
        assert scheduler.read_stream(output) is None
        assert graph.output(output).eos


@scenario
def diamond(run: Runner) -> None:
    graph = StreamGraph()
    splitter = graph.add_stream(Values("splitter", range(12)))
    barrier = graph.add_stream(Apply("merge"))
    for n in range(3):
        branch = graph.add_stream(Apply(f"branch{n}", lambda v, n=n: (n, v)))
        graph.connect(splitter, branch, Handoff(max_batches=2))
        graph.connect(branch, barrier, Handoff(max_batches=2))
    output = graph.add_output("out", barrier)
    with run(graph, quantum=Quantum(2)) as scheduler:
        got = read_all(scheduler, output)
    assert Counter(got) == Counter((n, v) for n in range(3) for v in range(12))
    for n in range(3):
        assert [v for m, v in got if m == n] == list(range(12)), "each branch keeps its order"


@scenario
def barrier_that_reads_one_side_first(run: Runner) -> None:
    """Hard bounds would stop this graph for ever: the full side must be allowed to grow."""
    graph = StreamGraph()
    splitter = graph.add_stream(Values("splitter", range(15)))
    barrier = graph.add_stream(Barrier("barrier"))
    for n in range(2):
        branch = graph.add_stream(Apply(f"branch{n}", lambda v, n=n: (n, v)))
        graph.connect(splitter, branch, Handoff(max_batches=1))
        graph.connect(branch, barrier, Handoff(max_batches=1))
    output = graph.add_output("out", barrier)
    with run(graph) as scheduler:
        assert read_all(scheduler, output) == [(n, v) for n in range(2) for v in range(15)]


@scenario
def bucket_brigade_with_double_buffers(run: Runner) -> None:
    graph = StreamGraph()
    streams = [Values("values", range(20)), *(Apply(f"stage{n}") for n in range(3))]
    ids = [graph.add_stream(stream) for stream in streams]
    for before, after in itertools.pairwise(ids):
        graph.connect(before, after, DoubleBuffer(max_batches=2))
    output = graph.add_output("out", ids[-1])
    with run(graph, quantum=Quantum(3)) as scheduler:
        assert read_all(scheduler, output) == list(range(20))


@scenario
def spilling_edge(run: Runner) -> None:
    graph = StreamGraph()
    source = graph.add_stream(Values("values", range(30)))
    target = graph.add_stream(Apply("same"))
    handoff = SpillingHandoff(max_batches=2, max_bytes=None)
    graph.connect(source, target, handoff)
    output = graph.add_output("out", target)
    with run(graph, quantum=Quantum(10)) as scheduler:
        assert read_all(scheduler, output) == list(range(30))
        assert handoff.spilled_batches > 0


def loop(graph: StreamGraph, entry: MockStream, feedback: Handoff) -> tuple[int, int]:
    """Values enter, go round until they are 0, and leave to a sink."""
    start = graph.add_stream(entry)
    head = graph.add_stream(LoopHead("head"))
    body = graph.add_stream(Apply("body", lambda v: v - 1))
    sink = graph.add_stream(Collect("sink"), eager=True)
    graph.connect(start, head, Handoff(max_batches=2))
    graph.connect(body, head, feedback)  # second input
    graph.connect(head, body, Handoff(max_batches=2))
    graph.connect(head, sink, Handoff(max_batches=1))
    return start, sink


@scenario
def loop_with_more_values_than_bounds(run: Runner) -> None:
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start, sink = loop(graph, inbox, Handoff(max_batches=1, soft=True))
    with run(graph) as scheduler:
        for round_ in range(3):
            for n in range(12):
                inbox.put(n % 5)
            scheduler.wake(start)
            scheduler.run_until_idle()
            assert graph[sink].values == [0] * 12 * (round_ + 1)


@scenario
def loop_with_hard_bounds_everywhere(run: Runner) -> None:
    """Not what one should build, but no reason to hang."""
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start, sink = loop(graph, inbox, Handoff(max_batches=1))
    with run(graph) as scheduler:
        for n in range(12):
            inbox.put(n % 5)
        scheduler.wake(start)
        scheduler.run_until_idle()
        assert graph[sink].values == [0] * 12


@scenario
def streams_with_one_resource(run: Runner) -> None:
    graph = StreamGraph()
    merge = graph.add_stream(Apply("merge"))
    inside: list[str] = []

    def user(name: str) -> Callable[[Any], Any]:
        def function(value: Any) -> Any:
            inside.append(name)
            assert len(inside) == 1, inside
            inside.remove(name)
            return value

        return function

    for n in range(4):
        source = graph.add_stream(Values(f"values{n}", range(5)))
        stream = Apply(f"user{n}", user(f"user{n}"))
        stream.exclusive = "connection"
        ids = graph.add_stream(stream)
        graph.connect(source, ids, Handoff(max_batches=2))
        graph.connect(ids, merge, Handoff(max_batches=2))
    output = graph.add_output("out", merge)
    with run(graph, quantum=Quantum(1)) as scheduler:
        assert Counter(read_all(scheduler, output)) == Counter(list(range(5)) * 4)


# -- demand


@scenario
def nothing_runs_before_an_output_is_read(run: Runner) -> None:
    graph = StreamGraph()
    values, unread = Values("values", range(100)), Values("unread", range(100))
    ids = chain(graph, values, Apply("same"), max_batches=2)
    output = graph.add_output("out", ids[-1], Handoff(max_batches=2))
    graph.add_output("other", graph.add_stream(unread))
    with run(graph, quantum=Quantum(1)) as scheduler:
        scheduler.wake(ids[0])
        scheduler.run_until_idle()
        assert values.at == 0
        assert scheduler.read_stream(output) == (0, 0)
        scheduler.run_until_idle()
        assert 1 <= values.at < 20, "no more than what the buffers hold"
        assert unread.at == 0


@scenario
def two_outputs_of_one_source(run: Runner) -> None:
    """The one that nobody reads must not stop the other."""
    graph = StreamGraph()
    source = graph.add_stream(Values("values", range(40)))
    first = graph.add_output("first", source, Handoff(max_batches=1))
    second = graph.add_output("second", source, Handoff(max_batches=1))
    with run(graph) as scheduler:
        assert read_all(scheduler, first) == list(range(40))
        assert read_all(scheduler, second) == list(range(40))


@scenario
def eager_sink_and_lazy_output(run: Runner) -> None:
    graph = StreamGraph()
    inbox, lazy = Inbox("inbox"), Values("lazy", range(5))
    start = graph.add_stream(inbox)
    sink = graph.add_stream(Collect("sink"), eager=True)
    graph.connect(start, sink)
    output = graph.add_output("out", graph.add_stream(lazy))
    with run(graph) as scheduler:
        for n in range(10):
            inbox.put(n)
            scheduler.wake(start)
            scheduler.run_until_idle()
            assert graph[sink].values == list(range(n + 1))
        assert lazy.at == 0
        assert read_all(scheduler, output) == list(range(5))


@scenario
def idle_is_not_the_end(run: Runner) -> None:
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start = graph.add_stream(inbox)
    output = graph.add_output("out", start)
    with run(graph) as scheduler:
        assert scheduler.read_stream(output) is None
        assert not graph.output(output).eos
        for value in (1, 2, Inbox.END):
            inbox.put(value)
        scheduler.wake(start)
        assert read_all(scheduler, output) == [1, 2]
        assert graph.output(output).eos


@scenario
def a_yielding_stream_is_waited_for(run: Runner) -> None:
    graph = StreamGraph()
    waiter = Waiter("waiter", range(3), delay=0.001)
    start = graph.add_stream(waiter)
    merge = graph.add_stream(Apply("merge"))
    quick = graph.add_stream(Values("quick", ["a", "b"]))
    graph.connect(start, merge)
    graph.connect(quick, merge)
    output = graph.add_output("out", merge)
    with run(graph) as scheduler:
        waiter.wake = lambda: scheduler.wake(start)
        assert Counter(read_all(scheduler, output)) == Counter([0, 1, 2, "a", "b"])


# -- changing the graph


@scenario
def graph_grows_and_shrinks(run: Runner) -> None:
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start = graph.add_stream(inbox)
    one = graph.add_stream(Collect("one"), eager=True)
    graph.connect(start, one)
    later = Collect("later")
    with run(graph) as scheduler:
        inbox.put(1)
        scheduler.wake(start)
        scheduler.run_until_idle()
        two = graph.add_stream(later, eager=True)
        graph.connect(start, two)
        inbox.put(2)
        scheduler.wake(start)
        scheduler.run_until_idle()
        assert (graph[one].values, later.values) == ([1, 2], [2])
        graph.remove_stream(two)
        inbox.put(3)
        scheduler.wake(start)
        scheduler.wake(two)  # late wakes of what is gone are no harm
        scheduler.run_until_idle()
        assert (graph[one].values, later.values) == ([1, 2, 3], [2])
        assert (later.opened, later.closed) == (1, 1)


# -- progress


class CountingOwner:
    """Grants a notification to `target` when the updates of all streams add up to zero."""

    def __init__(self, target: Callable[[], tuple[int, Any]]) -> None:
        self.target = target
        self.sum = 0

    def apply(self, stream_id: int, updates: Any) -> list[int]:
        self.sum += sum(updates)
        if self.sum == 0:
            target, stream = self.target()
            stream.granted.append(True)
            return [target]
        return []


class Counted(Apply):
    """Counts up for what it sends and down for what it receives; sums on a notification."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.updates: list[int] = []
        self.granted: list[bool] = []
        self.total = 0
        self.function = self.count

    def count(self, value: int) -> list[int]:
        self.updates.append(-1)
        if self.name != "sum":
            self.updates.append(+1)
            return [value]
        self.total += value
        return []

    def step(self, quantum: Quantum) -> ExecResult:
        if self.name == "sum" and self.granted:
            self.granted.clear()
            self.outputs[0].put(0, self.total)
            self.total = 0
        return super().step(quantum)

    def take_progress(self) -> list[int]:
        updates, self.updates = self.updates, []
        return updates


class CountedInbox(Inbox):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seen = 0

    def take_progress(self) -> list[int]:
        new = self.outputs[0].put_batches - self.seen
        self.seen += new
        return [1] * new


@scenario
def notifications_wake(run: Runner) -> None:
    graph = StreamGraph()
    inbox, total = CountedInbox("inbox"), Counted("sum")
    ids = chain(graph, inbox, Counted("a"), Counted("b"), total, max_batches=3)
    sink = graph.add_stream(Collect("sink"), eager=True)
    graph.connect(ids[-1], sink)
    owner = CountingOwner(lambda: (ids[-1], total))
    with run(graph, owner=owner, quantum=Quantum(2)) as scheduler:
        for n in range(1, 4):
            for _ in range(8):
                inbox.put(n)
            scheduler.wake(ids[0])
            scheduler.run_until_idle()
            # Each grant gives the sum of what came until then: together they are everything.
            assert sum(graph[sink].values) == 8 * sum(range(1, n + 1))


# -- errors


class Boom(Exception):
    pass


def fail_at(at: int, error: Callable[[], BaseException]) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        if value == at:
            try:
                raise ValueError("the cause")
            except ValueError as cause:
                raise error() from cause
        return value

    return function


@scenario
def an_error_reaches_the_reader(run: Runner) -> None:
    graph = StreamGraph()
    boom = Boom("seven")
    ids = chain(
        graph, Values("values", range(20)), Apply("fails", fail_at(7, lambda: boom)), max_batches=1
    )
    output = graph.add_output("out", ids[-1])
    with run(graph) as scheduler:
        got: list[Any] = []
        with pytest.raises(Boom) as caught:
            got.extend(iter(lambda: scheduler.read_stream(output)[1], None))  # type: ignore[index]
        assert caught.value is boom
        assert isinstance(boom.__cause__, ValueError)
        assert got == list(range(7))[: len(got)]
        for again in (scheduler.run_until_idle, lambda: scheduler.read_stream(output)):
            with pytest.raises(Boom):
                again()


@scenario
def an_error_of_an_eager_graph(run: Runner) -> None:
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start = graph.add_stream(inbox)
    fails = graph.add_stream(Apply("fails", fail_at(3, lambda: Boom("three"))))
    sink = graph.add_stream(Collect("sink"), eager=True)
    graph.connect(start, fails)
    graph.connect(fails, sink)
    with run(graph) as scheduler:
        for n in range(5):
            inbox.put(n)
        scheduler.wake(start)
        with pytest.raises(Boom):
            scheduler.run_until_idle()
        scheduler.reset()
        assert graph[sink].values == []
        for n in (5, 6):
            inbox.put(n)
        scheduler.wake(start)
        scheduler.run_until_idle()
        assert graph[sink].values == [5, 6]


@scenario
def only_one_of_many_errors_is_raised(run: Runner) -> None:
    graph = StreamGraph()
    source = graph.add_stream(Values("values", range(4)))
    merge = graph.add_stream(Apply("merge"))
    for n in range(4):
        branch = graph.add_stream(Apply(f"b{n}", fail_at(0, lambda n=n: Boom(n))))
        graph.connect(source, branch)
        graph.connect(branch, merge)
    output = graph.add_output("out", merge)
    with run(graph) as scheduler:
        with pytest.raises(Boom) as caught:
            read_all(scheduler, output)
        first = caught.value
    assert scheduler.error is first
    assert all(note.startswith("later") for note in getattr(first, "__notes__", ()))


@scenario
def an_error_while_opening(run: Runner) -> None:
    graph = StreamGraph()
    first, second = Values("first", range(3)), Values("second", range(3))
    graph.add_output("one", graph.add_stream(first))
    graph.add_output("two", graph.add_stream(second))

    def broken() -> None:
        raise Boom("open")

    second.open = broken  # type: ignore[method-assign]
    scheduler = run.make(graph)
    with pytest.raises(Boom):
        scheduler.open()
    scheduler.close()
    assert (first.opened, first.closed, second.closed) == (1, 1, 1)


@scenario
def abort_from_another_thread(run: Runner) -> None:
    graph = StreamGraph()
    entered = threading.Event()

    class Endless(MockStream):
        def __init__(self) -> None:
            super().__init__("endless")
            self.stop = threading.Event()

        def step(self, quantum: Quantum) -> ExecResult:
            entered.set()
            assert self.stop.wait(20), "was not interrupted"
            raise RuntimeError("interrupted")

        def interrupt(self) -> None:
            self.stop.set()

    output = graph.add_output("out", graph.add_stream(Endless()))
    with run(graph) as scheduler:

        def abort() -> None:
            entered.wait()
            scheduler.abort(Boom("stop"))

        thread = threading.Thread(target=abort)
        thread.start()
        with pytest.raises(Boom, match="stop"):
            scheduler.read_stream(output)
        thread.join()


@scenario
def abort_before_and_after(run: Runner) -> None:
    graph = StreamGraph()
    source = Values("values", range(10))
    output = graph.add_output("out", graph.add_stream(source))
    with run(graph) as scheduler:
        scheduler.abort()
        with pytest.raises(Aborted):
            scheduler.read_stream(output)
        scheduler.reset()
        source.at = 0
        assert scheduler.read_stream(output) == (0, 0)
        scheduler.abort()
        with pytest.raises(Aborted):
            scheduler.run_until_idle()


@scenario
def closed_is_closed(run: Runner) -> None:
    graph = StreamGraph()
    output = graph.add_output("out", graph.add_stream(Values("values", range(10))))
    with run(graph) as scheduler:
        scheduler.read_stream(output)
        scheduler.close()
        with pytest.raises(RuntimeError, match="closed"):
            scheduler.read_stream(output)
        scheduler.close()


@scenario
def an_early_end_drops_what_lies_before_it(run: Runner) -> None:
    """A LIMIT: the consumer ends first, and its producers are not left stuck on a full handoff."""

    class Limit(Apply):
        def step(self, quantum: Quantum) -> ExecResult:
            result = super().step(quantum)
            return ExecResult.EOS if self.outputs[0].put_batches >= 3 else result

    graph = StreamGraph()
    source = Values("values", range(50))
    start = graph.add_stream(source)
    limit = graph.add_stream(Limit("limit"))
    other = graph.add_stream(Collect("other"), eager=True)
    graph.connect(start, limit, Handoff(max_batches=1))
    graph.connect(start, other, Handoff(max_batches=1))
    output = graph.add_output("out", limit)
    with run(graph, quantum=Quantum(1)) as scheduler:
        assert read_all(scheduler, output) == [0, 1, 2]
        scheduler.run_until_idle()
        assert graph[other].values == list(range(50))


# -- running them

SCHEDULERS = list(makers(1))


@pytest.mark.parametrize("kind", SCHEDULERS)
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_stream(test: Test, kind: str) -> None:
    for make in makers(SEEDS)[kind]:
        test(Runner(make))


@pytest.mark.long
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_stream_under_500_schedules(test: Test) -> None:
    for make in makers(LONG_SEEDS)["random"]:
        test(Runner(make))


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, str, int]], int]:
    """A directed acyclic graph: number of streams, edges (from, to, kind, bound), quantum."""
    size = draw(st.integers(2, 8))
    kinds = st.sampled_from(["hard", "soft", "double", "spill"])
    edges = []
    for target in range(1, size):
        for source in draw(st.sets(st.integers(0, target - 1), min_size=1, max_size=3)):
            edges.append((source, target, draw(kinds), draw(st.integers(1, 3))))
    return size, edges, draw(st.integers(1, 5))


def build(kind: str, bound: int) -> Handoff:
    if kind == "double":
        return DoubleBuffer(max_batches=bound)
    if kind == "spill":
        return SpillingHandoff(max_batches=bound, max_bytes=None)
    return Handoff(max_batches=bound, soft=kind == "soft")


@settings(max_examples=60, deadline=None)
@given(random_graphs(), st.sampled_from(SCHEDULERS), st.integers(0, 2**32))
def test_random_graphs_agree_with_paths(
    drawn: tuple[int, list[tuple[int, int, str, int]], int], kind: str, seed: int
) -> None:
    """Each value comes out once per path from the source to a sink, under any scheduler."""
    size, edges, quantum = drawn
    graph = StreamGraph()
    source = graph.add_stream(Values("s0", range(5)))
    ids = [source] + [graph.add_stream(Apply(f"s{n}")) for n in range(1, size)]
    for start, end, edge, bound in edges:
        graph.connect(ids[start], ids[end], build(edge, bound))
    paths = [1] + [0] * (size - 1)
    for start, end, _, _ in sorted(edges, key=lambda e: e[1]):
        paths[end] += paths[start]
    sinks = [n for n in range(size) if not any(e[0] == n for e in edges)]
    collected = []
    for n in sinks:
        collected.append(graph.add_stream(Collect(f"sink{n}"), eager=True))
        graph.connect(ids[n], collected[-1], Handoff(max_batches=2))
    make = makers(1)[kind][0]
    if kind == "random":
        make = lambda graph, **kw: RandomScheduler(graph, seed=seed, **kw)  # noqa: E731
    with Runner(make)(graph, quantum=Quantum(quantum)) as scheduler:
        scheduler.run_until_idle()
        for n, sink in zip(sinks, collected, strict=True):
            assert Counter(graph[sink].values) == Counter(dict.fromkeys(range(5), paths[n]))
