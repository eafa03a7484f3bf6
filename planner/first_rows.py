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
    """arg_min or arg_max: which value, by what. Both are NULL in rows that do not count."""

    function: str
    value: exp.Expr
    by: exp.Expr


def taken(expression: exp.Expr) -> Taken | None:
    """arg_min or arg_max taken apart; None for other functions, and what takes several rows."""
    condition, call = [], expression
    if isinstance(call, exp.Filter):
        condition, call = [call.expression.this], call.this
    if not isinstance(call, exp.ArgMin | exp.ArgMax):
        return None
    value, by = call.this, call.expression
    if call.args.get("count") or isinstance(value, exp.Distinct) or by.find(exp.Order):
        return None
    there = [exp.Not(this=exp.Is(this=exp.paren(e), expression=exp.Null())) for e in (value, by)]
    counts = exp.and_(*there, *condition)
    cases = [exp.Case(ifs=[exp.If(this=counts.copy(), true=e.copy())]) for e in (value, by)]
    return Taken("arg_min" if isinstance(call, exp.ArgMin) else "arg_max", *cases)


def unordered(expression: exp.Expr, kind: pa.DataType) -> str | None:
    """first, last or any_value of rows with their place, by that alone; `kind` is its type.

    None for other functions, and values that are sort keys on their way, where -0.0 is 0.0.
    """
    condition, call = "", expression
    if isinstance(call, exp.Filter):
        condition, call = f" FILTER (WHERE {to_sql(call.expression.this)})", call.this
    some = isinstance(call, exp.IgnoreNulls)
    call = call.this if some else call
    key = pa.types.is_nested(kind) or pa.types.is_float16(kind) or pa.types.is_float32(kind)
    if key or isinstance(kind, pa.BaseExtensionType) or call.find(exp.Order, exp.Distinct):
        return None
    if isinstance(call, exp.AnyValue) or (some and isinstance(call, exp.First)):
        function = "arg_min"
    elif not some and isinstance(call, exp.First | exp.Last):
        function = "arg_min_null" if isinstance(call, exp.First) else "arg_max_null"
    else:
        return None
    return f"{OWN}{function}({to_sql(call.this)}, {PLACE}){condition}"


def end_of(function: str, by: str) -> str:
    """The value of `by` that arg_min or arg_max goes to."""
    return f"{OWN}{function.removeprefix('arg_')}({by})"


def first_row(value: str, by: str, end: int, kind: pa.DataType) -> str:
    """A group's `value` in its first row whose `by`, of a type, is the end with a number."""
    place = PLACE if sql_name(kind) in _KEPT else f"{PLACE}::UBIGINT"
    return f"{OWN}arg_min({value}, {place}) FILTER (WHERE {by} = {END}{end})"


def of_first_rows(
    calls: Sequence[str], keys: Sequence[str], ends: str, rows: str, bys: Sequence[tuple[str, int]]
) -> str:
    """The groups with `calls` of the rows of a table at one of their ends.

    `rows` is what stands behind FROM, with `PLACE`, `ends` gives the groups, then their ends;
    `bys` tells what is compared with which.
    """
    groups = [f"{END}{i}" for i in range(len(keys))]
    at_end = " OR ".join(f"{by} = {END}{i}" for by, i in bys)
    same = "".join(
        f"({k}) IS NOT DISTINCT FROM {g} AND " for k, g in zip(keys, groups, strict=True)
    )
    by = f" GROUP BY {', '.join(groups)}" if keys else ""
    listed = ", ".join([*groups, *calls])
    return f"SELECT {listed} FROM {ends} LEFT JOIN {rows} ON {same}({at_end}){by}"
