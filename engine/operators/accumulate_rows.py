"""`Accumulate` for a few groups at a time: running sums of integers, in Python.

Few rows change few groups, and without GROUP BY there is but one; for these a dictionary is
quicker than any array. What is known of groups here is current; it reaches the arrangement of sums
some rows later (`settle`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.rowwise import Row, RowColumns

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

    def step(self, rows: Sequence[Row], weights: Sequence[int]) -> Delta:
        """New output − old output of the groups of rows that come, or go, `weights` times."""
        changes: dict[Row, list[int]] = {}
        for row, weight in zip(rows, weights, strict=True):
            key = tuple([row[i] for i in self._key])
            part = self._contribution(row, weight)
            there = changes.get(key)
            changes[key] = part if there is None else _sum(there, part)
        return self.add(changes)

    def added_up(self, rows: Sequence[Row], weights: Iterable[int]) -> list[int]:
        """What some rows add to the sums of one group; at least one row."""
        parts = [self._contribution(r, w) for r, w in zip(rows, weights, strict=True)]
        return [sum(part) for part in zip(*parts, strict=True)]

    def add(self, changes: Mapping[Row, list[int]]) -> Delta:
        """New output − old output of groups whose sums change."""
        if len(self._known) + len(changes) > KNOWN:
            self.forget()
        known, waiting = self._known, self._waiting
        if self._key and (unknown := [key for key in changes if key not in known]):
            known.update(self._before(unknown))
        out: list[Row] = []
        signs: list[int] = []
        for key, change in changes.items():
            before, late = known.get(key), waiting.get(key)
            now = known[key] = change if before is None else _sum(before, change)
            waiting[key] = change if late is None else _sum(late, change)
            new, old = self._row(key, now), self._row(key, before) if before else None
            if new == old:
                continue
            if new is not None:
                out.append(new)
                signs.append(1)
            if old is not None:
                out.append(old)
                signs.append(-1)
        if len(waiting) >= WAITING:
            self.settle()
        return Delta.of_rows(self._schema, out, np.array(signs, np.int64), True)

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

    def _before(self, keys: Sequence[Row]) -> dict[Row, list[int]]:
        """The sums of those of some groups that there are."""
        cols = RowColumns(self._sums.schema.kinds, keys)
        spec = self._sums.key
        found = self._sums.match(cols, spec, spec.keys(cols, len(keys)))
        sums: dict[Row, list[int]] = {}
        if found is not None:
            for at, part in zip(found[0].tolist(), found[1].weights.tolist(), strict=True):
                there = sums.get(keys[at])
                sums[keys[at]] = part if there is None else _sum(there, part)
        return sums

    def _row(self, key: Row, sums: Sequence[int]) -> Row | None:
        there = sums[0] > 0 or not key  # the one group of no columns always is
        return (*key, *[f(sums) for f in self._finish]) if there else None


def _sum(left: list[int], right: list[int]) -> list[int]:
    return [a + b for a, b in zip(left, right, strict=True)]


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
