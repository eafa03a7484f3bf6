"""Sums and means of doubles over frames of rows: exact, and rounded once.

DuckDB adds up frames by a tree of sums over the rows' places, so what a frame comes to depends on
the rows before it, which are none of its own. Here it is the difference of two sums of all values
before a place, in limbs (see `exact`), where nothing is lost:

    values    x0   x1   x2   x3   x4
    before  0  x0 …                      a frame [low, high) is before[high] - before[low]

A running sum goes on from a `state`, which is what all values so far come to, as bytes: how many
there are, NaN, infinity, minus infinity among them, the lowest limb's number, and the limbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.doubles import AtOnce, Kept
from tidewheel.engine.operators.limbs import LimbColumns
from tidewheel.engine.operators.running_sums import Aggregate, Sum
from tidewheel.engine.state.columns import Array, Mask
from tidewheel.engine.state.delta import Int64s

Function = Literal["sum", "avg"]
_AT_ONCE: Final = 1 << 16  # rows whose limbs are in memory at the same time, if frames are smaller
_COUNTS: Final = 4
_KEPT: Final = Kept({0: Sum(0, pa.float64(), 0, 0, False)}, {})


class FrameSums:
    """What each of some frames comes to: `counts` (frames, 4), and by number the limbs of sums."""

    def __init__(self, counts: Int64s, limbs: Mapping[int, Int64s]) -> None:
        self._counts = counts
        self._limbs = dict(limbs)

    @classmethod
    def of(
        cls, values: npt.NDArray[np.float64], nulls: Mask | None, low: Int64s, high: Int64s
    ) -> FrameSums:
        """Of the values from `low` on and before `high`, for each frame."""
        finite = np.isfinite(values) if nulls is None else np.isfinite(values) & ~nulls
        counts = np.zeros((len(low), _COUNTS), np.int64)
        if finite.all():
            counts[:, 0] = high - low
        else:
            there = np.ones(len(values), bool) if nulls is None else ~nulls
            kinds = (there, there & np.isnan(values), there & (values == np.inf),
                     there & (values == -np.inf))  # fmt: skip
            for i, kind in enumerate(kinds):
                counts[:, i] = _between(kind, low, high)
            values = np.where(finite, values, 0.0)
        limbs = exact.limb_columns(values)
        return cls(counts, {b: _between(parts, low, high) for b, parts in limbs.items()})

    def go_on(self, which: Int64s, states: Sequence[bytes | None]) -> None:
        """Frame i goes on from the state number `which[i]`; None is that of no values."""
        known = [None if s is None else np.frombuffer(s, np.int64) for s in states]
        columns: dict[int, list[int]] = {}
        for i, state in enumerate(known):
            if state is not None:
                for limb, amount in enumerate(state[_COUNTS + 1 :].tolist(), int(state[_COUNTS])):
                    columns.setdefault(limb, [0] * len(known))[i] = amount
        none = np.zeros(_COUNTS, np.int64)
        begun = np.array([none if s is None else s[:_COUNTS] for s in known], np.int64)
        self._counts += begun[which]
        for limb, amounts in columns.items():
            before = np.array(amounts, np.int64)[which]
            self._limbs[limb] = self._limbs[limb] + before if limb in self._limbs else before

    def states(self) -> pa.Array:
        """What may be gone on from."""
        low, high = (min(self._limbs), max(self._limbs) + 1) if self._limbs else (0, 0)
        parts = np.zeros((len(self._counts), _COUNTS + 1 + high - low), np.int64)
        parts[:, :_COUNTS] = self._counts
        parts[:, _COUNTS] = low
        for limb, amounts in self._limbs.items():
            parts[:, _COUNTS + 1 + limb - low] = amounts
        width = parts.shape[1] * parts.itemsize
        ends = np.arange(len(parts) + 1) * width
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(parts)]
        return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)

    def value(self, function: Function) -> tuple[Array, Mask]:
        """The sums, or means, and where there are none, as nothing but NULLs is summed up."""
        columns = [(0, limb, amounts) for limb, amounts in self._limbs.items()]
        aggregate = Aggregate(function, 0, pa.float64())
        return AtOnce(LimbColumns(columns), _KEPT)(aggregate, self._counts)


def framed(
    function: Function,
    values: npt.NDArray[np.float64],
    nulls: Mask | None,
    low: Int64s,
    high: Int64s,
) -> tuple[Array, Mask]:
    """The sums, or means, of frames of neighbours, in their order, some frames at a time."""
    widest = int((high - low).max(initial=0))
    many = max(_AT_ONCE, widest)
    found = []
    for begin in range(0, len(low), many):
        some = slice(begin, begin + many)
        first, last = int(low[some].min()), int(high[some].max())
        these = None if nulls is None else nulls[first:last]
        sums = FrameSums.of(values[first:last], these, low[some] - first, high[some] - first)
        found.append(sums.value(function))
    if not found:
        return np.empty(0), np.empty(0, bool)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


def _between(parts: Array, low: Int64s, high: Int64s) -> Int64s:
    before = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(parts, out=before[1:])
    return before[high] - before[low]
