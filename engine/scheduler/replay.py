"""Schedulers for tests: one explores interleavings at random, one repeats a recorded run.

Both run in the caller's thread, and both let several streams be RUNNING at once, as the parallel
scheduler does: a quantum takes effect for its neighbours when it is completed, not when it runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tidewheel.engine.scheduler.driver import ProgressOwner, Scheduler
from tidewheel.engine.scheduler.exec_stream import ExecResult, Quantum
from tidewheel.engine.scheduler.graph import Output, StreamGraph
from tidewheel.engine.scheduler.node import Node, SchedulerError
from tidewheel.engine.scheduler.recording import Step
from tidewheel.engine.scheduler.serial import SerialScheduler


class RandomScheduler(SerialScheduler):
    """Picks at random what starts and what completes next; the same `seed` gives the same run."""

    def __init__(self, *args: Any, seed: int = 0, degree: int = 4, **options: Any) -> None:
        super().__init__(*args, **options)
        self.degree = degree
        self._random = random.Random(seed)
        self._open: list[tuple[Node, tuple[ExecResult, BaseException | None] | None]] = []

    def _step(self, *, reading: bool) -> bool:
        pick, transitions = self._random, self.transitions
        self._check()
        while self._external and (not self._open or pick.random() < 0.7):
            transitions.wake(self._external.popleft())
        lanes = [lane for lane in (transitions.ready, transitions.quick) if lane]
        if lanes and len(self._open) < self.degree and (not self._open or pick.random() < 0.5):
            lane = pick.choice(lanes)
            node = pick.choice(lane)
            lane.remove(node)
            if transitions.start(node):
                # A quantum may take place at any moment between its start and its completion.
                self._open.append((node, self._outcome(node) if pick.random() < 0.5 else None))
            return True
        if self._open:
            node, outcome = self._open.pop(pick.randrange(len(self._open)))
            result, error = outcome if outcome is not None else self._outcome(node)
            woken: Iterable[int] = ()
            try:
                if error is not None:
                    raise error
                woken = self._progress(node)
            except BaseException as exc:
                self._fail(exc, node)
            transitions.complete(node, result, woken)
            transitions.validate()
            return True
        return super()._step(reading=reading)

    def _outcome(self, node: Node) -> tuple[ExecResult, BaseException | None]:
        self._running = node.stream
        node.quanta += 1
        try:
            return node.stream.execute(self.quantum), None
        except BaseException as exc:
            return ExecResult.UNDERFLOW, exc
        finally:
            self._running = None

    def _progress(self, node: Node) -> Iterable[int]:
        updates = node.stream.take_progress()
        return self.owner.apply(node.id, updates) if updates and self.owner is not None else ()

    def reset(self) -> None:
        self._open.clear()
        super().reset()


class Replay:
    """Runs a graph again, in the order of a recorded run.

    The graph must be built and fed as it was then: external input is not part of the recording.
    The streams must depend on nothing else than their handoffs and notifications.
    """

    def __init__(
        self,
        graph: StreamGraph,
        steps: Iterable[Step],
        owner: ProgressOwner | None = None,
        *,
        quantum: Quantum | None = None,
    ) -> None:
        self._scheduler: Scheduler = SerialScheduler(graph, owner, quantum=quantum)
        self._steps = list(steps)
        self.taken: dict[int, list[Any]] = {}

    def run(self) -> dict[int, list[Any]]:
        """Run all steps; what came out, by output. SchedulerError where it goes another way."""
        self._scheduler.open()
        try:
            for number, step in enumerate(self._steps):
                self._step(number, step)
            for stream_id, node in self._scheduler.transitions.nodes.items():
                if isinstance(node.stream, Output):
                    self.taken[stream_id] = list(node.stream.ready)
        finally:
            self._scheduler.close()
        return self.taken

    def _step(self, number: int, step: Step) -> None:
        transitions = self._scheduler.transitions
        got: object = step.result
        if step.kind == "wake":
            transitions.wake(step.stream)
        elif step.kind == "reach":
            transitions.reach(step.stream)
        elif step.kind == "unblock":
            got = transitions.unblock(reading=bool(step.stream))
        elif step.kind == "start":
            node = transitions.nodes[step.stream]
            lane = next((x for x in (transitions.ready, transitions.quick) if node in x), None)
            if lane is None:
                raise SchedulerError(f"step {number}: {node} should be started, and is not ready")
            lane.remove(node)
            got = transitions.start(node)
        else:
            got = self._complete(transitions.nodes[step.stream], step)
        if got != step.result:
            raise SchedulerError(
                f"step {number}: {step.kind} of stream {step.stream} gave {got}, "
                f"in the recorded run {step.result}"
            )

    def _complete(self, node: Node, step: Step) -> ExecResult:
        scheduler, stream = self._scheduler, node.stream
        if isinstance(stream, Output):
            stream.forced_room = step.room
        result = stream.execute(scheduler.quantum)
        updates = stream.take_progress()
        owner = scheduler.owner
        woken = owner.apply(node.id, updates) if updates and owner is not None else ()
        scheduler.transitions.complete(node, result, woken)
        return result
