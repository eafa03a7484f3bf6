"""arg_min and arg_max, first and last of a table's rows, which need not be put in order for that.

    SELECT k, arg_max(x, y) FROM t GROUP BY k

Of rows that tie it is the first one. So the greatest y of each group is found first, then the first
row that has it. To read rows twice takes a tenth of the time that it takes to put them in order
(`arg_max(x, y ORDER BY place)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.type_names import sql_name
from tidewheel.planner.text import OWN, to_sql
from tidewheel.planner.view_texts import PLACE

END: Final = "__tw_end"
"""Columns of the groups and their ends: `END` and a number."""
_SEVERAL: Final = 1000
_KEPT: Final = frozenset({
    "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip
"""By these types a DOUBLE is chosen as it is. By others it is a sort key, where -0.0 is 0.0."""


def a_sort_key(value: pa.DataType, by: pa.DataType) -> bool:
    """Does DuckDB give 0.0 for -0.0, as it makes a value a sort key on its way?"""
    return value == pa.float32() or (value == pa.float64() and sql_name(by) not in _KEPT)


def as_sort_keys(evaluate: Evaluate) -> Evaluate:
    """`evaluate`, whose last column is floating point: with 0.0 for -0.0."""

    def run(rows: Delta) -> Delta:
        found = evaluate(rows)
        kind: Any = found.schema.kinds[-1]
        values, nulls = kind.split(found.cols[-1])
        cols = [*found.cols[:-1], kind.join(values + 0.0, nulls)]
        return Delta(found.schema, cols, found.weights)

    return run


class Taken(NamedTuple):
    """What an aggregate takes of the first row in an order: which value, by what.

    For arg_min and arg_max both are NULL in rows that do not count.
    """

    function: str
    value: exp.Expr
    by: exp.Expr
    descending: bool
    nulls_first: bool = False
    rows: int = 1

    @property
    def in_order(self) -> bool:
        """Is it of all rows in an order, not of those that have both?"""
        return not self.function.startswith("arg_")

    def end(self, by: str) -> str:
        """The value of `by` in the row that it goes to."""
        end = f"{OWN}{'max' if self.descending else 'min'}({by})"
        nulls = f"{OWN}count(*) > {OWN}count({by})"
        return f"CASE WHEN {nulls} THEN NULL ELSE {end} END" if self.nulls_first else end

    def at(self, by: str, end: int) -> str:
        """Is a row among those whose `by` is the end with a number?"""
        return f"{by} {'IS NOT DISTINCT FROM' if self.in_order else '='} {END}{end}"

    def first(self, value: str, by: str, end: int, kind: pa.DataType) -> str:
        """A group's `value` in its first row whose `by`, of a type, is the end with a number."""
        as_it_is = self.in_order or sql_name(kind) in _KEPT
        function = "arg_min_null" if self.in_order else "arg_min"
        place = PLACE if as_it_is else f"{PLACE}::UBIGINT"
        return f"{OWN}{function}({value}, {place}) FILTER (WHERE {self.at(by, end)})"

    def call(self, value: str, by: str) -> str:
        """The aggregate, of other columns."""
        if not self.in_order:
            several = f", {self.rows}" if self.rows > 1 else ""
            return f"{OWN}{self.function}({value}, {by}{several})"
        way, nulls = "DESC" if self.descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return f"{OWN}first({value} ORDER BY {by} {way} NULLS {nulls})"


def taken(expression: exp.Expr, several: bool = False) -> Taken | None:
    """arg_min or arg_max taken apart; None for other functions. May it take `several` rows?"""
    condition, call = [], expression
    if isinstance(call, exp.Filter):
        condition, call = [call.expression.this], call.this
    if not isinstance(call, exp.ArgMin | exp.ArgMax):
        return None
    value, by = call.this, call.expression
    count = count_of(call) if several or not call.args.get("count") else None
    if count is None or isinstance(value, exp.Distinct) or by.find(exp.Order):
        return None
    there = [exp.Not(this=exp.Is(this=exp.paren(e), expression=exp.Null())) for e in (value, by)]
    counts = exp.and_(*there, *condition)
    value, by = (exp.Case(ifs=[exp.If(this=counts.copy(), true=e.copy())]) for e in (value, by))
    least = isinstance(call, exp.ArgMin)
    return Taken("arg_min" if least else "arg_max", value, by, not least, rows=count)


def count_of(call: exp.Expr) -> int | None:
    """How many rows an aggregate takes, as max(x, 3) does; None if that is not written so."""
    count = call.args.get("count")
    if count is None:
        return 1
    plain = isinstance(count, exp.Literal) and count.name.isdigit()
    return int(count.name) if plain and 1 < int(count.name) <= _SEVERAL else None


def first_in_order(call: exp.Expr) -> Taken | None:
    """first or last of all rows in an order, NULLs included; None for others, with FILTER, too."""
    order = call.this
    if not isinstance(call, exp.First | exp.Last) or not isinstance(order, exp.Order):
        return None
    if len(order.expressions) != 1:
        return None
    value, (by,) = order.this, order.expressions
    if not isinstance(value, exp.Expr) or call.find(exp.Distinct):
        return None
    descending, nulls_first = bool(by.args.get("desc")), bool(by.args.get("nulls_first"))
    if isinstance(call, exp.Last):
        return Taken("last", value, by.this, not descending, not nulls_first)
    return Taken("first", value, by.this, descending, nulls_first)


def chosen_as_it_is(kind: pa.DataType) -> bool:
    """Does DuckDB not make values of a type sort keys when it chooses them by a row's place?"""
    key = pa.types.is_nested(kind) or pa.types.is_float16(kind) or pa.types.is_float32(kind)
    return not key and not isinstance(kind, pa.BaseExtensionType)


def unordered(expression: exp.Expr, kind: pa.DataType) -> str | None:
    """first, last or any_value of rows with their place, by that alone; `kind` is its type.

    None for other functions, and values that are sort keys on their way, where -0.0 is 0.0.
    """
    condition, call = "", expression
    if isinstance(call, exp.Filter):
        condition, call = f" FILTER (WHERE {to_sql(call.expression.this)})", call.this
    some = isinstance(call, exp.IgnoreNulls)
    call = call.this if some else call
    if not chosen_as_it_is(kind) or call.find(exp.Order, exp.Distinct):
        return None
    if isinstance(call, exp.AnyValue) or (some and isinstance(call, exp.First)):
        function = "arg_min"
    elif not some and isinstance(call, exp.First | exp.Last):
        function = "arg_min_null" if isinstance(call, exp.First) else "arg_max_null"
    else:
        return None
    return f"{OWN}{function}({to_sql(call.this)}, {PLACE}){condition}"


def of_first_rows(
    calls: Sequence[str], keys: Sequence[str], ends: str, rows: str, at_ends: Sequence[str]
) -> str:
    """The groups with `calls` of the rows of a table at one of their ends.

    `rows` is what stands behind FROM, with `PLACE`, `ends` gives the groups, then their ends;
    `at_ends` are conditions (`Taken.at`).
    """
    groups = [f"{END}{i}" for i in range(len(keys))]
    at_end = " OR ".join(at_ends)
    same = "".join(
        f"({k}) IS NOT DISTINCT FROM {g} AND " for k, g in zip(keys, groups, strict=True)
    )
    by = f" GROUP BY {', '.join(groups)}" if keys else ""
    listed = ", ".join([*groups, *calls])
    return f"SELECT {listed} FROM {ends} LEFT JOIN {rows} ON {same}({at_end}){by}"
