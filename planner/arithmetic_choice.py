"""One of several numbers, without a statement: CASE, COALESCE, LEAST and GREATEST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from tidewheel.engine.operators.linear import Predicate
from tidewheel.engine.state.columns import Array, Col, Mask
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.number import NeedsKernel, Number, Run, as_double, scaled
from tidewheel.planner.text import own_call
from tidewheel.planner.texts import case_pairs, too_deep


def case_of(
    expression: exp.Case | exp.If,
    operand: Callable[[exp.Expr | None], Number | None],
    predicate: Callable[[exp.Expr], Predicate | None],
    by_row: Callable[[exp.Expr], ByRow | None],
) -> Number | None:
    """CASE, or IF."""
    tests: list[Predicate] = []
    holds: list[ByRow] = []
    arms: list[Number] = []
    if too_deep(expression):
        return None
    for condition, value in case_pairs(expression):
        if condition is None and isinstance(value, exp.Null):
            break
        arm = operand(value)
        if arm is None:
            return None
        arms.append(arm)
        if condition is None:
            holds.append(lambda row: True)
            break
        test, of_row = predicate(condition), by_row(condition)
        if test is None:
            return None
        tests.append(test)
        holds += [] if of_row is None else [of_row]
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
        if len(arms) == len(tests):
            nulls |= todo
        return values, nulls if nulls.any() else None

    rows = _rows(arms)
    row: ByRow | None = None
    if rows is not None and len(holds) == len(arms):
        pairs = list(zip(holds, rows, strict=True))

        def row(given: Row) -> Any:
            return next((value(given) for test, value in pairs if test(given)), None)

    return _one_of(arms, scale, compute, row)


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

    rows = _rows(arms)
    best: Callable[..., Any] = min if better is np.less else max

    def row(given: Row) -> Any:
        values = [v for f in rows or () if (v := f(given)) is not None]
        if any(v != v for v in values):
            raise NeedsKernel
        return best(values, default=None)

    return _one_of(arms, scale, compute, None if rows is None else row)


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

    rows = _rows(arms)

    def row(given: Row) -> Any:
        found = next((v for f in rows or () if (v := f(given)) is not None), None)
        if fails and found is None:
            raise NeedsKernel
        return found

    return _one_of(arms, scale, compute, None if rows is None else row)


def is_error(expression: exp.Expr) -> bool:
    """Is it a call of DuckDB's error(), or of an aggregate of a list that does not allow it?"""
    call = own_call(expression) or expression
    return isinstance(call, exp.Anonymous) and call.name.lower() in ("error", "list_aggregate")


def _rows(arms: Sequence[Number]) -> list[ByRow] | None:
    """What computes them of one row; None where one has no form for that."""
    found = [arm.row for arm in arms if arm.row is not None]
    return found if len(found) == len(arms) else None


def _one_of(arms: Sequence[Number], scale: int | None, compute: Run, row: ByRow | None) -> Number:
    """What is one of several numbers: of the widest of their types."""
    bits = max(arm.bits or 0 for arm in arms) or None
    integer = all(arm.integer for arm in arms)
    return Number(compute, scale, bits, integer, any(arm.wide for arm in arms), row)


def _alike(arms: Sequence[Number]) -> tuple[list[Number], int | None]:
    """Numbers with equally many digits behind the point, and how many; None: doubles."""
    if any(arm.scale is None for arm in arms):
        return [as_double(arm) for arm in arms], None
    scale = max(arm.scale or 0 for arm in arms)
    return [scaled(arm, scale) for arm in arms], scale
