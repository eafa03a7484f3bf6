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
from .bind_types import Oracle
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


def without_signs(sql: str) -> str | None:
    """The query with abs(…) of what sum and avg add up; None if it calls neither.

    None for a recursion, too: it may not end with other numbers.
    """
    tree = "a recursion" if mentions_recursion(sql) else _parsed(sql)
    calls = [] if isinstance(tree, str) else list(tree.find_all(exp.Sum, exp.Avg))
    for call in calls:
        argument = call.this
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0]
        argument.replace(exp.Abs(this=argument.copy()))
    return tree.sql(dialect=Tidewheel) if calls and not isinstance(tree, str) else None


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
