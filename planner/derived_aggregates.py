"""Aggregates that are expressions over running sums: correlations, regressions, skewness and kin.

    corr(y, x)  =  covar_pop(y, x) / (stddev_pop(y) * stddev_pop(x))

Each becomes such an expression over aggregates that `Accumulate` keeps, of its arguments as DOUBLE,
of two arguments only where both are there. What several share is kept once. Covariances and central
moments are rounded from exact sums (`engine/operators/doubles.py`), so that an expression of them
errs by its own few roundings. NULL, NaN and errors are those of DuckDB's functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import sqlglot
from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.order_of_rows import name
from tidewheel.planner.text import OWN, column, substituted, to_sql, unchanged

_N: Final = "n::DOUBLE"
_CORR: Final = "CASE WHEN sy * sx = 0 THEN 'nan'::DOUBLE ELSE c / (sy * sx) END"
_PAIRS: Final = {
    "corr": _CORR,
    "covarpop": "c",
    "covarsamp": "cs",
    "regrcount": "n::UINTEGER",
    "regravgx": "ax",
    "regravgy": "ay",
    "regrsxx": f"{_N} * vx",
    "regrsyy": f"{_N} * vy",
    "regrsxy": f"{_N} * c",
    "regrslope": "CASE WHEN vx = 0 THEN 'nan'::DOUBLE ELSE c / vx END",
    "regrintercept": "CASE WHEN vx <> 0 AND c / vx <= 'inf'::DOUBLE THEN ay - c / vx * ax END",
    "regrr2": "CASE WHEN vx <> 0 THEN CASE WHEN vy = 0 THEN 1::DOUBLE "
    f"ELSE {_CORR} * {_CORR} END END",
}
"""Of y and x, by name without underscores: see `_PARTS`. (NaN is greater than infinity.)"""


def _finite(value: str, function: str) -> str:
    """A value; if it is not finite, the error that DuckDB's function has then."""
    wrong = f"{OWN}list_aggregate([{', '.join([value] * 4)}], '{function}')"
    return f"COALESCE(CASE WHEN {OWN}isfinite({value}) THEN {value} END, {wrong})"


_SKEWNESS: Final = f"{OWN}sqrt({_N} * ({_N} - 1)) / ({_N} - 2) * (m3 / vy / sy)"
_EXCESS: Final = "m4 / vy / vy - 3"
_KURTOSIS: Final = (
    f"({_N} - 1) / (({_N} - 2) * ({_N} - 3)) * (m4 / vy / vy * ({_N} + 1) - 3 * ({_N} - 1))"
)
_SINGLE: Final = {
    "skewness": f"CASE WHEN n > 2 AND vy <> 0 THEN {_finite(_SKEWNESS, 'skewness')} END",
    "kurtosis": f"CASE WHEN n > 3 AND vy <> 0 THEN {_finite(_KURTOSIS, 'kurtosis')} END",
    "kurtosispop": f"CASE WHEN n > 1 AND vy <> 0 THEN {_finite(_EXCESS, 'kurtosis')} END",
    "sem": f"CASE WHEN ay IS NULL OR {OWN}isfinite(ay) THEN sy / {OWN}sqrt({_N}) "
    "ELSE 'nan'::DOUBLE END",
}
"""The same of one argument, which is y."""

