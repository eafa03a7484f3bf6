"""Small streams for tests and benchmarks, and a monitor that sees which of them run together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream, Quantum
from tidewheel.engine.scheduler.graph import StreamGraph

UNDERFLOW, OVERFLOW, EOS = ExecResult.UNDERFLOW, ExecResult.OVERFLOW, ExecResult.EOS
EXPIRED, YIELD = ExecResult.QUANTUM_EXPIRED, ExecResult.YIELD


class Monitor:
    """Watches from inside `execute`, so that it does not depend on what a scheduler believes.

    `violations` are pairs of neighbours that ran together, `most` is the highest number of streams
    that were inside `execute` at once, `pairs` are all pairs that were.
    """

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self.violations: list[tuple[str, str]] = []
        self.pairs: set[frozenset[str]] = set()
        self.most = 0
        self._lock = threading.Lock()
        self._active: list[ExecStream] = []

    def enter(self, stream: ExecStream) -> None:
        with self._lock:
            near = {id(self.graph[h.producer]) for h in stream.inputs if not h.concurrent}
            near |= {id(self.graph[h.consumer]) for h in stream.outputs if not h.concurrent}
            for other in self._active:
                self.pairs.add(frozenset((stream.name, other.name)))
                if id(other) in near or other is stream:
                    self.violations.append((stream.name, other.name))
            self._active.append(stream)
            self.most = max(self.most, len(self._active))

    def leave(self, stream: ExecStream) -> None:
        with self._lock:
            self._active.remove(stream)


class MockStream(ExecStream):
    """A stream with a monitor; subclasses implement `step` as others implement `execute`."""

    monitor: Monitor | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs = []
        self.outputs = []
        self.opened = 0
        self.closed = 0

    def execute(self, quantum: Quantum) -> ExecResult:
        monitor = self.monitor
        if monitor is None:
            return self.step(quantum)
        monitor.enter(self)
        try:
            return self.step(quantum)
        finally:
            monitor.leave(self)

    def step(self, quantum: Quantum) -> ExecResult:
        raise NotImplementedError

    def open(self) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed += 1


class Values(MockStream):
    """A source of the given values, each a batch, whose position is its time."""

    def __init__(self, name: str, values: Iterable[Any]) -> None:
        super().__init__(name)
        self.values = list(values)
        self.at = 0

    def step(self, quantum: Quantum) -> ExecResult:
        for _ in range(quantum.batches):
            if self.at == len(self.values):
                return EOS
            if any(handoff.full for handoff in self.outputs):
                return OVERFLOW
            for handoff in self.outputs:
                handoff.put(self.at, self.values[self.at])
            self.at += 1
        return EXPIRED

    def reset(self) -> None:
        self.at = 0


class Inbox(MockStream):
    """What `put` gets from outside; ends after `put` of `Inbox.END`. Wake it after each `put`."""

    END: Any = object()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.box: deque[Any] = deque()

    def put(self, value: Any) -> None:
        self.box.append(value)

    def step(self, quantum: Quantum) -> ExecResult:
        for _ in range(quantum.batches):
            if not self.box:
                return UNDERFLOW
            if any(handoff.full for handoff in self.outputs):
                return OVERFLOW
            value = self.box.popleft()
            if value is Inbox.END:
                return EOS
            for handoff in self.outputs:
                handoff.put(0, value)
        return EXPIRED if self.box else UNDERFLOW

    def reset(self) -> None:
        self.box.clear()


class Apply(MockStream):
    """Puts `function(value)` of whatever comes, from any input, into all outputs.

    A list returned by the function is a list of values to put.
    """

    def __init__(self, name: str, function: Callable[[Any], Any] = lambda value: value) -> None:
        super().__init__(name)
        self.function = function
        self._left: deque[tuple[Any, Any]] = deque()

    def step(self, quantum: Quantum) -> ExecResult:
        left = self._left
        if not self._deliver():
            return OVERFLOW
        for _ in range(quantum.batches):
            source = next((handoff for handoff in self.inputs if not handoff.empty), None)
            if source is None:
                return EOS if all(handoff.eos for handoff in self.inputs) else UNDERFLOW
            if any(handoff.full for handoff in self.outputs):
                return OVERFLOW
            when, value = source.take()
            made = self.function(value)
            left.extend((when, one) for one in (made if isinstance(made, list) else [made]))
            if not self._deliver():
                return OVERFLOW
        return EXPIRED

    def _deliver(self) -> bool:
        """Put what is left; False when there is no room for all of it."""
        left = self._left
        while left:
            if any(handoff.full for handoff in self.outputs):
                return False
            item = left.popleft()
            for handoff in self.outputs:
                handoff.put(*item)
        return True

    def reset(self) -> None:
        self._left.clear()


class Barrier(MockStream):
    """Reads its inputs one after the other, each to its end, and passes on what they had."""

    def step(self, quantum: Quantum) -> ExecResult:
        for _ in range(quantum.batches):
            current = next((handoff for handoff in self.inputs if not handoff.eos), None)
            if current is None:
                return EOS
            if current.empty:
                return UNDERFLOW
            if self.outputs[0].full:
                return OVERFLOW
            self.outputs[0].put(*current.take())
        return EXPIRED


class LoopHead(MockStream):
    """Countdown's head: what enters, or comes back, goes on, until it is 0: that leaves.

    Inputs: the entrance, then the feedback; outputs: the body, then the exit.
    """

    def step(self, quantum: Quantum) -> ExecResult:
        body, leaving = self.outputs
        for _ in range(quantum.batches):
            source = next((h for h in reversed(self.inputs) if not h.empty), None)
            if source is None:
                return UNDERFLOW
            when, value = source.peek()
            target = leaving if value == 0 else body
            if target.full:
                return OVERFLOW
            source.take()
            target.put(when, value)
        return EXPIRED


class Collect(MockStream):
    """A sink that keeps what comes in `values`; add it with `eager=True`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.values: list[Any] = []

    def step(self, quantum: Quantum) -> ExecResult:
        for handoff in self.inputs:
            while not handoff.empty:
                self.values.append(handoff.take()[1])
        return EOS if all(handoff.eos for handoff in self.inputs) else UNDERFLOW

    def reset(self) -> None:
        self.values.clear()


class Waiter(MockStream):
    """A source that gets each value from outside some time after it has asked; yields meanwhile."""

    def __init__(self, name: str, values: Iterable[Any], delay: float) -> None:
        super().__init__(name)
        self.values = list(values)
        self.delay = delay
        self.wake: Callable[[], None] = lambda: None
        self._arrived: deque[Any] = deque()
        self._asked = False

    def step(self, quantum: Quantum) -> ExecResult:
        while True:
            if self._arrived:
                if self.outputs[0].full:
                    return OVERFLOW
                self.outputs[0].put(0, self._arrived.popleft())
                self._asked = False
            if self._asked:
                return YIELD
            if not self.values:
                return EOS
            self._asked = True
            timer = threading.Timer(self.delay, self._arrive, [self.values.pop(0)])
            timer.daemon = True
            timer.start()

    def _arrive(self, value: Any) -> None:
        self._arrived.append(value)
        self.wake()


def busy_wait(seconds: float) -> Callable[[Any], Any]:
    """A function that holds a thread, but not the interpreter, for so long."""

    def function(value: Any) -> Any:
        time.sleep(seconds)
        return value

    return function
