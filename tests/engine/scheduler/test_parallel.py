"""What only the parallel scheduler can show: real concurrency, fairness, threads, interruption."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tidewheel.engine.scheduler import (
    Aborted,
    DoubleBuffer,
    ExecResult,
    ExecStream,
    Handoff,
    Journal,
    ParallelScheduler,
    Quantum,
    RandomScheduler,
    Replay,
    SchedulerError,
    SerialScheduler,
    Step,
    StreamGraph,
    StreamState,
    Transitions,
    make_scheduler,
    shared_pool,
)
from tidewheel.engine.scheduler.pauses import SWITCH_INTERVAL
from tidewheel.engine.scheduler.pool import WorkerPool
from tidewheel.engine.scheduler.testing import (
    Apply,
    Collect,
    Inbox,
    MockStream,
    Monitor,
    Values,
    busy_wait,
)


def watch(graph: StreamGraph) -> Monitor:
    monitor = Monitor(graph)
    for _, stream in graph.items():
        if isinstance(stream, MockStream):
            stream.monitor = monitor
    return monitor


def read_all(scheduler: Any, output: int) -> list[Any]:
    out = []
    while (item := scheduler.read_stream(output)) is not None:
        out.append(item[1])
    return out


def diamond_graph(function: Any, branches: int = 2, values: int = 4) -> tuple[StreamGraph, int]:
    graph = StreamGraph()
    source = graph.add_stream(Values("splitter", range(values)))
    merge = graph.add_stream(Apply("merge"))
    for n in range(branches):
        branch = graph.add_stream(Apply(f"branch{n}", function))
        graph.connect(source, branch)
        graph.connect(branch, merge)
    return graph, graph.add_output("out", merge)


def rendezvous(parties: int) -> Any:
    """A function that returns only when it is being called `parties` times at once."""
    barrier = threading.Barrier(parties)

    def function(value: Any) -> Any:
        barrier.wait(timeout=20)
        return value

    return function


# -- real concurrency; these end only if streams are inside `execute` together


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_diamond_branches_run_together(degree: int) -> None:
    graph, output = diamond_graph(rendezvous(degree), branches=degree)
    monitor = watch(graph)
    with ParallelScheduler(graph, degree=degree) as scheduler:
        assert len(read_all(scheduler, output)) == 4 * degree
    assert monitor.most >= degree
    assert monitor.violations == []


def test_bucket_brigade_pipelines() -> None:
    """Stage n works on one batch while stage n+1 works on the batch before it."""
    graph = StreamGraph()
    meet = threading.Barrier(2)
    met = 0

    def stage(alone: int) -> Any:
        def function(value: int) -> int:
            nonlocal met
            time.sleep(0.015)  # long enough that the manager never runs it itself
            if value != alone:
                meet.wait(timeout=20)  # for the other stage, one value before or after this one
                met += 1
            return value

        return function

    ids = [graph.add_stream(Values("values", range(10)))]
    for n in range(2):
        ids.append(graph.add_stream(Apply(f"stage{n}", stage(9 * n))))
        graph.connect(ids[-2], ids[-1], DoubleBuffer(max_batches=1))
    output = graph.add_output("out", ids[-1])
    monitor = watch(graph)
    with ParallelScheduler(graph, degree=2, quantum=Quantum(1)) as scheduler:
        assert read_all(scheduler, output) == list(range(10))
    assert frozenset(("stage0", "stage1")) in monitor.pairs
    assert met == 18
    assert monitor.violations == []


def test_a_plain_handoff_does_not_pipeline() -> None:
    graph = StreamGraph()
    ids = [graph.add_stream(Values("values", range(10)))]
    for n in range(2):
        ids.append(graph.add_stream(Apply(f"stage{n}", busy_wait(0.002))))
        graph.connect(ids[-2], ids[-1], Handoff(max_batches=1))
    output = graph.add_output("out", ids[-1])
    monitor = watch(graph)
    with ParallelScheduler(graph, degree=4, quantum=Quantum(1)) as scheduler:
        assert read_all(scheduler, output) == list(range(10))
    assert frozenset(("stage0", "stage1")) not in monitor.pairs


def test_the_monitor_sees_a_scheduler_that_forgets_to_inhibit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The assertion in `start` and the monitor are two nets; each must catch this by itself."""
    original = Transitions._wire

    def blind(self: Transitions, node: Any) -> None:
        original(self, node)
        node.neighbours = []

    monkeypatch.setattr(Transitions, "_wire", blind)
    graph = StreamGraph()
    ids = [graph.add_stream(Values("values", range(30)))]
    for n in range(3):
        ids.append(graph.add_stream(Apply(f"stage{n}", busy_wait(0.002))))
        graph.connect(ids[-2], ids[-1], Handoff(max_batches=2))
    output = graph.add_output("out", ids[-1])
    monitor = watch(graph)
    with ParallelScheduler(graph, degree=4, quantum=Quantum(1)) as scheduler:
        try:
            read_all(scheduler, output)
        except (IndexError, RuntimeError):  # what a torn handoff may do
            pass
    assert monitor.violations != []


