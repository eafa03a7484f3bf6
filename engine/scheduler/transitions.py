"""Every scheduling decision, as pure transitions: events in, instructions out.

No threads, no clock, no I/O, and no stream is executed here. The events are `wake` (something
outside happened), `complete` (a quantum ended), `reach` (an output is wanted), `unblock` (nothing
can run). The instruction is what `next` returns: the stream to run now. The serial and parallel
schedulers differ only in how they carry that out.

States of a stream, and what moves it:

    SLEEPING --wake--> READY --next, no neighbour runs--> RUNNING --complete--> SLEEPING
                         |                                    ^
                         +--next, a neighbour runs--> INHIBITED (last neighbour completes) --> READY

LucidDB does not tell READY from RUNNING; kept apart here, so that a stream that only waits for a
worker inhibits nobody. Inhibition is a count per stream, changed when a neighbour starts and ends:
the cost of a quantum is proportional to the stream's own edges, however large the graph.

Sources: LucidDB, "FennelParallelExecStreamScheduler" (Scheduling); Parks, "Bounded Scheduling of
Process Networks" (1995), section 4.2, for the way out of artificial deadlocks.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable

from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream
from tidewheel.engine.scheduler.graph import StreamGraph
from tidewheel.engine.scheduler.handoff import Handoff


class StreamState(enum.Enum):
    SLEEPING = "sleeping"  # running it would make no sense now
    READY = "ready"  # wants to run, waits for its turn
    INHIBITED = "inhibited"  # wants to run, a neighbour is running
    RUNNING = "running"


_SLEEPING, _READY = StreamState.SLEEPING, StreamState.READY
_INHIBITED, _RUNNING = StreamState.INHIBITED, StreamState.RUNNING
_UNDERFLOW, _OVERFLOW, _EOS = ExecResult.UNDERFLOW, ExecResult.OVERFLOW, ExecResult.EOS
_EXPIRED, _YIELD = ExecResult.QUANTUM_EXPIRED, ExecResult.YIELD

#: How often a neighbour may be started before an inhibited stream before that one has precedence.
PATIENCE = 4


class Node:
    """What the scheduler knows of one stream. Changed by `Transitions` only."""

    __slots__ = (
        "blocked",
        "claimed",
        "consumers",
        "done",
        "id",
        "inhibition",
        "neighbours",
        "passed",
        "producers",
        "reached",
        "result",
        "state",
        "stream",
        "wanted",
    )

    def __init__(self, stream_id: int, stream: ExecStream) -> None:
        self.id = stream_id
        self.stream = stream
        self.state = _SLEEPING
        self.inhibition = 0  # neighbours that run, or claim the next turn
        self.neighbours: list[Node] = []
        self.producers: list[tuple[Handoff, Node]] = []
        self.consumers: list[tuple[Handoff, Node]] = []
        self.result: ExecResult | None = None  # of its last quantum
        self.blocked = False  # its last quantum ended on a full output
        self.wanted = False  # woken while it could not be made READY
        self.reached = False  # something after it wants rows
        self.done = False
        self.passed = 0  # neighbours started while it was INHIBITED
        self.claimed = False  # it inhibits its neighbours although it does not run yet

    def __repr__(self) -> str:
        return f"{self.stream.name}#{self.id} {self.state.name} inhibition={self.inhibition}"


class Transitions:
    """The scheduler's global state. Owned by one manager; no method may be called concurrently."""

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self.nodes: dict[int, Node] = {}
        self.ready: deque[Node] = deque()
        self.urgent: deque[Node] = deque()  # consumers of soft handoffs past their bound
        self.running = 0
        self.yielded = 0  # streams that wait for something outside
        self.version = -1

    # -- the graph

    def sync(self) -> tuple[list[Node], list[Node]]:
        """Take over changes of the graph; returns (added, removed) nodes. Only when none runs."""
        if self.running:
            raise RuntimeError("the graph may not change while a quantum runs")
        graph, nodes = self.graph, self.nodes
        added: list[Node] = []
        removed: list[Node] = []
        touched = graph.take_touched()
        for stream_id in sorted(touched):
            if stream_id in graph:
                if stream_id not in nodes:
                    nodes[stream_id] = Node(stream_id, graph[stream_id])
                    added.append(nodes[stream_id])
            elif stream_id in nodes:
                gone = nodes.pop(stream_id)
                self._forget(gone)
                removed.append(gone)
        for stream_id in touched:
            if stream_id in nodes:
                self._wire(nodes[stream_id])
        for node in added:
            if graph.is_eager(node.id):
                self.reach(node.id)
        for node in [nodes[i] for i in touched if i in nodes]:
            # A stream put before, or behind, running ones joins in at once.
            if not node.reached and any(consumer.reached for _, consumer in node.consumers):
                self.reach(node.id)
            for handoff, consumer in node.consumers:
                if not handoff.empty:
                    self._wake(consumer)
        self.version = graph.version
        return added, removed

    def _wire(self, node: Node) -> None:
        nodes, stream = self.nodes, node.stream
        node.producers = [(h, nodes[h.producer]) for h in stream.inputs]
        node.consumers = [(h, nodes[h.consumer]) for h in stream.outputs]
        neighbours: dict[int, Node] = {}
        for handoff, other in [*node.producers, *node.consumers]:
            if not handoff.concurrent and other is not node:
                neighbours[other.id] = other
        node.neighbours = list(neighbours.values())

    def _forget(self, node: Node) -> None:
        if node.claimed:
            self._release(node)
        if node.result is _YIELD:
            self.yielded -= 1
        node.done = True
        node.state = _SLEEPING

    # -- events

    def wake(self, stream_id: int) -> None:
        """Something outside the graph's handoffs happened that the stream should look at."""
        node = self.nodes.get(stream_id)
        if node is not None:
            self._wake(node)

    def reach(self, stream_id: int) -> None:
        """Demand has come to this stream: it and all before it may run from now on.

        Each stream is reached once, so demand ends also in a loop; after that streams are moved by
        input, by frontier changes and by room in their outputs.
        """
        stack = [self.nodes[stream_id]]
        while stack:
            node = stack.pop()
            if node.reached:
                continue
            node.reached = True
            if node.wanted or not node.producers:
                node.wanted = False
                self._wake(node)
            stack.extend(producer for _, producer in node.producers)

    def complete(self, node: Node, result: ExecResult, woken: Iterable[int] = ()) -> None:
        """A quantum of `node` ended with `result`; `woken` are streams with new notifications."""
        node.state = _SLEEPING
        node.result = result
        self.running -= 1
        for other in node.neighbours:
            other.inhibition -= 1
            if other.inhibition == 0 and other.state is _INHIBITED:
                other.state = _READY
                # A claimed stream has waited longest: it goes before whatever is READY.
                (self.urgent if other.claimed else self.ready).append(other)
        if result is _EOS:
            self._end(node)
        for handoff, consumer in node.consumers:
            if handoff.concurrent:
                handoff.publish()  # type: ignore[attr-defined]
            if not handoff.empty or result is _EOS:
                self._wake(consumer, handoff.soft and handoff.over)
        for handoff, producer in node.producers:
            if producer.blocked and not handoff.full:
                producer.blocked = False
                self._wake(producer)
        for stream_id in woken:
            self.wake(stream_id)
        if result is _UNDERFLOW:
            for handoff, _ in node.producers:
                if handoff.empty:
                    handoff.requested = True
        elif result is _EXPIRED:
            self._wake(node)
        elif result is _OVERFLOW:
            node.blocked = any(handoff.full for handoff, _ in node.consumers)
            if not node.blocked and node.consumers:
                self._wake(node)
        elif result is _YIELD:
            self.yielded += 1
        if node.wanted and node.reached:
            node.wanted = False
            self._wake(node)

    def _end(self, node: Node) -> None:
        node.done = True
        node.wanted = False
        for handoff, _ in node.consumers:
            handoff.finish()
        for handoff, _ in node.producers:
            handoff.abandon()

    def _wake(self, node: Node, urgent: bool = False) -> None:
        state = node.state
        if state is _SLEEPING:
            if node.done:
                return
            if not node.reached:
                node.wanted = True
                return
            if node.result is _YIELD:
                self.yielded -= 1
                node.result = None
            node.blocked = False
            node.state = _READY
            (self.urgent if urgent else self.ready).append(node)
        elif state is _RUNNING:
            node.wanted = True

    # -- instructions

    def next(self) -> Node | None:
        """The stream to run now, already counted as RUNNING; None when none may start."""
        urgent, ready = self.urgent, self.ready
        while urgent or ready:
            node = urgent.popleft() if urgent else ready.popleft()
            if node.state is not _READY:
                continue  # removed meanwhile
            if node.inhibition:
                node.state = _INHIBITED
                continue
            node.state = _RUNNING
            node.wanted = False
            self.running += 1
            if node.claimed:
                node.claimed = False  # its neighbours are inhibited already
                node.passed = 0
                return node
            for other in node.neighbours:
                other.inhibition += 1
                if other.state is _INHIBITED:
                    other.passed += 1
                    if other.passed >= PATIENCE:
                        self._claim(other)
            return node
        return None

    def _claim(self, node: Node) -> None:
        """Let `node` inhibit its neighbours before it runs, so that they cannot overtake it.

        Two adjacent streams never both claim: each would wait for the other.
        """
        if not node.claimed and not any(other.claimed for other in node.neighbours):
            node.claimed = True
            for other in node.neighbours:
                other.inhibition += 1

    def _release(self, node: Node) -> None:
        node.claimed = False
        for other in node.neighbours:
            other.inhibition -= 1

    def unblock(self, *, reading: bool) -> bool:
        """Nothing runs and nothing is READY: let the smallest full handoff grow, if that helps.

        Bounded buffers can stop a graph that unbounded ones would not (a join that reads one side
        first while the splitter before both is stopped by the other). Growing the smallest full
        buffer is the least that gets it going (Parks). A stream that waits for a caller to read an
        output is no such case, unless a caller waits at another output (`reading`).
        Returns whether something was made READY.
        """
        blocked = [node for node in self.nodes.values() if node.blocked and not node.done]
        if not blocked:
            return False
        full = [(h, n) for n in blocked for h, _ in n.consumers if h.full]
        if not reading:
            waits_outside = self._waits_outside()
            full = [(h, n) for h, n in full if h.consumer not in waits_outside]
        if not full:
            return False
        smallest = min((h for h, _ in full), key=lambda handoff: (handoff.nbytes, len(handoff)))
        while smallest.full:
            smallest.grow()
        node = self.nodes[smallest.producer]
        if not any(handoff.full for handoff, _ in node.consumers):
            self._wake(node)
            return True
        return self.unblock(reading=reading)

    def _waits_outside(self) -> set[int]:
        """Streams stopped by something outside: a caller who does not read, or I/O."""
        found = {
            node.id
            for node in self.nodes.values()
            if node.result is _YIELD or (node.result is _OVERFLOW and not node.consumers)
        }
        stack = list(found)
        while stack:
            for handoff, producer in self.nodes[stack.pop()].producers:
                if producer.blocked and handoff.full and producer.id not in found:
                    found.add(producer.id)
                    stack.append(producer.id)
        return found

    def reset(self) -> None:
        """Forget everything that was under way, as after an error; streams stay as they are."""
        if self.running:
            raise RuntimeError("reset() while a quantum runs")
        self.ready.clear()
        self.urgent.clear()
        self.yielded = 0
        for handoff in self.graph.handoffs():
            handoff.reset()
        for stream_id, node in list(self.nodes.items()):
            fresh = Node(stream_id, node.stream)
            fresh.reached = node.reached
            self.nodes[stream_id] = fresh
        for node in self.nodes.values():
            self._wire(node)

    def validate(self) -> None:
        """Check the invariants; for tests. An AssertionError names the streams."""
        running = [node for node in self.nodes.values() if node.state is _RUNNING]
        assert len(running) == self.running, f"{self.running} counted, running: {running}"
        for node in self.nodes.values():
            holders = [n for n in node.neighbours if n.state is _RUNNING or n.claimed]
            assert node.inhibition == len(holders), f"{node} has {holders} beside it"
            if node.state is _RUNNING:
                assert not any(n.state is _RUNNING for n in node.neighbours), f"{node}: {holders}"
            if node.state is _INHIBITED:
                assert node.inhibition > 0, f"{node} waits for nobody"
