"""Pregel's bulk synchronous supersteps as a loop of one stage.

Source: Naiad (SOSP 2013), section 4.2; Malewicz et al., "Pregel" (SIGMOD 2010), section 2.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from tidewheel.engine.dataflow.fluent import Collection, end_of_epoch
from tidewheel.engine.dataflow.partition import KeyPartition
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.timestamp import Timestamp

Node = Hashable
Sent = Iterable[tuple[Node, Any]]
Compute = Callable[[Node, Any, list[Any], list[Node], int], tuple[Any, Sent]]
"""(node, value, messages, neighbours, superstep) → (new value, messages to send as (node, m))."""


def superstep(
    nodes: Collection, edges: Collection, compute: Compute, max_supersteps: int | None = None
) -> Collection:
    """Run `compute` in supersteps; the last values, as (node, value).

    `nodes`: items (node, first value). `edges`: items (from, to). In superstep 0 every node
    computes, later those that got messages; it is over when there are none. In one epoch after the
    other: each begins anew with its own nodes and edges.
    """
    graph = nodes.graph
    loop = graph.loop("supersteps")
    feedback = loop.feedback(max_iterations=max_supersteps)
    by_first = KeyPartition(_first)
    stage = graph.stage(
        "superstep",
        lambda: Superstep(compute),
        [loop.ingress(nodes.stream), loop.ingress(edges.stream), feedback.stream],
        outputs=2,
        partition=[by_first, by_first, by_first],
    )
    feedback.connect(stage.streams[0])
    return Collection(graph, loop.egress(stage.streams[1]))


def _first(item: tuple[Node, Any]) -> Node:
    return item[0]


class _Epoch(NamedTuple):
    values: dict[Node, Any]
    neighbours: dict[Node, list[Node]]
    messages: dict[Timestamp, dict[Node, list[Any]]]


class Superstep(Vertex):
    """The nodes of one worker. Port 0: nodes, 1: edges, 2: messages."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute
        self.epochs: dict[int, _Epoch] = {}

    def on_recv(self, port: int, batch: list[Any], time: Timestamp) -> None:
        epoch = self.epochs.get(time.epoch)
        if epoch is None:
            epoch = self.epochs[time.epoch] = _Epoch({}, {}, {})
            self.notify_at(end_of_epoch(time))
        self.notify_at(time)
        if port == 0:
            epoch.values.update(batch)
        elif port == 1:
            for source, target in batch:
                epoch.neighbours.setdefault(source, []).append(target)
        else:
            inbox = epoch.messages.setdefault(time, {})
            for node, message in batch:
                inbox.setdefault(node, []).append(message)

    def on_notify(self, time: Timestamp) -> None:
        if time == end_of_epoch(time):
            values = self.epochs.pop(time.epoch).values
            if values:
                self.send_by(1, list(values.items()), time)
            return
        values, neighbours, messages = self.epochs[time.epoch]
        number = time.counters[-1]
        inbox = messages.pop(time, {})
        sent: list[tuple[Node, Any]] = []
        for node in list(values) if number == 0 else inbox:
            if node not in values:
                continue  # a message to a node that does not exist
            values[node], out = self.compute(
                node, values[node], inbox.get(node, []), neighbours.get(node, []), number
            )
            sent.extend(out)
        if sent:
            self.send_by(0, sent, time)

    def reset(self) -> None:
        self.epochs.clear()

    def checkpoint(self) -> Any:
        return copy.deepcopy(self.epochs)

    def restore(self, state: Any) -> None:
        self.epochs = copy.deepcopy(state)
