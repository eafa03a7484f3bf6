"""Many workers simulated in one thread, with adversarial delays, from a seed.

Every stream, and every link of the progress protocol, has a speed of its own: the chance that it
moves in a round. Slow ones fall far behind the others. Everything else is real: the graph, its
vertices and handoffs, and each worker's view of progress.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tidewheel.engine.dataflow.distributed import BroadcastProgress, Link
from tidewheel.engine.dataflow.ends import OPEN, InputStream, OutputStream
from tidewheel.engine.dataflow.errors import DataflowError
from tidewheel.engine.dataflow.expand import Expansion
from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.streams import VertexStream
from tidewheel.engine.progress.broadcast import Accumulation, Updates
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler.exec_stream import Quantum

SPEEDS = (0.03, 0.1, 0.3, 0.7, 1.0)


class Simulation:
    """Runs a graph on `workers` simulated workers.

    `packet` cuts the updates of one broadcast into messages; `fifo` false lets links lose their
    order, which breaks the protocol: for tests that must notice. `speeds`: those that there are.
    `after_step` is called after every
    step, when all counts are settled.
    """

    def __init__(
        self,
        graph: Graph,
        workers: int,
        accumulation: Accumulation,
        seed: int,
        *,
        packet: Callable[[Updates], list[Updates]] | None = None,
        fifo: bool = True,
        speeds: Sequence[float] = SPEEDS,
        after_step: Callable[[], None] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.progress = BroadcastProgress(workers, accumulation, immediate=False, packet=packet)
        self.expansion = Expansion(graph, workers, self.progress, None)
        self.workers = workers
        self._fifo = fifo
        self._choices = speeds
        self._after_step = after_step
        self._speeds: dict[object, float] = {}
        self._one = Quantum(1)
        self._inputs: dict[str, list[InputStream]] = {}
        self.rounds = 0
        for stream in self.expansion.extend(0):
            if isinstance(stream, InputStream):
                self._inputs.setdefault(stream.stage.name, []).append(stream)
            stream.open()
            self.progress.begin(self.expansion.ids[stream], stream)

    @property
    def streams(self) -> list[VertexStream]:
        """All vertices of all workers."""
        return list(self.expansion.ids)

    def send(self, name: str, worker: int, epoch: int, batch: Any) -> None:
        """Put a batch into an input at one worker."""
        self._inputs[name][worker].inbox.append((epoch, batch))

    def open_epoch(self, name: str, epoch: int | None) -> None:
        """Go on to an epoch at an input, in all workers; None closes it."""
        for stream in self._inputs[name]:
            stream.inbox.append((epoch, OPEN))

    def output(self, name: str) -> list[tuple[Timestamp, Any]]:
        """What an output has brought."""
        for stream in self.streams:
            if isinstance(stream, OutputStream) and stream.name == name:
                return list(stream.ready)
        raise DataflowError(f"no output {name!r}")

    def run(self, max_rounds: int = 1_000_000) -> None:
        """Run until nothing is under way; DataflowError when that does not happen."""
        while self.round():
            if self.rounds > max_rounds:
                raise DataflowError(f"not at an end after {max_rounds} rounds")

    def round(self) -> bool:
        """Let everything move once, at its speed; False when nothing is left."""
        self.rounds += 1
        progress, rng = self.progress, self.random
        busy = [s for s in self.streams if s.busy]
        moves: list[VertexStream | Link] = [*busy, *progress.links]
        if not moves:
            before = progress.messages, len(progress.links)
            progress.idle()
            if (progress.messages, len(progress.links)) == before:
                return any(s.busy for s in self.streams)
            return True
        rng.shuffle(moves)
        for move in moves:
            speed = self._speeds.get(move)
            if speed is None:
                speed = self._speeds[move] = rng.choice(self._choices)
            if rng.random() >= speed:
                continue
            if isinstance(move, VertexStream):
                move.execute(self._one)
                self._account(move)
            else:
                queue = progress.links[move]
                progress.deliver(move, 0 if self._fifo else rng.randrange(len(queue)))
            if self._after_step is not None:
                self._after_step()
        working = {s.worker for s in busy}
        for worker in range(self.workers):
            if worker not in working:
                progress.rest(worker)
        return True

    def _account(self, stream: VertexStream) -> None:
        updates = stream.take_progress()
        if updates:
            self.progress.apply(self.expansion.ids[stream], updates)
