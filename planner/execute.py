"""Run a logical plan: lower it, fuse it, put it on the scheduler, read batches from its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from tidewheel.engine.kernels.duckdb import KernelReader
from tidewheel.planner.context import Context
from tidewheel.planner.logical import Block, Node


class BatchStream(Protocol):
    """A result: Arrow batches of one schema, computed as they are asked for."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __next__(self) -> pa.RecordBatch: ...

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end."""

    def close(self) -> None:
        """Stop the computation and free what it holds; safe to call at any time, again too."""


def whole(sql: str, reason: str = "as written") -> Block:
    """A query as one kernel, its text untouched; DuckDB names and types its columns."""
    return Block(sql, (), (), (), reason)


def run(node: Node, context: Context) -> BatchStream:
    """Start a plan. Errors of binding are raised here, errors of running by the stream."""
    if isinstance(node, Block) and not node.inputs:
        return KernelReader(
            context.connection,
            context.lock,
            node.sql,
            params=context.parameters,
            batch_rows=context.settings.batch_rows,
        )
    raise NotImplementedError(type(node).__name__)
