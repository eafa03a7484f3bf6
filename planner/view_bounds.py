"""Between which values terms over a table's columns lie, by what DuckDB keeps of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from itertools import product

from sqlglot import exp

from tidewheel.planner.maintain import Queries
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import to_sql

Bounds = tuple[Decimal, Decimal]
_OWN = "system.main."  # whatever macros there are
_DIGITS = 1000  # no product of a few HUGEINTs is rounded


def bounds(text: Text, names: Sequence[str], run: Queries) -> dict[str, Bounds]:
    """The least and the greatest value that some columns of `text` may have, where that is known.

    DuckDB does not keep them of terms alone: it computes the term of a row to say so, and that may
    fail where the row is filtered out.
    """
    terms = {n: text.columns[n] for n in names if text.tables == 1}
    found = {n: [to_sql(c) for c in term.find_all(exp.Column)] for n, term in terms.items()}
    columns = list(dict.fromkeys(c for of in found.values() for c in of))
    if not columns:
        return {}
    ends = (f"{_OWN}stats({c}).{end}::VARCHAR" for c in columns for end in ("min", "max"))
    rows = run.rows(f"SELECT {', '.join(ends)} FROM {text.source} LIMIT 1")
    if not rows:
        return {}
    pairs = zip(columns, map(_number, rows[0][::2]), map(_number, rows[0][1::2]), strict=True)
    known = {c: (low, high) for c, low, high in pairs if low is not None and high is not None}
    with localcontext(prec=_DIGITS):
        between = {n: _between(term, known) for n, term in terms.items()}
    return {n: both for n, both in between.items() if both is not None}


def _between(term: exp.Expr, known: Mapping[str, Bounds]) -> Bounds | None:
    if isinstance(term, exp.Paren):
        return _between(term.this, known)
    if isinstance(term, exp.Column):
        return known.get(to_sql(term))
    if isinstance(term, exp.Literal):
        value = None if term.is_string else _number(term.this)
        return None if value is None else (value, value)
    if not isinstance(term, exp.Add | exp.Sub | exp.Mul):
        return None
    left, right = _between(term.this, known), _between(term.expression, known)
    if left is None or right is None:
        return None
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
