"""What the scheduler knows of one stream.

Source: LucidDB, "FennelParallelExecStreamScheduler" (Data Structures).
"""

from __future__ import annotations

import enum
from collections import deque

from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream
from tidewheel.engine.scheduler.handoff import Handoff


class StreamState(enum.Enum):
    SLEEPING = "sleeping"  # running it would make no sense now
    READY = "ready"  # wants to run, waits for its turn
    INHIBITED = "inhibited"  # wants to run; a neighbour, or a stream with its resource, is running
    RUNNING = "running"


class SchedulerError(RuntimeError):
    """A rule of the scheduler itself was broken; the message tells the streams' story."""


class Resource:
    """What several streams use, one at a time."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: deque[Node] = deque()


class Node:
    """What the scheduler knows of one stream. Its states are changed by `Transitions` only."""

    __slots__ = (
        "blocked",
        "buffers_in",
        "buffers_out",
        "busy_ns",
        "claimed",
        "consumers",
        "done",
        "estimate",
        "id",
        "inhibition",
        "neighbours",
        "passed",
        "producers",
        "quanta",
        "queued",
        "quick",
        "reached",
        "resource",
        "result",
        "state",
        "stream",
        "wanted",
    )

    def __init__(self, stream_id: int, stream: ExecStream) -> None:
        self.id = stream_id
        self.stream = stream
        self.state = StreamState.SLEEPING
        self.inhibition = 0  # neighbours that run, or claim the next turn
        self.neighbours: list[Node] = []
        self.producers: list[tuple[Handoff, Node]] = []
        self.consumers: list[tuple[Handoff, Node]] = []
        self.buffers_in: list[tuple[Handoff, Node]] = []  # the concurrent ones among these
        self.buffers_out: list[tuple[Handoff, Node]] = []
        self.resource: Resource | None = None
        self.queued = False  # waits for its resource
        self.result: ExecResult | None = None  # of its last quantum
        self.blocked = False  # its last quantum ended on a full output
        self.wanted = False  # woken while it could not be made READY
        self.reached = False  # something after it wants rows
        self.done = False
        self.passed = 0  # neighbours started while it was INHIBITED
        self.claimed = False  # it inhibits its neighbours although it does not run yet
        # Kept by the driver:
        self.quick = False  # expected to be short
        self.estimate = -1  # expected duration of a quantum, ns; -1 is unknown
        self.quanta = 0
        self.busy_ns = 0

    def __repr__(self) -> str:
        return f"{self.stream.name}#{self.id} {self.state.name} inhibition={self.inhibition}"
