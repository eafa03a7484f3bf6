"""The aggregates of a GROUP BY taken apart: which function of which argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.derived_aggregates import ENTROPY, FOURTH, THIRD
from tidewheel.planner.first_rows import Taken, count_of, first_in_order, taken
from tidewheel.planner.quantiles import Call, quantile_of
from tidewheel.planner.text import OWN, to_sql

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
_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
}
_COVARIANT: dict[type[exp.Expr], str] = {
    exp.CovarSamp: "covar_samp",
    exp.CovarPop: "covar_pop",
}
_NAMED = {"mean": "avg", "fsum": "sum", "kahan_sum": "sum", "sumkahan": "sum", "favg": "avg"}
"""Functions that are others to sums which are exact, but for the type of their result."""
_MOMENTS = {THIRD: "third", FOURTH: "fourth", **ENTROPY}
COUNTED = ("histogram", *ENTROPY.values())
"""Functions of how often each value is there."""
LISTED = "listed"
"""What stands for texts and lists of the DISTINCT values of a column, in their order."""
ENDS = ("min", "max", "arg_min", "arg_max", "first", "last")


@dataclass(slots=True)
class AggregatePart:
    """One aggregate taken apart: `argument` with its FILTER folded in, None for count(*).

    `result`: the call, of `{}`, that has its type. `taken`: how arg_min, first and their kin
    choose it. `quantile`: which one it is. `count`: rows that it takes, like max(x, 3). `other`:
    the second argument of a covariance, NULL where the first one is (see `derived_aggregates`).
    """

    named: L.Named
    function: str
    argument: exp.Expr | None
    distinct: bool
    taken: Taken | None = None
    quantile: Call | None = None
    result: str = ""
    count: int = 1
    other: exp.Expr | None = None

    def call(self, argument: str, by: str = "") -> str:
        """The text of one that takes rows by an order, of other columns."""
        if self.taken is not None:
            return self.taken.call(argument, by)
        several = f", {self.count}" if self.count > 1 else ""
        return f"{OWN}{self.function}({argument}{several})"


def by_argument(parts: Sequence[AggregatePart]) -> dict[str, list[AggregatePart]]:
    """Parts with an argument, those with one and the same together; by its text."""
    found: dict[str, list[AggregatePart]] = {}
    for p in parts:
        assert p.argument is not None
        found.setdefault(to_sql(p.argument), []).append(p)
    return found


def _listed(call: exp.Expr) -> exp.Expr | None:
    """The argument of list(DISTINCT x ORDER BY x), or of a text put together so."""
    distinct = call.this if isinstance(call, exp.ArrayAgg | exp.GroupConcat) else None
    order = distinct if isinstance(distinct, exp.Order) else None
    distinct = order.this if order is not None else distinct
    if order is None:
        order = call.find(exp.Order)
    if not isinstance(distinct, exp.Distinct) or order is None:
        return None
    (argument, *more), by = distinct.expressions, [o.this for o in order.expressions]
    columns = {id(c) for a in (argument, *by) for c in a.find_all(exp.Column)}
    others = any(id(c) not in columns for c in call.find_all(exp.Column))
    return None if more or others or by != [argument] else argument


def part_of(named: L.Named) -> AggregatePart | None:
    """An aggregate that operators know by itself; None for one that takes all rows of a group."""
    call, condition = named.expr, None
    chosen = taken(call, several=True) or first_in_order(call)
    if chosen is not None:
        function, value = chosen.function, chosen.value
        return AggregatePart(named, function, value, False, chosen, count=chosen.rows)
    if type(call) in _COVARIANT:
        function = _COVARIANT[type(call)]
        return AggregatePart(named, function, call.this, False, other=call.expression)
    if isinstance(call, exp.Anonymous) and call.name in _MOMENTS:
        (argument,), function = call.expressions, _MOMENTS[call.name]
        return AggregatePart(named, function, argument, False, result="var_pop({})")
    listed = _listed(call)
    if listed is not None:
        return AggregatePart(named, LISTED, listed, True)
    if isinstance(call, exp.Filter):
        condition = call.expression.this
        call = call.this
    result, argument, count = "", call.this, 1
    quantile = quantile_of(call)
    if quantile is not None:
        function, argument = "quantile", quantile.argument
    elif isinstance(call, exp.Min | exp.Max):
        found = count_of(call)
        if call.expressions or found is None:
            return None
        count = found
        function = "min" if isinstance(call, exp.Min) else "max"
    elif isinstance(call, exp.CountIf):  # (NULL where sum is, in DuckDB)
        function, result = "sum", "count_if({})"
    elif type(call) in _SUMS:
        function = _SUMS[type(call)]
    elif type(call) in _BITS and not isinstance(argument, exp.Distinct):
        function = _BITS[type(call)]
    elif isinstance(call, exp.Anonymous) and call.name.lower() == "histogram":
        if len(call.expressions) != 1 or call.find(exp.Distinct) is not None:
            return None
        function, argument, result = "histogram", call.expressions[0], "histogram({})"
    elif isinstance(call, exp.Anonymous) and call.name.lower() in _NAMED:
        if len(call.expressions) != 1:
            return None
        function, result = _NAMED[call.name.lower()], f"{call.name}({{}})"
        argument = call.expressions[0]
    else:
        return None
    distinct = isinstance(argument, exp.Distinct)
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1:
            return None
        argument = argument.expressions[0]
    if argument is not None and argument.find(exp.Order, exp.Distinct) is not None:
        return None
    if call.args.get("expressions") and not result:
        return None
    if distinct and (quantile is not None or count > 1):
        return None
    if argument is None or isinstance(argument, exp.Star):
        if condition is None:
            return AggregatePart(named, "count_star", None, False)
        argument = exp.Literal.number(1)
    if condition is not None:
        argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
    if function.startswith(("var", "stddev")):
        argument = exp.cast(argument.copy(), "DOUBLE")
    return AggregatePart(
        named, function, argument, distinct, quantile=quantile, result=result, count=count
    )
