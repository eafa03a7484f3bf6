"""Sums, means and variances over frames of rows: exact, and rounded once.

DuckDB adds up frames by a tree of sums over the rows' places, so what a frame comes to depends on
the rows before it, which are none of its own. Here it is the difference of two sums of all values
before a place, in limbs (see `exact`), where nothing is lost:

    values    x0   x1   x2   x3   x4
    before  0  x0 …                      a frame [low, high) is before[high] - before[low]

A running sum goes on from a `state`, which is what all values so far come to, as bytes: how many
there are, NaN, infinity, minus infinity among them; then of the sum, and perhaps of the squares',
the lowest limb's number, how many limbs there are, and these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.doubles import AtOnce, Kept
from tidewheel.engine.operators.limbs import LimbColumns
from tidewheel.engine.operators.running_sums import SQUARED, Aggregate, Sum
from tidewheel.engine.state.columns import Array, Mask
from tidewheel.engine.state.delta import Int64s

Function = Literal["sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"]
Limb = tuple[int, int]
"""Of the sum (0) or of the squares' (1), and its number."""
_AT_ONCE: Final = 1 << 16  # rows whose limbs are in memory at the same time, if frames are smaller
_COUNTS: Final = 4
_KEPT: Final = Kept({0: Sum(0, pa.float64(), 0, 0, False)}, {(0, 0): 1})


class FrameSums:
    """What each of some frames comes to: `counts` (frames, 4), and the limbs of sums."""

    def __init__(self, counts: Int64s, limbs: Mapping[Limb, Int64s]) -> None:
        self._counts = counts
        self._limbs = dict(limbs)

    @classmethod
    def of(
        cls, values: Array, nulls: Mask | None, low: Int64s, high: Int64s, squares: bool = False
    ) -> FrameSums:
        """Of the values from `low` on and before `high`, for each frame: doubles, or integers."""
        whole = values.dtype == np.int64
        finite = np.ones(len(values), bool) if whole else np.isfinite(values)
        if nulls is not None:
            finite &= ~nulls
        counts = np.zeros((len(low), _COUNTS), np.int64)
        if finite.all():
            counts[:, 0] = high - low
        else:
            there = np.ones(len(values), bool) if nulls is None else ~nulls
            kinds = (there, there & np.isnan(values), there & (values == np.inf),
                     there & (values == -np.inf))  # fmt: skip
            for i, kind in enumerate(kinds):
                counts[:, i] = _between(kind, low, high)
            values = np.where(finite, values, values.dtype.type(0))
        columns = [exact.integer_columns(values) if whole else exact.limb_columns(values)]
        if squares:
            columns.append(exact.square_columns(values, columns[0]))
        limbs = {(i, limb): parts for i, of in enumerate(columns) for limb, parts in of.items()}
        return cls(counts, {limb: _between(parts, low, high) for limb, parts in limbs.items()})

    def go_on(self, which: Int64s, states: Sequence[bytes | None]) -> None:
        """Frame i goes on from the state number `which[i]`; None is that of no values."""
        begun = np.zeros((len(states), _COUNTS), np.int64)
        columns: dict[Limb, list[int]] = {}
        for i, state in enumerate(states):
            if state is None:
                continue
            words = np.frombuffer(state, np.int64)
            begun[i] = words[:_COUNTS]
            rest, term = words[_COUNTS:].tolist(), 0
            while rest:
                low, many = rest[:2]
                for limb, amount in enumerate(rest[2 : 2 + many], low):
                    columns.setdefault((term, limb), [0] * len(states))[i] = amount
                rest, term = rest[2 + many :], term + 1
        self._counts += begun[which]
        for at, amounts in columns.items():
            before = np.array(amounts, np.int64)[which]
            self._limbs[at] = self._limbs[at] + before if at in self._limbs else before

    def states(self, index: Int64s | None = None) -> pa.Array:
        """What may be gone on from; that of frame i stands in the place `index[i]`."""
        parts: list[Int64s | int] = list(self._counts.T)
        for term in range(1 + max((of for of, _ in self._limbs), default=0)):
            limbs = {limb: amounts for (of, limb), amounts in self._limbs.items() if of == term}
            numbers = range(min(limbs), max(limbs) + 1) if limbs else range(0)
            parts += [numbers.start, len(numbers), *(limbs.get(limb, 0) for limb in numbers)]
        words = np.empty((len(self._counts), len(parts)), np.int64)
        for i, part in enumerate(parts):
            words[slice(None) if index is None else index, i] = part
        ends = np.arange(len(words) + 1) * (words.shape[1] * words.itemsize)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(words)]
        return pa.Array.from_buffers(pa.large_binary(), len(words), buffers)

    def value(self, function: Function, one: int = 1) -> tuple[Array, Mask]:
        """What a function gives, and where it is NULL; a mean is that of integers over `one`."""
        columns = [(of, limb, amounts) for (of, limb), amounts in self._limbs.items()]
        aggregate = Aggregate(function, 0, pa.float64())
        counts = self._counts if one == 1 else self._counts * one
        return AtOnce(LimbColumns(columns), _KEPT)(aggregate, counts)


def framed(
    function: Function, values: Array, nulls: Mask | None, low: Int64s, high: Int64s
) -> tuple[Array, Mask]:
    """What a function gives of frames of neighbours, in their order, some frames at a time."""
    widest = int((high - low).max(initial=0))
    many = max(_AT_ONCE, widest)
    found = []
    for begin in range(0, len(low), many):
        some = slice(begin, begin + many)
        first, last = int(low[some].min()), int(high[some].max())
        these = None if nulls is None else nulls[first:last]
        ends = low[some] - first, high[some] - first
        sums = FrameSums.of(values[first:last], these, *ends, function in SQUARED)
        found.append(sums.value(function))
    if not found:
        return np.empty(0), np.empty(0, bool)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


def _between(parts: Array, low: Int64s, high: Int64s) -> Int64s:
    before = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(parts, out=before[1:])
    return before[high] - before[low]
