"""Which rows a SELECT made a row of: the query that finds them.

A row of a plain SELECT comes from one row of each relation in its FROM clause; that of a grouped
one, from the rows of its group. ``EXISTS (…)`` and ``x IN (…)`` in WHERE read one row of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..planner.dialect import Tidewheel
from .bind_names import conjuncts
from .proof_text import Opaque

Value = str | None
"""A value as DuckDB writes it as VARCHAR; None for NULL."""
VALUE = "__tw_value"
Column = tuple[str, str]
"""Name and type."""


@dataclass(frozen=True)
class Item:
    """A relation that a SELECT reads. `outer`: a join may find no row of it."""

    node: exp.Expr
    outer: bool


@dataclass(frozen=True)
class Read:
    """``prefix.*`` gives `skip` columns that do not matter, then those of `items`, in order.

    `lateral`: the alias of a relation that was added, whose columns are still to be named.
    """

    prefix: str
    skip: int
    items: tuple[Item, ...]
    lateral: exp.TableAlias | None = None


@dataclass
class Search:
    """`query` is the FROM and WHERE of a SELECT, `outputs` its columns, `reads` what it reads.

    `grouped`: all rows together made a row of it, else any of them did. `notes`: what else had to
    hold.
    """

    query: exp.Select
    reads: list[Read]
    outputs: list[exp.Expr]
    grouped: bool = False
    notes: list[str] = field(default_factory=list)


def branches(tree: exp.Query) -> tuple[str, list[exp.Query]]:
    """A query as ("select" | "any" | "all" | "first", its parts): which of them made a row."""
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.Select):
        return "select", [tree]
    if isinstance(tree, exp.SetOperation):
        if tree.args.get("by_name"):
            raise Opaque("UNION BY NAME is not taken apart")
        kind = {exp.Union: "any", exp.Intersect: "all", exp.Except: "first"}[type(tree)]
        return kind, [tree.left, tree.right]
    raise Opaque(f"{type(tree).__name__.upper()} is not taken apart")


def search(
    select: exp.Select, width: int, known: Collection[str], merge: Sequence[str | None] = ()
) -> Search:
    """How to find what a SELECT made a row of `width` columns of.

    `known`: the names of aggregate functions. `merge`: it is the step of a recursion that keeps the
    best value per group, so its aggregates pick values of single rows.
    """
    query = select.copy()
    expressions = list(query.expressions)
    windows = any(e.find(exp.Window) for e in expressions)
    aggregates = [_aggregates(e, known) for e in expressions]
    grouped = bool(query.args.get("group")) or any(aggregates)
    picks = bool(merge) and grouped and not any(m and m.startswith("bit_") for m in merge)
    outputs: list[exp.Expr] = []
    if picks:
        expressions = [_picked(e, known) for e in expressions]
        grouped = False
    if grouped or windows or picks:
        if len(expressions) != width:
            raise Opaque("* beside aggregates is not taken apart")
        for i, e in enumerate(expressions):
            computed = e.find(exp.Window) is not None or (grouped and aggregates[i])
            outputs.append(exp.Null() if computed else e)
    else:
        outputs = expressions
    for clause in ("group", "having", "order", "limit", "offset", "distinct", "qualify", "windows"):
        query.set(clause, None)
    found = Search(query, [], outputs, grouped)
    _items(query, found)
    _conditions(query, found, known)
    return found


def _aggregates(expression: exp.Expr, known: Collection[str]) -> bool:
    """Does it aggregate the rows of the SELECT that it stands in?"""
    for node in expression.find_all(exp.AggFunc, exp.Anonymous):
        above, inside = node.parent, False
        while above is not None and node is not expression:
            inside |= isinstance(above, exp.Query | exp.Window)
            if above is expression:
                break
            above = above.parent
        if not inside and (isinstance(node, exp.AggFunc) or node.name.lower() in known):
            return True
    return False


def _picked(expression: exp.Expr, known: Collection[str]) -> exp.Expr:
    """An output of a best-value step for one row: the argument of its aggregate."""
    inner = expression.unalias()
    while isinstance(inner, exp.Paren | exp.Cast) and not isinstance(inner, exp.AggFunc):
        inner = inner.this
    if isinstance(inner, exp.Anonymous) and inner.name.lower() in known:
        inner = inner.expressions[0]
        assert isinstance(inner, exp.Expr)
        return inner.copy()
    if isinstance(inner, exp.AggFunc):
        inner = inner.this
        assert isinstance(inner, exp.Expr)
        return inner.copy()
    return expression


def _items(query: exp.Select, found: Search) -> None:
    source = query.args.get("from_") or query.args.get("from")
    if source is None:
        return
    for node, outer in _joined(source.this, query.args.get("joins") or (), found):
        if node.args.get("pivots"):
            raise Opaque("PIVOT is not taken apart")
        alias = node.alias_or_name
        if isinstance(node, exp.Table | exp.Subquery) and alias and not _function(node):
            name = exp.to_identifier(alias, quoted=True).sql(dialect=Tidewheel)
            found.reads.append(Read(name, 0, (Item(node, outer),)))


def _joined(
    first: exp.Expr, joins: Sequence[exp.Expr], found: Search
) -> list[tuple[exp.Expr, bool]]:
    """The relations of a join, those in parentheses too; whether there may be no row of each."""
    nodes = _relations(first, found)
    for join in joins:
        assert isinstance(join, exp.Join)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        if "SEMI" in (side, kind) or "ANTI" in (side, kind):
            found.notes.append(join.sql(dialect=Tidewheel).strip())
            continue
        if side in ("RIGHT", "FULL"):
            nodes = [(node, True) for node, _ in nodes]
        more = _relations(join.this, found)
        nodes += [(node, outer or side in ("LEFT", "FULL")) for node, outer in more]
    return nodes


def _relations(node: exp.Expr, found: Search) -> list[tuple[exp.Expr, bool]]:
    inner = node.this if isinstance(node, exp.Subquery | exp.Paren) else None
    if isinstance(inner, exp.Table | exp.Subquery) and not node.args.get("alias"):
        return _relations(inner, found)
    if node.args.get("joins"):
        return _joined_apart(node, found)
    return [(node, False)]


def _joined_apart(node: exp.Expr, found: Search) -> list[tuple[exp.Expr, bool]]:
    """A table that holds joins of its own."""
    alone = node.copy()
    alone.set("joins", None)
    return _joined(alone, node.args["joins"], found)


def _function(node: exp.Expr) -> bool:
    """A table that is made, not read: VALUES, unnest, range …"""
    if isinstance(node, exp.Table):
        return not isinstance(node.this, exp.Identifier)
    return isinstance(node.this, exp.Values)


def _conditions(query: exp.Select, found: Search, known: Collection[str]) -> None:
    """EXISTS and IN become relations that are read; other subqueries are noted."""
    where = query.args.get("where")
    if where is None:
        return
    for number, condition in enumerate(conjuncts(where.this)):
        inner: exp.Expr | None = None
        if isinstance(condition, exp.Exists):
            inner = condition.this
        elif isinstance(condition, exp.In) and condition.args.get("query") is not None:
            inner = condition.args["query"]
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        if inner is None or not _plain(inner, isinstance(condition, exp.In), known):
            if condition.find(exp.Query):
                found.notes.append(condition.sql(dialect=Tidewheel))
            continue
        assert isinstance(inner, exp.Select)
        lateral = inner.copy()
        value = lateral.expressions[0].unalias().copy()
        nested = Search(lateral, [], [])
        _items(lateral, nested)
        if not nested.reads:
            found.notes.append(condition.sql(dialect=Tidewheel))
            continue
        if isinstance(condition, exp.Exists):
            value = exp.true()
        every = [
            exp.Column(this=exp.Star(), table=exp.to_identifier(r.prefix[1:-1], quoted=True))
            for r in nested.reads
        ]
        lateral.set("expressions", [exp.alias_(value, VALUE, quoted=True), *every])
        name = exp.to_identifier(f"__tw_e{number}", quoted=True)
        alias = exp.TableAlias(this=name)
        joined = exp.Lateral(this=exp.Subquery(this=lateral), alias=alias)
        query.append("joins", exp.Join(this=joined, kind="CROSS"))
        replaced: exp.Expr = exp.true()
        if isinstance(condition, exp.In):
            there = exp.Column(this=exp.to_identifier(VALUE, quoted=True), table=name.copy())
            replaced = exp.EQ(this=exp.paren(condition.this.copy()), expression=there)
        condition.replace(replaced)
        items = tuple(i for r in nested.reads for i in r.items)
        found.reads.append(Read(f'"__tw_e{number}"', 1, items, alias))
        found.notes += nested.notes


def _plain(query: exp.Expr, one_column: bool, known: Collection[str]) -> bool:
    """A SELECT of which one row is enough to know."""
    if not isinstance(query, exp.Select) or (one_column and len(query.expressions) != 1):
        return False
    clauses = ("group", "having", "order", "limit", "offset", "qualify", "with_", "with")
    if any(query.args.get(c) for c in clauses):
        return False
    if any(e.find(exp.Star) for e in query.expressions) and one_column:
        return False
    return not any(_aggregates(e, known) or e.find(exp.Window) for e in query.expressions)
