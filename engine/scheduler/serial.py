"""The serial scheduler: degree of parallelism 1, no threads; the oracle for the parallel one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from tidewheel.engine.scheduler.driver import Aborted, Scheduler
from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream
from tidewheel.engine.scheduler.handoff import Item
from tidewheel.engine.scheduler.node import Node

#: Seconds between two attempts to interrupt a running quantum, and the longest that `abort` tries.
INTERRUPT_EVERY, INTERRUPT_FOR = 0.01, 1.0

_clock = time.perf_counter_ns


class SerialScheduler(Scheduler):
    """Runs a graph in the caller's thread, one quantum at a time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._external: deque[int] = deque()
        self._arrived = threading.Event()
        self._waiting = False
        self._running: ExecStream | None = None
        self._runner: int | None = None  # the thread inside run_until_idle or read_stream
        self._interrupting = threading.RLock()

    # -- from any thread

    def wake(self, stream_id: int) -> None:
        self._external.append(stream_id)
        if self._waiting:
            self._arrived.set()

    def abort(self, error: BaseException | None = None) -> None:
        """As in Scheduler. Called from another thread, returns when the quantum has ended."""
        self._aborted = True
        self._fail(error if error is not None else Aborted("the run was aborted"))
        self._arrived.set()
        deadline = time.monotonic() + INTERRUPT_FOR
        while True:
            with self._interrupting:
                stream = self._running
                if stream is None:
                    return
                stream.interrupt()
            if self._runner == threading.get_ident() or time.monotonic() > deadline:
                return
            time.sleep(INTERRUPT_EVERY)

    # -- from one thread at a time

    def open(self) -> None:
        self._check()
        self._sync()

    def run_until_idle(self) -> None:
        self._enter()
        try:
            while self._step(reading=False):
                pass
        except BaseException as exc:
            self._escaped(exc)
            raise
        finally:
            self._leave()

    def read_stream(self, output_id: int) -> Item | None:
        output = self.graph.output(output_id)
        self._enter()
        try:
            self.transitions.reach(output_id)
            while not output.ready:
                if output.ended or not self._step(reading=True):
                    return None
            item = output.ready.popleft()
            self.transitions.wake(output_id)
            return item
        except BaseException as exc:
            self._escaped(exc)
            raise
        finally:
            self._leave()

    def reset(self) -> None:
        if self._runner is not None:
            raise RuntimeError("reset() while the scheduler runs")
        self._external.clear()
        self._reset_state()

    def close(self) -> None:
        if self._runner is not None:
            raise RuntimeError("close() while the scheduler runs; abort() it first")
        if not self._closed:
            self._closed = True
            self._close_streams()

    # -- inside

    def _enter(self) -> None:
        if self._runner is not None:
            raise RuntimeError("the scheduler is already running: a stream may not run its graph")
        self._check()
        if self.transitions.version != self.graph.version:
            self._sync()
        self._runner = threading.get_ident()
        self._quiet()

    def _leave(self) -> None:
        self._running = None
        if self._aborted:
            with self._interrupting:  # nobody interrupts a stream after the caller has gone on
                pass
        self._runner = None
        self._unquiet()

    def _escaped(self, error: BaseException) -> None:
        """An exception, Ctrl-C for one, may come between any two steps: the state is in doubt."""
        if error is not self.error:
            self._fail(error)

    def _step(self, *, reading: bool) -> bool:
        """Run one quantum; False when idle."""
        transitions, external = self.transitions, self._external
        if self.error is not None:
            self._check()
        while external:
            stream_id = external.popleft()
            transitions.wake(stream_id)
            if self.journal is not None:
                self._note("wake", stream_id)
        node = self._next()
        if node is not None:
            self._quantum(node)
            return True
        if transitions.unblock(reading=reading):
            return True
        if transitions.yielded:
            self._wait()
            return True
        return False

    def _next(self) -> Node | None:
        return self.transitions.next()

    def _quantum(self, node: Node) -> None:
        stream = self._running = node.stream
        woken: Iterable[int] = ()
        start = _clock()
        try:
            result = stream.execute(self.quantum)
            updates = stream.take_progress()
            if updates and self.owner is not None:
                woken = self.owner.apply(node.id, updates)
        except BaseException as exc:
            self._fail(exc, node)
            result = ExecResult.UNDERFLOW
        self._running = None
        end = _clock()
        node.quanta += 1
        node.busy_ns += end - start
        if self.journal is not None:
            self.journal.add(("quantum", node.id, start, end, result.name, "caller"))
        self.transitions.complete(node, result, woken)
        if end > self._quiet_until > 0:
            self._unquiet()

    def _wait(self) -> None:
        """Every stream that could go on waits for something outside: sleep until it comes."""
        self._waiting = True
        try:
            while not self._external and self.error is None:
                self._arrived.wait()
                self._arrived.clear()
        finally:
            self._waiting = False
