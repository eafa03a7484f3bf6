"""Recording the decisions of a run, so that it can be run again in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidewheel.engine.scheduler.exec_stream import ExecResult
from tidewheel.engine.scheduler.graph import Output, StreamGraph
from tidewheel.engine.scheduler.node import Node
from tidewheel.engine.scheduler.transitions import Transitions


class Step(NamedTuple):
    """One event or decision, in the order in which the manager had them."""

    kind: str  # start, complete, wake, reach, unblock
    stream: int
    result: object = None  # of a start or unblock a bool, of a quantum its ExecResult
    room: int = 0  # of an output's quantum: how many batches its caller had room for


class Recorder(Transitions):
    """Transitions that write down all that they are told and all that they decide."""

    def __init__(self, graph: StreamGraph, steps: list[Step]) -> None:
        super().__init__(graph)
        self.steps = steps

    def wake(self, stream_id: int) -> None:
        self.steps.append(Step("wake", stream_id))
        super().wake(stream_id)

    def reach(self, stream_id: int) -> None:
        self.steps.append(Step("reach", stream_id))
        super().reach(stream_id)

    def start(self, node: Node) -> bool:
        started = super().start(node)
        self.steps.append(Step("start", node.id, started))
        return started

    def complete(self, node: Node, result: ExecResult, woken: Iterable[int] = ()) -> None:
        room = node.stream.last_room if isinstance(node.stream, Output) else 0
        self.steps.append(Step("complete", node.id, result, room))
        super().complete(node, result, woken)

    def unblock(self, *, reading: bool) -> bool:
        grown = super().unblock(reading=reading)
        if grown:
            self.steps.append(Step("unblock", int(reading), grown))
        return grown
