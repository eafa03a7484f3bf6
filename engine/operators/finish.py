"""Running sums to the aggregates that they are kept for, each rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators import exact
from tidewheel.engine.operators.running_sums import SQUARED, Aggregate, Sum
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, Int64s, Schema
from tidewheel.engine.state.run import Rows

_Totals = dict[int, list[int]]


class Finish:
    """The rows of `schema` (`group`, then `aggregates`) for groups with their sums.

    `sums` and `squares` by argument; `width`: parts of a weight. Limbs of doubles are rows of their
    own, see `Totals`.
    """

    def __init__(
        self,
        group: Schema,
        aggregates: Sequence[Aggregate],
        schema: Schema,
        sums: Mapping[int, Sum],
        squares: Mapping[int, int],
        width: int,
    ) -> None:
        self._group = group
        self._aggregates = aggregates
        self._schema = schema
        self._sums = sums
        self._squares = squares
        self._width = width
        self._terms = [s.term for s in sums.values() if s.float] + list(squares.values())

    def __call__(
        self, sums: Rows | None, terms: Rows | None, known: Mapping[int, Col] | None = None
    ) -> Delta:
        """One output row per group with rows; one always where there is no key.

        `sums` has each group once; `known` has sums of arguments (see `Totals`).
        """
        if sums is not None:
            there = sums.where(sums.weights[:, 0] > 0)
            sums, known = there, known if len(there) == len(sums) else None
        if sums is None or not len(sums):
            if len(self._group):
                return Delta.empty(self._schema)
            weights = np.zeros((1, self._width), np.int64)
            group: Sequence[Col] = []
            terms = None
        else:
            weights, group = sums.weights, sums.cols
        totals, one = self._totals(sums, terms)
        cols = [*group]
        for a in self._aggregates:
            cols.append(self._column(a, weights, totals, one, known or {}))
        return Delta(self._schema, cols, np.ones(len(weights), np.int64), True)

    def _totals(self, sums: Rows | None, terms: Rows | None) -> tuple[_Totals, int]:
        """Per term the exact sum of each group as an integer, and what integer stands for one."""
        count = len(sums) if sums is not None and len(sums) else 1
        totals = {t: [0] * count for t in self._terms}
        if terms is None or not len(terms):
            return totals, 1
        group = (
            self._group_of(sums, terms)
            if sums is not None and len(self._group)
            else [0] * len(terms)
        )
        lowest = min(exact.BIAS, int(terms.cols[-1].min()))  # the integers are small then
        rows = zip(
            group,
            terms.cols[-2].tolist(),
            terms.cols[-1].tolist(),
            terms.weights.tolist(),
            strict=True,
        )
        for g, term, limb, amount in rows:
            if g >= 0:
                totals[term][g] += amount << (exact.DOUBLE_LIMB * (limb - lowest))
        return totals, 1 << (exact.DOUBLE_LIMB * (exact.BIAS - lowest))

    def _group_of(self, sums: Rows, terms: Rows) -> list[int]:
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
        return list(out.tolist())

    def _column(
        self, a: Aggregate, weights: Int64s, totals: _Totals, one: int, known: Mapping[int, Col]
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
        return kind.load(self._value(a, weights, totals, one))

    def _value(self, a: Aggregate, weights: Int64s, totals: _Totals, one: int) -> pa.Array:
        if a.function == "count_star" or a.argument is None:
            return exact.integers_to_arrow(weights[:, 0], None, a.type)
        s = self._sums[a.argument]
        count = weights[:, s.count_part]
        if a.function == "count":
            return exact.integers_to_arrow(count, None, a.type)
        valid = count > 0
        if s.truth:
            false = weights[:, s.parts[0]]
            value = false == 0 if a.function == "bool_and" else false < count
            return pa.array(value, pa.bool_(), mask=~valid).cast(a.type)
        if s.float:
            return self._float_value(a, s, weights, totals, one)
        sums = exact.join_limbs([weights[:, p] for p in s.parts])
        if a.function == "sum":
            if pa.types.is_floating(a.type):
                floats = [float(v) for v in (sums if isinstance(sums, list) else sums.tolist())]
                return pa.array(floats, a.type, mask=~valid)
            return exact.integers_to_arrow(sums, valid, a.type)
        scale = 10**s.kind.scale if pa.types.is_decimal128(s.kind) else 1
        integers = sums if isinstance(sums, list) else sums.tolist()
        means = [
            v / (c * scale) if c else None for v, c in zip(integers, count.tolist(), strict=True)
        ]
        return _floats(means, a.type)

    def _float_value(
        self, a: Aggregate, s: Sum, weights: Int64s, totals: _Totals, one: int
    ) -> pa.Array:
        assert s.special is not None
        counts = weights[:, s.count_part].tolist()
        special = weights[:, s.special : s.special + 3].tolist()
        first = totals[s.term]
        second = totals[self._squares[s.argument]] if s.argument in self._squares else first
        finish = _FINISH[a.function]
        out: list[float | None] = []
        for n, (nan, plus, minus), x, xx in zip(counts, special, first, second, strict=True):
            if n <= 0:
                out.append(None)
            elif a.function in SQUARED:
                if n == 1:  # whatever it is
                    out.append(None if "samp" in a.function else 0.0)
                else:
                    out.append(math.nan if nan or plus or minus else finish(x, xx, n, one))
            elif nan or (plus and minus):
                out.append(math.nan)
            elif plus or minus:
                out.append(math.inf if plus else -math.inf)
            else:
                out.append(finish(x, xx, n, one))
        return _floats(out, a.type)


def _floats(values: Sequence[float | None], kind: pa.DataType) -> pa.Array:
    """Floats as an Arrow array. (pa.array imports pandas.)"""
    column = columns_.column_type(kind)
    assert isinstance(column, columns_.FixedType)
    found = np.array([0.0 if v is None else v for v in values], column.dtype)
    return column.dump(column.join(found, np.array([v is None for v in values], bool)))


def _variance(x: int, xx: int, n: int, one: int, less: int) -> float:
    # n Σx² − (Σx)² over n (n − less), all exact until the one division.
    return exact.ratio(n * xx * one - x * x, one * one * n * (n - less))


_FINISH: Final[dict[str, Callable[[int, int, int, int], float]]] = {
    "sum": lambda x, xx, n, one: exact.ratio(x, one),
    "avg": lambda x, xx, n, one: exact.ratio(x, one * n),
    "var_samp": lambda x, xx, n, one: _variance(x, xx, n, one, 1),
    "var_pop": lambda x, xx, n, one: _variance(x, xx, n, one, 0),
    "stddev_samp": lambda x, xx, n, one: math.sqrt(_variance(x, xx, n, one, 1)),
    "stddev_pop": lambda x, xx, n, one: math.sqrt(_variance(x, xx, n, one, 0)),
}
