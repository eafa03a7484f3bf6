"""Partitioning functions: which worker a row belongs to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidewheel.engine.state import hashing
from tidewheel.engine.state.columns import column_type, from_arrow


@dataclass(frozen=True, slots=True)
class HashPartition:
    """Rows of Arrow tables (or record batches) by the hash of some columns.

    Rows whose keys are equal (by DuckDB's rules: NULL with NULL, 1 with 1 of another width) go to
    the same worker, whatever batch they stand in.
    """

    keys: tuple[str, ...]

    def __call__(self, batch: pa.Table | pa.RecordBatch, workers: int) -> Sequence[Any]:
        if not batch.num_rows:
            return [None] * workers
        owner = self.owners(batch, workers)
        return [
            batch.take(pa.array(rows)) if len(rows := np.flatnonzero(owner == w)) else None
            for w in range(workers)
        ]

    def owners(self, batch: pa.Table | pa.RecordBatch, workers: int) -> np.ndarray[Any, Any]:
        """The worker of each row: an array of `num_rows` integers in [0, workers)."""
        hashes = np.full(batch.num_rows, hashing.SEED)
        for name in self.keys:
            column = batch.column(name)
            kind = column_type(column.type)
            hashes = hashing.combine(hashes, kind.hash(from_arrow(column)))
        # The low bits order the rows within a worker's state; these are taken from elsewhere.
        return (hashes >> np.uint64(32)) % np.uint64(workers)


@dataclass(frozen=True, slots=True)
class KeyPartition:
    """Items of Python lists by a key. Two are equal if their key functions are the same object."""

    key: Callable[[Any], Hashable]

    def __call__(self, batch: list[Any], workers: int) -> Sequence[Any]:
        parts: list[list[Any]] = [[] for _ in range(workers)]
        for item in batch:
            parts[stable_hash(self.key(item)) % workers].append(item)
        return [part or None for part in parts]


def stable_hash(key: Hashable) -> int:
    """A hash that is the same in every process, which Python's own is not for strings."""
    if isinstance(key, str):
        return zlib.crc32(key.encode())
    if isinstance(key, bytes):
        return zlib.crc32(key)
    if isinstance(key, tuple):
        total = len(key)
        for part in key:
            total = (total * 1000003 + stable_hash(part)) & 0xFFFFFFFFFFFF
        return total
    return 0 if key is None else hash(key)