def test_wrong_counts_are_caught_in_the_code() -> None:
    """Under random schedules with inhibition undone, `start` itself refuses, and tells why."""
    journal = Journal()
    caught = None
    for seed in range(50):
        graph = StreamGraph()
        ids = [graph.add_stream(Values("values", range(30)))]
        for n in range(3):
            ids.append(graph.add_stream(Apply(f"stage{n}")))
            graph.connect(ids[-2], ids[-1], Handoff(max_batches=2))
        output = graph.add_output("out", ids[-1])
        scheduler = RandomScheduler(graph, seed=seed, quantum=Quantum(1), journal=journal)
        scheduler.open()
        for node in scheduler.transitions.nodes.values():
            node.inhibition = -100  # it takes a hundred neighbours to inhibit now
        original = scheduler.transitions.start

        def start(node: Any, original: Any = original) -> bool:
            if node.inhibition <= 0:
                node.inhibition = 0
            return bool(original(node))

        scheduler.transitions.start = start  # type: ignore[method-assign]
        try:
            read_all(scheduler, output)
        except SchedulerError as error:
            caught = error
            break
    assert caught is not None
    assert "neighbour" in str(caught) or "inhibition" in str(caught)


@pytest.mark.parametrize("journal", [None, Journal()])
def test_a_failed_assertion_tells_the_story_of_its_streams(journal: Journal | None) -> None:
    graph = StreamGraph()
    first = graph.add_stream(Values("first", range(3)))
    second = graph.add_stream(Apply("second"))
    graph.connect(first, second)
    elsewhere = graph.add_output("elsewhere", graph.add_stream(Values("third", [])))
    output = graph.add_output("out", second)
    with SerialScheduler(graph, quantum=Quantum(1), journal=journal) as scheduler:
        scheduler.read_stream(elsewhere)
        scheduler.read_stream(output)
        nodes = scheduler.transitions.nodes
        nodes[first].state = StreamState.RUNNING  # which it may not be beside its neighbour
        nodes[second].state = StreamState.READY
        nodes[second].inhibition = 0
        with pytest.raises(SchedulerError, match="while its neighbour") as caught:
            scheduler.transitions.start(nodes[second])
        nodes[first].state = StreamState.SLEEPING
    message = str(caught.value)
    if journal is None:
        assert "a Journal would tell" in message
        return
    told = [line for line in message.splitlines() if " µs " in line]
    assert any("first#" in line and "quantum" in line for line in told)
    assert any("second#" in line and "quantum" in line for line in told)
    assert not any("third#" in line for line in told)


# -- degree, pool, threads


@pytest.mark.parametrize("degree", [2, 3])
def test_never_more_than_degree(degree: int) -> None:
    graph, output = diamond_graph(busy_wait(0.003), branches=6)
    lock, inside, most = threading.Lock(), 0, 0

    def function(value: Any) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.003)
        with lock:
            inside -= 1
        return value

    for _, stream in graph.items():
        if stream.name.startswith("branch"):
            stream.function = function  # type: ignore[attr-defined]
    with ParallelScheduler(graph, degree=degree) as scheduler:
        read_all(scheduler, output)
    assert most == degree


def test_degree_1_has_no_threads() -> None:
    graph, output = diamond_graph(lambda value: value)
    before = set(threading.enumerate())
    with make_scheduler(graph, degree=1) as scheduler:
        assert isinstance(scheduler, SerialScheduler)
        scheduler.read_stream(output)
        assert set(threading.enumerate()) <= before
    with pytest.raises(ValueError, match="at least 1"):
        make_scheduler(graph, degree=0)


