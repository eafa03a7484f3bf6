"""Circuits: many operators run in one go, and loops of them.

A circuit is a dataflow graph whose scheduling is known beforehand: within one time operators run in
the order in which they were added (which is topological but for feedback), and times run in
progress order. It is the fused form of the same operators on the scheduler: no handoffs, no
progress messages, a few microseconds per operator. Views come and go while it lives.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from tidewheel.engine.interruption import LONG, stop_if_asked
from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.delta import Delta, Schema, concat, net
from tidewheel.engine.state.memory import ensure_time


@dataclass(eq=False, slots=True)
class Node:
    """An operator in a circuit and who reads it."""

    op: Operator
    index: int
    inputs: list[Wire]
    readers: list[list[tuple[Node, int, int]]]  # per output port: (reader, its port, delay)
    alive: bool = True
    idle: bool = False  # does it nothing by itself?
    rows_in: int = 0
    rows_out: int = 0
    steps: int = 0
    seconds: float = 0.0

    def __getitem__(self, port: int) -> Wire:
        return Wire(self, port)


@dataclass(frozen=True, slots=True)
class Wire:
    """One output port of a node."""

    node: Node
    port: int = 0

    @property
    def schema(self) -> Schema:
        """Columns of what passes."""
        op = self.node.op
        return op.schemas[self.port] if isinstance(op, Loop) else op.schema


@dataclass(slots=True)
class _Time:
    """What is to be done at one time."""

    queue: list[int] = field(default_factory=list)  # heap of node indices
    inputs: dict[int, list[list[Delta]]] = field(default_factory=dict)


class Circuit:
    """Operators, wired. `depth` counters inside (0 for the outermost)."""

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.nodes: list[Node | None] = []
        self._times: dict[Counters, _Time] = {}
        self._heap: list[Counters] = []
        self.at: Counters = ()
        """The time that was last begun."""

    def add(self, op: Operator, *inputs: Node | Wire) -> Node:
        """Add an operator that reads `inputs`; what it is due to do by itself is noted at once."""
        wires = [w if isinstance(w, Wire) else Wire(w) for w in inputs]
        if wires and len(wires) != op.arity:
            raise ValueError(f"{op.name} has {op.arity} inputs, got {len(wires)}")
        ports = len(op.schemas) if isinstance(op, Loop) else 1
        idle = type(op).due is Operator.due
        node = Node(op, len(self.nodes), wires, [[] for _ in range(ports)], idle=idle)
        self.nodes.append(node)
        for port, wire in enumerate(wires):
            if not wire.node.alive or self.nodes[wire.node.index] is not wire.node:
                raise ValueError(
                    f"{op.name} reads {wire.node.op.name}, which is not in the circuit"
                )
            wire.node.readers[wire.port].append((node, port, 0))
        self._note_due(node)
        return node

    def _note_due(self, node: Node) -> None:
        for counters in node.op.due():
            self._inputs(node, counters)

    def remove(self, node: Node) -> None:
        """Take an operator out; nobody may read it any more."""
        if any(node.readers):
            raise ValueError(f"{node.op.name} still has readers")
        node.alive = False
        self.nodes[node.index] = None
        for wire in node.inputs:
            for port, readers in enumerate(wire.node.readers):
                wire.node.readers[port] = [r for r in readers if r[0] is not node]

    def push(self, node: Node, delta: Delta, counters: Counters = (), port: int = 0) -> None:
        """Give a node something to do at a time."""
        self._inputs(node, counters)[port].append(delta)

    def _inputs(self, node: Node, counters: Counters) -> list[list[Delta]]:
        """What a node gets at a time, by port; from now on it is due then."""
        at = self._times.get(counters)
        if at is None:
            at = self._times[counters] = _Time()
            heapq.heappush(self._heap, counters)
        inputs = at.inputs.get(node.index)
        if inputs is None:
            inputs = at.inputs[node.index] = [[] for _ in range(node.op.arity or 1)]
            heapq.heappush(at.queue, node.index)
        return inputs

    def pending(self) -> set[Counters]:
        """Times at which there is something to do."""
        return set(self._times)

    def run(self, prefix: Counters = (), watch: Callable[[Counters], object] | None = None) -> None:
        """Do all that is to be done at times that begin with `prefix`, in progress order.

        `watch` is called before each time; what it raises ends the run.
        """
        width = len(prefix)
        heap = self._heap
        while heap and heap[0][:width] <= prefix:
            counters = heapq.heappop(heap)
            if watch is not None:
                ensure_time()
                watch(counters)
            self.at = counters
            at = self._times[counters]
            while at.queue:
                index = heapq.heappop(at.queue)
                inputs = at.inputs.pop(index)
                node = self.nodes[index]
                if node is not None:
                    self._step(node, counters, inputs)
            del self._times[counters]

    def first(self, node: Node) -> list[Delta]:
        """What a node says outside loops, once those before it have run; its readers do not get it.

        Nothing may be due at other times yet.
        """
        at = self._times.get(())
        while at is not None and at.queue and at.queue[0] <= node.index:
            index = heapq.heappop(at.queue)
            inputs, before = at.inputs.pop(index), self.nodes[index]
            if before is node:
                deltas = [concat(d) if d else None for d in inputs]
                said = [delta for _, _, delta in node.op.step((), deltas) if len(delta)]
                node.steps += 1
                node.rows_in += sum(len(d) for d in deltas if d is not None)
                node.rows_out += sum(map(len, said))
                return said
            if before is not None:
                self._step(before, (), inputs)
        return []

    def _step(self, node: Node, counters: Counters, inputs: list[list[Delta]]) -> None:
        deltas = [d[0] if len(d) == 1 else concat(d) if d else None for d in inputs]
        started = perf_counter()
        emissions = node.op.step(counters, deltas)
        seconds = perf_counter() - started
        node.seconds += seconds
        if seconds > LONG:
            stop_if_asked()
        node.steps += 1
        for given in deltas:
            if given is not None:
                node.rows_in += len(given.weights)
        for port, time, delta in emissions:
            n = len(delta.weights)
            if not n:
                continue
            node.rows_out += n
            if time and node.op.rounds is not None:
                node.op.rounds.append((time, [n]))
            for reader, reader_port, delay in node.readers[port]:
                to = (*time[:-1], time[-1] + delay) if delay else time
                self._inputs(reader, to)[reader_port].append(delta)
        if not node.idle:
            self._note_due(node)

    def end_epoch(self) -> None:
        """Tell all operators that the epoch is over."""
        for node in self.nodes:
            if node is not None:
                node.op.end_epoch()

    def clear(self) -> None:
        """Forget what is to be done (after an error)."""
        self._times.clear()
        self._heap.clear()
        for node in self.nodes:
            if node is not None:
                node.op.abort_epoch()

    def delay(self, source: Node | Wire, target: Node) -> None:
        """Feed a node's output back to an earlier one, at the next counter."""
        wire = source if isinstance(source, Wire) else Wire(source)
        wire.node.readers[wire.port].append((target, 0, 1))


