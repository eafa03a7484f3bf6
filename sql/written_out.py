"""A query with the plain views that it reads and the macros that it calls written out in it.

Ties are settled in the text of a query (`ties.py`): what a view or a macro orders must stand there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import duckdb
import sqlglot
from sqlglot import exp

from tidewheel.planner.context import Context
from tidewheel.planner.dialect import Tidewheel

from .bind_catalog import Catalog
from .bind_macros import expanded
from .bind_scope import FURTHER_OUT, NotTaken
from .bind_types import Oracle, function_name
from .statements import mentions_recursion

_DEEP = 100


def written_out(sql: str, context: Context) -> str:
    """`sql`, each plain view in it a subquery and each macro what it stands for, where that is
    certain; the text itself if there is none."""
    tree = _parsed(sql)
    if isinstance(tree, str):
        return sql
    oracle = Oracle(context)
    before = tree.copy()
    with suppress(NotTaken, RecursionError, duckdb.Error):
        tree = _without_macros(tree, oracle)
        for _ in range(_DEEP):
            if not _open_views(tree, oracle):
                break
    return sql if tree == before else tree.sql(dialect=Tidewheel)


_ONE, _SPREAD = "max(abs(a))", "max(abs(a)) * stddev_pop(a)"
_TWO = "(max(abs(a)) * stddev_pop(b) + max(abs(b)) * stddev_pop(a))"
_SIZES = {
    **dict.fromkeys(("stddev", "stddev_pop", "stddev_samp", "sem"), _ONE),
    **dict.fromkeys(("variance", "var_pop", "var_samp"), _SPREAD),
    "skewness": "power(max(abs(a)) / stddev_pop(a), 3)",
    **dict.fromkeys(("kurtosis", "kurtosis_pop"), "power(max(abs(a)) / stddev_pop(a), 4)"),
    **dict.fromkeys(("covar_pop", "covar_samp"), _TWO),
    **dict.fromkeys(("corr", "regr_r2"), f"{_TWO} / stddev_pop(a) / stddev_pop(b)"),
    "regr_sxy": f"count(*) * {_TWO}",
    "regr_slope": f"{_TWO} / var_pop(b)",
    "regr_intercept": f"{_TWO} / var_pop(b) * max(abs(b))",
}
"""How large the numbers are that are taken from each other for these calls of `a` and `b`."""


def without_signs(sql: str) -> str | None:
    """The query with abs(…) of what sum and avg add up, and sizes in place of correlations and the
    like; None if it calls none of them.

    None for a recursion, too: it may not end with other numbers.
    """
    tree = "a recursion" if mentions_recursion(sql) else _parsed(sql)
    sums = [] if isinstance(tree, str) else list(tree.find_all(exp.Sum, exp.Avg))
    calls = [] if isinstance(tree, str) else [*sums, *_sized(tree)]
    for call in sums:
        argument = call.this
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0]
        argument.replace(exp.Abs(this=argument.copy()))
    return tree.sql(dialect=Tidewheel) if calls and not isinstance(tree, str) else None


def _sized(tree: exp.Query) -> list[exp.Expr]:
    """Put sizes in the places of calls, of the same rows: with their FILTER and OVER."""
    found = []
    for call in list(tree.find_all(exp.Func)):
        size = _SIZES.get(function_name(call))
        if size is None:
            continue
        whole: exp.Expr = call
        while isinstance(whole.parent, exp.Filter | exp.Window) and whole.arg_key == "this":
            whole = whole.parent
        values = dict(zip("ab", call.iter_expressions(), strict=False))
        new = sqlglot.parse_one(f"({size})", dialect=Tidewheel)
        parts = list(new.find_all(exp.AggFunc))
        for place in list(new.find_all(exp.Column)):
            place.replace(values[place.name].copy())
        for part in parts if whole is not call else ():
            around = whole.copy()
            inner = around
            while isinstance(inner, exp.Filter | exp.Window):
                inner = inner.this
            part.replace(around)
            inner.replace(part)
        if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions":
            new = exp.alias_(new, whole.sql(dialect=Tidewheel), quoted=True)
        whole.replace(new)
        found.append(new)
    return found


def _parsed(sql: str) -> exp.Query | str:
    try:
        tree = sqlglot.parse_one(sql, dialect=Tidewheel)
    except sqlglot.errors.SqlglotError as error:
        return str(error)
    return tree if isinstance(tree, exp.Query) else "not a query"


def _without_macros(tree: exp.Query, oracle: Oracle) -> exp.Query:
    """`tree` itself where a name would mean another column once the call is written out."""
    try:
        new = expanded(tree.copy(), oracle, _parsed)
    except NotTaken:
        return tree
    return tree if any(c.meta.get(FURTHER_OUT) for c in new.find_all(exp.Column)) else new


def _open_views(tree: exp.Query, oracle: Oracle) -> bool:
    """Put the queries of plain views into their places; were there any?"""
    opened = False
    catalog = Catalog(oracle)
    for item in [t for t in tree.find_all(exp.Table) if t.name and not t.args.get("sample")]:
        found = None if _is_cte(item) else catalog.view(tuple(p.name for p in item.parts))
        if found is None or mentions_recursion(found[1]):
            continue
        relation, text = found
        query = _parsed(text)
        with oracle.inside(relation):
            if oracle.elsewhere or isinstance(query, str):
                continue  # its names mean something else here
            query = _without_macros(query, oracle)
        labels = [label for label, _ in oracle.describe(f"SELECT * FROM {relation.quoted}")]
        alias = item.args.get("alias")
        given = [c.name for c in alias.args.get("columns") or ()] if alias else []
        columns = [exp.to_identifier(c, quoted=True) for c in (*given, *labels[len(given) :])]
        named = exp.to_identifier(item.alias_or_name, quoted=True)
        called = exp.TableAlias(this=named, columns=columns)
        rest = {k: v for k, v in item.args.items() if k in ("joins", "pivots", "laterals") and v}
        item.replace(exp.Subquery(this=query, alias=called, **rest))
        opened = True
    return opened


def _is_cte(item: exp.Table) -> bool:
    if item.db or item.catalog:
        return False
    return any(cte.alias.lower() == item.name.lower() for cte in _ctes_around(item))


def _ctes_around(item: exp.Expr) -> Iterator[exp.CTE]:
    node: exp.Expr | None = item
    while node is not None:
        with_ = node.args.get("with_")
        if with_ is not None:
            yield from with_.expressions
        node = node.parent