def test_no_thread_outlives_the_last_scheduler() -> None:
    before = threading.active_count()
    for _ in range(5):
        graph, output = diamond_graph(busy_wait(0.001))
        with make_scheduler(graph, degree=4) as scheduler:
            read_all(scheduler, output)
            assert threading.active_count() > before
        assert threading.active_count() == before
        assert shared_pool().threads == 0


def test_held_threads_are_used_again() -> None:
    pool = WorkerPool("held")
    hold = pool.hold()
    names: set[str] = set()

    def function(value: Any) -> Any:
        names.add(threading.current_thread().name)
        time.sleep(0.001)
        return value

    for _ in range(10):
        graph, output = diamond_graph(function)
        with ParallelScheduler(graph, degree=2, pool=pool) as scheduler:
            read_all(scheduler, output)
    assert 1 <= pool.threads <= 4
    assert len(names) <= 4
    hold.leave()
    assert pool.threads == 0


def test_the_pool_serves_its_clients_in_turn() -> None:
    pool = WorkerPool("fair")
    order: list[str] = []
    gate, done = threading.Event(), threading.Semaphore(0)
    first, second = pool.join(1), pool.join(1)
    first.submit(lambda: bool(gate.wait(20)))

    def task(name: str) -> Any:
        def run() -> None:
            order.append(name)
            done.release()

        return run

    for _ in range(5):
        first.submit(task("a"))
    for _ in range(5):
        second.submit(task("b"))
    gate.set()
    for _ in range(10):
        assert done.acquire(timeout=20)
    assert order == ["a", "b"] * 5
    first.leave()
    second.leave()
    assert pool.threads == 0


def test_a_statement_with_much_to_do_does_not_starve_another() -> None:
    pool = WorkerPool("shared")
    big, big_output = diamond_graph(busy_wait(0.002), branches=8, values=40)
    small, small_output = diamond_graph(busy_wait(0.002), values=2)
    one = ParallelScheduler(big, degree=2, pool=pool, quantum=Quantum(1))
    two = ParallelScheduler(small, degree=2, pool=pool, quantum=Quantum(1))
    with one, two:
        one.read_stream(big_output)
        assert len(read_all(two, small_output)) == 4
        left = sum(len(h) for h in big.handoffs())
        assert left > 0, "the big one was not finished first"
        assert pool.threads <= 2 + 2  # two workers, two managers


def test_a_pool_has_no_thread_more_than_work() -> None:
    """A thread whose task has ended is idle at once for whoever submits the next one."""
    done = threading.Semaphore(0)
    for _ in range(20):
        pool = WorkerPool("few")
        clients = [pool.join(2), pool.join(2)]
        most = 0
        for i in range(2_000):
            clients[i % 2].submit(done.release)
            most = max(most, pool.threads)
        for _ in range(2_000):
            assert done.acquire(timeout=20)
        assert most <= 2
        for client in clients:
            client.leave()
        assert pool.threads == 0


def test_a_blocking_stream_holds_up_nobody() -> None:
    """With degree 1 of workers: the blocked quantum waits for what only another stream can do."""
    release = threading.Event()

    class Blocked(MockStream):
        blocking = True

        def step(self, quantum: Quantum) -> ExecResult:
            assert release.wait(20)
            self.outputs[0].put(0, "late")
            return ExecResult.EOS

    def slow(value: int) -> int:
        time.sleep(0.001)
        if value == 9:
            release.set()
        return value

    graph = StreamGraph()
    merge = graph.add_stream(Apply("merge"))
    for n in range(3):
        graph.connect(graph.add_stream(Blocked(f"blocked{n}")), merge)
    work = graph.add_stream(Apply("work", slow))
    graph.connect(graph.add_stream(Values("values", range(10))), work)
    graph.connect(work, merge)
    output = graph.add_output("out", merge)
    with ParallelScheduler(graph, degree=1) as scheduler:
        got = read_all(scheduler, output)
    assert sorted(got, key=str) == [*range(10), "late", "late", "late"]


def test_the_next_batch_is_made_while_the_caller_works() -> None:
    graph = StreamGraph()
    produced = threading.Semaphore(0)

    def function(value: int) -> int:
        produced.release()
        return value

    ids = [graph.add_stream(Values("values", range(5))), graph.add_stream(Apply("a", function))]
    graph.connect(*ids)
    output = graph.add_output("out", ids[-1], Handoff(max_batches=1))
    with ParallelScheduler(graph, degree=2, quantum=Quantum(1)) as scheduler:
        scheduler.read_stream(output)
        for _ in range(2):  # the caller does nothing, and still the next one is made
            assert produced.acquire(timeout=20)


