"""What follows the order of the rows it gets: list, first, mode …, and windows without ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tidewheel.planner.text import to_sql

_KINDS = (
    exp.First, exp.Last, exp.ArrayAgg, exp.GroupConcat, exp.AnyValue, exp.Mode, exp.ApproxQuantile,
    exp.ApproxTopK,
)  # fmt: skip
OF_MACROS: Final = exp.ArrayAgg, exp.GroupConcat
"""Those of them that json_group_array, json_group_object and their like stand for."""
WRITTEN: Final = "written"
"""In the meta of such a call: the macro that was called, or what else it stands for."""
NAMES: Final = frozenset({
    "list", "array_agg", "string_agg", "group_concat", "listagg", "first", "last", "arbitrary",
    "any_value", "mode", "approx_quantile", "approx_top_k", "reservoir_quantile", "lttb",
    "json_group_array", "json_group_object",  # macros, left as they are in OVER
})  # fmt: skip
DRAWN: Final = frozenset({
    "approx_quantile", "approxquantile", "approx_top_k", "approxtopk", "reservoir_quantile",
})  # fmt: skip
"""Of these, one order of rows may have several answers: it depends on how DuckDB divides them."""


_CHOOSING: Final = frozenset({
    "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "arg_min_null", "arg_max_null",
    "argmin_null", "argmax_null", "arg_min_nulls_last", "arg_max_nulls_last",
})  # fmt: skip


def by_place(expression: exp.Expr) -> bool:
    """Is it such an aggregate, without an order of its own?"""
    call = call_of(expression)
    return (isinstance(call, _KINDS) or name(call) in NAMES) and call.find(exp.Order) is None


def depends(calls: Sequence[exp.Expr]) -> str:
    """Why those of `calls` that go by place are not kept, by the name that their author knows."""
    call = next(call_of(c) for c in calls if by_place(c))
    if call._meta and WRITTEN in call._meta:  # a macro, in which no ORDER BY can be written
        return f"{call._meta[WRITTEN]} depends on the order of the rows"
    text = to_sql(call).split("(")[0].lower()
    text = "string_agg" if isinstance(call, exp.GroupConcat) else text
    return f"{text} without ORDER BY depends on the order of the rows"


BY_ROW: Final = frozenset({
    "row_number", "rownumber", "ntile", "lag", "lead", "first_value", "firstvalue", "last_value",
    "lastvalue", "nth_value", "nthvalue", "fill",
})  # fmt: skip


_BY_PEERS: Final = frozenset({
    "rank", "denserank", "dense_rank", "rank_dense", "percentrank", "percent_rank", "cumedist",
    "cume_dist",
})  # fmt: skip
"""Functions whose value all peers share, whatever the frame is."""


def window_by_place(window: exp.Window) -> bool:
    """Does a window function follow the order of rows that its OVER leaves open?"""
    call = call_of(window.this)
    if window.args.get("order") or name(call) in _BY_PEERS:
        return False
    spec = window.args.get("spec")
    if spec is not None and spec.text("kind").upper() == "ROWS":
        ends = {str(spec.args.get(k)).upper() for k in ("start", "end")}
        if ends != {"UNBOUNDED"}:
            return True
    if call.find(exp.Order) is not None:
        return False
    return by_place(call) or name(call) in BY_ROW


def open_order(window: exp.Window) -> str:
    """Why such a one is not kept: it may stand for the LIMIT of a correlated subquery."""
    call = call_of(window.this)
    if call._meta and WRITTEN in call._meta:
        return f"{call._meta[WRITTEN]} without ORDER BY depends on the order of the rows"
    return f"{to_sql(window).split('(')[0].lower()} over rows whose order is open"


def by_ties(expression: exp.Expr) -> bool:
    """Does the order of rows decide between those that are alike by what it goes by itself?"""
    call = call_of(expression)
    if isinstance(call, exp.ArgMin | exp.ArgMax) or name(call) in _CHOOSING:
        return True
    order = call.find(exp.Order)
    if order is None or not (isinstance(call, _KINDS) or name(call) in NAMES - DRAWN):
        return False
    if isinstance(call, exp.Mode):
        return False  # one more thing to order by changes which of its values that tie it takes
    if call.find(exp.Distinct) is not None:
        return False  # it may be ordered by its arguments alone
    argument = order.this if isinstance(order.this, exp.Expr) else call.this
    return argument not in [o.this for o in order.expressions]


def goes_by(expression: exp.Expr) -> list[exp.Expr] | None:
    """By what such an aggregate orders rows; None if it takes several of them and hides which."""
    call = call_of(expression)
    order = call.find(exp.Order)
    if order is not None:
        return [o.this for o in order.expressions]
    if isinstance(call, exp.ArgMin | exp.ArgMax):
        return None if call.args.get("count") is not None else [call.expression]
    return None if len(call.expressions) > 2 else [call.expressions[1]]


def call_of(expression: exp.Expr) -> exp.Expr:
    """The call of an aggregate, without FILTER and IGNORE NULLS."""
    while isinstance(expression, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        expression = expression.this
    return expression


def name(call: exp.Expr) -> str:
    """The name of a function, in lower case."""
    return call.name.lower() if isinstance(call, exp.Anonymous) else call.key.lower()


def ordered_by(expression: exp.Expr, place: str) -> str:
    """Such an aggregate as SQL, its rows in the order of a column where its own leaves it open."""
    if isinstance(expression, exp.Filter):
        condition = to_sql(expression.expression.this)
        return f"{ordered_by(expression.this, place)} FILTER (WHERE {condition})"
    text = to_sql(expression)
    assert text.endswith(")"), text
    if isinstance(expression, exp.Mode) and expression.find(exp.Order) is None:
        return text  # of texts that tie the table alone says which one DuckDB takes, not an order
    if expression.find(exp.Order) is None:
        return f"{text[:-1]} ORDER BY {place})"
    # of the last ones that tie, DuckDB's last() takes the first
    direction = " DESC" if isinstance(call_of(expression), exp.Last) else ""
    return f"{text[:-1]}, {place}{direction})"