class _Feedback(Operator):
    """Where a loop's variable starts: what comes in by ingress or feedback goes on. Linear.

    What comes at counter `limit` or later goes no further; it is kept in `stopped` if `kept`.
    """

    def __init__(
        self, schema: Schema, name: str, limit: int | None = None, kept: bool = False
    ) -> None:
        self.schema = schema
        self.name = name
        self.stopped: Delta | None = None
        self._limit = limit
        self._kept = kept

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        delta = deltas[0]
        if delta is None:
            return []
        delta = Delta(self.schema, delta.cols, delta.weights)
        if self._limit is not None and counters[-1] >= self._limit:
            if self._kept:
                self.stopped = delta if self.stopped is None else net(concat([self.stopped, delta]))
            return []
        return emit(counters, delta)


class Loop(Operator):
    """A loop context: collections enter, variables go round, results leave. See `iterate`.

    Built with `enter`, `variable`, `connect` and `leave`; added to the outer circuit afterwards,
    with the entered collections as inputs in the order of `enter`.

        outer ── enter ──▶ ┌ inner circuit, one counter more ┐ ── leave ──▶ outer
                           │  variable ◀── feedback: +1 ──┐   │
                           │     └──▶ body ───────────────┘   │
                           └──────────────────────────────────┘
    """

    def __init__(
        self,
        depth: int,
        watch: Callable[[Counters], object] | None = None,
        name: str = "iterate",
        limit: int | None = None,
        over: Callable[[], object] | None = None,
    ) -> None:
        """`limit`: nothing goes round any more at that counter; `over` is called after each run
        where something would (of a loop that is in no other one).
        """
        self.inner = Circuit(depth + 1)
        self.schemas: list[Schema] = []
        self.name = name
        self.arity = 0
        self.watch = watch
        self._entries: list[Node] = []
        self._left: list[_Egress] = []
        self.leaving: list[Node] = []
        self._limit = limit
        self._over = over
        self.slow = False
        """Does it take many times as long to fill as its query?"""
        self._variables: list[_Feedback] = []
        self.runs = 0
        self.reached = -1
        """The last counter that any earlier run came to: changes behind it follow from those at the
        counter before them alone."""

    @property
    def entering(self) -> Sequence[Node]:
        """The nodes through which the inputs come, by port."""
        return self._entries

    @property
    def depth(self) -> int:
        """Counters inside the loop."""
        return self.inner.depth

    def enter(self, schema: Schema, name: str = "ingress") -> Node:
        """A collection of the outer circuit, inside, there from counter 0 on."""
        node = self.inner.add(_Feedback(schema, name))
        self._entries.append(node)
        self.arity += 1
        return node

    def variable(self, schema: Schema, name: str = "variable") -> Node:
        """A recursive variable: empty at counter 0, then what `connect` feeds back."""
        op = _Feedback(schema, name, self._limit, kept=self._over is not None)
        self._variables.append(op)
        return self.inner.add(op)

    def connect(self, variable: Node, body: Node | Wire) -> None:
        """`variable` at the next counter is `body` at this one."""
        self.inner.delay(body, variable)

    def leave(self, result: Node | Wire) -> int:
        """Let a collection out: what it is once the loop has come to rest. Returns its port."""
        wire = result if isinstance(result, Wire) else Wire(result)
        op = _Egress(wire.schema)
        self.leaving.append(self.inner.add(op, wire))
        self._left.append(op)
        self.schemas.append(wire.schema)
        self.schema = self.schemas[0]
        return len(self._left) - 1

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Runs the inner circuit until nothing changes any more."""
        entering = deltas[: len(self._entries)]  # (one that is none, if nothing enters)
        for node, delta in zip(self._entries, entering, strict=True):
            if delta is not None:
                self.inner.push(node, delta, (*counters, 0))
        self.runs += 1
        self.inner.run(counters, self.watch)
        self.reached = max(self.reached, *self.inner.at[-1:])
        if self._over is not None and any(op.stopped for op in self._variables):
            self._over()
        out: list[Emission] = []
        for port, op in enumerate(self._left):
            for time, parts in op.taken().items():
                delta = net(concat(parts))
                if len(delta):
                    out.append((port, time, delta))
        return out

    def left(self, counters: Counters) -> list[Delta | None]:
        """What left at a time of the inner circuit, the last one at which something did."""
        return [op.last[1] if op.last[0] == counters else None for op in self._left]

    def due(self) -> set[Counters]:
        """Outer times at which something is due inside."""
        return {t[:-1] for t in self.inner.pending()}

    def end_epoch(self) -> None:
        """Passed on."""
        self.inner.end_epoch()

    def abort_epoch(self) -> None:
        """Passed on."""
        self.inner.clear()
        for op in self._left:
            op.taken()

    def arrangements(self) -> Sequence[Arrangement]:
        """All state inside."""
        return [a for node in self.inner.nodes if node is not None for a in node.op.arrangements()]


class _Egress(Operator):
    """Collects what leaves a loop, by outer time: the last counter is dropped."""

    name = "egress"

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._parts: dict[Counters, list[Delta]] = {}
        self.last: tuple[Counters, Delta | None] = (), None

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        delta = deltas[0]
        if delta is not None:
            self._parts.setdefault(counters[:-1], []).append(delta)
            self.last = counters, delta
        return []

    def taken(self) -> dict[Counters, list[Delta]]:
        parts, self._parts = self._parts, {}
        self.last = (), None
        return parts