def test_many_readers_of_many_outputs() -> None:
    graph = StreamGraph()
    source = graph.add_stream(Values("values", range(200)))
    outputs = [graph.add_output(f"o{n}", source, Handoff(max_batches=2)) for n in range(4)]
    got: dict[int, list[Any]] = {}
    with ParallelScheduler(graph, degree=2) as scheduler:
        threads = [
            threading.Thread(target=lambda o=o: got.__setitem__(o, read_all(scheduler, o)))
            for o in outputs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert got == {o: list(range(200)) for o in outputs}


def test_wakes_from_many_threads() -> None:
    graph = StreamGraph()
    inbox = Inbox("inbox")
    start, sink = graph.add_stream(inbox), graph.add_stream(Collect("sink"), eager=True)
    graph.connect(start, sink)
    with ParallelScheduler(graph, degree=2) as scheduler:

        def feed(base: int) -> None:
            for n in range(200):
                inbox.put(base + n)
                scheduler.wake(start)

        threads = [threading.Thread(target=feed, args=(k * 1000,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        scheduler.run_until_idle()
        assert sorted(graph[sink].values) == [k * 1000 + n for k in range(4) for n in range(200)]


# -- interruption of a real kernel


class DuckKernel(ExecStream):
    """One statement that would take hours; `started` is set just before it begins."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.name = "kernel"
        self.inputs = []
        self.outputs = []
        self.connection = connection
        self.started = threading.Event()

    def execute(self, quantum: Quantum) -> ExecResult:
        self.started.set()
        self.connection.execute(
            "SELECT sum(a.range * b.range) FROM range(1000000) a, range(99999) b"
        )
        return ExecResult.EOS

    def interrupt(self) -> None:
        self.connection.interrupt()


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_abort_ends_a_kernel_and_leaves_the_connection_usable(
    connection: duckdb.DuckDBPyConnection, degree: int, delay: float
) -> None:
    graph = StreamGraph()
    kernel = DuckKernel(connection)
    output = graph.add_output("out", graph.add_stream(kernel))
    with make_scheduler(graph, degree=degree) as scheduler:

        def abort() -> None:
            kernel.started.wait()
            time.sleep(delay)  # 0: very likely before DuckDB has begun
            scheduler.abort()

        thread = threading.Thread(target=abort)
        thread.start()
        with pytest.raises(Aborted):
            scheduler.read_stream(output)
        thread.join()
    assert connection.execute("SELECT 42").fetchall() == [(42,)]


def test_close_ends_a_running_kernel(connection: duckdb.DuckDBPyConnection) -> None:
    graph = StreamGraph()
    kernel = DuckKernel(connection)
    graph.add_output("out", graph.add_stream(kernel, eager=True))
    scheduler = make_scheduler(graph, degree=2)
    scheduler.open()
    assert kernel.started.wait(20)
    scheduler.close()
    assert connection.execute("SELECT 42").fetchall() == [(42,)]


# -- the process's settings


def test_the_switch_interval_is_short_while_running_and_put_back() -> None:
    before = sys.getswitchinterval()
    seen: list[float] = []

    def function(value: Any) -> Any:
        seen.append(sys.getswitchinterval())
        return value

    graph, output = diamond_graph(function)
    with ParallelScheduler(graph, degree=2) as scheduler:
        read_all(scheduler, output)
    assert all(abs(interval - SWITCH_INTERVAL) < 1e-6 for interval in seen)
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("degree", [1, 2])
def test_the_collector_rests_during_an_epoch(degree: int) -> None:
    seen: list[bool] = []

    def function(value: Any) -> Any:
        seen.append(gc.isenabled())
        return value

    graph, output = diamond_graph(function)
    assert gc.isenabled()
    with make_scheduler(graph, degree=degree) as scheduler:
        read_all(scheduler, output)
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    graph, output = diamond_graph(lambda value: value)
    gc.disable()
    try:
        with make_scheduler(graph, degree=1) as scheduler:
            read_all(scheduler, output)
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- recording and replay


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("degree", [2, 4])
def test_a_parallel_run_replays_serially(degree: int, double: bool) -> None:
    def build() -> tuple[StreamGraph, int]:
        graph = StreamGraph()
        source = graph.add_stream(Values("values", range(30)))
        merge = graph.add_stream(Apply("merge"))
        for n in range(3):
            branch = graph.add_stream(Apply(f"branch{n}", lambda v, n=n: (n, v)))
            make = DoubleBuffer if double else Handoff
            graph.connect(source, branch, make(max_batches=2))
            graph.connect(branch, merge, make(max_batches=1))
        return graph, graph.add_output("out", merge, Handoff(max_batches=2))

    graph, output = build()
    for _, stream in graph.items():
        if stream.name.startswith("branch"):
            plain = stream.function  # type: ignore[attr-defined]
            stream.function = lambda v, f=plain: (time.sleep(0.0005), f(v))[1]  # type: ignore[attr-defined]
    steps: list[Step] = []
    with ParallelScheduler(graph, degree=degree, quantum=Quantum(3), record=steps) as scheduler:
        got = read_all(scheduler, output)
    again, output = build()
    replayed = Replay(again, steps, quantum=Quantum(3)).run()
    assert [batch for _, batch in replayed[output]] == got


def test_a_replay_that_goes_another_way_says_where() -> None:
    graph, output = diamond_graph(lambda value: value)
    steps: list[Step] = []
    with ParallelScheduler(graph, degree=2, record=steps) as scheduler:
        read_all(scheduler, output)
    other, _ = diamond_graph(lambda value: value, values=400)
    with pytest.raises(SchedulerError, match="step"):
        Replay(other, steps).run()


def test_the_same_seed_gives_the_same_schedule() -> None:
    def run(seed: int) -> list[Step]:
        graph, output = diamond_graph(lambda value: value, branches=3)
        steps: list[Step] = []
        with RandomScheduler(graph, seed=seed, record=steps, quantum=Quantum(1)) as scheduler:
            read_all(scheduler, output)
        return steps

    assert run(7) == run(7)
    assert len({tuple(run(seed)) for seed in range(5)}) == 5


# -- counters and journal


def test_counters_and_journal_of_a_run(tmp_path: Any) -> None:
    import json

    import pyarrow as pa

    batches = [pa.table({"x": list(range(n))}) for n in range(5)]
    for degree in (1, 2):
        graph = StreamGraph()
        ids = [graph.add_stream(Values("values", batches)), graph.add_stream(Apply("same"))]
        graph.connect(*ids)
        output = graph.add_output("out", ids[-1])
        journal = Journal()
        with make_scheduler(graph, degree=degree, journal=journal, profile=True) as scheduler:
            assert read_all(scheduler, output) == batches
            stats = {s.name: s for s in scheduler.stats()}
        assert (stats["values"].rows_in, stats["values"].rows_out) == (0, 10)
        assert (stats["same"].rows_in, stats["same"].rows_out) == (10, 10)
        assert (stats["same"].batches_in, stats["same"].batches_out) == (5, 5)
        assert stats["same"].quanta >= 1
        assert stats["same"].busy > 0
        path = tmp_path / f"trace{degree}.json"
        journal.write_trace(path)
        events = json.loads(path.read_text())["traceEvents"]
        assert {e["args"]["name"] for e in events if e["ph"] == "M"} == {
            "values #0",
            "same #1",
            "out #2",
        }
        quanta = [e for e in events if e["ph"] == "X"]
        assert len(quanta) == sum(s.quanta for s in stats.values())
        assert "same#1" in journal.story(ids[1])
        assert "values#0" not in journal.story(ids[1])


def test_the_journal_shows_the_overlap() -> None:
    graph, output = diamond_graph(rendezvous(2))
    journal = Journal()
    with ParallelScheduler(graph, degree=2, journal=journal) as scheduler:
        read_all(scheduler, output)
    names = {i: s.name for i, s in graph.items()}
    assert ("branch0", "branch1") in {(names[a], names[b]) for a, b in journal.overlaps()}


def test_the_journal_is_a_ring_and_does_not_change_the_schedule() -> None:
    def run(journal: Journal | None) -> list[Step]:
        graph, output = diamond_graph(lambda value: value, values=50)
        steps: list[Step] = []
        with SerialScheduler(graph, journal=journal, record=steps) as scheduler:
            read_all(scheduler, output)
        return steps

    journal = Journal(capacity=10)
    assert run(journal) == run(None)
    assert len(journal) == 10
