"""ORDER BY, LIMIT and OFFSET at the end of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    Filter,
    Named,
    Node,
    Project,
    SortKey,
    TopK,
    Window,
    references,
)
from tidewheel.planner.order_of_rows import WRITTEN
from tidewheel.planner.text import column, to_sql, unchanged

from .bind_scope import Names, NotTaken
from .bind_types import Oracle, is_volatile

Query = TypeVar("Query", bound=exp.Query)


def is_all(key: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Is `key` an ``ORDER BY *``, which is ``ORDER BY ALL``? With others it is FROM's columns."""
    return len(keys) == 1 and isinstance(key, exp.Star) and not any(key.args.values())


def with_constants(tree: exp.Expr, oracle: Oracle) -> exp.Expr:
    """The query with ``LIMIT 2 * 5`` as the number that it is, ``LIMIT NULL``, ``LIMIT ALL`` and
    ``OFFSET 0`` as none."""
    found = tree
    for key in ("limit", "offset"):
        clause = tree.args.get(key)
        if not isinstance(clause, exp.Limit | exp.Offset) or clause.args.get("limit_options"):
            continue
        count = clause.expression
        if _is_none(clause):
            value = None
        elif _is_whole(count) or not _is_constant(count):
            continue
        else:
            text = to_sql(count)
            ((value, none),) = oracle.rows(f"SELECT TRY_CAST({text} AS BIGINT), ({text}) IS NULL")
            if value is None and not none:
                raise NotTaken("LIMIT by what is no number")  # DuckDB says so
        found = found.copy() if found is tree else found
        if value is None or (key == "offset" and value == 0):
            found.set(key, None)
        elif value >= 0:
            found.args[key].set("expression", exp.Literal.number(value))
    return found


def _is_none(clause: exp.Limit | exp.Offset) -> bool:
    """Is it a ``LIMIT ALL`` or an ``OFFSET 0``?"""
    word = clause.expression.name.upper()
    if isinstance(clause, exp.Limit):
        return isinstance(clause.expression, exp.Var) and word == "ALL"
    return isinstance(clause.expression, exp.Literal) and word == "0"


def _is_whole(count: exp.Expr | None) -> bool:
    """Is it a number as it is meant? 1.5 is 2, and 1e1 is 10."""
    return isinstance(count, exp.Neg) or (
        isinstance(count, exp.Literal) and count.is_int and len(count.name) < 19
    )


def _is_constant(count: exp.Expr | None) -> bool:
    varying = (exp.Column, exp.Query, exp.Placeholder, exp.Parameter)
    return count is not None and count.find(*varying) is None and not is_volatile(count)


def limits(tree: exp.Expr) -> bool:
    """Does a query have a LIMIT or an OFFSET?"""
    return bool(tree.args.get("limit") or tree.args.get("offset"))


def lets_one_through(tree: exp.Expr) -> bool:
    """Does a query with a LIMIT have rows whenever the one without it has?"""
    limit = tree.args.get("limit")
    if not isinstance(limit, exp.Limit) or tree.args.get("offset") or limit.args.get("offset"):
        return False
    count = limit.expression
    whole = isinstance(count, exp.Literal) and count.is_int and int(count.name) > 0
    return whole and not limit.args.get("limit_options")


def without_limit(tree: Query) -> Query:
    """A query without the LIMIT that it has rows without, and with."""
    if lets_one_through(tree):
        tree = tree.copy()
        tree.set("limit", None)
    return tree


