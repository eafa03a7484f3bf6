"""Hashes and equality of the values of Arrow arrays; `of` are those of what nested ones hold."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import computed, numbers
from tidewheel.engine.state import hashing
from tidewheel.engine.state.hashing import U64
from tidewheel.engine.state.nested import equal_nested, hash_nested
from tidewheel.engine.state.python_values import canonical, python_values

Mask = npt.NDArray[np.bool_]


@functools.cache
def _apart(arrow: pa.DataType) -> bool:
    """Is it a type of lists, structs or maps?"""
    t = pa.types
    return bool(
        t.is_struct(arrow)
        or t.is_list(arrow)
        or t.is_large_list(arrow)
        or t.is_fixed_size_list(arrow)
        or t.is_map(arrow)
    )


@functools.cache
def loose(arrow: pa.DataType) -> bool:
    """May values be equal and not look the same?"""
    t = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        return loose(arrow.storage_type)
    if t.is_floating(arrow) or t.is_interval(arrow):
        return True
    return any(loose(arrow.field(i).type) for i in range(arrow.num_fields))


def hash_arrow(array: pa.Array, exactly: bool, of: Callable[[pa.Array], U64]) -> U64:
    """One hash per value. `exactly`: see `columns`."""
    t = pa.types
    kind = array.type
    if t.is_null(kind):
        return np.full(len(array), hashing.NULL_HASH)
    if t.is_string(kind) or t.is_binary(kind):
        h = _hash_binary(array, "i4")
    elif t.is_large_string(kind) or t.is_large_binary(kind):
        h = _hash_binary(array, "i8")
    elif t.is_decimal128(kind) or (t.is_fixed_size_binary(kind) and kind.byte_width % 8 == 0):
        h = hashing.hash_words(words(array, 16 if t.is_decimal128(kind) else kind.byte_width))
    elif t.is_interval(kind):
        h = hashing.hash_words(words(array, 16) if exactly else interval(array))
    elif _apart(kind):
        h = hash_nested(array, of)
    else:
        texts = (repr(canonical(v, exactly)) for v in python_values(array))
        h = np.fromiter((hashing.hash_text(x) for x in texts), np.uint64, len(array))
    if array.null_count:
        h = np.where(is_valid(array), h, hashing.NULL_HASH)
    return h


def _hash_binary(array: pa.Array, offset_type: str) -> U64:
    n = len(array)
    if n == 0:
        return np.empty(0, np.uint64)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, offset_type, n + 1 + array.offset)[array.offset :]
    letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return hashing.hash_bytes(starts, letters)


def words(array: pa.Array, width: int) -> U64:
    """Values of `width` bytes as 64-bit words, shape (n, words per value), the lowest first."""
    n = len(array)
    if n == 0:
        return np.empty((0, width // 8), np.uint64)
    values = np.frombuffer(array.buffers()[1], np.uint64, (n + array.offset) * width // 8)
    return values.reshape(-1, width // 8)[array.offset :]


def interval(array: pa.Array) -> U64:
    """(days, nanoseconds) with a month counting 30 days, as DuckDB compares them."""
    n = len(array)
    if n == 0:
        return np.empty((0, 2), np.uint64)
    layout = np.dtype([("months", "i4"), ("days", "i4"), ("nanos", "i8")])
    raw = np.frombuffer(array.buffers()[1], layout, n + array.offset)[array.offset :]
    day = 86_400_000_000_000
    days = raw["months"].astype(np.int64) * 30 + raw["days"] + raw["nanos"] // day
    return np.stack([days, raw["nanos"] % day], axis=1).view(np.uint64)


def equal_arrow(
    a: pa.Array, b: pa.Array, exactly: bool, of: Callable[[pa.Array, pa.Array], Any]
) -> Mask:
    """Pairwise equality of two arrays of one type and length."""
    t = pa.types
    kind = a.type
    # (mostly they are; 0.0 is -0.0 to Arrow)
    if not (exactly and t.is_nested(kind)) and a.equals(b):
        return np.ones(len(a), bool)
    if t.is_interval(kind):
        x, y = (words(c, 16) if exactly else interval(c) for c in (a, b))
        same = np.asarray((x == y).all(axis=1))
    elif _apart(kind):
        same = equal_nested(a, b, of)
    elif t.is_nested(kind) or t.is_dictionary(kind):
        pairs = zip(python_values(a), python_values(b), strict=True)
        alike = (repr(canonical(x, exactly)) == repr(canonical(y, exactly)) for x, y in pairs)
        return np.fromiter(alike, bool, len(a))
    else:
        same = numbers(computed("equal").call([a, b]))
    if not a.null_count and not b.null_count:
        return np.asarray(same)
    here, there = is_valid(a), is_valid(b)
    return np.where(here & there, same, here == there)


def is_valid(array: pa.Array) -> Mask:
    """Which values are no NULL? (`pc.is_valid` loads `pyarrow.compute`.)"""
    n, first = len(array), array.offset
    if not array.null_count:
        return np.ones(n, bool)
    bits = array.buffers()[0]
    if bits is None:
        return np.zeros(n, bool)
    there = np.frombuffer(bits, np.uint8)
    return np.unpackbits(there, count=first + n, bitorder="little")[first:].view(bool)
