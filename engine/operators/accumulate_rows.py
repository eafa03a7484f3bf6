"""`Accumulate` for one group at a time: running sums of integers, in Python.

One row changes one group, and without GROUP BY there is but one; for one group a dictionary is
quicker than any array. What is known of groups here is current; it reaches the arrangement of sums
some rows later (`settle`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.rowwise import NEW_OLD, PLUS, Row, RowColumns

if TYPE_CHECKING:
    from tidewheel.engine.operators.running_sums import Aggregate, Sum
    from tidewheel.engine.state.arrangement import Arrangement

WAITING: Final = 64
KNOWN: Final = 4096
_LOW: Final = (1 << exact.LIMB) - 1


class GroupsByRow:
    """The groups that single rows changed lately. `sums` is the arrangement of all."""

    def __init__(
        self,
        key: Sequence[int],
        sums: Arrangement,
        arguments: Sequence[Sum],
        finish: Sequence[Callable[[Sequence[int]], Any]],
        schema: Schema,
    ) -> None:
        self._key = tuple(key)
        self._sums = sums
        self._arguments = tuple(arguments)
        self._finish = tuple(finish)
        self._schema = schema
        self._known: dict[Row, list[int]] = {}
        self._waiting: dict[Row, list[int]] = {}

    def step(self, row: Row, weight: int) -> Delta:
        """New output − old output of the group of a row that comes (or goes) `weight` times."""
        return self.add(tuple([row[i] for i in self._key]), self._contribution(row, weight))

    def added_up(self, rows: Sequence[Row], weights: Iterable[int]) -> list[int]:
        """What some rows add to the sums of one group; at least one row."""
        parts = [self._contribution(r, w) for r, w in zip(rows, weights, strict=True)]
        return [sum(part) for part in zip(*parts, strict=True)]

    def add(self, key: Row, change: list[int]) -> Delta:
        """New output − old output of a group whose sums change."""
        before = self._known.get(key)
        if before is None and key:
            if len(self._known) >= KNOWN:
                self.settle()
                self._known.clear()
            before = self._before(key)
        now = [a + b for a, b in zip(before, change, strict=True)] if before else change
        self._known[key] = now
        waiting = self._waiting.get(key)
        if waiting is not None:
            change = [a + b for a, b in zip(waiting, change, strict=True)]
        self._waiting[key] = change
        if len(self._waiting) >= WAITING:
            self.settle()
        new, old = self._row(key, now), self._row(key, before) if before else None
        if new == old:
            return Delta.empty(self._schema)
        if old is None and new is not None:
            return Delta.of_rows(self._schema, [new], PLUS, True)
        if new is None and old is not None:
            return Delta.of_rows(self._schema, [old], -PLUS, True)
        return Delta.of_rows(self._schema, [new, old], NEW_OLD, True)  # type: ignore[list-item]

    def settle(self) -> None:
        """Add what waits to the arrangement."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            weights = np.array(list(waiting.values()), np.int64)
            self._sums.insert(Delta.of_rows(self._sums.schema, list(waiting), weights))

    def forget(self) -> None:
        """The arrangement is about to be changed by others: know nothing any more."""
        if self._known:
            self.settle()
            self._known.clear()

    def _contribution(self, row: Row, weight: int) -> list[int]:
        out = [weight]
        for s in self._arguments:
            value = row[s.argument]
            if value is None:
                out.extend([0] * s.width)
                continue
            out.append(weight)
            if len(s.parts) == 1:
                out.append(value * weight)
            elif s.parts:
                out.append((value & _LOW) * weight)
                out.append((value >> exact.LIMB) * weight)
        return out

    def _before(self, key: Row) -> list[int] | None:
        cols = RowColumns(self._sums.schema.kinds, [key])
        spec = self._sums.key
        found = self._sums.match(cols, spec, spec.keys(cols, 1))
        return None if found is None else found[1].weights.sum(axis=0).tolist()

    def _row(self, key: Row, sums: Sequence[int]) -> Row | None:
        there = sums[0] > 0 or not key  # the one group of no columns always is
        return (*key, *[f(sums) for f in self._finish]) if there else None


def by_row(
    key: Sequence[int],
    sums: Arrangement,
    arguments: Sequence[Sum],
    aggregates: Sequence[Aggregate],
    schema: Schema,
) -> GroupsByRow | None:
    """None where the groups' columns or the aggregates are not plain enough."""
    if not all(kind.comparable for kind in sums.schema.kinds):
        return None
    of = {s.argument: s for s in arguments}
    finish = [_finish(a, None if a.argument is None else of[a.argument]) for a in aggregates]
    known = [f for f in finish if f is not None]
    return GroupsByRow(key, sums, arguments, known, schema) if len(known) == len(finish) else None


def _finish(a: Aggregate, s: Sum | None) -> Callable[[Sequence[int]], Any] | None:
    """The aggregate of a group's sums; None for those that columns are needed for."""
    if s is None or a.function == "count":
        return operator.itemgetter(0 if s is None else s.count_part)
    decimal = pa.types.is_decimal128(s.kind) and s.kind.precision <= 18
    if not (decimal or pa.types.is_integer(s.kind)) or a.function not in ("sum", "avg"):
        return None
    at, first, wide = s.count_part, s.parts[0], len(s.parts) == 2
    unit = 10**s.kind.scale if decimal else 1

    def total(sums: Sequence[int]) -> int | None:
        if not sums[at]:
            return None
        return sums[first] + (sums[first + 1] << exact.LIMB) if wide else sums[first]

    def mean(sums: Sequence[int]) -> float | None:
        whole = total(sums)
        return None if whole is None else whole / (sums[at] * unit)

    if a.function == "avg":
        return mean
    return None if pa.types.is_floating(a.type) else total
