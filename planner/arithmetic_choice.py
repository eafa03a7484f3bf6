"""One of several numbers, without a statement: CASE, COALESCE, LEAST and GREATEST."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sqlglot import exp

from tidewheel.engine.operators.linear import Predicate
from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.planner.number import NeedsKernel, Number, Run, as_double, scaled
from tidewheel.planner.text import own_call


def case_of(
    expression: exp.Case,
    operand: Callable[[exp.Expr | None], Number | None],
    predicate: Callable[[exp.Expr], Predicate | None],
) -> Number | None:
    """CASE WHEN … without a value to compare with."""
    tests: list[Predicate] = []
    arms: list[Number] = []
    for branch in expression.args["ifs"]:
        test, arm = predicate(branch.this), operand(branch.args["true"])
        if test is None or arm is None:
            return None
        tests.append(test)
        arms.append(arm)
    default = expression.args.get("default")
    if default is not None and not isinstance(default, exp.Null):
        last = operand(default)
        if last is None:
            return None
        arms.append(last)
    arms, scale = _alike(arms)

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values = np.zeros(n, np.int64 if scale is not None else np.float64)
        nulls = np.zeros(n, bool)
        todo = np.ones(n, bool)
        for i, arm in enumerate(arms):
            chosen = todo & tests[i](cols, n) if i < len(tests) else todo
            found, missing = arm.run(cols, n)
            np.copyto(values, found, where=chosen)
            if missing is not None:
                np.copyto(nulls, missing, where=chosen)
            todo = todo & ~chosen
        nulls |= todo
        return values, nulls if nulls.any() else None

    return _one_of(arms, scale, compute)


def extreme(
    expression: exp.Least | exp.Greatest, operand: Callable[[exp.Expr | None], Number | None]
) -> Number | None:
    """LEAST or GREATEST, which pass over NULLs."""
    found = [operand(e) for e in (expression.this, *expression.expressions)]
    given = [arm for arm in found if arm is not None]
    if len(given) < len(found):
        return None
    arms, scale = _alike(given)
    better = np.less if isinstance(expression, exp.Least) else np.greater

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values = np.zeros(n, np.int64 if scale is not None else np.float64)
        nulls = np.ones(n, bool)
        for arm in arms:
            value, missing = arm.run(cols, n)
            if scale is None and np.isnan(value).any():
                raise NeedsKernel  # to DuckDB it is greater than all else
            chosen = nulls | better(value, values)
            if missing is not None:
                chosen &= ~missing
            np.copyto(values, value, where=chosen)
            nulls &= ~chosen
        return values, nulls if nulls.any() else None

    return _one_of(arms, scale, compute)


def first_known(
    expression: exp.Coalesce, operand: Callable[[exp.Expr | None], Number | None]
) -> Number | None:
    """COALESCE; its last argument may be one that only fails, which DuckDB then is to tell of."""
    parts = [expression.this, *expression.expressions]
    fails = is_error(parts[-1])
    given = [a for a in map(operand, parts[:-1] if fails else parts) if a is not None]
    if len(given) + fails < len(parts):
        return None
    arms, scale = _alike(given)

    def compute(cols: Sequence[Col], n: int) -> tuple[Array, Mask | None]:
        values, nulls = arms[0].run(cols, n)
        for arm in arms[1:]:
            if nulls is None:
                break
            value, missing = arm.run(cols, n)
            values = np.where(nulls, value, values)
            nulls = None if missing is None else nulls & missing
        if nulls is not None and not nulls.any():
            nulls = None
        if fails and nulls is not None:
            raise NeedsKernel
        return values, nulls

    return _one_of(arms, scale, compute)


def is_error(expression: exp.Expr) -> bool:
    """Is it a call of DuckDB's error(), or of an aggregate of a list that does not allow it?"""
    call = own_call(expression) or expression
    return isinstance(call, exp.Anonymous) and call.name.lower() in ("error", "list_aggregate")


def _one_of(arms: Sequence[Number], scale: int | None, compute: Run) -> Number:
    """What is one of several numbers: of the widest of their types."""
    bits = max(arm.bits or 0 for arm in arms) or None
    integer = all(arm.integer for arm in arms)
    return Number(compute, scale, bits, integer, any(arm.wide for arm in arms))


def _alike(arms: Sequence[Number]) -> tuple[list[Number], int | None]:
    """Numbers with equally many digits behind the point, and how many; None: doubles."""
    if any(arm.scale is None for arm in arms):
        return [as_double(arm) for arm in arms], None
    scale = max(arm.scale or 0 for arm in arms)
    return [scaled(arm, scale) for arm in arms], scale
