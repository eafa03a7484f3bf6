"""A handoff that goes on on disk when memory would be too much, and comes back in order."""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from typing import IO, Any

import pyarrow as pa

from tidewheel.engine.scheduler.handoff import Handoff, Item, row_count


class SpillingHandoff(Handoff):
    """A handoff that is never full: past its bound in memory it writes to a file.

    The oldest batches are in memory, all later ones in the file, so that order is kept; when the
    file has been read to its end it is emptied. Arrow tables and record batches are written in
    Arrow's IPC format, anything else with pickle. The file has no name: the system removes it with
    the handoff, also when the process dies.

    `directory`: where the file is put; None for the system's place for temporary files.
    OSError from `put` when the disk is full; what was put before stays readable.
    """

    __slots__ = ("_directory", "_file", "_on_disk", "_write_at", "spilled_batches", "spilled_bytes")

    def __init__(
        self,
        *,
        max_batches: int | None = None,
        max_bytes: int | None = 64 << 20,
        directory: str | None = None,
    ) -> None:
        super().__init__(max_batches=max_batches, max_bytes=max_bytes, soft=True)
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._write_at = 0
        self._on_disk: deque[tuple[Any, str, int, int]] = deque()  # time, form, offset, length
        self.spilled_batches = 0  # in all
        self.spilled_bytes = 0

    def put(self, time: Any, batch: Any) -> None:
        if not self._on_disk and not self.over:
            super().put(time, batch)
            return
        if self.finished:
            raise RuntimeError("put() on a handoff whose producer has already finished")
        if self.abandoned:
            return
        form, data = _encode(batch)
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
        self._file.seek(self._write_at)
        self._file.write(data)
        self._on_disk.append((time, form, self._write_at, len(data)))
        self._write_at += len(data)
        self.spilled_batches += 1
        self.spilled_bytes += len(data)
        self.put_batches += 1
        if self.profile:
            self.put_rows += row_count(batch)
        self.requested = False

    def take(self) -> Item:
        if self._items:
            return super().take()
        item = self.peek()
        self._on_disk.popleft()
        if not self._on_disk and self._file is not None:
            self._file.truncate(0)
            self._write_at = 0
        self.taken_batches += 1
        if self.profile:
            self.taken_rows += row_count(item[1])
        return item

    def peek(self) -> Item:
        if self._items:
            return super().peek()
        time, form, offset, length = self._on_disk[0]
        assert self._file is not None
        self._file.seek(offset)
        return time, _decode(form, self._file.read(length))

    @property
    def empty(self) -> bool:
        return not self._items and not self._on_disk

    @property
    def deliverable(self) -> bool:
        return not self.empty

    def __len__(self) -> int:
        return len(self._items) + len(self._on_disk)

    def abandon(self) -> None:
        super().abandon()
        self._drop_file()

    def reset(self) -> None:
        super().reset()
        self._drop_file()

    def _drop_file(self) -> None:
        self._on_disk.clear()
        self._write_at = 0
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _encode(batch: Any) -> tuple[str, Any]:
    if isinstance(batch, pa.Table | pa.RecordBatch):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write(batch)
        form = "table" if isinstance(batch, pa.Table) else "batch"
        return form, memoryview(sink.getvalue())
    return "pickle", pickle.dumps(batch, protocol=5)


def _decode(form: str, data: bytes) -> Any:
    if form == "pickle":
        return pickle.loads(data)
    with pa.ipc.open_stream(data) as reader:
        if form == "table":
            return reader.read_all()
        schema = reader.schema
        batches = list(reader)
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
