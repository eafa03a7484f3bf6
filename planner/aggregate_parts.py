"""The aggregates of a GROUP BY taken apart: which function of which argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.first_rows import Taken, taken
from tidewheel.planner.quantiles import Call, quantile_of
from tidewheel.planner.text import to_sql

_SUMS: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Count: "count",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}
ENDS = ("min", "max", "arg_min", "arg_max")


@dataclass(slots=True)
class AggregatePart:
    """One aggregate taken apart: `argument` with its FILTER folded in, None for count(*).

    `taken`: how arg_min and arg_max choose it. `quantile`: which one it is.
    """

    named: L.Named
    function: str
    argument: exp.Expr | None
    distinct: bool
    taken: Taken | None = None
    quantile: Call | None = None


def by_argument(parts: Sequence[AggregatePart]) -> dict[str, list[AggregatePart]]:
    """Parts with an argument, those with one and the same together; by its text."""
    found: dict[str, list[AggregatePart]] = {}
    for p in parts:
        assert p.argument is not None
        found.setdefault(to_sql(p.argument), []).append(p)
    return found


def part_of(named: L.Named) -> AggregatePart | None:
    """An aggregate that operators know by itself; None for one that takes all rows of a group."""
    call, condition = named.expr, None
    chosen = taken(call)
    if chosen is not None:
        return AggregatePart(named, chosen.function, chosen.value, False, chosen)
    if isinstance(call, exp.Filter):
        condition = call.expression.this
        call = call.this
    quantile = quantile_of(call)
    if quantile is not None:
        function, argument = "quantile", quantile.argument
    elif isinstance(call, exp.Min | exp.Max):
        if call.expressions or call.args.get("count"):
            return None  # min(x, n)
        function = "min" if isinstance(call, exp.Min) else "max"
    elif type(call) in _SUMS:
        function = _SUMS[type(call)]
    else:
        return None
    if quantile is None:
        argument = call.this
    distinct = isinstance(argument, exp.Distinct)
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1:
            return None
        argument = argument.expressions[0]
    if argument is not None and argument.find(exp.Order) is not None:
        return None
    if call.args.get("expressions") or (quantile is not None and distinct):
        return None
    if argument is None or isinstance(argument, exp.Star):
        if condition is None:
            return AggregatePart(named, "count_star", None, False)
        argument = exp.Literal.number(1)
    if condition is not None:
        argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
    if function.startswith(("var", "stddev")):
        argument = exp.cast(argument.copy(), "DOUBLE")
    return AggregatePart(named, function, argument, distinct, quantile=quantile)
