"""Aggregates in a recursive step that can only improve: which they are, and why others are not.

A step ``SELECT key, min(e) … GROUP BY key`` gives candidates; the table keeps the best one of each
key. That has one meaning whatever the order of evaluation iff a better input never gives a worse
output: `e` must not fall when the recursive table's own minimum rises (it is *rising* in it), and
the minimum must not be used in any other way than in conditions that a better value cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

_SIMPLE: dict[type[exp.Expr], str] = {
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalOr: "bool_or",
    exp.LogicalAnd: "bool_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseAndAgg: "bit_and",
}
_PAIRED: dict[type[exp.Expr], str] = {exp.ArgMin: "arg_min", exp.ArgMax: "arg_max"}


@dataclass(frozen=True)
class Merge:
    """Per column how two candidates are merged: None for a key, "min", …, "arg_min:2"."""

    columns: tuple[str | None, ...]


@dataclass(frozen=True)
class Refusal:
    """Why a step is not monotone; `offset` is the place within its text."""

    reason: str
    offset: int | None = None
    length: int = 1


def improving(value: exp.Expr) -> str:
    """The name of an aggregate of one value that can only improve; empty for anything else."""
    return _SIMPLE.get(type(value), "")


def bare(item: exp.Expr) -> exp.Expr:
    """An item of the SELECT list without alias, cast and parentheses."""
    while isinstance(item, (exp.Alias, exp.Cast, exp.Paren)):
        item = item.this
    return item


def filtered(value: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """An aggregate, and the condition of its FILTER."""
    if isinstance(value, exp.Filter):
        return value.this, value.expression.this
    return value, None


def aggregates(item: exp.Expr) -> Iterator[exp.Expr]:
    """The calls of aggregates in an expression, those of windows too."""
    for found in item.find_all(exp.AggFunc, exp.Anonymous):
        if isinstance(found, exp.AggFunc) or aggregate_name(found) in UNKNOWN:
            yield found


def aggregate_name(call: exp.Expr) -> str:
    """What DuckDB calls an aggregate, in lower case."""
    own = call.name if isinstance(call, exp.Anonymous) else call.sql_name()  # type: ignore[attr-defined]
    return str(own).lower()


_NAMES = (
    "arbitrary arg_max_null arg_max_nulls_last arg_min_null arg_min_nulls_last bitstring_agg "
    "combine_aggr count_star decimal_average entropy favg fsum histogram histogram_exact kahan_sum "
    "kurtosis_pop lttb mad mean product reservoir_quantile sem sum_no_overflow sumkahan "
    "variant_group_object"
)
UNKNOWN = frozenset(_NAMES.split())
"""DuckDB's aggregates that sqlglot takes for any function."""


def own_aggregates(item: exp.Expr, select: exp.Select) -> list[exp.Expr]:
    return [a for a in aggregates(item) if a.find_ancestor(exp.Select) is select]


def _spans(node: exp.Expr) -> list[tuple[int, int]]:
    return [
        (inner.meta["start"], inner.meta["end"])
        for inner in node.walk()
        if inner.meta.get("start") is not None and inner.meta.get("end") is not None
    ]


def extent(column: exp.Column) -> tuple[int, int]:
    """Where a column's name begins and ends (exclusive) in the text that was parsed."""
    spans = _spans(column)
    return min(start for start, _ in spans), max(end for _, end in spans) + 1


def refusal(reason: str, node: exp.Expr) -> Refusal:
    """A refusal at the first of the positions that sqlglot kept of a node."""
    spans = _spans(node)
    if not spans:
        return Refusal(reason)
    first = min(spans)
    return Refusal(reason, first[0], first[1] - first[0] + 1)


