"""Aggregates in a recursive step that can only improve: which they are, and why others are not.

A step ``SELECT key, min(e) … GROUP BY key`` gives candidates; the table keeps the best one of each
key. That has one meaning whatever the order of evaluation iff a better input never gives a worse
output: `e` must not fall when the recursive table's own minimum rises (it is *rising* in it), and
the minimum must not be used in any other way than in conditions that a better value cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

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


def _bare(item: exp.Expr) -> exp.Expr:
    """An item of the SELECT list without alias, cast and parentheses."""
    while isinstance(item, (exp.Alias, exp.Cast, exp.Paren)):
        item = item.this
    return item


def _own_aggregates(item: exp.Expr, select: exp.Select) -> list[exp.AggFunc]:
    return [a for a in item.find_all(exp.AggFunc) if a.find_ancestor(exp.Select) is select]


def _offset(node: exp.Expr) -> tuple[int | None, int]:
    """Where a node stands in the text, by the first of the positions that sqlglot kept."""
    spans = [
        (inner.meta["start"], inner.meta["end"])
        for inner in node.walk()
        if inner.meta.get("start") is not None and inner.meta.get("end") is not None
    ]
    if not spans:
        return None, 1
    first = min(spans)
    return first[0], first[1] - first[0] + 1


def merges(select: exp.Select, labels: Sequence[str], aliases: Collection[str]) -> Merge | Refusal:
    """How the columns of a grouped step are merged; why they cannot be.

    `labels` are the recursive table's columns as far as they are named, `aliases` its names in the
    step.
    """
    found: list[str | None] = []
    for item in select.expressions:
        aggregates = _own_aggregates(item, select)
        bare = _bare(item)
        if not aggregates:
            if isinstance(bare, exp.Star):
                return Refusal("its columns are not named (*)", *_offset(item))
            found.append(None)
            continue
        name = _SIMPLE.get(type(bare)) or _PAIRED.get(type(bare))
        if name is None or len(aggregates) != 1:
            wrong = aggregates[0]
            offset, length = _offset(wrong)
            return Refusal(
                f"{wrong.sql(dialect='duckdb')} can become worse as rows are added", offset, length
            )
        if isinstance(bare, (exp.ArgMin, exp.ArgMax)):
            partner = _partner(bare, select)
            if partner is None:
                return Refusal(
                    f"{name} needs the {name[4:]} that it follows among the columns", *_offset(bare)
                )
            name = f"{name}:{partner}"
        found.append(name)
    if all(m is not None for m in found):
        return Refusal("no column is a key of its groups")
    having = select.args.get("having")
    if all(m is None for m in found) and having is not None and having.find(exp.AggFunc):
        return Refusal(
            "HAVING may hold for some rows and no longer for more; compare count, max, or sum of "
            "what cannot be negative, such as sum(greatest(x, 0)), with a constant or a key of the "
            "groups by > or >=",
            *_offset(having),
        )
    if all(m is None for m in found):
        return Refusal("its groups have no aggregate that keeps the best value")
    refusal = _uses_are_rising(select, labels, found, aliases)
    return refusal or Merge(tuple(found))


def _partner(aggregate: exp.Expr, select: exp.Select) -> int | None:
    wanted = exp.Min if isinstance(aggregate, exp.ArgMin) else exp.Max
    by = aggregate.expression
    for i, item in enumerate(select.expressions):
        bare = _bare(item)
        if isinstance(bare, wanted) and bare.this == by:
            return i
    return None


Direction = Literal["min", "max", "bool_or", "bool_and", "bit_or", "bit_and"]


def _uses_are_rising(
    select: exp.Select,
    labels: Sequence[str],
    merge: Sequence[str | None],
    aliases: Collection[str],
) -> Refusal | None:
    """Each use of an improving column must keep an improvement an improvement."""
    improving = {
        label.lower(): how
        for label, how in zip(labels, merge, strict=False)
        if how is not None and not how.startswith("arg_")
    }

    def how(column: exp.Expr) -> str | None:
        if not isinstance(column, exp.Column):
            return None
        if column.table and column.table.lower() not in aliases:
            return None
        return improving.get(column.name.lower())

    def touched(node: exp.Expr) -> bool:
        return any(how(c) for c in node.find_all(exp.Column))

    for item, name in zip(select.expressions, merge, strict=True):
        bare = _bare(item)
        if name is None:
            if touched(item):
                return Refusal("a value that improves is used as a key", *_offset(item))
        elif name.startswith("arg_"):
            if touched(bare.this):
                return Refusal("a value that improves is used as another one's", *_offset(item))
        elif touched(bare.this) and not _rising(bare.this, name, how, touched):
            offset, length = _offset(bare.this)
            return Refusal(
                f"{bare.sql(dialect='duckdb')} may become worse when its input improves",
                offset,
                length,
            )
    conditions = [j.args.get("on") for j in select.args.get("joins") or ()]
    where = select.args.get("where")
    conditions.append(where.this if where else None)
    having = select.args.get("having")
    if having is not None:
        return Refusal("HAVING may drop a row that another step needs", *_offset(having.this))
    for condition in conditions:
        if condition is None:
            continue
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            if touched(part) and not _kept(part, how, touched):
                offset, length = _offset(part)
                return Refusal(
                    f"an improved value may fail the condition {part.sql(dialect='duckdb')}",
                    offset,
                    length,
                )
    return None


def _rising(node: exp.Expr, name: str, how: object, touched: object) -> bool:
    """Is `node` rising in the improving columns in it, all of which improve in `name`'s way?"""
    assert callable(how)
    assert callable(touched)
    if not touched(node):
        return True
    if isinstance(node, exp.Column):
        return bool(how(node) == name)
    if isinstance(node, (exp.Paren, exp.Cast)):
        return _rising(node.this, name, how, touched)
    if isinstance(node, (exp.Add, exp.Least, exp.Greatest, exp.And, exp.Or, exp.Coalesce)):
        if isinstance(node, (exp.And, exp.Or)) and name not in ("bool_or", "bool_and"):
            return False
        if isinstance(node, exp.Coalesce):
            return False
        if isinstance(node, exp.Add) and name not in ("min", "max"):
            return False
        parts = [node.this, *([node.expression] if node.args.get("expression") else [])]
        parts += node.expressions
        return all(_rising(p, name, how, touched) for p in parts if p is not None)
    if isinstance(node, exp.Sub) and name in ("min", "max"):
        return _rising(node.this, name, how, touched) and not touched(node.expression)
    if isinstance(node, exp.Mul) and name in ("min", "max"):
        left, right = node.this, node.expression
        if touched(left) and touched(right):
            return False
        factor, rest = (right, left) if touched(left) else (left, right)
        return _is_positive(factor) and _rising(rest, name, how, touched)
    if isinstance(node, (exp.BitwiseOr, exp.BitwiseAnd)) and name in ("bit_or", "bit_and"):
        return _rising(node.this, name, how, touched) and _rising(
            node.expression, name, how, touched
        )
    return False