_OF_VALUES: Final = {
    "entropy": f"CASE WHEN different > 1 THEN {OWN}log2(there) - logs / there ELSE 0::DOUBLE END"
}
"""The same of how often each value is there.

With n of c occurrences each, the sum of n / c times log2(c / n), as DuckDB has it, is
log2(c) - (sum of n log2 n) / c: what a change adds to does not depend on c.
"""
THIRD: Final = "__tw_third"
FOURTH: Final = "__tw_fourth"
ENTROPY: Final = {"__tw_logs": "logs", "__tw_there": "occurrences", "__tw_values": "values"}
_Make = Callable[[exp.Expr, exp.Expr], exp.Expr]
_PARTS: Final[dict[str, tuple[str, _Make]]] = {
    "n": ("BIGINT", lambda y, x: exp.Count(this=y)),
    "ay": ("DOUBLE", lambda y, x: exp.Avg(this=y)),
    "ax": ("DOUBLE", lambda y, x: exp.Avg(this=x)),
    "vy": ("DOUBLE", lambda y, x: exp.VariancePop(this=y)),
    "vx": ("DOUBLE", lambda y, x: exp.VariancePop(this=x)),
    "sy": ("DOUBLE", lambda y, x: exp.StddevPop(this=y)),
    "sx": ("DOUBLE", lambda y, x: exp.StddevPop(this=x)),
    "c": ("DOUBLE", lambda y, x: exp.CovarPop(this=y, expression=x)),
    "cs": ("DOUBLE", lambda y, x: exp.CovarSamp(this=y, expression=x)),
    "m3": ("DOUBLE", lambda y, x: exp.Anonymous(this=THIRD, expressions=[y])),
    "m4": ("DOUBLE", lambda y, x: exp.Anonymous(this=FOURTH, expressions=[y])),
    "logs": ("DOUBLE", lambda y, x: exp.Anonymous(this="__tw_logs", expressions=[y])),
    "there": ("BIGINT", lambda y, x: exp.Anonymous(this="__tw_there", expressions=[y])),
    "different": ("BIGINT", lambda y, x: exp.Anonymous(this="__tw_values", expressions=[y])),
}
"""What operators keep, with its type: m3 and m4 are central moments, the last three of values."""


def derived(
    node: L.Aggregate, fresh: Callable[[str], str]
) -> tuple[L.Aggregate, Sequence[L.Named]] | None:
    """Simpler aggregates, and the columns of `node` in terms of them; None if there are no simpler.

    `fresh` gives names of columns.
    """
    parts: dict[str, L.Named] = {}
    kept: list[L.Named] = []
    columns = [*unchanged(k.column for k in node.keys)]
    for named in node.aggregates:
        found = _taken(named.expr)
        if found is None:
            kept.append(named)
            columns.append(L.Named(named.column, column(named.column.name)))
            continue
        text, y, x = found
        needed: dict[str, exp.Expr] = {}
        for part in {c.name for c in _parsed(text).find_all(exp.Column)}:
            kind, make = _PARTS[part]
            call = make(y.copy(), x.copy())
            key = to_sql(call)
            if key not in parts:
                label = fresh("part")
                parts[key] = L.Named(L.Column(label, label, kind), call)
            needed[part] = column(parts[key].column.name)
        columns.append(L.Named(named.column, substituted(_parsed(text), needed)))
    if not parts:
        return None
    return replace(node, aggregates=(*kept, *parts.values())), columns


def _taken(call: exp.Expr) -> tuple[str, exp.Expr, exp.Expr] | None:
    """The expression that an aggregate is, and its arguments, or one of them twice."""
    condition = None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    function = name(call).replace("_", "")
    given = call.expressions if isinstance(call, exp.Anonymous) else [call.this, call.expression]
    values = [v for v in given if v]
    if any(not isinstance(v, exp.Expr) or v.find(exp.Distinct, exp.Order) for v in values):
        return None
    if function in _PAIRS and len(values) == 2:
        y, x = values
        return _PAIRS[function], _double(y, x, condition), _double(x, y, condition)
    if function in _SINGLE and len(values) == 1:
        y = _double(values[0], None, condition)
        return _SINGLE[function], y, y
    if function in _OF_VALUES and len(values) == 1:
        y = _where(values[0], None, condition)
        return _OF_VALUES[function], y, y
    return None


def _double(value: exp.Expr, other: exp.Expr | None, condition: exp.Expr | None) -> exp.Expr:
    return exp.cast(_where(value, other, condition), "DOUBLE")


def _where(value: exp.Expr, other: exp.Expr | None, condition: exp.Expr | None) -> exp.Expr:
    """A value; NULL where another one is, and where a condition does not hold."""
    tests = [] if condition is None else [condition.copy()]
    if other is not None:
        given = other.copy() if isinstance(other, exp.Column) else exp.paren(other.copy())
        tests.append(exp.Not(this=exp.Is(this=given, expression=exp.Null())))
    if tests:
        value = exp.Case(ifs=[exp.If(this=exp.and_(*tests), true=value.copy())])
    return value.copy()


@functools.cache
def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect=Tidewheel)
