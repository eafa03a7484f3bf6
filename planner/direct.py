"""A query that DuckDB gets whole: read from its one kernel, without a dataflow around it.

Nothing here needs sqlglot or the scheduler, so a program that asks only such queries loads neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from tidewheel.engine.kernels.duckdb import KernelReader
from tidewheel.planner.context import Context


def run(sql: str, context: Context) -> Direct:
    """Start `sql` as it is written, and compute its first batch: that raises what is wrong."""
    return Direct(sql, context)


class Direct:
    """The Arrow batches of one statement, computed as they are asked for; one at least."""

    schema: pa.Schema

    def __init__(self, sql: str, context: Context) -> None:
        self._interrupted = context.interrupted
        self._reader = KernelReader(
            context.connection,
            context.lock,
            sql,
            params=context.parameters,
            batch_rows=context.settings.batch_rows,
        )
        self.schema = self._reader.schema
        try:
            self._ahead = self._read()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch, self._ahead = self._ahead, None
        if batch is None:
            batch = self._read()
        if batch is None:
            raise StopIteration
        return batch

    def _read(self) -> pa.RecordBatch | None:
        if self._interrupted.is_set():
            self.close()
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        batch = next(self._reader, None)
        if batch is None:
            self.close()
        return batch

    def close(self) -> None:
        """Stop, and give the connection free; safe to call again."""
        self._reader.close()