def limited(
    node: Node,
    tree: exp.Expr,
    keys: Sequence[SortKey],
    each: Sequence[exp.Expr] = (),
    names: Names | None = None,
) -> Node:
    """`node` under the ORDER BY `keys`, LIMIT and OFFSET of `tree`, for `each` value apart."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    count = start = None
    if limit is not None:
        count = _count(limit)
    if offset is not None:
        start = offset.expression
    if isinstance(count, exp.Literal) and count.name == "0":
        return Filter(node, exp.false())
    for part in (count, start):
        if part is not None and not isinstance(part, (exp.Literal, exp.Placeholder, exp.Neg)):
            raise NotTaken("LIMIT by an expression")
    if each and names is not None:
        return _of_each(node, keys, count, start, each, names)
    if count is None and start is None:
        return TopK(node, tuple(keys)) if keys else node
    return TopK(node, tuple(keys), count, start) if keys else _first(node, count, start)


def _count(limit: exp.Expr) -> exp.Expr:
    """How many rows a LIMIT, or a FETCH FIRST, lets through."""
    options = limit.args.get("limit_options")
    if options and any(options.args.get(k) for k in ("percent", "with_ties")):
        raise NotTaken("LIMIT in percent, or WITH TIES")
    if limit.args.get("offset"):
        raise NotTaken("LIMIT with its OFFSET before a comma")
    count: exp.Expr | None = limit.args.get(
        "count" if isinstance(limit, exp.Fetch) else "expression"
    )
    return exp.Literal.number(1) if count is None else count


def row_numbers(
    node: Node, groups: Sequence[exp.Expr], order: Sequence[SortKey], names: Names
) -> tuple[exp.Expr, Node]:
    """`node` with the place of each row in its group, and that column."""
    place = names.fresh("place", "BIGINT")
    call = exp.Window(this=exp.RowNumber(), partition_by=[e.copy() for e in groups])
    if order:
        items = [
            exp.Ordered(this=k.expr.copy(), desc=k.descending, nulls_first=k.nulls_first)
            for k in order
        ]
        call.set("order", exp.Order(expressions=items))
    call.this.meta[WRITTEN] = "LIMIT"
    return column(place.name), Window(node, (Named(place, call),))


def first_rows(node: Node, groups: Sequence[exp.Expr], names: Names) -> Node:
    """Of each group the first row, in the order in which the rows are there."""
    by = {e.name for e in groups}  # columns of `node`, all of them
    keys, firsts, values = [], [], []
    for c in node.schema:
        of = replace(names.fresh(c.label, c.type), label=c.label)
        value = column(c.name)
        if c.name in by:
            keys.append(Named(of, value))
        else:
            firsts.append(Named(of, exp.First(this=value)))
        values.append(Named(c, column(of.name)))
    return Project(Aggregate(node, tuple(keys), tuple(firsts)), tuple(values))


def _of_each(
    node: Node,
    keys: Sequence[SortKey],
    count: exp.Expr | None,
    start: exp.Expr | None,
    each: Sequence[exp.Expr],
    names: Names,
) -> Node:
    place, node = row_numbers(node, each, keys, names)
    if start is not None:
        node = Filter(node, exp.GT(this=place, expression=start.copy()))
        place = exp.Paren(this=exp.Sub(this=place.copy(), expression=start.copy()))
    if count is not None:
        node = Filter(node, exp.LTE(this=place.copy(), expression=count.copy()))
    return node


def _first(node: Node, count: exp.Expr | None, start: exp.Expr | None) -> Node:
    """A LIMIT without an ORDER BY of its own takes the first rows in the order of its subquery."""
    inner, filtered = node, False
    while isinstance(inner, Project | Filter):
        filtered |= isinstance(inner, Filter)
        inner = inner.input
    keys = inner.keys if isinstance(inner, TopK) else ()
    if keys and not filtered:
        return _over(node, inner, TopK(inner, keys, count, start))
    hidden = set().union(*(references(k.expr) for k in keys)) - {c.name for c in node.schema}
    if not hidden:
        return TopK(node, keys, count, start)
    whole = TopK(_with(node, inner, hidden), keys, count, start)
    return Project(whole, unchanged(node.schema))


def _with(node: Node, old: Node, names: set[str]) -> Node:
    """The projections and filters from `node` down to `old`, with some more of its columns."""
    if node is old:
        return node
    assert isinstance(node, Project | Filter)
    below = _with(node.input, old, names)
    if isinstance(node, Filter):
        return replace(node, input=below)
    own = {e.column.name for e in node.exprs}
    more = (c for c in old.schema if c.name in names - own)
    return replace(node, input=below, exprs=(*node.exprs, *unchanged(more)))


def _over(node: Node, old: Node, new: Node) -> Node:
    """The projections from `node` down to `old`, over `new`."""
    if node is old:
        return new
    assert isinstance(node, Project)
    return replace(node, input=_over(node.input, old, new))
