"""Results as files of bytes: Parquet and Arrow."""

from __future__ import annotations

from typing import BinaryIO

from tidewheel.engine.arrow import pa

from ..sql.cursor import Cursor
from ..sql.errors import NotSupportedError


def parquet(cursor: Cursor, out: BinaryIO) -> None:
    """A Parquet file, zstd-compressed, a row group per batch."""
    import pyarrow.parquet as pq

    reader = cursor.to_arrow_reader()
    try:
        with pq.ParquetWriter(out, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(
            f"Parquet cannot hold this result: {error}",
            hint="cast such columns to VARCHAR, or write --format arrow",
        ) from None


def arrow_stream(cursor: Cursor, out: BinaryIO) -> None:
    """An Arrow IPC stream."""
    reader = cursor.to_arrow_reader()
    with pa.ipc.new_stream(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def arrow_file(cursor: Cursor, out: BinaryIO) -> None:
    """An Arrow IPC file, also known as Feather 2."""
    reader = cursor.to_arrow_reader()
    with pa.ipc.new_file(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
