"""The vertex that runs a kernel: one SQL statement per time, over what arrived at that time.

Law: at every time t at which it is notified it sends kernel(inputs at t), at least one batch even
if that has no rows, so that ``count(*)`` of nothing still gives its row downstream. With several
inputs it is notified once all of them are complete at t (progress guarantees it), never before. A
kernel without inputs runs once, at the epoch in which the graph starts.

Inside a loop an input may come from outside. It then arrives once per time of the place it comes
from, and holds for all counters of the loops in between: `KernelInput.depth` is the number of
leading counters that it shares with the vertex. The vertex runs at the times of its deepest inputs.

    depth 2 (the loop's variable)   (e,⟨i,0⟩) (e,⟨i,1⟩) (e,⟨i,2⟩)   buffered, dropped when used
    depth 1 (an outer variable)     (e,⟨i⟩)                         kept while counter 0 is i
    depth 0 (a table)               (e,⟨⟩)                          kept while the epoch is e
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidewheel.engine.arrow import empty
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.kernels.connection import KernelConnection, Repeated
from tidewheel.engine.kernels.duckdb import Parameters
from tidewheel.engine.progress.timestamp import Timestamp

Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class KernelInput:
    """An input port: the name by which the SQL reads it, and how many counters it depends on.

    `depth` None: all of the vertex's own. `empty` is SQL that gives no rows of the input's schema;
    it stands in at a time at which nothing arrived.
    """

    name: str
    empty: str
    depth: int | None = None


class Kernel(Vertex):
    """Runs `sql` at every time. `stream`: batches are sent as DuckDB computes them.

    Streaming keeps the connection busy until the last batch is sent, so it is for the one vertex
    that feeds the output; all others compute their whole answer in one call.

    `rests`: where the inputs are those of the time before, its answer is sent again.
    """

    def __init__(
        self,
        sql: str,
        inputs: Sequence[KernelInput],
        connection: KernelConnection,
        parameters: Parameters = None,
        stream: bool = False,
        rests: bool = False,
    ) -> None:
        self._sql = sql
        self._inputs = tuple(inputs)
        self._connection = connection
        self.exclusive = connection.key
        self._parameters = parameters
        self._repeated = Repeated(connection, sql, parameters)
        self._stream = stream
        self._rests = rests
        self._before: tuple[dict[str, pa.Table], pa.Table] | None = None
        self._buffers: list[dict[Key, list[pa.Table]]] = [{} for _ in self._inputs]
        self._empty: dict[int, pa.Table] = {}
        # With constant inputs only (or none) it runs where they arrive.
        self._drivers = {p for p, i in enumerate(self._inputs) if i.depth is None} or set(
            range(len(self._inputs))
        )

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        """Buffer `batch`; a driving input asks for a notification at its time."""
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        self._buffers[port].setdefault(self._key(port, time), []).append(table)
        if port in self._drivers:
            self.notify_at(time)

    def on_notify(self, time: Timestamp) -> Iterator[None] | None:
        """Everything of `time` is here: run the statement and send what it gives."""
        inputs = {i.name: self._take(port, time) for port, i in enumerate(self._inputs)}
        if self._stream:
            return self._send_stream(inputs, time)
        before = self._before
        if before is not None and all(before[0][n].equals(t) for n, t in inputs.items()):
            answer = before[1]
        else:
            if inputs and time.counters:
                answer = self._repeated(inputs)
            else:
                answer = self._connection.table(self._sql, inputs, self._parameters)
            if self._rests:
                self._before = inputs, answer
        self.send_by(0, answer, time)
        return None

    def _send_stream(self, inputs: dict[str, pa.Table], time: Timestamp) -> Iterator[None]:
        reader = self._connection.reader(self._sql, inputs, self._parameters)
        sent = False
        try:
            for batch in reader:
                sent = True
                self.send_by(0, batch, time)
                yield
            if not sent:
                self.send_by(0, empty(reader.schema), time)
        finally:
            reader.close()
            self._connection.measured(self._sql)

    def interrupt(self) -> None:
        """End the statement that runs."""
        self._connection.interrupt()

    def _key(self, port: int, time: Timestamp) -> Key:
        depth = self._inputs[port].depth
        return time.epoch, time.counters if depth is None else time.counters[:depth]

    def _take(self, port: int, time: Timestamp) -> pa.Table:
        buffers, key = self._buffers[port], self._key(port, time)
        if self._inputs[port].depth is None:
            parts = buffers.pop(key, None)
        else:
            for old in [k for k in buffers if k < key]:
                del buffers[old]
            parts = buffers.get(key)
        if not parts:
            if port not in self._empty:
                self._empty[port] = self._connection.table(self._inputs[port].empty)
            return self._empty[port]
        if len(parts) > 1:
            parts[:] = [pa.concat_tables(parts)]
        return parts[0]

    def checkpoint(self) -> Any:
        """What is buffered: per port, the tables by time."""
        return [dict(buffer) for buffer in self._buffers]

    def restore(self, state: Any) -> None:
        """Take back what `checkpoint` gave."""
        self._buffers = [dict(buffer) for buffer in state]
