"""The limbs of groups' sums of doubles, as columns with one item per group.

Arrangements keep only limbs that are not 0, each in a row. To round the sums of many groups they
are laid out side by side again, some groups at a time: the limbs that are there then are mostly few
(see `rounding`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidewheel.engine.operators import exact
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Waiting
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, Int64s, Schema


class Number(NamedTuple):
    """One sum of some groups: limbs from the lowest to the highest one in use, and the lowest."""

    limbs: Sequence[Int64s]
    low: int

    def exactly(self, at: int, low: int) -> int:
        """The sum of one group as an integer whose bits begin in the limb `low`, or above."""
        parts = enumerate(self.limbs, self.low - low)
        return sum(int(limb[at]) << (exact.DOUBLE_LIMB * i) for i, limb in parts)


class Limbs:
    """What is the sum of a term, for some groups?"""

    @abstractmethod
    def number(self, term: int, begin: int, end: int) -> Number | None:
        """The sums of the groups from `begin` to `end`; None where all of them are 0."""


class LimbColumns(Limbs):
    """Limbs that are columns already, those of terms by number; amounts may be any integers."""

    def __init__(self, columns: Sequence[tuple[int, int, Int64s]]) -> None:
        self._columns = columns

    def number(self, term: int, begin: int, end: int) -> Number | None:
        """The columns of a term: where several are of one limb, their sum."""
        found: dict[int, Int64s] = {}
        for of, limb, amounts in self._columns:
            if of == term:
                part = amounts[begin:end]
                found[limb] = found[limb] + part if limb in found else part
        if not found:
            return None
        low, none = min(found), np.zeros(end - begin, np.int64)
        return Number([found.get(limb, none) for limb in range(low, max(found) + 1)], low)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(amounts.nbytes for _, _, amounts in self._columns)

    def rows(self, schema: Schema, keys: Sequence[Col]) -> Delta:
        """A row of `schema` for each limb that is not 0: the group's keys, the term, the limb."""
        if not self._columns:
            return Delta.empty(schema)
        # mostly all groups have all limbs: then nothing is looked up
        index = [None if x.all() else x.nonzero()[0] for _, _, x in self._columns]
        amounts = [
            x if i is None else x[i] for (_, _, x), i in zip(self._columns, index, strict=True)
        ]
        cols: list[Col] = [
            columns_.concat([key if i is None else columns_.take(key, i) for i in index], kind)
            for key, kind in zip(keys, schema.kinds[: len(keys)], strict=True)
        ]
        for part in (0, 1):
            numbers = np.array([c[part] for c in self._columns], np.int16)
            cols.append(np.repeat(numbers, [len(x) for x in amounts]))
        return Delta(schema, cols, np.concatenate(amounts))


class LaterRows(Waiting):
    """The rows of limbs for an arrangement of `schema`: made when somebody asks for some."""

    turn = 0  # no other one changes them
    refused = False

    def __init__(self, limbs: LimbColumns, schema: Schema, keys: Sequence[Col]) -> None:
        self._limbs = limbs
        self._schema = schema
        self._keys = keys

    def read(self) -> Delta:
        return self._limbs.rows(self._schema, self._keys)

    def worth(self, keys: int) -> bool:
        return False

    def find(self, keys: Delta) -> Delta | None:
        return None

    @property
    def nbytes(self) -> int:
        return self._limbs.nbytes


class LimbRows(Limbs):
    """Limbs that are rows: which `group` each belongs to, term, limb, amount."""

    def __init__(self, group: Int64s, term: Int64s, limb: Int64s, amount: Int64s) -> None:
        if (group[1:] < group[:-1]).any():  # keys of one hash
            order = group.argsort(kind="stable")
            group, term, limb, amount = group[order], term[order], limb[order], amount[order]
        self._group, self._term, self._limb, self._amount = group, term, limb, amount

    def number(self, term: int, begin: int, end: int) -> Number | None:
        """The rows of a term, scattered."""
        first, last = self._group.searchsorted([begin, end])
        mine = (self._term[first:last] == term).nonzero()[0] + first
        if not len(mine):
            return None
        limb = self._limb[mine].astype(np.int64)
        low, width = int(limb.min()), end - begin
        out = np.zeros((int(limb.max()) + 1 - low, width), np.int64)
        # A limb is there twice where groups are equal and do not look the same.
        place = (limb - low) * width + (self._group[mine] - begin)
        np.add.at(out.reshape(-1), place, self._amount[mine])
        return Number(list(out), low)
