"""Rows of VALUES, of functions over subqueries, and all rows of a query, as SELECTs."""

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


def beside_its_values(item: exp.Expr, name: str) -> exp.Subquery | None:
    """A table function over subqueries: beside the one row of their values.

        range((SELECT max(k) FROM u)) AS t(i)
        ─▶ (SELECT t.* FROM (SELECT (SELECT max(k) FROM u) AS v) AS vs, range(vs.v) AS t(i)) AS t

    None for what has none. `name`: what its rows are called.
    """
    if not name or (apart := values_apart(item)) is None:
        return None
    values, call = apart
    alias = call.args.get("alias")
    if alias is None or alias.this is None:
        columns = alias.args.get("columns") if alias is not None else None
        call.set("alias", exp.TableAlias(this=exp.to_identifier(name), columns=columns))
    rows = exp.select(exp.Column(this=exp.Star(), table=call.args["alias"].this.copy()))
    return rows.from_(values).join(call).subquery(name)


def values_apart(item: exp.Expr) -> tuple[exp.Subquery, exp.Expr] | None:
    """One row of the values of a table function's subqueries, called VALUES, and it over these."""
    if not isinstance(item, exp.Unnest) and not isinstance(item.this, exp.Func):
        return None
    call = item.copy()
    call.set("joins", None)
    found = [s for s in call.find_all(exp.Subquery) if s.find_ancestor(exp.Subquery) is None]
    if not found:
        return None
    values = exp.Select()
    for i, subquery in enumerate(found):
        values.append("expressions", alias_of(subquery.copy(), f"{VALUES}_{i}"))
        subquery.replace(exp.column(f"{VALUES}_{i}", table=VALUES))
    return values.subquery(VALUES), call


VALUES = "__tw_values"
