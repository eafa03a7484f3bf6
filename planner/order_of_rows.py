"""What follows the order of the rows it gets: list, first, mode …, and windows without ORDER BY."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tidewheel.planner.text import to_sql

_KINDS = (
    exp.First, exp.Last, exp.ArrayAgg, exp.GroupConcat, exp.AnyValue, exp.Mode, exp.ApproxQuantile,
    exp.ApproxTopK,
)  # fmt: skip
NAMES: Final = frozenset({
    "list", "array_agg", "string_agg", "group_concat", "listagg", "first", "last", "arbitrary",
    "any_value", "mode", "approx_quantile", "approx_top_k", "reservoir_quantile",
})  # fmt: skip
DRAWN: Final = frozenset({
    "mode", "approx_quantile", "approxquantile", "approx_top_k", "approxtopk", "reservoir_quantile",
})  # fmt: skip
"""Of these, one order of rows may have several answers: it depends on how DuckDB divides them."""


def by_place(expression: exp.Expr) -> bool:
    """Is it such an aggregate, without an order of its own?"""
    call = expression.this if isinstance(expression, exp.Filter) else expression
    return (isinstance(call, _KINDS) or name(call) in NAMES) and call.find(exp.Order) is None


_BY_ROW: Final = frozenset({
    "row_number", "rownumber", "ntile", "lag", "lead", "first_value", "firstvalue", "last_value",
    "lastvalue", "nth_value", "nthvalue", "fill",
})  # fmt: skip


def window_by_place(window: exp.Window) -> bool:
    """Does a window function follow the order of rows that its OVER leaves open?"""
    if window.args.get("order"):
        return False
    call = window.this
    while isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    spec = window.args.get("spec")
    if spec is not None and spec.text("kind").upper() == "ROWS":
        ends = {str(spec.args.get(k)).upper() for k in ("start", "end")}
        if ends != {"UNBOUNDED"}:
            return True
    if call.find(exp.Order) is not None:
        return False
    return by_place(call) or name(call) in _BY_ROW


def name(call: exp.Expr) -> str:
    """The name of a function, in lower case."""
    return call.name.lower() if isinstance(call, exp.Anonymous) else call.key.lower()


def ordered_by(expression: exp.Expr, place: str) -> str:
    """Such an aggregate as SQL, its rows in the order of a column."""
    if isinstance(expression, exp.Filter):
        condition = to_sql(expression.expression.this)
        return f"{ordered_by(expression.this, place)} FILTER (WHERE {condition})"
    text = to_sql(expression)
    assert text.endswith(")"), text
    return f"{text[:-1]} ORDER BY {place})"
