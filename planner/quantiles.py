"""Quantiles in a query: which ones operators keep, and how DuckDB rounds what lies between values.

median(x)   quantile_cont(x, 0.95)   quantile_disc(x, [0.25, 0.75])
percentile_cont(0.9) WITHIN GROUP (ORDER BY x DESC)
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.interpolation import Sum, fused, interpolation, rounded
from tidewheel.engine.operators.quantiles import Column, Quantile
from tidewheel.engine.operators.rank import widely_rankable
from tidewheel.planner.text import OWN
from tidewheel.planner.view_kernels import statements

_DIGITS: Final = 18
_HALF: Final = "0.5"


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its argument, the fractions as they are written, in which order."""

    function: str
    argument: exp.Expr
    fractions: tuple[str, ...]
    listed: bool = False
    descending: bool = False

    def text(self, argument: str) -> str:
        """The call with another argument."""
        if self.function == "median":
            return f"{OWN}median({argument})"
        given = ", ".join(self.fractions)
        given = f"[{given}]" if self.listed else given
        if not self.descending:
            return f"{OWN}{self.function}({argument}, {given})"
        ordered = self.function.replace("quantile", "percentile")
        return f"{ordered}({given}) WITHIN GROUP (ORDER BY {argument} DESC)"

    def column(self, source: pa.DataType, result: pa.DataType) -> Column | None:
        """What an operator has to compute, from one type to another; None if it cannot."""
        if not widely_rankable(source):
            return None
        of = result.value_type if self.listed else result
        continuous = self.function == "quantile_cont" or (
            self.function == "median" and not pa.types.is_boolean(source)
        )
        if not continuous and of != source:
            return None
        between = None
        if continuous:
            # (a half of a double is one, so sums with it are rounded once in any case)
            add = rounded if {*self.fractions} == {_HALF} else rounding()
            between = None if add is None else interpolation(source, of, add)
            if between is None:
                return None
        quantiles = (Quantile(f, continuous, self.descending) for f in self.fractions)
        return Column(tuple(quantiles), self.listed, between)


def quantile_of(call: exp.Expr) -> Call | None:
    """The call of a quantile; None for anything else."""
    if isinstance(call, exp.Median):
        return Call("median", call.this, (_HALF,)) if isinstance(call.this, exp.Expr) else None
    if isinstance(call, exp.WithinGroup):
        inner, order = call.this, call.expression
        if not isinstance(inner, exp.PercentileCont | exp.PercentileDisc) or inner.expression:
            return None
        if not isinstance(order, exp.Order) or len(order.expressions) != 1:
            return None
        (by,) = order.expressions
        found = _call(inner, by.this, inner.this)
        if found is None or not by.args.get("desc"):
            return found
        return replace(found, descending=True)
    if isinstance(call, exp.Quantile) and not isinstance(call, exp.ApproxQuantile):
        return _call(call, call.this, call.args.get("quantile"))
    if isinstance(call, exp.PercentileCont | exp.PercentileDisc):
        return _call(call, call.this, call.expression)
    return None


def _call(call: exp.Expr, argument: exp.Expr, given: exp.Expr | None) -> Call | None:
    listed = isinstance(given, exp.Array)
    items = given.expressions if isinstance(given, exp.Array) else [given]
    numbers = [i for i in items if isinstance(i, exp.Literal) and not i.is_string]
    fractions = tuple(str(number.this) for number in numbers)
    if not items or len(numbers) < len(items):
        return None
    if not all(len(f) <= _DIGITS and 0 <= float(f) <= 1 for f in fractions):
        return None
    function = "quantile_cont" if isinstance(call, exp.PercentileCont) else "quantile_disc"
    return Call(function, argument, fractions, listed)


@functools.cache
def rounding() -> Sum | None:
    """How this machine's DuckDB rounds what lies between two doubles; None if in no way known."""
    low = np.array([np.sin(i) * 1000 for i in range(24)])
    high = low + np.array([np.cos(i) ** 2 * 700 + 1 for i in range(24)])
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    values = ", ".join(f"[{a!r}::DOUBLE, {b!r}::DOUBLE]" for a, b in pairs)
    query = f"[list_aggregate(l, 'quantile_cont', 0.3) FOR l IN [{values}]]"
    try:
        found = np.array(statements(()).value(query))
    except duckdb.Error:
        return None
    far = np.full(24, 0.3)
    for add in (fused, rounded):
        if np.array_equal(found, add(low, 1.0 - far, high * far)):
            return add
    return None
