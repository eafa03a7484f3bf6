"""Which slots have certain values in some columns of their keys: sorted runs that only grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidewheel.engine.operators.slots import Slots
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Int64s, KeySpec
from tidewheel.engine.state.memory import ensure
from tidewheel.engine.state.order import argsort
from tidewheel.engine.state.run import search

_RATIO: Final = 4  # runs are merged unless one is this much larger than the next
_NARROW: Final = np.iinfo(np.int32).max
Run = tuple[Int64s, npt.NDArray[np.signedinteger[Any]]]
"""Keys in ascending order, and the slot of each."""


class Members:
    """Slots by the columns `join` of their keys.

    A slot's key never changes, so a slot is added once, when it is given out, and stays; who asks
    looks up whether there is a row.
    """

    def __init__(self, slots: Slots, join: Sequence[int]) -> None:
        self._slots = slots
        self._join = tuple(join)
        self._spec = KeySpec(slots.schema, self._join)
        self._size = 0
        self._runs: list[Run] = []

    def extend(self) -> None:
        """Take in the slots that were given out since."""
        begin, end = self._size, self._slots.size
        if begin == end:
            return
        self._size = end
        kind: Any = np.int32 if end <= _NARROW else np.int64
        slots = np.arange(begin, end, dtype=kind)
        self._add((self._spec.keys(self._slots.take(slots), end - begin), slots))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < _RATIO * len(self._runs[-1][0]):
            one, other = self._runs.pop(), self._runs.pop()
            self._add((np.concatenate((other[0], one[0])), np.concatenate((other[1], one[1]))))

    def _add(self, run: Run) -> None:
        keys, slots = run
        bits = self._size.bit_length()
        low = int(keys.min())
        if (int(keys.max()) - low).bit_length() + bits > 62:
            order = argsort(keys)
            self._runs.append((keys[order], slots[order]))
            return
        words = keys - low  # a slot behind its key, in one word: no index, no gathering
        words <<= bits
        words |= slots
        words.sort()
        slots = (words & ((1 << bits) - 1)).astype(slots.dtype, copy=False)
        words >>= bits
        words += low
        self._runs.append((words, slots))

    def find(self, cols: Sequence[Col], spec: KeySpec, n: int) -> tuple[Index, Int64s]:
        """Slots that have the values that `spec` takes from `cols`: (position there, slot)."""
        probes = spec.keys(cols, n)
        places: list[Index] = []
        found: list[Int64s] = []
        for keys, slots in self._runs:
            low, counts = search(keys, probes)
            ends = counts.cumsum()
            total = int(ends[-1]) if n else 0
            if total:
                ensure(total, "derivations of rows")
                places.append(np.arange(n).repeat(counts))
                index = (low - (ends - counts)).repeat(counts) + np.arange(total)
                found.append(slots[index].astype(np.int64, copy=False))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        at, slots_ = np.concatenate(places), np.concatenate(found)
        mine = self._slots.take(slots_)
        if spec.exact(cols) and self._spec.exact(mine):
            return at, slots_
        same = np.ones(len(at), bool)
        for i, j, kind in zip(spec.indices, self._join, spec.kinds, strict=True):
            same &= kind.equal(columns_.take(cols[i], at), mine[j])
        return at[same], slots_[same]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(keys.nbytes + slots.nbytes for keys, slots in self._runs)
