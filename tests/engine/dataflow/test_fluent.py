"""The fluent layer against plain Python, on one worker and on several."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.dataflow.distributed import BroadcastProgress
from tidewheel.engine.dataflow.fluent import Collection
from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.superstep import superstep

Epochs = list[list[Any]]


def run(
    graph: Graph, inputs: dict[str, Epochs], workers: int = 1, threads: int = 1, **options: Any
) -> dict[int, list[Any]]:
    """The output "out" by epoch; each epoch's items are sent in batches of three."""
    got: dict[int, list[Any]] = {}
    with Dataflow(graph, threads, workers, **options) as dataflow:
        for name, epochs in inputs.items():
            entry = dataflow.input(name)
            for number, items in enumerate(epochs):
                for start in range(0, len(items), 3):
                    entry.send(items[start : start + 3])
                if number + 1 < len(epochs):
                    entry.close_epoch()
            entry.close()
        for time, batch in dataflow.output("out"):
            got.setdefault(time.epoch, []).extend(batch)
        assert dataflow.complete
    return {epoch: sorted(items) for epoch, items in got.items()}


def by_epoch(epochs: Epochs) -> dict[int, list[Any]]:
    return {n: sorted(items) for n, items in enumerate(epochs) if items}


numbers = st.lists(st.lists(st.integers(0, 20), max_size=12), min_size=1, max_size=3)
workers = st.integers(1, 3)


@settings(max_examples=40)
@given(numbers, workers)
def test_map_filter_concat(epochs: Epochs, count: int) -> None:
    graph = Graph()
    source = Collection.input(graph, "in")
    even = source.filter(lambda n: n % 2 == 0)
    tens = source.map(lambda n: 10 * n).flat_map(lambda n: [n, n + 1])
    even.concat(tens).output("out")
    want = [
        [n for n in items if n % 2 == 0] + [10 * n + d for n in items for d in (0, 1)]
        for items in epochs
    ]
    assert run(graph, {"in": epochs}, count) == by_epoch(want)


@settings(max_examples=40)
@given(numbers, workers)
def test_distinct_and_reduce(epochs: Epochs, count: int) -> None:
    graph = Graph()
    source = Collection.input(graph, "in")
    found = source.distinct().map(lambda n: ("seen", n))
    counts = source.reduce(lambda n: n % 3, lambda k, all: [(f"class {k}", len(all))])
    found.concat(counts).output("out")
    want = [
        [("seen", n) for n in set(items)]
        + [(f"class {k}", c) for k, c in Counter(n % 3 for n in items).items()]
        for items in epochs
    ]
    assert run(graph, {"in": epochs}, count) == by_epoch(want)


@settings(max_examples=40)
@given(numbers, numbers, workers)
def test_join(left: Epochs, right: Epochs, count: int) -> None:
    graph = Graph()
    a, b = Collection.input(graph, "a"), Collection.input(graph, "b")
    a.join(b, lambda n: n % 5, lambda n: n % 5, lambda x, y: (x, y)).output("out")
    want = [
        [(x, y) for x in xs for y in ys if x % 5 == y % 5]
        for xs, ys in zip(left, right, strict=False)
    ]
    assert run(graph, {"a": left, "b": right}, count) == by_epoch(want)


edges = st.lists(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12), min_size=1, max_size=2
)


