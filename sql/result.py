"""The rows of a statement: Arrow batches, read from the connection as they are asked for."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, Protocol, TypeVar

from tidewheel.engine.type_names import sql_name_of

from ..engine.arrow import pa
from ..planner.direct import Direct, Held
from . import errors
from .convert import to_text

BUFFER_BYTES = 256 << 20
"""How much of a result is kept in memory when it must make way for another statement."""


T = TypeVar("T")


class Stream(Protocol):
    """What a run gives: Arrow batches of one schema, in order."""

    @property
    def schema(self) -> pa.Schema:
        """In DuckDB's lossless Arrow form."""

    def __next__(self) -> pa.RecordBatch: ...

    def close(self) -> None:
        """Give up what is not yet read."""


class Result:
    """Batches in DuckDB's lossless Arrow form.

    While it is `open` it keeps the connection from running anything else. `buffer()` reads the
    rest into memory, and beyond `BUFFER_BYTES` into a temporary file. `guard` surrounds each
    read from the connection: it watches for Ctrl-C and translates errors. `lock` is the
    connection's: another thread's statement may set the result aside at any time. What is set aside
    is read without it, by DuckDB's threads, too, while they run a statement of that very connection
    over a reader of these rows. `count` is told how many rows were read from the connection.
    """

    def __init__(
        self,
        stream: Stream,
        guard: Callable[[], AbstractContextManager[object]],
        lock: threading.RLock,
        count: Callable[[int], None] | None = None,
    ) -> None:
        self.stream: Stream | None = stream
        self._made = stream
        self._endless = getattr(stream, "endless", False)
        # (what is complete asks nothing of the connection)
        self._guard = nullcontext if getattr(stream, "complete", False) else guard
        self._lock = lock
        self._kept = threading.RLock()
        """For what is set aside; taken after `lock` where both are."""
        self._count = count
        self._held: deque[pa.RecordBatch] = deque()
        self._spilled: pa.RecordBatchReader | None = None
        self._file: IO[bytes] | None = None
        self._error: BaseException | None = None
        self._given_up = False
        self.status: str | None = None
        """What there is to say besides the rows."""

    @property
    def schema(self) -> pa.Schema:
        """In DuckDB's lossless Arrow form."""
        return self._made.schema

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and types, as DuckDB names them."""
        if isinstance(self._made, Held):
            return self._made.columns
        return [(field.name, sql_name_of(field)) for field in self.schema]

    @property
    def open(self) -> bool:
        """Is a part still to be read from the connection?"""
        return self.stream is not None

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch that is not empty; None at the end."""
        with self._kept:
            if self.stream is None:
                return self._set_aside()
        with self._lock, self._kept:
            return self._set_aside() or self._pull()

    def _set_aside(self) -> pa.RecordBatch | None:
        if self._given_up:
            raise errors.ProgrammingError(
                "these rows were given up before their end",
                hint="their cursor or connection was closed, or the cursor ran something else",
            )
        if self._held:
            return self._held.popleft()
        if self._spilled is not None:
            try:
                return self._spilled.read_next_batch()
            except StopIteration:
                self._spilled = None
                self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return None

    def next_rows(self) -> list[tuple[Any, ...]] | None:
        """The next rows as Python values, where the stream has such; None: read a batch."""
        with self._lock:
            if isinstance(self.stream, Direct):
                self.stream.for_rows = True
            if self._held or not isinstance(self.stream, Held):
                return None
            rows = self._read(lambda stream: stream.rows() or None)
            if rows is not None and self._count is not None:
                self._count(len(rows))
            return rows

    def peek(self, rows: int) -> tuple[list[pa.RecordBatch], bool]:
        """The batches that hold the next `rows` rows, and whether they are all; none is lost."""
        found: list[pa.RecordBatch] = []
        with self._lock:
            ended = False
            while sum(b.num_rows for b in found) <= rows and not ended:
                if found and self._endless:
                    break  # waiting for what comes next would be waiting for a change
                batch = self.next_batch()
                ended = batch is None
                if batch is not None:
                    found.append(batch)
            self._held.extendleft(reversed(found))
        return found, ended

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def text(self) -> Iterator[tuple[str | None, ...]]:
        """The rows, every value as DuckDB writes it (VARCHAR or NULL)."""
        if isinstance(self.stream, Held) and self.stream.as_text and not self._held:
            while (rows := self._text()) is not None:
                yield from rows
        for batch in self:
            yield from zip(*to_text(pa.Table.from_batches([batch])), strict=True)

    def _text(self) -> list[tuple[str | None, ...]] | None:
        with self._lock:
            rows = self._read(Held.text)
            if rows is not None and self._count is not None:
                self._count(len(rows))
            return rows

    def _pull(self) -> pa.RecordBatch | None:
        while (batch := self._read(_next)) is not None and not batch.num_rows:
            pass
        if batch is not None and self._count is not None:
            self._count(batch.num_rows)
        return batch

    def _read(self, read: Callable[[Any], T | None]) -> T | None:
        """What `read` gets of the stream; at its end, None, the connection is free."""
        if self.stream is None:
            return None
        try:
            with self._guard():
                found = read(self.stream)
        except BaseException:
            self._close_stream()
            raise
        if found is None:
            self._close_stream()
        return found

    def buffer(self) -> None:
        """Read the rest, so that the connection is free; an error is kept for the rows' reader."""
        with self._kept:
            self._buffer()

    def _buffer(self) -> None:
        size = 0
        writer: pa.RecordBatchStreamWriter | None = None
        try:
            while (batch := self._pull()) is not None:
                size += batch.nbytes
                if writer is None and size > BUFFER_BYTES:
                    self._file = tempfile.TemporaryFile(prefix="tidewheel-")  # noqa: SIM115
                    writer = pa.ipc.new_stream(self._file, self.schema)
                if writer is None:
                    self._held.append(batch)
                else:
                    writer.write_batch(batch)
        except Exception as error:
            self._error = error
        if writer is not None and self._file is not None:
            writer.close()
            self._file.seek(0)
            self._spilled = pa.ipc.open_stream(self._file)

    def _close_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()

    def close(self) -> None:
        """Give up all that is not yet read; who reads it still, as Arrow, is told."""
        with self._kept:
            self._given_up |= self.open or bool(self._held) or self._spilled is not None
            self._close_stream()
            self._held.clear()
            self._spilled = None
            if self._file is not None:
                self._file.close()
                self._file = None


def _next(stream: Stream) -> pa.RecordBatch | None:
    return next(stream, None)


class TableStream:
    """A result that is already complete."""

    complete = True

    def __init__(self, table: pa.Table) -> None:
        self.schema: pa.Schema = table.schema
        self._batches = iter(table.to_batches())

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        """Give up what is not yet read."""
        self._batches = iter(())
