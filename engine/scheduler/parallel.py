"""The parallel scheduler: one manager, workers from the process's pool.

Source: LucidDB, "FennelParallelExecStreamScheduler" (Scheduling, Result Processing, Shutdown).

The manager is the only one to touch global state. It reads one queue of events (completed quanta,
wakes, requests of callers), asks `Transitions` what to run, and hands long quanta to workers. A
quantum that is expected to be short it runs itself: handing over costs some 10 to 50 µs, and two
threads of short quanta only contend for the interpreter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from tidewheel.engine.scheduler.callers import Callers, Request
from tidewheel.engine.scheduler.driver import QUICK, Aborted, Scheduler
from tidewheel.engine.scheduler.exec_stream import ExecResult
from tidewheel.engine.scheduler.graph import Output
from tidewheel.engine.scheduler.handoff import Item
from tidewheel.engine.scheduler.node import Node
from tidewheel.engine.scheduler.pauses import fast_switching
from tidewheel.engine.scheduler.pool import Client, WorkerPool, shared_pool

#: The manager itself runs quanta that are expected to take less than QUICK ns, or less than this
#: many when there is nothing else that could run at the same time.
QUICK_ALONE = 5_000_000
#: As many short quanta may be run before workers get what they could be doing.
QUICK_RUNS = 4
#: Seconds between two attempts to interrupt quanta that run on after an abort.
INTERRUPT_EVERY = 0.01

_clock = time.perf_counter_ns


#: A completed quantum: node, result, error, start, end, thread.
_Completion = tuple[Node, ExecResult, BaseException | None, int, int, str]


class ParallelScheduler(Scheduler):
    """Runs a graph on up to `degree` threads at once."""

    def __init__(
        self, *args: Any, degree: int = 2, pool: WorkerPool | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        if degree < 1:
            raise ValueError(f"degree is {degree}; it must be at least 1")
        self.degree = degree
        self._pool = pool if pool is not None else shared_pool()
        self._client: Client | None = None
        self._ended: threading.Event | None = None  # set when the manager has ended
        self._events: SimpleQueue[_Completion | int | Request] = SimpleQueue()
        self._callers = Callers()
        self._flying: dict[int, Node] = {}  # on workers and extra threads
        self._slots = 0  # of `_flying`, those that count for the degree
        self._inline: Node | None = None
        self._quick_runs = 0  # short quanta since work was last handed out
        self._busy = False  # in a burst of activity
        self._interrupting = threading.Lock()

    # -- from any thread

    def wake(self, stream_id: int) -> None:
        self._events.put(stream_id)

    def abort(self, error: BaseException | None = None) -> None:
        self._aborted = True
        self._fail(error if error is not None else Aborted("the run was aborted"))
        self._interrupt()
        self._events.put(Request("abort"))

    def run_until_idle(self) -> None:
        self._enter()
        self._await(Request("idle"))
        self._check()

    def read_stream(self, output_id: int) -> Item | None:
        output = self.graph.output(output_id)
        self._enter()
        asked = False
        while True:
            self._check()
            if output.ready:
                try:
                    item = output.ready.popleft()
                except IndexError:  # another reader of the same output was faster
                    continue
                self._events.put(output_id)
                return item
            if output.ended or asked:
                return None
            request = Request("read", output_id, output)
            self._await(request)
            asked = not request.fulfilled  # granted although there is nothing: idle

    # -- life

    def open(self) -> None:
        self._check()
        self._sync()
        self._start()

    def reset(self) -> None:
        if self._ended is not None and self._ended.is_set():
            self._ended = None  # a new manager starts with the next run
        with self.paused():
            self._drop_events()
            self._flying.clear()
            self._slots = 0
            self._reset_state()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._ended is not None:
                self._events.put(Request("stop"))
                while not self._ended.wait(INTERRUPT_EVERY):
                    self._aborted = True
                    if self.error is None:
                        self._fail(Aborted("the scheduler was closed"))
                    self._interrupt()
            with self._interrupting:  # after this, nobody interrupts a stream of ours
                self._flying.clear()
        finally:
            if self._client is not None:
                self._client.leave()
                self._client = None
            self._close_streams()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, no quantum runs and the graph may be changed; waits for those that do run."""
        if self._ended is None:
            yield
            return
        request = Request("pause")
        self._events.put(request)
        while not request.wait(INTERRUPT_EVERY) and not self._ended.is_set():
            self._interrupt_again()
        try:
            yield
            if not self._closed and self.transitions.version != self.graph.version:
                self._sync()
        finally:
            request.resume.set()

    def _enter(self) -> None:
        self._check()
        if self._ended is None:
            self.open()
        elif self.transitions.version != self.graph.version:
            with self.paused():
                pass

    def _start(self) -> None:
        if self._ended is None:
            self._ended = threading.Event()
            if self._client is None:
                self._client = self._pool.join(self.degree)
            self._client.submit_waiting(self._manage)

    def _await(self, request: Request) -> None:
        ended = self._ended
        assert ended is not None
        self._events.put(request)
        try:
            while not request.wait(1.0) and not ended.is_set():
                pass
        except BaseException as exc:  # Ctrl-C while waiting
            self.abort(exc)
            raise

    def _interrupt(self) -> None:
        with self._interrupting:
            inline = self._inline
            if inline is not None:
                inline.stream.interrupt()
            for node in self._flying.copy().values():
                node.stream.interrupt()

    def _interrupt_again(self) -> None:
        if self._aborted:
            self._interrupt()

    # -- the manager

    def _manage(self) -> None:
        ended = self._ended
        assert ended is not None
        try:
            while self._turn():
                pass
        except BaseException as exc:  # a fault of the scheduler itself
            self._fail(exc)
            while self._flying:
                event = self._events.get()
                if isinstance(event, tuple):
                    self._flying.pop(event[0].id, None)
        finally:
            self._rest()
            ended.set()
            self._drop_events()
            self._callers.grant("idle", "read", "pause", "stop")

    def _turn(self) -> bool:
        """Handle what has come, start what can be started, then wait; False to stop."""
        events = self._events
        while not events.empty():
            self._handle(events.get_nowait())
        if self.error is not None:
            self._callers.grant("idle", "read")
        elif not self._callers.halts and self._dispatch():
            return True
        if not self._flying and events.empty():
            if self._callers.halts:
                self._rest()
                self._callers.pause()
                return not self._callers.stopping
            if self.error is None:
                if self.transitions.unblock(reading=self._callers.reading):
                    self._note("grow", -1)
                    return True
                if not self.transitions.yielded:
                    self._rest()
                    self._callers.grant("idle", "read")
            self._rest()
        if self._aborted and self._flying:
            try:
                self._handle(events.get(timeout=INTERRUPT_EVERY))
            except Empty:
                self._interrupt()
        else:
            self._handle(events.get())
        return True

    def _handle(self, event: _Completion | int | Request) -> None:
        if isinstance(event, tuple):
            node = event[0]
            del self._flying[node.id]
            if not node.stream.blocking:
                self._slots -= 1
            self._complete(*event)
        elif isinstance(event, int):
            self._note("wake", event)
            self.transitions.wake(event)
        elif event.output is not None:
            self._note("read", event.output_id)
            self.transitions.reach(event.output_id)
            self.transitions.wake(event.output_id)
            self._callers.add(event)
            self._callers.grant_fulfilled()
        elif event.kind != "abort":
            self._callers.add(event)

    def _drop_events(self) -> None:
        """Forget what has come; only while nothing runs."""
        while not self._events.empty():
            event = self._events.get_nowait()
            if isinstance(event, Request) and event.kind != "abort":
                self._callers.add(event)

    # -- quanta

    def _dispatch(self) -> bool:
        """Run some short quanta, then hand out what workers can take; True after a short one.

        Short ones first, as they are mostly what drains the results of long ones, but not for ever.
        """
        transitions = self.transitions
        ready, quick = transitions.ready, transitions.quick
        if quick and self._quick_runs < QUICK_RUNS:
            self._quick_runs += 1
            if self._run_quick():
                return True
        self._quick_runs = 0
        while ready and self._slots < self.degree:
            node = transitions.next_of(ready)
            if node is None:
                break
            alone = not (self._flying or ready or quick)
            if alone and 0 <= node.estimate < QUICK_ALONE:
                self._run_here(node)
                return True
            self._slots += 1
            self._launch(node)
        return self._run_quick()

    def _run_quick(self) -> bool:
        """Run the next short quantum; blocking ones before it get a thread of their own."""
        transitions = self.transitions
        while (node := transitions.next_of(transitions.quick)) is not None:
            if not node.stream.blocking:
                self._run_here(node)
                return True
            self._launch(node)
        return False

    def _launch(self, node: Node) -> None:
        client = self._client
        assert client is not None
        if not self._busy:
            self._begin()
        self._flying[node.id] = node
        (client.submit_waiting if node.stream.blocking else client.submit)(
            partial(self._work, node, self._events.put)
        )

    def _work(self, node: Node, report: Callable[[_Completion], None]) -> None:
        """One quantum, on a worker's thread."""
        report((node, *self._execute(node), threading.current_thread().name))

    def _run_here(self, node: Node) -> None:
        if not self._busy:
            self._begin()
        self._inline = node
        outcome = self._execute(node)
        self._inline = None
        self._complete(node, *outcome, "manager")

    def _execute(self, node: Node) -> tuple[ExecResult, BaseException | None, int, int]:
        start = _clock()
        result, error = ExecResult.UNDERFLOW, None
        try:
            if self.error is None:
                result = node.stream.execute(self.quantum)
        except BaseException as exc:
            error = exc
        return result, error, start, _clock()

    def _complete(
        self,
        node: Node,
        result: ExecResult,
        error: BaseException | None,
        start: int,
        end: int,
        thread: str,
    ) -> None:
        stream = node.stream
        took = end - start
        node.quanta += 1
        node.busy_ns += took
        # Slow to be forgotten: a quantum that found nothing to do says little about the next.
        expected = node.estimate
        node.estimate = took if took > expected else expected - ((expected - took) >> 3)
        node.quick = stream.blocking or node.estimate < QUICK or isinstance(stream, Output)
        woken: Iterable[int] = ()
        if error is None:
            try:
                updates = stream.take_progress()
                if updates and self.owner is not None:
                    woken = self.owner.apply(node.id, updates)
            except BaseException as exc:
                error = exc
        if error is not None:
            self._fail(error, node)
            result = ExecResult.UNDERFLOW
        if self.journal is not None:
            self.journal.add(("quantum", node.id, start, end, result.name, thread))
        self.transitions.complete(node, result, woken)
        if self._callers:
            self._callers.grant_fulfilled()
        if end > self._quiet_until > 0:
            self._unquiet()

    # -- bursts of activity

    def _begin(self) -> None:
        self._busy = True
        self._quiet()
        fast_switching.begin()

    def _rest(self) -> None:
        if self._busy:
            self._busy = False
            fast_switching.end()
            self._unquiet()
