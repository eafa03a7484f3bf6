"""What a correlated subquery that aggregates without GROUP BY gives where it has no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from tidewheel.planner.logical import Named
from tidewheel.planner.text import substituted

from .bind_names import waits
from .bind_one_group import OneGroup
from .bind_scope import NotTaken
from .bind_types import function_name

_ZERO_ON_NOTHING = {"count", "count_star", "approx_count_distinct", "regr_count", "entropy"}
# count_if is 0 over an empty table, but DuckDB's join for such a subquery leaves it NULL
_NULL_ON_NOTHING = {
    "any_value", "approx_quantile", "approx_top_k", "arbitrary", "arg_max", "arg_max_null",
    "arg_max_nulls_last", "arg_min", "arg_min_null", "arg_min_nulls_last", "argmax", "argmin",
    "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bitstring_agg", "bool_and", "bool_or",
    "corr", "count_if", "countif", "covar_pop", "covar_samp", "favg", "first", "fsum",
    "group_concat", "histogram", "histogram_exact", "kahan_sum", "kurtosis", "kurtosis_pop",
    "last", "list", "listagg", "mad", "max", "max_by", "mean", "median", "min", "min_by", "mode",
    "product", "quantile", "quantile_cont", "quantile_disc", "regr_avgx", "regr_avgy",
    "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "reservoir_quantile", "sem", "skewness", "stddev", "stddev_pop", "stddev_samp", "string_agg",
    "sum", "sum_no_overflow", "sumkahan", "var_pop", "var_samp", "variance",
}  # fmt: skip


def on_nothing(
    expressions: Sequence[exp.Expr], aggregates: Sequence[Named], keys: Mapping[str, exp.Expr]
) -> list[exp.Expr]:
    """The values of `expressions` over `aggregates` of no rows; `keys` stand for columns."""
    if any(e.find(exp.Window) for e in expressions):  # it would see the rows around
        raise NotTaken("a window function over a correlated aggregate of all rows")
    values = {named.column.name: _on_nothing(named) for named in aggregates}
    values.update(keys)
    found = [_folded(substituted(e, values)) for e in expressions]
    if any(map(waits, found)):
        raise OneGroup("a subquery beside a correlated aggregate of all rows")
    return found


def _on_nothing(named: Named) -> exp.Expr:
    node = named.expr
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.this
    name = function_name(node)
    if name in _ZERO_ON_NOTHING:
        return exp.Literal.number(0)
    if name in _NULL_ON_NOTHING:
        return exp.Var(this=f"CAST(NULL AS {named.column.type})")
    raise NotTaken(f"{name} over no rows in a correlated subquery")


def _folded(expression: exp.Expr) -> exp.Expr:
    """NULL where the whole is a NULL, so that no CASE is needed to choose it."""
    if isinstance(expression, exp.Var):
        return exp.Null()
    if isinstance(expression, (exp.Mul, exp.Add, exp.Sub, exp.Div)):
        parts = [_folded(expression.this), _folded(expression.expression)]
        if any(isinstance(p, exp.Null) for p in parts):
            return exp.Null()
    if isinstance(expression, exp.Paren):
        inner = _folded(expression.this)
        return inner if isinstance(inner, exp.Null) else expression
    return expression
