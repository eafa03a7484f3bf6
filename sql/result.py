"""The rows of a statement: a stream of Arrow batches that can be read as Arrow or as Python."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import duckdb
import pyarrow as pa

BUFFER_BYTES = 256 << 20
"""How much of a result is kept in memory when it must make way for another statement."""


class Reader(Protocol):
    """What a run gives: Arrow batches of one schema, in order."""

    schema: pa.Schema

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end."""

    def close(self) -> None:
        """Give up what is not yet read."""


class Result:
    """A stream of batches in DuckDB's lossless Arrow form.

    `buffer()` makes it independent of the connection: the rest is read into memory, and beyond
    `BUFFER_BYTES` into a temporary file.
    """

    def __init__(self, reader: Reader) -> None:
        self.schema: pa.Schema = reader.schema
        self._reader: Reader | None = reader
        self._held: deque[pa.RecordBatch] = deque()
        self._spilled: pa.RecordBatchReader | None = None
        self._file: Any = None

    @property
    def open(self) -> bool:
        """Is a part still to be read from the connection?"""
        return self._reader is not None

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch that is not empty; None at the end."""
        if self._held:
            return self._held.popleft()
        if self._spilled is not None:
            try:
                return self._spilled.read_next_batch()
            except StopIteration:
                self.close()
                return None
        batch = self._pull()
        while batch is not None and batch.num_rows == 0:
            batch = self._pull()
        return batch

    def _pull(self) -> pa.RecordBatch | None:
        if self._reader is None:
            return None
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            self.close()
            return None
        except BaseException:
            self.close()
            raise

    def buffer(self) -> None:
        """Read the rest, so that the connection is free for another statement."""
        size = 0
        writer: pa.RecordBatchStreamWriter | None = None
        while (batch := self._pull()) is not None:
            size += batch.nbytes
            if writer is None and size > BUFFER_BYTES:
                self._file = tempfile.TemporaryFile(prefix="tidewheel-")  # noqa: SIM115
                writer = pa.ipc.new_stream(self._file, self.schema)
            if writer is None:
                if batch.num_rows:
                    self._held.append(batch)
            else:
                writer.write_batch(batch)
        if writer is not None:
            writer.close()
            self._file.seek(0)
            self._spilled = pa.ipc.open_stream(self._file)

    def close(self) -> None:
        """Give up what is not yet read from the connection."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class Rows:
    """Python rows of Arrow batches, with the values that DuckDB itself would give."""

    _shared = threading.local()

    def __init__(self, schema: pa.Schema) -> None:
        self._plain = all(_is_plain(t) for t in schema.types)

    def convert(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The rows of a batch."""
        if self._plain and batch.num_rows < 200:
            return list(zip(*(c.to_pylist() for c in batch.columns), strict=True))
        connection = self._connection()
        connection.register("__tw_rows", pa.Table.from_batches([batch]))
        try:
            return connection.execute("FROM __tw_rows").fetchall()
        finally:
            connection.unregister("__tw_rows")

    @classmethod
    def _connection(cls) -> duckdb.DuckDBPyConnection:
        found: duckdb.DuckDBPyConnection | None = getattr(cls._shared, "connection", None)
        if found is None:
            found = cls._shared.connection = duckdb.connect(config={"threads": 1})
        return found


def _is_plain(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_float64(t)
        or pa.types.is_boolean(t)
        or pa.types.is_string(t)
        or pa.types.is_decimal128(t)
    )


def iterate(result: Result) -> Iterator[pa.RecordBatch]:
    """The remaining batches."""
    while (batch := result.next_batch()) is not None:
        yield batch