def reachable(items: list[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(items)
    while True:
        more = {(a, d) for a, b in found for c, d in items if b == c} | found
        if more == found:
            return found
        found = more


@settings(max_examples=30)
@given(edges, workers)
def test_transitive_closure_without_notifications(epochs: Epochs, count: int) -> None:
    graph = Graph()
    source = Collection.input(graph, "in")

    def body(paths: Collection, loop: Any) -> Collection:
        hops = source.enter(loop)
        longer = paths.join(
            hops, lambda p: p[1], lambda e: e[0], lambda p, e: (p[0], e[1]), scope="epoch"
        )
        return longer.distinct("epoch")

    source.concat(source.iterate(body)).distinct().output("out")
    want = [sorted(reachable(items)) for items in epochs]
    assert run(graph, {"in": epochs}, count) == by_epoch(want)


def components(items: list[tuple[int, int]]) -> dict[int, int]:
    label = {n: n for edge in items for n in edge}
    for _ in label:
        for a, b in items:
            label[a] = label[b] = min(label[a], label[b])
    return label


def asynchronous_components(graph: Graph) -> None:
    """Labels spread as soon as they improve."""
    source = Collection.input(graph, "in")
    hops = source.flat_map(lambda e: [e, e[::-1]])
    start = hops.map(lambda e: (e[0], e[0]))

    def body(labels: Collection, loop: Any) -> Collection:
        better = labels.improve(lambda p: p[0], lambda p: p[1], lambda new, old: new < old)
        return better.join(
            hops.enter(loop), lambda p: p[0], lambda e: e[0], lambda p, e: (e[1], p[1]), "epoch"
        )

    spread = start.concat(start.iterate(body))
    spread.reduce(lambda p: p[0], lambda n, all: [(n, min(p[1] for p in all))]).output("out")


def synchronous_components(graph: Graph) -> None:
    """Labels spread in supersteps."""
    source = Collection.input(graph, "in")
    hops = source.flat_map(lambda e: [e, e[::-1]])
    nodes = hops.map(lambda e: (e[0], e[0])).distinct()

    def compute(node: Any, label: Any, messages: Any, neighbours: Any, number: int) -> Any:
        best = min([label, *messages])
        changed = best < label or number == 0
        return best, [(n, best) for n in neighbours] if changed else []

    superstep(nodes, hops, compute).output("out")


@pytest.mark.parametrize("build", [asynchronous_components, synchronous_components])
@settings(max_examples=25)
@given(epochs=edges, count=workers)
def test_connected_components(build: Any, epochs: Epochs, count: int) -> None:
    graph = Graph()
    build(graph)
    want = [sorted(components(items).items()) for items in epochs]
    assert run(graph, {"in": epochs}, count) == by_epoch(want)


@pytest.mark.parametrize("options", [{"threads": 2}, {"progress": BroadcastProgress(3)}])
def test_the_same_with_threads_and_with_the_distributed_protocol(options: dict[str, Any]) -> None:
    rng = random.Random(3)
    epochs = [[(rng.randrange(40), rng.randrange(40)) for _ in range(40)] for _ in range(3)]
    want = by_epoch([sorted(components(items).items()) for items in epochs])
    for build in (asynchronous_components, synchronous_components):
        graph = Graph()
        build(graph)
        if "progress" in options:
            options = {"progress": BroadcastProgress(3)}
        assert run(graph, {"in": epochs}, 3, **options) == want


def test_iterate_with_a_limit_and_a_pair() -> None:
    graph = Graph()
    source = Collection.input(graph, "in")

    def body(x: Collection, loop: Any) -> tuple[Collection, Collection]:
        doubled = x.map(lambda n: 2 * n)
        return doubled, doubled.filter_time(lambda t: t.counters[-1] == 4)

    source.iterate(body, max_iterations=5).output("out")
    assert run(graph, {"in": [[1, 3]]}) == {0: [32, 96]}


def test_nested_iterate() -> None:
    """The inner loop halves even numbers away, the outer one takes the Collatz step."""
    graph = Graph()
    source = Collection.input(graph, "in")

    def halve(x: Collection, loop: Any) -> tuple[Collection, Collection]:
        return x.filter(lambda n: n % 2 == 0).map(lambda n: n // 2), x.filter(lambda n: n % 2)

    def collatz(x: Collection, loop: Any) -> tuple[Collection, Collection]:
        odd = x.iterate(halve)
        return odd.filter(lambda n: n > 1).map(lambda n: 3 * n + 1), odd.filter(lambda n: n == 1)

    source.iterate(collatz).output("out")
    assert run(graph, {"in": [[3, 7, 27], [8]]}) == {0: [1, 1, 1], 1: [1]}


def test_supersteps_stop_at_the_limit_and_ignore_unknown_nodes() -> None:
    graph = Graph()
    nodes, hops = Collection.input(graph, "nodes"), Collection.input(graph, "edges")

    def count(node: Any, value: Any, messages: Any, neighbours: Any, number: int) -> Any:
        return value + 1, [(n, None) for n in [*neighbours, "nobody"]]

    superstep(nodes, hops, count, max_supersteps=4).output("out")
    got = run(
        graph, {"nodes": [[("a", 0), ("b", 0), ("c", 0)]], "edges": [[("a", "b"), ("b", "a")]]}
    )
    assert got == {0: [("a", 4), ("b", 4), ("c", 1)]}


@settings(max_examples=25)
@given(edges, workers)
def test_each_iteration_can_be_seen_and_is_consistent(epochs: Epochs, count: int) -> None:
    """What leaves the loop at each iteration is exactly one level of a breadth-first search."""
    graph = Graph()
    source = Collection.input(graph, "in")
    roots = source.map(lambda e: e[0]).filter(lambda n: n == 0).distinct()

    def body(level: Collection, loop: Any) -> tuple[Collection, Collection]:
        new = level.distinct("epoch")
        after = new.join(
            source.enter(loop), lambda n: n, lambda e: e[0], lambda n, e: e[1], "epoch"
        )
        return after, new.reduce(lambda n: None, lambda k, all: [tuple(sorted(all))])

    # All nodes of one level meet in one worker, at the time of their level.
    roots.iterate(body).output("out")
    want = []
    for items in epochs:
        levels, level, seen = [], {a for a, _ in items if a == 0}, set()
        while level:
            levels.append(tuple(sorted(level)))
            seen |= level
            level = {b for a, b in items if a in level} - seen
        want.append(levels)
    assert run(graph, {"in": epochs}, count) == by_epoch(want)


def test_memory_is_dropped_when_its_time_is_over() -> None:
    graph = Graph()
    asynchronous_components(graph)
    with Dataflow(graph) as dataflow:
        for _ in range(3):
            dataflow.input("in").send([(1, 2), (2, 3)])
            dataflow.input("in").close_epoch()
        dataflow.run()
        for stream in dataflow.expansion.ids:
            assert not getattr(stream.vertex, "memories", {}), stream.name
