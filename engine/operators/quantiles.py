"""Quantiles: the n-th values of each group in their order, without reading the group.

Values are arranged by group, in their order, so a change finds them by bisection
(`engine.state.selection`). What is counted up to a place grows and shrinks with the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.arrow import array_of
from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.collisions import check
from tidewheel.engine.operators.interpolation import Between, Doubles
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Emission, emit
from tidewheel.engine.operators.rank import Order, Ranking, place_of
from tidewheel.engine.operators.regroup import FEW, LARGE
from tidewheel.engine.operators.shared import ROW
from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import (
    Col,
    ColumnType,
    FixedType,
    FloatType,
    Index,
    Mask,
    is_null,
)
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate
from tidewheel.engine.state.selection import Selection
from tidewheel.engine.state.sorting import sort_rows

_WORTH: Final = 512  # so many rows are read as fast as a place is found among them
_READ: Final = 4  # of ROW: what it takes to read a row and put it in order
_LAST: Final = int(np.iinfo(np.int64).max)
Find = Callable[[Index], npt.NDArray[Any]]
"""Positions (groups, k) in the order of each group's values → these values."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """Where in the order of n values: at a fraction, as the statement has it.

    `continuous`, there may be a value between two others. `descending`: of the order's end.
    """

    fraction: str
    continuous: bool
    descending: bool = False

    def at(self, counts: Int64s) -> tuple[Index, Index, Doubles]:
        """Of so many values (more than none): positions of the neighbours, and how far between."""
        if self.continuous:
            place = (counts - 1) * float(self.fraction)
            low, high = np.floor(place), np.ceil(place)
            far = place - low
        else:
            low = high = np.maximum(1, counts - self._behind(counts)) - 1
            far = np.zeros(len(counts))
        first, second = low.astype(np.int64), high.astype(np.int64)
        if self.descending:
            first, second = counts - 1 - first, counts - 1 - second
        return first, second, far

    def _behind(self, counts: Int64s) -> Int64s:
        """How many values lie behind."""
        if "e" in self.fraction.lower():
            rest = counts - counts * float(self.fraction)
            return np.asarray(np.floor(rest).astype(np.int64))
        scale = 10 ** max(0, -int(Decimal(self.fraction).as_tuple().exponent))
        whole = int(Decimal(self.fraction) * scale)
        # (DuckDB counts in integers for a DECIMAL; these may be long)
        return np.array([(n * scale - n * whole) // scale for n in counts.tolist()], np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the output: a quantile, or the list of several.

    `between` interpolates where it is continuous.
    """

    quantiles: tuple[Quantile, ...]
    listed: bool
    between: Between | None


