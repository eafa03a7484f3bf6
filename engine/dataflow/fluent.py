"""Dataflows by hand: collections of Python items, and the verbs that make new ones of them.

Batches are lists. A verb is a stage; those that bring equal keys together name a partitioning
function, so the same program runs on one worker or on many. `map`, `filter`, `flat_map` and
`concat` keep nothing. `reduce` waits until a time is complete. `distinct`, `join` and `improve`
never wait: they send what they can as soon as they can, and a loop made of such verbs alone runs
without any notification per iteration.

Source: Naiad (SOSP 2013), sections 4.1 and 4.2.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from tidewheel.engine.dataflow.graph import Graph, Partition, Stage, Stream
from tidewheel.engine.dataflow.loop_context import LoopContext
from tidewheel.engine.dataflow.partition import KeyPartition
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.order import progress_lub
from tidewheel.engine.progress.timestamp import Timestamp

Item = Any
Key = Callable[[Item], Hashable]
Scope = Literal["time", "epoch"]
"""What a verb's memory spans: each time by itself, or all iterations of an epoch."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A stream of lists of items, at a place of a graph.

    >>> from tidewheel.engine.dataflow.runtime import Dataflow
    >>> graph = Graph()
    >>> words = Collection.input(graph, "lines").flat_map(str.split)
    >>> counts = words.reduce(lambda word: word, lambda word, all: [(word, len(all))])
    >>> _ = counts.output("counts")
    >>> with Dataflow(graph) as dataflow:
    ...     dataflow.input("lines").send(["to be or", "not to be"])
    ...     dataflow.input("lines").close()
    ...     sorted(pair for _, batch in dataflow.output("counts") for pair in batch)
    [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
    """

    graph: Graph
    stream: Stream

    @classmethod
    def input(cls, graph: Graph, name: str) -> Collection:
        """A collection that is sent in from outside, as lists."""
        return cls(graph, graph.input(name))

    def output(self, name: str) -> Stage:
        """Let the collection be read from outside."""
        return self.graph.output(name, self.stream, buffer=16)

    # -- without memory

    def map(self, f: Callable[[Item], Item]) -> Collection:
        """f of each item."""
        return self._stage("map", lambda: Batches(lambda batch: list(map(f, batch))))

    def flat_map(self, f: Callable[[Item], Iterable[Item]]) -> Collection:
        """All items of f of each item."""
        return self._stage(
            "flat_map", lambda: Batches(lambda batch: [out for item in batch for out in f(item)])
        )

    def filter(self, keep: Callable[[Item], object]) -> Collection:
        """The items for which `keep` is true."""
        return self._stage(
            "filter", lambda: Batches(lambda batch: [item for item in batch if keep(item)])
        )

    def filter_time(self, keep: Callable[[Timestamp], bool]) -> Collection:
        """The items at times for which `keep` is true."""
        return self._stage("filter_time", lambda: Times(keep))

    def concat(self, *others: Collection) -> Collection:
        """The items of all."""
        streams = [self.stream, *(other.stream for other in others)]
        return Collection(self.graph, self.graph.concat("concat", streams))

    # -- with memory

    def reduce(
        self, key: Key, f: Callable[[Any, list[Item]], Iterable[Item]], name: str = "reduce"
    ) -> Collection:
        """f(key, items) for each key, when all items of a time are there."""
        return self._stage(name, lambda: Reduce(key, f), KeyPartition(key))

    def distinct(self, scope: Scope = "time") -> Collection:
        """Each item once, as soon as it comes."""
        return self._stage("distinct", lambda: Distinct(scope), KeyPartition(_itself))

    def improve(
        self, key: Key, value: Callable[[Item], Any], better: Callable[[Any, Any], bool]
    ) -> Collection:
        """The items whose value is better than all that came before for their key in the epoch.

        Monotone: what comes out last for each key is right whatever the order of arrival.
        """
        return self._stage("improve", lambda: Improve(key, value, better), KeyPartition(key))

    def join(
        self,
        other: Collection,
        key: Key,
        other_key: Key,
        f: Callable[[Item, Item], Item],
        scope: Scope = "time",
    ) -> Collection:
        """f(a, b) for all pairs with equal keys, at the later of the two times."""
        stage = self.graph.stage(
            "join",
            lambda: Join(key, other_key, f, scope),
            [self.stream, other.stream],
            partition=[KeyPartition(key), KeyPartition(other_key)],
        )
        return Collection(self.graph, stage.stream)

    # -- loops

    def enter(self, loop: LoopContext) -> Collection:
        """This collection inside a loop, at iteration 0."""
        return Collection(self.graph, loop.ingress(self.stream))

    def iterate(
        self,
        body: Callable[[Collection, LoopContext], Collection | tuple[Collection, Collection]],
        max_iterations: int | None = None,
        name: str = "iterate",
    ) -> Collection:
        """Run `body` on this collection, then on what it gave, until that is empty.

        `body(variable, loop)` returns what is fed back, or a pair of what is fed back and what
        leaves; by default all that is fed back also leaves.
        """
        context = self.stream.context
        loop = self.graph.loop(name) if context is None else context.loop(name)
        feedback = loop.feedback(max_iterations=max_iterations)
        start = self.enter(loop)
        made = body(start.concat(Collection(self.graph, feedback.stream)), loop)
        back, out = made if isinstance(made, tuple) else (made, made)
        feedback.connect(back.stream)
        return Collection(self.graph, loop.egress(out.stream))

    def _stage(
        self, name: str, factory: Callable[[], Vertex], partition: Partition | None = None
    ) -> Collection:
        stage = self.graph.stage(name, factory, [self.stream], partition=[partition])
        return Collection(self.graph, stage.stream)


def _itself(item: Item) -> Item:
    return item


def end_of_epoch(time: Timestamp) -> Timestamp:
    """A time after all that can still happen in the epoch, at the same place."""
    return Timestamp(time.epoch, (sys.maxsize,) * len(time.counters))


class Batches(Vertex):
    """Sends f(batch) unless it is empty."""

    def __init__(self, f: Callable[[list[Item]], list[Item]]) -> None:
        self.f = f

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        out = self.f(batch)
        if out:
            self.send_by(0, out, time)


class Times(Vertex):
    """Passes the batches of some times."""

    def __init__(self, keep: Callable[[Timestamp], bool]) -> None:
        self.keep = keep

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        if self.keep(time):
            self.send_by(0, batch, time)


class Remembering(Vertex):
    """Keeps a memory per time or per epoch, and drops it when that is over."""

    def __init__(self, scope: Scope = "time") -> None:
        self.scope = scope
        self.memories: dict[Timestamp, Any] = {}

    def memory(self, time: Timestamp) -> Any:
        """What is remembered for `time`."""
        span = time if self.scope == "time" else end_of_epoch(time)
        found = self.memories.get(span)
        if found is None:
            found = self.memories[span] = self.fresh()
            self.notify_at(span)
        return found

    def fresh(self) -> Any:
        """A memory of nothing."""
        return {}

    def on_notify(self, time: Timestamp) -> None:
        del self.memories[time]

    def reset(self) -> None:
        self.memories.clear()

    def checkpoint(self) -> Any:
        return copy.deepcopy(self.memories)

    def restore(self, state: Any) -> None:
        self.memories = copy.deepcopy(state)


class Reduce(Remembering):
    """See `Collection.reduce`."""

    def __init__(self, key: Key, f: Callable[[Any, list[Item]], Iterable[Item]]) -> None:
        super().__init__()
        self.key, self.f = key, f

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        groups, key = self.memory(time), self.key
        for item in batch:
            groups.setdefault(key(item), []).append(item)

    def on_notify(self, time: Timestamp) -> None:
        groups = self.memories.pop(time)
        out = [made for key, items in groups.items() for made in self.f(key, items)]
        if out:
            self.send_by(0, out, time)


class Distinct(Remembering):
    """See `Collection.distinct`."""

    def fresh(self) -> set[Item]:
        return set()

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        seen = self.memory(time)
        out = [item for item in dict.fromkeys(batch) if item not in seen]
        if out:
            seen.update(out)
            self.send_by(0, out, time)


class Improve(Remembering):
    """See `Collection.improve`."""

    def __init__(
        self, key: Key, value: Callable[[Item], Any], better: Callable[[Any, Any], bool]
    ) -> None:
        super().__init__("epoch")
        self.key, self.value, self.better = key, value, better

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        best = self.memory(time)
        improved: dict[Hashable, Item] = {}
        for item in batch:
            key, value = self.key(item), self.value(item)
            if key not in best or self.better(value, best[key]):
                best[key] = value
                improved[key] = item
        if improved:
            self.send_by(0, list(improved.values()), time)


class Join(Remembering):
    """See `Collection.join`."""

    def __init__(
        self, key: Key, other_key: Key, f: Callable[[Item, Item], Item], scope: Scope
    ) -> None:
        super().__init__(scope)
        self.keys, self.f = (key, other_key), f

    def fresh(self) -> tuple[dict[Hashable, list[Any]], dict[Hashable, list[Any]]]:
        return {}, {}

    def on_recv(self, port: int, batch: list[Item], time: Timestamp) -> None:
        sides, key, f = self.memory(time), self.keys[port], self.f
        mine, theirs = sides[port], sides[1 - port]
        out: dict[Timestamp, list[Item]] = {}
        for item in batch:
            k = key(item)
            mine.setdefault(k, []).append((item, time))
            for partner, then in theirs.get(k, ()):
                pair = f(item, partner) if port == 0 else f(partner, item)
                out.setdefault(progress_lub(time, then), []).append(pair)
        for at, pairs in out.items():
            self.send_by(0, pairs, at)
