"""Running sums to the aggregates that they are kept for, each rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of
from tidewheel.engine.operators import exact
from tidewheel.engine.operators.doubles import AtOnce, Doubles, Kept, OneByOne
from tidewheel.engine.operators.limbs import LimbColumns, LimbRows
from tidewheel.engine.operators.running_sums import Aggregate, Factors, Sum
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.engine.state.delta import Delta, Int64s, Schema
from tidewheel.engine.state.run import Rows

MANY: Final = 192  # groups from which on NumPy is quicker
_EXACT: Final = 1 << 53


class Finish:
    """The rows of `schema` (`group`, then `aggregates`) for groups with their sums.

    `sums` by argument, `products` by arguments; `width`: parts of a weight. Limbs of doubles are
    rows of their own, see `Totals`.
    """

    def __init__(
        self,
        group: Schema,
        aggregates: Sequence[Aggregate],
        schema: Schema,
        sums: Mapping[int, Sum],
        products: Mapping[Factors, int],
        width: int,
    ) -> None:
        self._group = group
        self._aggregates = aggregates
        self._schema = schema
        self._sums = sums
        self._kept = Kept(sums, products)
        self._width = width
        self._terms = [s.term for s in sums.values() if s.float] + list(products.values())

    def __call__(
        self,
        sums: Rows | None,
        terms: Rows | LimbColumns | None,
        known: Mapping[int, Col] | None = None,
    ) -> Delta:
        """One output row per group with rows; one always where there is no key.

        `sums` has each group once; `known` has sums of arguments (see `Totals`). Limbs may be
        columns of the groups where all of these have rows.
        """
        if sums is not None:
            there = sums.where(sums.weights[:, 0] > 0)
            assert there is sums or not isinstance(terms, LimbColumns)
            sums, known = there, known if len(there) == len(sums) else None
        if sums is None or not len(sums):
            if len(self._group):
                return Delta.empty(self._schema)
            weights = np.zeros((1, self._width), np.int64)
            group: Sequence[Col] = []
            terms = None
        else:
            weights, group = sums.weights, sums.cols
        doubles = self._doubles(sums, terms, len(weights))
        cols = [*group]
        for a in self._aggregates:
            cols.append(self._column(a, weights, doubles, known or {}))
        return Delta(self._schema, cols, np.ones(len(weights), np.int64), True)

    def _doubles(self, sums: Rows | None, terms: Rows | LimbColumns | None, count: int) -> Doubles:
        """What finishes aggregates of doubles."""
        if isinstance(terms, LimbColumns):
            return AtOnce(terms, self._kept)
        if terms is None or not len(terms) or not self._terms:
            if count >= MANY:
                return AtOnce(LimbColumns([]), self._kept)
            return OneByOne({t: [0] * count for t in self._terms}, 1, self._kept)
        if sums is None or not len(self._group):
            group = np.zeros(len(terms), np.int64)
        else:
            group = self._group_of(sums, terms)
        if count < MANY:
            return self._one_by_one(group, terms, count)
        there = (group >= 0).nonzero()[0]
        term, limb = (col[there] for col in terms.cols[-2:])
        return AtOnce(LimbRows(group[there], term, limb, terms.weights[there]), self._kept)

    def _one_by_one(self, group: Int64s, terms: Rows, count: int) -> OneByOne:
        totals = {t: [0] * count for t in self._terms}
        lowest = min(exact.BIAS, int(terms.cols[-1].min()))  # the integers are small then
        rows = zip(
            group.tolist(),
            terms.cols[-2].tolist(),
            terms.cols[-1].tolist(),
            terms.weights.tolist(),
            strict=True,
        )
        for g, term, limb, amount in rows:
            if g >= 0:
                totals[term][g] += amount << (exact.DOUBLE_LIMB * (limb - lowest))
        one = 1 << (exact.DOUBLE_LIMB * (exact.BIAS - lowest))
        return OneByOne(totals, one, self._kept)

    def _group_of(self, sums: Rows, terms: Rows) -> Int64s:
        """For each term row the position of its group in `sums`, -1 where the group is gone."""
        low = sums.keys.searchsorted(terms.keys)
        high = sums.keys.searchsorted(terms.keys, side="right")
        out = np.where(low < high, low, -1)
        if not (sums.layout.key.exact(sums.cols) and terms.layout.key.exact(terms.cols)):
            # Equal hashes may hide several groups: walk through them until the values agree.
            todo = (out >= 0).nonzero()[0]
            while len(todo):
                same = np.ones(len(todo), bool)
                for i, kind in enumerate(self._group.kinds):
                    same &= kind.equal(
                        columns_.take(sums.cols[i], out[todo]), columns_.take(terms.cols[i], todo)
                    )
                todo = todo[~same]
                out[todo] += 1
                gone = out[todo] >= high[todo]
                out[todo[gone]] = -1
                todo = todo[~gone]
        return out

    def _column(
        self, a: Aggregate, weights: Int64s, doubles: Doubles, known: Mapping[int, Col]
    ) -> Col:
        kind = columns_.column_type(a.type)
        if a.function == "sum" and a.argument is not None and a.argument in known:
            col = known[a.argument]
            counts = weights[:, self._sums[a.argument].count_part]
            if isinstance(col, pa.Array) and col.type == a.type and counts.all():
                return col
        if a.function in ("count_star", "count") and kind.dtype == np.int64:
            part = 0 if a.argument is None else self._sums[a.argument].count_part
            return np.ascontiguousarray(weights[:, part])
        return kind.load(self._value(a, weights, doubles))

    def _value(self, a: Aggregate, weights: Int64s, doubles: Doubles) -> pa.Array:
        if a.function == "count_star" or a.argument is None:
            return exact.integers_to_arrow(weights[:, 0], None, a.type)
        s = self._sums[a.argument]
        count = weights[:, s.count_part]
        if a.function == "count":
            return exact.integers_to_arrow(count, None, a.type)
        valid = count > 0
        if s.truth:
            false = weights[:, s.parts[0]]
            if a.function == "sum":
                return exact.integers_to_arrow(count - false, valid, a.type)
            value = false == 0 if a.function == "bool_and" else false < count
            if isinstance(a.type, pa.BaseExtensionType):  # a byte each
                return pa.ExtensionArray.from_storage(a.type, array_of(value.view(np.int8), valid))
            return array_of(value, valid)
        if s.bits:
            parts = [weights[:, p] for p in s.parts]
            bits = [_BITS[a.function](part, count) for part in parts]
            column = columns_.column_type(a.type)
            assert isinstance(column, columns_.FixedType)
            assert column.dtype is not None
            return column.dump(column.join(exact.join_bits(bits, column.dtype), ~valid))
        if s.float:
            values, nulls = doubles(a, weights)
            return _dumped(values, nulls, a.type)
        sums = exact.join_limbs([weights[:, p] for p in s.parts])
        if a.function == "sum":
            if pa.types.is_floating(a.type):
                return _dumped(np.array(sums, np.float64), ~valid, a.type)
            return exact.integers_to_arrow(sums, valid, a.type)
        scale = 10**s.kind.scale if pa.types.is_decimal128(s.kind) else 1
        return _dumped(*_means(sums, count, scale), a.type)


_BITS: Final[dict[str, Callable[[Int64s, Int64s], Mask]]] = {
    "bit_and": lambda part, count: part == count,
    "bit_or": lambda part, count: part > 0,
    "bit_xor": lambda part, count: (part & 1) == 1,
}


def _dumped(values: Array, nulls: Mask, kind: pa.DataType) -> pa.Array:
    """Floats as an Arrow array. (pa.array imports pandas.)"""
    column = columns_.column_type(kind)
    assert isinstance(column, columns_.FixedType)
    return column.dump(column.join(values.astype(column.dtype, copy=False), nulls))


def _means(sums: Int64s | list[int], count: Int64s, scale: int) -> tuple[Array, Mask]:
    """Integers over counts and `scale`; one division of doubles is right where both are exact."""
    if isinstance(sums, list) or len(sums) < MANY:
        pairs = zip(sums if isinstance(sums, list) else sums.tolist(), count.tolist(), strict=True)
        return np.array([v / (c * scale) if c else 0.0 for v, c in pairs]), count == 0
    none = count == 0
    n = np.where(none, 1, count)
    divisor = n * float(scale)
    values = sums / divisor
    exactly = (np.abs(sums) < _EXACT) & (np.abs(divisor) < _EXACT)
    for at in (~exactly).nonzero()[0].tolist():
        values[at] = int(sums[at]) / (int(n[at]) * scale)
    return values, none
