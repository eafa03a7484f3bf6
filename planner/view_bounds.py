"""Between which values terms over a table's columns lie, by what DuckDB keeps of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from itertools import product
from typing import NamedTuple

from sqlglot import exp

from tidewheel.planner.plans import Queries
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import OWN, to_sql

Bounds = tuple[Decimal, Decimal]
_DIGITS = 1000  # no product of a few HUGEINTs is rounded


class Known(NamedTuple):
    """What is known of a term: between what its values lie, and whether it is nowhere NULL.

    And of a column, about how many `different` values it has; of a term that it has no more than
    `most` (1 if nothing is known).
    """

    ends: Bounds | None
    filled: bool
    different: int | None = None
    most: int = 1


def known(text: Text, names: Sequence[str], run: Queries) -> dict[str, Known]:
    """What DuckDB keeps of a table says of some columns of `text`.

    It does not say it of terms alone: it computes the term of a row for that, which may fail where
    the row is filtered out.
    """
    terms = {n: text.columns[n] for n in names if text.tables == 1}
    found = {n: [to_sql(c) for c in term.find_all(exp.Column)] for n, term in terms.items()}
    columns = list(dict.fromkeys(c for of in found.values() for c in of))
    if not columns:
        return {}
    kept = ("min::VARCHAR", "max::VARCHAR", "has_null::BOOLEAN", "approx_unique::BIGINT")
    items = (f"{OWN}stats({c}).{item}" for c in columns for item in kept)
    rows = run.rows(f"SELECT {', '.join(items)} FROM {text.source} LIMIT 1")
    if not rows:
        return {}
    each = (rows[0][i : i + len(kept)] for i in range(0, len(rows[0]), len(kept)))
    of_columns = {c: _known(*values) for c, values in zip(columns, each, strict=True)}
    with localcontext(prec=_DIGITS):
        made = {n: _of(term, of_columns) for n, term in terms.items()}
    most = {n: math.prod(of_columns[c].different or 1 for c in set(of)) for n, of in found.items()}
    return {n: of._replace(most=most[n]) for n, of in made.items()}


def _known(low: str | None, high: str | None, null: bool | None, different: int | None) -> Known:
    ends = _number(low), _number(high)
    both = None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
    return Known(both, null is False, different)


def _of(term: exp.Expr, columns: Mapping[str, Known]) -> Known:
    if isinstance(term, exp.Paren):
        return _of(term.this, columns)
    if isinstance(term, exp.Column):
        return columns[to_sql(term)]
    if isinstance(term, exp.Literal):
        value = None if term.is_string else _number(term.this)
        return Known(None if value is None else (value, value), True)
    if isinstance(term, exp.Cast) and term.to.this == exp.DataType.Type.DOUBLE:
        return _of(term.this, columns)  # nearly
    if isinstance(term, exp.Case) and term.this is None:
        return _one_of([branch.args["true"] for branch in term.args["ifs"]], term, columns)
    if not isinstance(term, exp.Add | exp.Sub | exp.Mul):
        return Known(None, False)
    left, right = _of(term.this, columns), _of(term.expression, columns)
    filled = left.filled and right.filled
    if left.ends is None or right.ends is None:
        return Known(None, filled)
    return Known(_between(term, left.ends, right.ends), filled)


def _one_of(values: list[exp.Expr], case: exp.Case, columns: Mapping[str, Known]) -> Known:
    """What a CASE may give; it is NULL without an ELSE."""
    values.append(case.args.get("default") or exp.Null())
    given = [_of(value, columns) for value in values if not isinstance(value, exp.Null)]
    filled = len(given) == len(values) and all(value.filled for value in given)
    ends = [value.ends for value in given if value.ends is not None]
    if not ends or len(ends) < len(given):
        return Known(None, filled)
    return Known((min(low for low, _ in ends), max(high for _, high in ends)), filled)


def _between(term: exp.Expr, left: Bounds, right: Bounds) -> Bounds:
    if isinstance(term, exp.Add):
        return left[0] + right[0], left[1] + right[1]
    if isinstance(term, exp.Sub):
        return left[0] - right[1], left[1] - right[0]
    ends = [a * b for a, b in product(left, right)]
    return min(ends), max(ends)


def _number(text: str | None) -> Decimal | None:
    """A finite number; None for other values."""
    try:
        value = Decimal(text or "")
    except ArithmeticError:
        return None
    return value if value.is_finite() else None