class Quantiles(Keyed):
    """Per group, quantiles of the last input column; its other columns are the group. Law: keyed.

    NULLs do not count. A group without values has NULL; so has an input without rows, if there are
    no groups. Outside loops only.

    Of few and large groups it begins with what tables say, if they can be asked (`look`): until
    that took about as long as to read all values.
    """

    tables: Ask | None = None

    def __init__(
        self,
        input_schema: Schema,
        columns: Sequence[Column],
        schema: Schema,
    ) -> None:
        self._value = len(input_schema) - 1
        self._ranking = Ranking(input_schema, Order(self._value))
        key = range(self._value)
        super().__init__(input_schema, key, schema, key, 0, "quantiles")
        self._columns = columns
        self._patience = 0.0

    def _arrange(self, schema: Schema, key: Sequence[int], depth: int) -> Arrangement:
        return Arrangement(schema, key, depth, self._ranking, name=f"{self.name} input")

    def look(self, rows: float) -> None:
        """Ask `tables` for what changes, if there are few groups of so many rows in all."""
        if self.tables is not None and len(self.output) <= FEW and rows > LARGE:
            self._patience = rows * _READ * ROW
            self.looks = True

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched groups."""
        delta = deltas[0]
        if self.looks and self.tables is not None:
            if delta is None:
                return []
            started = perf_counter()
            change = self._from_tables(counters, delta, self.tables)
            self._patience -= perf_counter() - started
            self.looks = self._patience > 0
            return change
        keys = self._touched(counters, delta)
        if not len(keys):
            return []
        before = self._rows(self.output, keys, counters)
        known = [before] if delta is None else [before, delta]
        if delta is not None:
            check((self.output.key, before), (self.input.key, delta))
        now = self._now(keys, known)
        self._asked = None
        new = consolidate(concat([now, before.negate()]))
        self.output.insert(new, counters)
        return emit(counters, new)

    def _now(self, keys: Int64s, known: Sequence[Delta]) -> Delta:
        """The output of groups by now; `known` has the columns of them all."""
        there, counts, find = self._ordered(keys)
        groups = self._groups(keys[there], known)
        n = int(np.count_nonzero(there))
        if not self.input.key.indices:
            n, counts = 1, counts if n else np.zeros(1, np.int64)
        filled = (counts > 0).nonzero()[0]
        places = [[q.at(counts[filled]) for q in column.quantiles] for column in self._columns]
        each = [at for column in places for low, high, _ in column for at in (low, high)]
        values = iter(find(np.array(each, np.int64).T).T) if len(filled) else iter(())
        cols = list(groups)
        for i, (column, found) in enumerate(zip(self._columns, places, strict=True)):
            kind = self.schema.kinds[self._value + i]
            parts = []
            for _, _, far in found if len(filled) else ():
                low, high = next(values), next(values)
                parts.append(low if column.between is None else column.between(low, high, far))
            cols.append(_column(kind, parts, filled, n, column.listed))
        return Delta(self.schema, cols, np.ones(n, np.int64))

    def _groups(self, keys: Int64s, known: Sequence[Delta]) -> list[Col]:
        """The columns of groups."""
        spec = self.input.key
        if not spec.indices:
            return []
        where = np.concatenate([spec.keys(delta.cols, len(delta)) for delta in known])
        distinct, first = np.unique(where, return_index=True)
        at = first[distinct.searchsorted(keys)]
        kinds = self._group.kinds
        sides = [[delta.cols[i] for delta in known] for i in spec.indices]
        together = [columns_.concat(s, kind) for s, kind in zip(sides, kinds, strict=True)]
        return [columns_.take(col, at) for col in together]

    def _ordered(self, keys: Int64s) -> tuple[Mask, Int64s, Find]:
        """Which groups there are; how many values each of them has; how to find these."""
        spine = self._stored
        many = sum(int(rows.find(keys, ordered)[1].sum()) for rows, _, ordered in spine.parts())
        return (self._read if many <= len(keys) * _WORTH else self._selected)(keys)

    def _selected(self, keys: Int64s) -> tuple[Mask, Int64s, Find]:
        spine, kind = self._stored, self.input.schema.kinds[self._value]
        groups = [Selection(spine, key) for key in keys.tolist()]
        weights = np.array([group.weight for group in groups], np.int64)
        there = weights > 0
        groups = [group for group, some in zip(groups, there.tolist(), strict=True) if some]
        nulls = [self._weight(group, _LAST, is_null) for group in groups]

        def positive(zeros: Col) -> Mask:
            assert isinstance(kind, FixedType)
            return ~np.signbit(kind.split(zeros)[0])

        def find(positions: Index) -> npt.NDArray[Any]:
            found = np.empty(positions.shape, np.int64)
            filled = [group for group, n in zip(groups, counts.tolist(), strict=True) if n]
            for i, (group, row) in enumerate(zip(filled, positions, strict=True)):
                places = group.places(sorted({*row.tolist()}))
                found[i] = [places[at] for at in row.tolist()]
            if not isinstance(kind, FixedType):
                return _known(found)
            if not isinstance(kind, FloatType):
                return found.astype(kind.dtype)
            values = kind.of_ordered(found)
            for i in (found == 0).any(axis=1).nonzero()[0].tolist():
                if not self._weight(filled[i], 0, positive):
                    values[i, found[i] == 0] = -0.0
            return values

        counts = weights[there] - np.array(nulls, np.int64)
        return there, counts, find

    def _weight(self, group: Selection, place: int, which: Callable[[Col], Mask | None]) -> int:
        """Of the rows at a place, what some weigh."""
        total = 0
        for rows in group.at(place):
            mask = which(rows.cols[self._value])
            total += 0 if mask is None else int(rows.weights[mask].sum())
        return total

    def _read(self, keys: Int64s) -> tuple[Mask, Int64s, Find]:
        found = self._stored.lookup(keys)
        there, counts = np.zeros(len(keys), bool), np.zeros(0, np.int64)
        if found is None:
            return there, counts, lambda at: at
        rows = sort_rows(found[1])
        at = keys.searchsorted(rows.keys)
        there[at] = True
        nulls = is_null(rows.cols[self._value])
        if nulls is not None:
            rows, at = rows.where(~nulls), at[~nulls]
        sums, kind = rows.weights.cumsum(), self.input.schema.kinds[self._value]
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, at, rows.weights)
        counts = counts[there]
        before = (counts.cumsum() - counts)[counts > 0]

        def find(positions: Index) -> npt.NDArray[Any]:
            index = sums.searchsorted(positions + before[:, None], "right")
            col = columns_.take(rows.cols[self._value], index.ravel())
            if isinstance(kind, FixedType):
                values, _ = kind.split(col)
            else:
                values = _known(place_of(kind, col, len(col)))
            return values.reshape(index.shape)

        return there, counts, find


def _known(places: Int64s) -> Int64s:
    """Integers of 128 bits, of which the places are the values where 64 bits hold them."""
    if len(places) and (places.max() == _LAST or places.min() == ~_LAST):
        raise Unkept("a quantile is a value of more than 64 bits")
    return places


def _column(
    kind: ColumnType, parts: Sequence[npt.NDArray[Any]], filled: Index, n: int, listed: bool
) -> Col:
    """A column of `n` rows: values, or lists of them, where it is filled, and else NULLs."""
    nulls = np.ones(n, bool)
    nulls[filled] = False
    if listed:
        of = columns_.column_type(kind.arrow.value_type)
        flat = np.array(parts).T.ravel() if len(filled) else np.zeros(0, np.int64)
        ends = np.zeros(n + 1, np.int32)
        np.cumsum(~nulls * (len(flat) // max(1, len(filled))), out=ends[1:])
        mask = array_of(nulls) if nulls.any() else None
        values = of.dump(flat) if isinstance(of, FixedType) else of.of_int64s(flat)
        return kind.load(
            pa.ListArray.from_arrays(array_of(ends), values, type=kind.arrow, mask=mask)
        )
    if not len(filled):
        return kind.nulls(n)
    whole = np.zeros(n, np.int64 if kind.dtype is None else kind.dtype)
    whole[filled] = parts[0]
    return kind.join(whole, nulls) if isinstance(kind, FixedType) else kind.of_int64s(whole, nulls)
