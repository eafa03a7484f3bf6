"""A set of rows of any types: tells which rows of a batch are new.

Rows are turned into integers: a column's own value where it is an integer of at most 64 bits, a
code
from a dictionary of the values seen otherwise. While a row's integers fit into 64 bits together
they
are its key, and the keys lie in sorted runs that are merged geometrically; when they do not, rows
are
kept as bytes in a hash set. Both are exact: no two different rows share a key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import numbers
from tidewheel.engine.state.python_values import canonical, python_values

Ints = npt.NDArray[np.int64]


class RowSet:
    """Rows seen so far. NULLs are equal to each other, as in DISTINCT."""

    def __init__(self, width: int) -> None:
        self._columns = [Codes() for _ in range(width)]
        self._bits = 64 // max(width, 1)
        self._runs: list[Ints] | None = [] if self._bits > 1 else None
        self._rows: set[bytes] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        if self._runs is None:
            return len(self._rows) * (80 + 8 * len(self._columns))
        return sum(r.nbytes for r in self._runs)

    def add(self, table: pa.Table) -> pa.Table:
        """The rows of `table` that are new, each once, in their order; they are in the set now."""
        if table.num_rows == 0:
            return table
        if not self._columns:
            fresh = table.slice(0, 0 if self._count else 1)
            self._count = 1
            return fresh
        codes = [c.encode(table.column(i)) for i, c in enumerate(self._columns)]
        keys = self._pack(codes) if self._runs is not None else None
        if keys is None:
            picked = self._add_bytes(codes)
        else:
            picked = self._add_keys(keys)
        self._count += len(picked)
        if len(picked) == table.num_rows:
            return table
        return table.take(picked)

    def _pack(self, codes: list[tuple[Ints, Ints | None]]) -> Ints | None:
        """One 64-bit key per row, or None where they do not fit; then the set changes its form."""
        bits = self._bits
        key: Ints | None = None
        half = 1 << (bits - 1)
        for values, nulls in codes:
            if bits < 64 or nulls is not None:
                if len(values) and (values.min() <= -half or values.max() >= half):
                    self._to_bytes()
                    return None
            elif len(values) and values.min() == -half:
                self._to_bytes()
                return None
            if nulls is not None:
                values = np.where(nulls != 0, -half, values)
            if key is None:
                key = values.copy() if len(codes) > 1 else values
            else:
                key = (key << bits) | (values & ((1 << bits) - 1))
        assert key is not None
        return key

    def _add_keys(self, keys: Ints) -> Ints:
        assert self._runs is not None
        unique, first = np.unique(keys, return_index=True)
        fresh = np.ones(len(unique), dtype=bool)
        for run in self._runs:
            at = np.searchsorted(run, unique)
            at[at == len(run)] = 0
            fresh &= run[at] != unique
        new = unique[fresh]
        if len(new):
            self._runs.append(new)
            while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
                last, before = self._runs.pop(), self._runs.pop()
                merged = np.concatenate([before, last])
                merged.sort(kind="stable")
                self._runs.append(merged)
        return np.sort(first[fresh])

    def _to_bytes(self) -> None:
        """Go on with rows as bytes: unpack the keys that there are."""
        assert self._runs is not None
        bits, width = self._bits, len(self._columns)
        half = 1 << (bits - 1)
        for run in self._runs:
            codes: list[tuple[Ints, Ints | None]] = []
            for i in range(width):
                shift = bits * (width - 1 - i)
                # Up to the sign and back, so that it is kept.
                values = (run << (64 - bits - shift)) >> (64 - bits)
                nulls = values == -half
                codes.append((np.where(nulls, 0, values), nulls.astype(np.int64)))
            self._rows.update(as_bytes(codes))
        self._runs = None

    def _add_bytes(self, codes: list[tuple[Ints, Ints | None]]) -> Ints:
        known = self._rows
        picked = []
        for i, row in enumerate(as_bytes(codes)):
            if row not in known:
                known.add(row)
                picked.append(i)
        return np.array(picked, dtype=np.int64)


def as_bytes(codes: list[tuple[Ints, Ints | None]]) -> list[bytes]:
    width = len(codes)
    rows = np.zeros((len(codes[0][0]), width + -(-width // 64)), dtype=np.int64)
    for i, (values, nulls) in enumerate(codes):
        rows[:, i] = values
        if nulls is not None:
            rows[:, width + i // 64] |= (nulls != 0).astype(np.int64) << i % 64
    packed: Any = rows.view(np.dtype((np.void, 8 * rows.shape[1]))).ravel()
    found: list[bytes] = packed.tolist()
    return found


class Codes:
    """One column's values as 64-bit integers, equal iff the values are."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def encode(self, column: pa.ChunkedArray) -> tuple[Ints, Ints | None]:
        """Values (0 for NULL) and a mask of the NULLs, None if there are none."""
        chunks = column.chunks or [pa.nulls(0, column.type)]
        array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        nulls: Ints | None = None
        if array.null_count:
            nulls = numbers(array.is_null()).astype(np.int64)
        values = _integers(array)
        if values is None:
            values = self._intern(array)
        if nulls is not None:
            values = np.where(nulls != 0, 0, values)
        return values, nulls

    def _intern(self, array: pa.Array) -> Ints:
        known = self._known
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            encoded = array.dictionary_encode()
            codes = [known.setdefault(v, len(known)) for v in encoded.dictionary.to_pylist()]
            if not codes:
                return np.zeros(len(array), dtype=np.int64)
            indices = numbers(encoded.indices.fill_null(0))
            found: Ints = np.array(codes, dtype=np.int64)[indices]
            return found
        # (a NULL has a number, too: Arrow does not mark those of a UNION)
        codes = [known.setdefault(frozen(v), len(known)) for v in python_values(array)]
        return np.array(codes, dtype=np.int64)


def _integers(array: pa.Array) -> Ints | None:
    """The values as integers without a dictionary; None where the type has none."""
    t = array.type
    if pa.types.is_boolean(t):
        return numbers(array.fill_null(False)).astype(np.int64)
    if pa.types.is_floating(t):
        floats = numbers(array.fill_null(0)).astype(np.float64)
        floats = floats + 0.0  # -0.0 equals 0.0
        floats[np.isnan(floats)] = np.nan  # all NaNs are equal
        return floats.view(np.int64)
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(t) or pa.types.is_time64(t) or pa.types.is_duration(t):
        array = array.view(pa.int64())
    elif not pa.types.is_integer(t):
        return None
    filled = numbers(array.fill_null(0))
    if filled.dtype == np.uint64:
        unsigned: Ints = filled.view(np.int64)
        return unsigned
    found: Ints = filled.astype(np.int64, copy=False)
    return found


def repeats(before: Iterable[pa.Table], last: pa.Table) -> bool:
    """Are all rows of `last` among those before?"""
    seen = RowSet(last.num_columns)
    for table in before:
        seen.add(table)
    return bool(seen.add(last).num_rows == 0)


def frozen(value: Any) -> Hashable:
    """A Python value of a row as a key: equal iff SQL's DISTINCT takes both for one."""
    if isinstance(value, dict):
        return tuple((k, frozen(v)) for k, v in value.items())
    if isinstance(value, pa.MonthDayNano):
        found: Hashable = canonical(value)
        return found
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    if isinstance(value, float):
        return ("nan",) if value != value else value + 0.0
    found = value
    return found
