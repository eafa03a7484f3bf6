"""Aggregates of the same groups, computed apart, side by side: one row for each group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, Protocol

import numpy as np

from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate, unique
from tidewheel.engine.state.rowwise import FEW, Row, RowColumns, all_rows
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_rows

_KNOWN: Final = 4096


class Part(Protocol):
    """An operator that gives one row for each group: its columns, then what it computes."""

    schema: Schema

    def given(self, keys: Int64s) -> Delta:
        """Its output by now for groups of these 64-bit keys (each once), in the order of keys."""


class Collate(Operator):
    """The rows of `parts`, which have the same groups at all times, side by side. Law: keyed.

    What a part has for a group that changes in others is asked of the part, so nothing is kept
    here. The first columns of each part, `groups` of them, are the group. Outside loops only.
    """

    def __init__(self, parts: Sequence[Part], groups: int, name: str = "collate") -> None:
        self._parts = tuple(parts)
        self._groups = groups
        self._layouts = [Layout(p.schema, range(groups)) for p in parts]
        first, *others = (p.schema for p in parts)
        self.schema = Schema(
            (*first.names, *(n for s in others for n in s.names[groups:])),
            (*first.types, *(t for s in others for t in s.types[groups:])),
        )
        self.arity = len(self._parts)
        self.name = name
        self._begun = False
        kinds = self.schema.kinds
        self._by_row = all(k.comparable for k in kinds[:groups]) and all(k.plain for k in kinds)
        self._known: dict[Row, Sequence[Row]] = {}  # of groups: what each part has

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New rows − old ones, of all touched groups."""
        given = [d for d in deltas if d is not None and len(d)]
        first, self._begun = not self._begun, True
        if not given:
            return []
        if first and len(given) == self.arity:  # all groups that there are
            return emit(counters, self._beside(given))
        if self._by_row and sum(map(len, given)) <= FEW:
            return emit(counters, self._of_rows(deltas))
        self._known.clear()
        keys = [self._keys(i, d) for i, d in enumerate(deltas) if d is not None and len(d)]
        touched = unique(np.concatenate(keys))
        now = [part.given(touched) for part in self._parts]
        before = [self._before(*of) for of in zip(self._layouts, now, deltas, strict=True)]
        change = concat([self._beside(now), self._beside(before).negate()])
        return emit(counters, consolidate(change))

    def abort_epoch(self) -> None:
        """Forget what groups had."""
        self._known.clear()

    def _keys(self, part: int, delta: Delta) -> Int64s:
        return self._layouts[part].key.keys(delta.cols, len(delta))

    @staticmethod
    def _before(layout: Layout, now: Delta, delta: Delta | None) -> Delta:
        if delta is None or not len(delta):
            return now
        return sort_rows(layout.rows(concat([now, delta.negate()]))).delta()

    def _beside(self, parts: Sequence[Delta]) -> Delta:
        """Rows of all parts, once each, for the same groups."""
        first, *others = parts
        cols: list[Col] = list(first.cols)
        for part, (other, layout) in enumerate(zip(others, self._layouts[1:], strict=True), 1):
            found: Sequence[Col] = other.cols
            if not self._in_step(first, other):
                index = Arrangement(layout.schema, range(self._groups))
                index.insert(other)
                matched = index.match(first.cols, layout.key, self._keys(part, first))
                at, rows = (np.empty(0, np.int64), None) if matched is None else matched
                if rows is None or not np.array_equal(np.sort(at), np.arange(len(first))):
                    raise AssertionError(f"{self.name}: parts have different groups")
                found = rows.take(at.argsort()).cols
            cols.extend(found[i] for i in range(self._groups, len(layout.schema)))
        return Delta(self.schema, cols, np.ones(len(first), np.int64), True)

    def _in_step(self, one: Delta, other: Delta) -> bool:
        """Are the same groups at the same places?"""
        kinds = one.schema.kinds[: self._groups]
        return len(one) == len(other) and all(
            kind.equal(a, b).all() for kind, a, b in zip(kinds, one.cols, other.cols, strict=False)
        )

    # -- a few rows: what parts have for a group is found in a dictionary -----------------------

    def _of_rows(self, deltas: Sequence[Delta | None]) -> Delta:
        new: dict[Row, dict[int, Row]] = {}
        old: dict[Row, dict[int, Row]] = {}
        width, parts = self._groups, range(self.arity)
        for part, delta in enumerate(deltas):
            if delta is not None:
                rows = all_rows(delta.schema.kinds, delta.cols)
                for row, weight in zip(rows, delta.weights.tolist(), strict=True):
                    at, group = (new if weight > 0 else old), row[:width]
                    at.setdefault(group, {})[part] = row[width:]
        found: list[Row] = []
        weights: list[int] = []
        for group in dict.fromkeys([*old, *new]):
            came, went = new.get(group, {}), old.get(group, {})
            before = self._known.pop(group, ())
            if not before and came.keys() <= went.keys():  # else nobody had it
                before = [went[p] if p in went else self._row(p, group) for p in parts]
            now = came if came.keys() >= went.keys() else {}  # else nobody has it any more
            if before:
                found.append((*group, *chain.from_iterable(before)))
                weights.append(-1)
            if now:
                whole = [now[p] if p in now else before[p] for p in parts]
                found.append((*group, *chain.from_iterable(whole)))
                weights.append(1)
                self._known[group] = whole
        while len(self._known) > _KNOWN:
            self._known.pop(next(iter(self._known)))
        return Delta.of_rows(self.schema, found, np.array(weights, np.int64), True)

    def _row(self, part: int, group: Row) -> Row:
        """What a part has for a group."""
        spec, width = self._layouts[part].key, self._groups
        delta = self._parts[part].given(spec.keys(RowColumns(spec.kinds, [group]), 1))
        rows = all_rows(delta.schema.kinds, delta.cols)
        return next(row[width:] for row in rows if row[:width] == group)
