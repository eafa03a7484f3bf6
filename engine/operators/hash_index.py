"""Numbers for 64-bit keys: open addressing, a whole batch of keys at a time.

Each round looks at one place for all keys that are not settled yet; those that find another key
there look at the next place in the round after. At most half of the places are taken, so that few
keys take more than two rounds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tidewheel.engine.state.columns import Index
from tidewheel.engine.state.delta import Int64s

_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_LEAST: Final = 6  # bits of the smallest table's places


class HashIndex:
    """Keys ↔ 0, 1, 2 … in the order in which they came."""

    def __init__(self) -> None:
        self.size = 0
        self._keys = np.zeros(1 << _LEAST, np.int64)
        self._make(_LEAST)

    def _make(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._last = (1 << bits) - 1
        kind: Any = np.int32 if bits <= 31 else np.int64
        self._table = np.full(1 << bits, -1, kind)

    def _home(self, keys: Int64s) -> Int64s:
        return ((keys.view(np.uint64) * _SPREAD) >> self._shift).view(np.int64)

    def find(self, keys: Int64s) -> Int64s:
        """The numbers of keys, -1 for one that has none."""
        return self._look(keys)[0]

    def _look(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """The numbers of keys, and their places, or those where they would be put."""
        places = self._home(keys)
        numbers = self._table[places].astype(np.int64)
        if len(numbers) and numbers.max() < 0:
            return numbers, places
        other = self._keys[numbers] != keys
        other &= numbers >= 0
        todo = other.nonzero()[0]
        at, wanted = places[todo], keys[todo]
        while len(todo):
            at = (at + 1) & self._last
            held = self._table[at]
            other = (self._keys[held] != wanted) & (held >= 0)
            here = ~other
            numbers[todo[here]], places[todo[here]] = held[here], at[here]
            todo, at, wanted = todo[other], at[other], wanted[other]
        return numbers, places

    def add(self, keys: Int64s) -> tuple[Int64s, Index]:
        """The numbers of keys, and the places among them of those that are new, each once."""
        numbers, places = self._look(keys)
        missing = (numbers < 0).nonzero()[0]
        if not len(missing):
            return numbers, missing
        wanted, places = keys[missing], places[missing]
        before, end = self.size, self.size + len(missing)
        if self._reserve(end):
            places = self._home(wanted)
        self._keys[before:end] = wanted
        given = self._settle(places, before)
        # Of equal keys one was settled; the numbers are made dense.
        first = (given == np.arange(before, end)).nonzero()[0]
        if len(first) < len(given):
            dense = np.empty(len(given), np.int64)
            dense[first] = np.arange(before, before + len(first))
            self._table[places[first]] = dense[first]
            self._keys[before : before + len(first)] = wanted[first]
            given = dense[given - before]
        self.size = before + len(first)
        numbers[missing] = given
        return numbers, missing[first]

    def _settle(self, places: Int64s, number: int) -> Int64s:
        """Settle the keys from `number` on, which look at `places` first; moves those.

        Returns their numbers: of equal keys that of the one that was settled.
        """
        given = np.arange(number, number + len(places))
        todo, at, mine = np.arange(len(places)), places, given
        while True:
            held = self._table[at]
            free = held < 0
            self._table[at[free]] = mine[free]
            held = self._table[at]
            lost = (held != mine).nonzero()[0]
            if not len(lost):
                return given
            todo, at, mine, held = todo[lost], at[lost], mine[lost], held[lost]
            equal = self._keys[held] == self._keys[mine]
            if equal.any():
                given[todo[equal]] = held[equal]
                other = ~equal
                todo, at, mine = todo[other], at[other], mine[other]
            at = (at + 1) & self._last
            places[todo] = at

    def _reserve(self, size: int) -> bool:
        """Make room for so many keys; True if all places are others now."""
        if size > len(self._keys):
            larger = np.empty(max(size, 2 * len(self._keys)), np.int64)
            larger[: self.size] = self._keys[: self.size]
            self._keys = larger
        if 2 * size <= len(self._table):
            return False
        self._make((4 * size - 1).bit_length())
        self._settle(self._home(self._keys[: self.size]), 0)
        return True

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._keys.nbytes + self._table.nbytes
