"""Conditions as other ones: what is TRUE where they are FALSE, and the simple ones in them."""

from __future__ import annotations

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


def swapped(comparison: type[exp.Expr]) -> type[exp.Expr]:
    """The comparison that holds of the sides changed over."""
    return _SWAPPED.get(comparison, comparison)


def opposite(expression: exp.Expr) -> exp.Expr | None:
    """What is TRUE where a condition is FALSE, neither where it is NULL; None: not said here."""
    if isinstance(expression, exp.Not):
        inner: exp.Expr = expression.this
        return inner
    if type(expression) in _OPPOSITE:
        to = _OPPOSITE[type(expression)]
        return to(this=expression.this.copy(), expression=expression.expression.copy())
    parts = conjuncts(expression)
    if isinstance(expression, exp.And | exp.Or):
        parts = (expression.this, expression.expression)
    if parts is None:
        return None
    one, other = (exp.Not(this=part.copy()) for part in parts)
    return (exp.And if isinstance(expression, exp.Or) else exp.Or)(this=one, expression=other)


def conjuncts(expression: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """BETWEEN as the two conditions of which both must hold; None for others."""
    if not isinstance(expression, exp.Between) or expression.args.get("symmetric"):
        return None
    low = exp.GTE(this=expression.this.copy(), expression=expression.args["low"].copy())
    high = exp.LTE(this=expression.this.copy(), expression=expression.args["high"].copy())
    return low, high


def listed(expression: exp.Expr) -> list[exp.Expr] | None:
    """IN a few expressions as the conditions of which one must hold; None for others."""
    if not isinstance(expression, exp.In) or expression.args.get("query"):
        return None
    if not 0 < len(expression.expressions) <= _FEW:
        return None
    value = expression.this
    return [exp.EQ(this=value.copy(), expression=e.copy()) for e in expression.expressions]
