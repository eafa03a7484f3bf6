"""Every scheduling decision, as pure transitions: events in, instructions out.

No threads, no clock, no I/O, and no stream is executed here. The events are `wake` (something
outside happened), `complete` (a quantum ended), `reach` (an output is wanted), `unblock` (nothing
can run). The instruction is what `next` returns: the stream to run now. The serial and parallel
schedulers differ only in how they carry that out.

States of a stream, and what moves it:

    SLEEPING --wake--> READY --next, nothing in the way--> RUNNING --complete--> SLEEPING
                         | ^
           next, a neigh-| | the last neighbour completes,
           bour runs     v | the resource becomes free
                       INHIBITED

LucidDB does not tell READY from RUNNING; kept apart here, so that a stream that only waits for a
worker inhibits nobody. Inhibition is a count per stream, changed when a neighbour starts and ends:
the cost of a quantum is proportional to the stream's own edges, however large the graph.

Sources: LucidDB, "FennelParallelExecStreamScheduler" (Scheduling); Parks, "Bounded Scheduling of
Process Networks" (1995), section 4.2, for the way out of artificial deadlocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable

from tidewheel.engine.scheduler.exec_stream import ExecResult
from tidewheel.engine.scheduler.graph import StreamGraph
from tidewheel.engine.scheduler.node import Node, Resource, SchedulerError, StreamState

_SLEEPING, _READY = StreamState.SLEEPING, StreamState.READY
_INHIBITED, _RUNNING = StreamState.INHIBITED, StreamState.RUNNING
_UNDERFLOW, _OVERFLOW, _EOS = ExecResult.UNDERFLOW, ExecResult.OVERFLOW, ExecResult.EOS
_EXPIRED, _YIELD = ExecResult.QUANTUM_EXPIRED, ExecResult.YIELD

#: How often neighbours may be started past an inhibited stream before it takes precedence; each
#: time that costs the neighbours half a quantum on average.
PATIENCE = 16


class Transitions:
    """The scheduler's global state. Owned by one manager; no method may be called concurrently."""

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self.nodes: dict[int, Node] = {}
        self.ready: deque[Node] = deque()
        self.quick: deque[Node] = deque()  # READY ones that are expected to be short
        self.resources: dict[Hashable, Resource] = {}
        self.running = 0
        self.yielded = 0  # streams that wait for something outside
        self.version = -1
        #: Gives the recent events of some streams as text, for errors.
        self.story: Callable[..., str] = lambda *stream_ids: "(a Journal would tell their story)"

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
        rewired = [nodes[i] for i in touched if i in nodes]
        for node in rewired:
            self._wire(node)
        for node in added:
            if graph.is_eager(node.id):
                self.reach(node.id)
        for node in rewired:
            # A stream put before, or behind, running ones joins in at once.
            if not node.reached and any(consumer.reached for _, consumer in node.consumers):
                self.reach(node.id)
            for handoff, consumer in node.consumers:
                if handoff.deliverable:
                    self._wake(consumer)
            if node.blocked and not any(handoff.full for handoff, _ in node.consumers):
                self._wake(node)
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
        node.buffers_in = [(h, other) for h, other in node.producers if h.concurrent]
        node.buffers_out = [(h, other) for h, other in node.consumers if h.concurrent]
        node.resource = None
        if stream.exclusive is not None:
            node.resource = self.resources.setdefault(stream.exclusive, Resource())

    def _forget(self, node: Node) -> None:
        if node.claimed:
            node.claimed = False
            for other in node.neighbours:
                other.inhibition -= 1
        if node.result is _YIELD:
            self.yielded -= 1
        if node.queued and node.resource is not None:
            node.resource.waiting.remove(node)
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
            stack.extend(producer for _, producer in reversed(node.producers))

    def complete(self, node: Node, result: ExecResult, woken: Iterable[int] = ()) -> None:
        """A quantum of `node` ended with `result`; `woken` are streams with new notifications."""
        node.state = _SLEEPING
        node.result = result
        self.running -= 1
        for other in node.neighbours:
            other.inhibition -= 1
            if other.inhibition == 0 and other.state is _INHIBITED and not other.queued:
                self._ready(other, first=other.claimed)
        resource = node.resource
        if resource is not None:
            resource.busy = False
            if resource.waiting:
                first = resource.waiting.popleft()
                first.queued = False
                self._ready(first, first=True)
        if result is _EOS:
            node.done = True
            node.wanted = False
            for handoff, _ in node.consumers:
                handoff.finish()
            for handoff, _ in node.producers:
                handoff.abandon()
        if node.buffers_out:
            for handoff, _ in node.buffers_out:
                handoff.publish()
        # Before anybody is woken: that may be this one, by a notification of its own.
        node.blocked = result is _OVERFLOW and any(handoff.full for handoff, _ in node.consumers)
        for handoff, consumer in node.consumers:
            # One that is stopped by a full output can do nothing with more input.
            if (handoff.deliverable or result is _EOS) and not consumer.blocked:
                self._wake(consumer, first=handoff.soft and handoff.over)
        if result is _EXPIRED:
            self._wake(node)  # before its producers: draining comes first
        for handoff, producer in node.producers:
            if producer.blocked and not handoff.full:
                self._wake(producer)
        for stream_id in woken:
            notified = self.nodes.get(stream_id)
            if notified is not None:
                self._wake(notified)
        if result is _UNDERFLOW:
            for handoff, _ in node.producers:
                handoff.requested = True
            for handoff, _ in node.buffers_in:
                if handoff.empty and handoff.deliverable:
                    node.wanted = True  # it has drained one page, and there is another
        elif result is _OVERFLOW:
            if not node.blocked and node.consumers:
                self._wake(node)
        elif result is _YIELD:
            self.yielded += 1
        if node.wanted and node.reached:
            node.wanted = False
            self._wake(node)

    def _wake(self, node: Node, *, first: bool = False) -> None:
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
            self._ready(node, first=first)
        elif state is _RUNNING:
            node.wanted = True

    def _ready(self, node: Node, *, first: bool) -> None:
        node.state = _READY
        lane = self.quick if node.quick else self.ready
        if first:
            lane.appendleft(node)
        else:
            lane.append(node)

    # -- instructions

    def next(self) -> Node | None:
        """The stream to run now, already counted as RUNNING; None when none may start."""
        if self.quick:
            node = self.next_of(self.quick)
            if node is not None:
                return node
        return self.next_of(self.ready)

    def next_of(self, lane: deque[Node]) -> Node | None:
        """As `next`, from one of the two lanes, `ready` and `quick`."""
        while lane:
            node = lane.popleft()
            if self.start(node):
                return node
        return None

    def start(self, node: Node) -> bool:
        """Make a READY stream (already taken off its lane) RUNNING; False when it is INHIBITED."""
        if node.state is not _READY:
            return False  # removed meanwhile
        if node.inhibition:
            node.state = _INHIBITED
            return False
        resource = node.resource
        if resource is not None:
            if resource.busy:
                node.state = _INHIBITED
                node.queued = True
                resource.waiting.append(node)
                return False
            resource.busy = True
        node.state = _RUNNING
        node.wanted = False
        self.running += 1
        claimed = node.claimed  # then its neighbours are inhibited already
        for other in node.neighbours:
            state = other.state
            if state is _RUNNING:
                raise SchedulerError(
                    f"{node} was started while its neighbour {other} runs\n"
                    + self.story(node.id, other.id)
                )
            if not claimed:
                other.inhibition += 1
                if state is _INHIBITED:
                    other.passed += 1
                    if other.passed >= PATIENCE:
                        self._claim(other)
        node.claimed = False
        node.passed = 0
        if node.buffers_in:
            for handoff, producer in node.buffers_in:
                handoff.acquire(producer.state is _RUNNING)
                if producer.blocked and not handoff.full:
                    self._wake(producer)
        return True

    def _claim(self, node: Node) -> None:
        """Let `node` inhibit its neighbours before it runs, so that they cannot overtake it.

        Two adjacent streams never both claim: each would wait for the other.
        """
        if node.claimed or node.queued or any(other.claimed for other in node.neighbours):
            return
        node.claimed = True
        for other in node.neighbours:
            other.inhibition += 1

    def unblock(self, *, reading: bool) -> bool:
        """Nothing runs and nothing is READY: let the smallest full handoff grow, if that helps.

        Bounded buffers can stop a graph that unbounded ones would not (a join that reads one side
        first while the splitter before both is stopped by the other). Growing the smallest full
        buffer is the least that gets it going (Parks). A stream that waits for a caller to read an
        output is no such case, unless a caller waits at another output (`reading`).
        Returns whether something was made READY.
        """
        blocked = [node for node in self.nodes.values() if node.blocked and not node.done]
        outside = set() if reading or not blocked else self._waits_outside()
        while True:
            full = [
                handoff
                for node in blocked
                for handoff, consumer in node.consumers
                if handoff.full and consumer.id not in outside
            ]
            if not full:
                return False
            smallest = min(full, key=lambda handoff: (handoff.nbytes, len(handoff)))
            smallest.grow()
            node = self.nodes[smallest.producer]
            if not any(handoff.full for handoff, _ in node.consumers):
                self._wake(node)
                return True

    def _waits_outside(self) -> set[int]:
        """Streams stopped by something outside: a caller who does not read, or I/O."""
        found = {
            node.id
            for node in self.nodes.values()
            if node.result is _YIELD
            or (node.result is _OVERFLOW and not node.consumers)
            or not node.reached
        }
        stack = list(found)
        while stack:
            for handoff, producer in self.nodes[stack.pop()].producers:
                if producer.blocked and handoff.full and producer.id not in found:
                    found.add(producer.id)
                    stack.append(producer.id)
        return found

    def reset(self) -> None:
        """Forget all that was under way, as after an error. Only when no quantum runs."""
        self.ready.clear()
        self.quick.clear()
        self.resources.clear()
        self.running = self.yielded = 0
        for handoff in self.graph.handoffs():
            handoff.reset()
        for stream_id, old in list(self.nodes.items()):
            node = self.nodes[stream_id] = Node(stream_id, old.stream)
            node.reached = old.reached
            node.quick, node.estimate = old.quick, old.estimate
            node.quanta, node.busy_ns = old.quanta, old.busy_ns
        for node in self.nodes.values():
            self._wire(node)

    def validate(self) -> None:
        """Check the invariants; for tests. A SchedulerError names the streams."""
        running = [node for node in self.nodes.values() if node.state is _RUNNING]
        self._check(len(running) == self.running, f"{self.running} counted", *running)
        for node in self.nodes.values():
            near = [n for n in node.neighbours if n.state is _RUNNING or n.claimed]
            self._check(node.inhibition == len(near), "wrong inhibition count", node, *near)
            if node.state is _RUNNING:
                overlap = [n for n in near if n.state is _RUNNING]
                self._check(not overlap, "neighbours run together", node, *overlap)
            if node.state is _INHIBITED:
                self._check(node.inhibition > 0 or node.queued, "waits for nobody", node)
            if node.state is _READY:
                self._check(node in (self.quick if node.quick else self.ready), "lost", node)

    def _check(self, holds: bool, what: str, *nodes: Node) -> None:
        if not holds:
            raise SchedulerError(f"{what}: {list(nodes)}\n" + self.story(*(n.id for n in nodes)))