def merges(select: exp.Select) -> Merge | Refusal:
    """How the columns of a grouped step are merged; why they cannot be.

    Whether better values only improve what it derives, `recursion_rising` tells.
    """
    found: list[str | None] = []
    for item in select.expressions:
        own = own_aggregates(item, select)
        value, condition = filtered(bare(item))
        if not own:
            if isinstance(value, exp.Star):
                return refusal("its columns are not named (*)", item)
            found.append(None)
            continue
        name = _SIMPLE.get(type(value)) or _PAIRED.get(type(value))
        if name is None or len(own) != 1:
            text = own[0].sql(dialect="duckdb")
            if isinstance(own[0], exp.GroupConcat):  # (sqlglot writes LISTAGG)
                text = f"string_agg{text[text.index('(') :]}"
            return refusal(f"{text} can become worse as rows are added", own[0])
        if isinstance(value, (exp.ArgMin, exp.ArgMax)):
            partner = _partner(value, select) if condition is None else None
            if partner is None:
                return refusal(
                    f"{name} needs the {name[4:]} that it follows among the columns", value
                )
            name = f"{name}:{partner}"
        found.append(name)
    if all(m is not None for m in found):
        return Refusal("no column is a key of its groups")
    having = select.args.get("having")
    if all(m is None for m in found) and having is not None and list(aggregates(having)):
        return refusal(
            "HAVING may hold for some rows and no longer for more; compare count, max, or sum of "
            "what cannot be negative, such as sum(greatest(x, 0)), with a constant or a key of the "
            "groups by > or >=",
            having,
        )
    if all(m is None for m in found):
        return Refusal("its groups have no aggregate that keeps the best value")
    return Merge(tuple(found))


def _partner(aggregate: exp.Expr, select: exp.Select) -> int | None:
    wanted = exp.Min if isinstance(aggregate, exp.ArgMin) else exp.Max
    by = aggregate.expression
    for i, item in enumerate(select.expressions):
        value = bare(item)
        if isinstance(value, wanted) and value.this == by:
            return i
    return None


def is_not_negative(node: exp.Expr) -> bool:
    """Is a value provably not below zero?"""
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Abs):
        return True
    if isinstance(node, exp.Greatest):
        return any(is_not_negative(p) for p in [node.this, *node.expressions])
    if isinstance(node, (exp.Paren, exp.Cast)):
        if isinstance(node, exp.Cast) and node.to.sql(dialect="duckdb").upper() in (
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
        ):
            return True
        return is_not_negative(node.this)
    if isinstance(node, (exp.Add, exp.Mul)):
        return is_not_negative(node.this) and is_not_negative(node.expression)
    if isinstance(node, exp.Case):
        results = [i.args["true"] for i in node.args.get("ifs", [])]
        default = node.args.get("default")
        return all(is_not_negative(r) for r in results if r is not None) and (
            default is None or is_not_negative(default)
        )
    return False


def threshold(select: exp.Select) -> bool:
    """Is a grouped step a set of keys whose HAVING, once it holds, holds for ever?

    Aggregates may stand in HAVING only, each compared with what the group has from the start and
    it grows towards: ``count(*) >= 3``, ``sum(greatest(share, 0)) > 50``, ``max(x) > 1``,
    ``min(x) < 1``, and ``count(*) >= need`` where ``need`` is a key of the groups (no other column
    can stand in HAVING).
    """
    having = select.args.get("having")
    if having is None or any(own_aggregates(i, select) for i in select.expressions):
        return False
    condition = having.this
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return all(_stays_true(p, select) for p in parts)


def _stays_true(part: exp.Expr, select: exp.Select) -> bool:
    if isinstance(part, exp.Paren):
        return _stays_true(part.this, select)
    if not isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return not list(aggregates(part)) or isinstance(part, exp.LogicalOr)
    left, right = part.this, part.expression
    greater = isinstance(part, (exp.GT, exp.GTE))
    if not list(aggregates(left)):
        left, right, greater = right, left, not greater
    if list(aggregates(right)):
        return False
    if any(c.find_ancestor(exp.Select) is not select for c in right.find_all(exp.Column)):
        return False
    left, _ = filtered(bare(left))
    if isinstance(left, exp.Max):
        return greater
    if isinstance(left, exp.Min):
        return not greater
    if isinstance(left, exp.Count):
        return greater
    if isinstance(left, exp.Sum):
        value = left.this
        if isinstance(value, exp.Distinct):
            return False
        return greater and is_not_negative(value)
    return False
