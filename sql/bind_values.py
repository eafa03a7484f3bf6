"""Rows of VALUES, and all rows of a query, as SELECTs."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from tidewheel.planner.text import alias_of

AT_THE_END = ("order", "limit", "offset")
_NAME = "_values"  # as sqlglot has it, which `parse_trees` knows


def reads_rows(values: exp.Values) -> bool:
    """Is there a subquery in VALUES?"""
    return any(e.find(exp.Query) for e in values.expressions)


def as_selects(values: exp.Values) -> exp.Query:
    """VALUES that read the row around, or tables: a SELECT for each row, under DuckDB's names."""
    rows = [e.expressions if isinstance(e, exp.Tuple) else [e] for e in values.expressions]
    each: list[exp.Query] = [
        exp.select(*(alias_of(v.copy(), f"col{i}") for i, v in enumerate(row))) for row in rows
    ]
    whole: exp.Query = reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), each)
    clauses = any(values.args.get(k) for k in AT_THE_END)
    return all_of(whole, values) if clauses else whole


def all_of(query: exp.Expr, clauses: exp.Expr) -> exp.Select:
    """All rows of a query, or of VALUES, with the ORDER BY, LIMIT and OFFSET of another tree."""
    bare = query.copy()
    if isinstance(bare, exp.Values):
        for key in AT_THE_END:
            bare.set(key, None)
        bare.set("alias", exp.TableAlias(this=exp.to_identifier(_NAME)))
    else:
        bare = exp.Subquery(this=bare)
    whole = exp.Select(expressions=[exp.Star()], from_=exp.From(this=bare))
    for key in AT_THE_END:
        part = clauses.args.get(key)
        whole.set(key, part and part.copy())
    return whole
