"""The scheduler by itself: overhead per quantum, pauses, and what threads gain.

    python benchmarks/scheduler.py [--quick]

Prints one table. "bare threads" is what two Python threads gain on the same DuckDB kernels without
any scheduler: the most that one can hope for on this machine. DuckDB runs each kernel on one thread
(`SET threads = 1`), so that its own parallelism does not hide ours. On a machine with other work
the gains of one moment say little: each round measures all of them one after the other, the table
has the medians, and the best round, which is the least disturbed one.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import duckdb

from tidewheel.engine.scheduler import (
    DoubleBuffer,
    Handoff,
    Quantum,
    Scheduler,
    StreamGraph,
    Transitions,
    make_scheduler,
    shared_pool,
)
from tidewheel.engine.scheduler.pauses import SWITCH_INTERVAL
from tidewheel.engine.scheduler.testing import Apply, Collect, Inbox, Values
from tidewheel.planner import execute
from tidewheel.planner.context import Context, Settings
from tidewheel.sql.binder import bind


def drain(scheduler: Scheduler, output: int) -> float:
    start = time.perf_counter()
    while scheduler.read_stream(output) is not None:
        pass
    return time.perf_counter() - start


def overhead(degree: int, batches: int) -> tuple[float, float]:
    """Quanta per second, and µs per quantum, of a chain of streams that do nothing."""
    graph = StreamGraph()
    inbox = Inbox("inbox")
    ids = [graph.add_stream(inbox)]
    for n in range(8):
        ids.append(graph.add_stream(Apply(f"stage{n}")))
        graph.connect(ids[-2], ids[-1], Handoff(max_batches=1))
    sink = graph.add_stream(Collect("sink"), eager=True)
    graph.connect(ids[-1], sink)
    with make_scheduler(graph, degree=degree, quantum=Quantum(1)) as scheduler:
        for n in range(batches):
            inbox.put(n)
        scheduler.wake(ids[0])
        start = time.perf_counter()
        scheduler.run_until_idle()
        took = time.perf_counter() - start
        quanta = sum(s.quanta for s in scheduler.stats())
    return quanta / took, took / quanta * 1e6


def flatness(size: int, rounds: int = 20_000) -> float:
    """µs of `Transitions` per completed quantum in a graph of `size` streams, all of them ready."""
    from tidewheel.engine.scheduler import ExecResult

    graph = StreamGraph()
    ids = [graph.add_stream(Values(f"s{n}", [])) for n in range(size // 2)]
    for n in ids:
        sink = graph.add_stream(Collect(f"sink{n}"), eager=True)
        graph.connect(n, sink)
    transitions = Transitions(graph)
    transitions.sync()
    start = time.perf_counter()
    for _ in range(rounds):
        node = transitions.next()
        assert node is not None
        transitions.complete(node, ExecResult.QUANTUM_EXPIRED)
    return (time.perf_counter() - start) / rounds * 1e6


def pauses(epochs: int, degree: int, quiet: bool) -> tuple[float, float, float]:
    """Median, p99 and maximum of a small epoch in µs, beside a heap that is slow to collect.

    This is processor time, of the thread or, with more degrees, of all threads: on the wall other
    processes count, too.
    """
    clock = time.thread_time if degree == 1 else time.process_time
    heap = [{"n": n} for n in range(500_000)]
    graph = StreamGraph()
    inbox = Inbox("inbox")
    ids = [graph.add_stream(inbox)]
    for n in range(6):
        # Each value allocates containers, as real operators do.
        ids.append(graph.add_stream(Apply(f"stage{n}", lambda v: [[{"v": v} for _ in range(20)]])))
        graph.connect(ids[-2], ids[-1])
    sink = Collect("sink")
    graph.connect(ids[-1], graph.add_stream(sink, eager=True))
    times = []
    with make_scheduler(graph, degree=degree) as scheduler:
        if not quiet:
            scheduler._quiet = lambda: None  # type: ignore[method-assign]
        for n in range(epochs):
            start = clock()
            inbox.put(n)
            scheduler.wake(ids[0])
            scheduler.run_until_idle()
            times.append((clock() - start) * 1e6)
    del heap
    gc.collect()
    times.sort()
    return statistics.median(times), times[int(len(times) * 0.99)], times[-1]


class Kernel:
    """A DuckDB statement of about `ms` milliseconds on one thread of DuckDB, per instance."""

    def __init__(self, ms: float) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        rows = 1_000_000
        self.sql = "SELECT sum(hash(range)) FROM range({})"
        start = time.perf_counter()
        self.connection.execute(self.sql.format(rows)).fetchall()
        self.connection.execute(self.sql.format(rows)).fetchall()
        took = (time.perf_counter() - start) / 2 * 1e3
        self.rows = max(1, int(rows * ms / took))

    def __call__(self, value: Any) -> Any:
        self.connection.execute(self.sql.format(self.rows)).fetchall()
        return value


class Nap:
    """What a kernel on another machine would be: it takes `ms`, and no processor."""

    def __init__(self, ms: float) -> None:
        self.seconds = ms / 1e3

    def __call__(self, value: Any) -> Any:
        time.sleep(self.seconds)
        return value


Work = list[Callable[[Any], Any]]


def bare_threads(kernels: Work, runs: int) -> float:
    """Speed-up of two threads that run a kernel each, `runs` times, over one after the other."""

    def work(kernel: Callable[[Any], Any]) -> None:
        for n in range(runs):
            kernel(n)

    start = time.perf_counter()
    for kernel in kernels:
        work(kernel)
    serial = time.perf_counter() - start
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    threads = [threading.Thread(target=work, args=(kernel,)) for kernel in kernels]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parallel = time.perf_counter() - start
    sys.setswitchinterval(before)
    return serial / parallel


def diamond(kernels: Work, degree: int, runs: int) -> float:
    graph = StreamGraph()
    source = graph.add_stream(Values("splitter", range(runs)))
    merge = graph.add_stream(Apply("merge"))
    for n, kernel in enumerate(kernels):
        branch = graph.add_stream(Apply(f"branch{n}", kernel))
        # With plain handoffs a branch that starts again would keep `merge` from draining the other.
        make: Callable[..., Handoff] = DoubleBuffer if degree > 1 else Handoff
        graph.connect(source, branch, make())
        graph.connect(branch, merge, make())
    output = graph.add_output("out", merge)
    with make_scheduler(graph, degree=degree, quantum=Quantum(1)) as scheduler:
        return drain(scheduler, output)


def brigade(kernels: Work, degree: int, runs: int) -> float:
    graph = StreamGraph()
    ids = [graph.add_stream(Values("values", range(runs)))]
    for n, kernel in enumerate(kernels):
        ids.append(graph.add_stream(Apply(f"stage{n}", kernel)))
        make: Callable[..., Handoff] = DoubleBuffer if degree > 1 else Handoff
        graph.connect(ids[-2], ids[-1], make(max_batches=2))
    output = graph.add_output("out", ids[-1])
    with make_scheduler(graph, degree=degree, quantum=Quantum(1)) as scheduler:
        return drain(scheduler, output)


def gains(kernels: Work, runs: int) -> tuple[float, ...]:
    """What two threads gain now: bare, in a diamond, in a bucket brigade; and what they cost.

    The cost is the diamond's processor time by two threads over that of one: other processes do not
    disturb that, and above 1 it is the price of handing quanta over.
    """
    bare = bare_threads(kernels, runs)
    wall: list[float] = []
    for shape in (diamond, brigade):
        spent = []
        for degree in (1, 2):
            before = time.process_time()
            took = shape(kernels, degree, runs)
            spent.append((took, time.process_time() - before))
        wall.append(spent[0][0] / spent[1][0])
        if shape is diamond:
            cost = spent[1][1] / spent[0][1]
    return bare, *wall, cost


def show(name: str, rounds: list[tuple[float, ...]]) -> None:
    """The median of each column, and the round in which bare threads gained most."""
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    for what, row in ((name, medians), ("  in the best round", max(rounds))):
        print(f"{what:32}{row[0]:16.2f}" + "".join(f"{gain:12.2f}" for gain in row[1:]))


def statement(ms: float, runs: int) -> tuple[float, float]:
    """The gain of a whole plan, from SQL's operators to rows, whose two branches take `ms` each."""
    connection = duckdb.connect(config={"threads": 1})
    probe = Kernel(ms)
    count = f"CREATE TABLE t AS SELECT range AS a, range % 10 AS g FROM range({probe.rows // 2})"
    connection.execute(count).fetchall()
    branches = "(SELECT g, sum(hash(a, {})) AS s FROM t GROUP BY g)"
    query = f"SELECT x.s, y.s FROM {branches.format(1)} x JOIN {branches.format(2)} y USING (g)"
    took = {}
    for threads in (1, 2):
        context = Context(connection, Settings(threads=threads, fusion=False))
        plan = execute.physical(bind(query, context), context.settings)
        list(execute.start(plan, context))
        start = time.perf_counter()
        for _ in range(runs):
            list(execute.start(plan, context))
        took[threads] = time.perf_counter() - start
    return bare_threads([probe, Kernel(ms)], runs), took[1] / took[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    scale = 10 if parser.parse_args().quick else 1
    hold = shared_pool().hold()
    print(f"{'':44}{'serial':>12}{'parallel 2':>12}")
    one, two = (overhead(degree, 10_000 // scale) for degree in (1, 2))
    print(f"{'quanta per second':44}{one[0]:12,.0f}{two[0]:12,.0f}")
    print(f"{'µs per quantum, with its own work':44}{one[1]:12.1f}{two[1]:12.1f}")
    for size in (10, 100, 1_000, 10_000):
        print(f"{f'µs of decisions per quantum, {size:,} streams':44}{flatness(size):12.2f}")
    for quiet in (False, True):
        name = "epoch beside a large heap" + (", collector kept out" if quiet else ", as Python is")
        serial, parallel = (pauses(10_000 // scale, degree, quiet) for degree in (1, 2))
        for what, a, b in zip(("median µs", "p99 µs", "max µs"), serial, parallel, strict=True):
            print(f"{name + ': ' + what:56}{a:10.0f}{b:12.0f}")
        print(f"{'p99 / median':56}{serial[1] / serial[0]:10.1f}{parallel[1] / parallel[0]:12.1f}")
    heads = f"{'bare threads':>16}{'diamond':>12}{'brigade':>12}{'cpu':>12}"
    print(f"{'speed-up by 2 threads':32}{heads}")
    for make in (Kernel, Nap):
        for ms, runs in ((50, 20), (1, 400)):
            kernels: Work = [make(ms), make(ms)]
            runs = max(4, runs // scale)
            show(f"{make.__name__.lower()}s of {ms} ms", [gains(kernels, runs) for _ in range(5)])
    print(f"{'one statement, by 2 threads':32}{'bare threads':>16}{'diamond':>12}")
    for ms in (50, 1):
        show(f"two kernels of {ms} ms", [statement(ms, 20 // scale + 2) for _ in range(5)])
    hold.leave()


if __name__ == "__main__":
    main()
