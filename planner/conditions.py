"""Conditions as other ones: what is TRUE where they are FALSE, and the simple ones in them."""

from __future__ import annotations

from functools import reduce
from typing import TypeGuard

from sqlglot import exp

_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
_SWAPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_FEW = 8
"""Of more values IN is quicker as it is."""


def equality(condition: exp.Expr) -> TypeGuard[exp.EQ | exp.NullSafeEQ]:
    """Does it say that two values are equal? ``x = ANY(list)`` does not: ANY is no value."""
    return isinstance(condition, exp.EQ | exp.NullSafeEQ) and not of_many(condition)


def of_many(comparison: exp.Expr) -> bool:
    """Is it one with the values of a list, by ANY or ALL?"""
    return isinstance(comparison.args.get("expression"), exp.Any | exp.All)


def swapped(comparison: type[exp.Expr]) -> type[exp.Expr]:
    """The comparison that holds of the sides changed over."""
    return _SWAPPED.get(comparison, comparison)


def simpler(expression: exp.Expr) -> exp.Expr | None:
    """BETWEEN, or IN a few expressions, as comparisons; None for others."""
    value = expression.this
    if isinstance(expression, exp.Between) and not expression.args.get("symmetric"):
        low = exp.GTE(this=value.copy(), expression=expression.args["low"].copy())
        high = exp.LTE(this=value.copy(), expression=expression.args["high"].copy())
        return exp.And(this=low, expression=high)
    if not isinstance(expression, exp.In) or expression.args.get("query"):
        return None
    if not 0 < len(expression.expressions) <= _FEW:
        return None
    # TRUE if one of the comparisons is: a NULL among them makes it NULL instead of FALSE.
    equal: list[exp.Expr] = [
        exp.EQ(this=value.copy(), expression=e.copy()) for e in expression.expressions
    ]
    return reduce(lambda one, other: exp.Or(this=one, expression=other), equal)


def opposite(expression: exp.Expr) -> exp.Expr | None:
    """What is TRUE where a condition is FALSE, neither where it is NULL; None: not said here."""
    expression = simpler(expression) or expression
    if isinstance(expression, exp.Not):
        inner: exp.Expr = expression.this
        return inner
    if type(expression) in _OPPOSITE and not of_many(expression):
        to = _OPPOSITE[type(expression)]
        return to(this=expression.this.copy(), expression=expression.expression.copy())
    if not isinstance(expression, exp.And | exp.Or):
        return None
    one, other = (exp.Not(this=e.copy()) for e in (expression.this, expression.expression))
    return (exp.And if isinstance(expression, exp.Or) else exp.Or)(this=one, expression=other)
