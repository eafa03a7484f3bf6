"""Groups that share a 64-bit key, where an operator reads rows by their key alone.

Most operators compare the values of all rows that a key finds. One that reads the first rows of a
key in an order cannot, as those may be another group's; nor can a recursion that knows its rows by
number. Of a million keys two share a hash in one of forty million databases, so nothing is spent
on keeping them apart: who meets two says so, and the view is computed anew from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col, ColumnType, Index
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec
from tidewheel.engine.state.order import argsort, begins
from tidewheel.engine.state.rowwise import FEW, Row, all_rows


class HashCollision(Unkept):
    """Two groups, or rows of a recursion, have one 64-bit key, and can't be kept apart."""

    def __init__(self) -> None:
        super().__init__("two of its keys have the same hash")


class Groups:
    """The groups of some keys, which are ascending."""

    def __init__(self, keys: Int64s, cols: Sequence[Col]) -> None:
        """`cols`: the columns of the group, with a row for each of the keys."""
        self._keys = keys
        self._cols = cols

    def check(self, spec: KeySpec, keys: Int64s, cols: Sequence[Col]) -> None:
        """HashCollision where one of some rows has the key of a group, and is not in it."""
        if spec.exact(cols):
            return
        at = self._keys.searchsorted(keys)
        at[at == len(self._keys)] = 0
        there = (self._keys[at] == keys).nonzero()[0]
        alike(spec.kinds, (self._cols, at[there]), (group_of(spec, cols), there))


def check(*parts: tuple[KeySpec, Delta]) -> None:
    """HashCollision where rows of one key are of several groups."""
    if all(spec.exact(delta.cols) for spec, delta in parts):
        return
    keys = [spec.keys(delta.cols, len(delta)) for spec, delta in parts]
    kinds = parts[0][0].kinds
    if sum(map(len, keys)) <= FEW and all(kind.comparable for kind in kinds):
        known: dict[int, Row] = {}
        for (spec, delta), part in zip(parts, keys, strict=True):
            groups = all_rows(kinds, group_of(spec, delta.cols))
            for key, group in zip(part.tolist(), groups, strict=True):
                if known.setdefault(key, group) != group:
                    raise HashCollision
        return
    together = np.concatenate(keys)
    order = argsort(together)
    again = (~begins(together[order])).nonzero()[0]
    one, other = order[again - 1], order[again]
    sides = [group_of(spec, delta.cols) for spec, delta in parts]
    cols = [columns_.concat([side[i] for side in sides], kind) for i, kind in enumerate(kinds)]
    alike(kinds, (cols, one), (cols, other))


def alike(
    kinds: Sequence[ColumnType],
    some: tuple[Sequence[Col], Index],
    others: tuple[Sequence[Col], Index],
    exactly: bool = False,
) -> None:
    """HashCollision where rows of some columns, by position, are not those of the others."""
    for one, other, kind in zip(some[0], others[0], kinds, strict=True):
        mine, theirs = columns_.take(one, some[1]), columns_.take(other, others[1])
        if not kind.equal(mine, theirs, exactly).all():
            raise HashCollision


def group_of(spec: KeySpec, cols: Sequence[Col]) -> Sequence[Col]:
    """The columns of the group."""
    return [cols[i] for i in spec.indices]