def _kept(part: exp.Expr, how: object, touched: object) -> bool:
    """Can a condition that holds not fail when an improving column in it improves?"""
    assert callable(how)
    assert callable(touched)
    if isinstance(part, exp.Paren):
        return _kept(part.this, how, touched)
    if isinstance(part, exp.Or):
        return all(not touched(p) or _kept(p, how, touched) for p in part.flatten())
    if isinstance(part, exp.Column):
        return bool(how(part) == "bool_or")
    if isinstance(part, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
        left, right = part.this, part.expression
        less = isinstance(part, (exp.LT, exp.LTE))
        if touched(left) and touched(right):
            return False
        small, side = ("min", left) if touched(left) == less else ("max", left)
        if touched(right):
            small, side = ("max", right) if less else ("min", right)
        elif not less:
            small = "max"
        return _rising(side, small, how, touched)
    return False


def _is_positive(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _is_not_negative(node: exp.Expr) -> bool:
    """Is a value provably not below zero?"""
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Abs):
        return True
    if isinstance(node, exp.Greatest):
        return any(_is_not_negative(p) for p in [node.this, *node.expressions])
    if isinstance(node, (exp.Paren, exp.Cast)):
        if isinstance(node, exp.Cast) and node.to.sql(dialect="duckdb").upper() in (
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
        ):
            return True
        return _is_not_negative(node.this)
    if isinstance(node, (exp.Add, exp.Mul)):
        return _is_not_negative(node.this) and _is_not_negative(node.expression)
    if isinstance(node, exp.Case):
        results = [i.args["true"] for i in node.args.get("ifs", [])]
        default = node.args.get("default")
        return all(_is_not_negative(r) for r in results if r is not None) and (
            default is None or _is_not_negative(default)
        )
    return False


def threshold(select: exp.Select, aliases: Collection[str]) -> bool:
    """Is a grouped step a set of keys whose HAVING, once it holds, holds for ever?

    Aggregates may stand in HAVING only, each compared with what the group has from the start and
    it grows towards: ``count(*) >= 3``, ``sum(greatest(share, 0)) > 50``, ``max(x) > 1``,
    ``min(x) < 1``, and ``count(*) >= need`` where ``need`` is a key of the groups (no other column
    can stand in HAVING).
    """
    having = select.args.get("having")
    if having is None or any(_own_aggregates(i, select) for i in select.expressions):
        return False
    condition = having.this
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return all(_stays_true(p, select) for p in parts)


def _stays_true(part: exp.Expr, select: exp.Select) -> bool:
    if isinstance(part, exp.Paren):
        return _stays_true(part.this, select)
    if not isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return not list(part.find_all(exp.AggFunc)) or isinstance(part, exp.LogicalOr)
    left, right = part.this, part.expression
    greater = isinstance(part, (exp.GT, exp.GTE))
    if not list(left.find_all(exp.AggFunc)):
        left, right, greater = right, left, not greater
    if right.find(exp.AggFunc):
        return False
    if any(c.find_ancestor(exp.Select) is not select for c in right.find_all(exp.Column)):
        return False
    left = _bare(left)
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
        return greater and _is_not_negative(value)
    return False
