"""What is written as a subquery: EXISTS, IN, comparisons with ANY and ALL, ARRAY, one value."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from .bind_limit import is_all
from .bind_names import Aggregates
from .bind_own_rows import OwnRows, operand, reads_values_alone
from .bind_quantified import VALUE, Quantified, values_of
from .bind_query import BoundQuery
from .bind_scope import NotTaken, Scope
from .bind_types import is_volatile

if TYPE_CHECKING:
    from .bind_subquery import Subqueries
    from .binder import Binder

Walk = Callable[[exp.Expr], exp.Expr]


_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}


class SubqueryForms:
    """Binds the subqueries of one SELECT."""

    def __init__(
        self,
        binder: Binder,
        subqueries: Subqueries,
        aggregates: Aggregates,
        aliases: Collection[str],
    ) -> None:
        self._binder = binder
        self._subqueries = subqueries
        self._aggregates = aggregates
        self._aliases = aliases

    def bound(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        """The expression that stands for a subquery; `walk` binds what it is compared with."""
        return self.of_own_rows(node, walk, scope) or self._joined(node, walk, scope)

    def of_own_rows(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr | None:
        """One that reads no table, but rows of a value, as an expression."""
        if not reads_values_alone(node):
            return None
        operands: list[exp.Expr] = []
        if isinstance(node, exp.In):
            row = isinstance(node.this, exp.Tuple)
            operands = list(node.this.expressions) if row else [node.this]
            marks = [operand(i) for i in range(len(operands))]
            left = exp.Tuple(expressions=marks) if row else marks[0]
            node = exp.In(this=left, query=node.args["query"].copy())
        elif isinstance(node, exp.Binary):
            operands = [node.this]
            node = type(node)(this=operand(0), expression=node.expression.copy())
        rows = OwnRows(self._binder, self._aggregates)
        with suppress(NotTaken, duckdb.Error):
            return rows.value(node, scope, self._aliases, [walk(o) for o in operands])
        return None

    def _joined(
        self,
        node: exp.Expr,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        if isinstance(node, exp.Exists):
            met = _of_one_group(node.this, self._aggregates, exp.true())
            if met is not None:
                return walk(exp.Coalesce(this=met, expressions=[exp.false()]))
            query = self._query(node, node.this, scope)
            if not isinstance(query, BoundQuery):
                return walk(query)
            return self._subqueries.add("exists", query, (), node.this)
        if isinstance(node, exp.In):
            query = self._query(node, node.args["query"], scope)
            if not isinstance(query, BoundQuery):
                return walk(query)
            bound = [walk(o) for o in _operands(node.this, query, "IN")]
            return self._subqueries.add("in", query, bound, node.args["query"])
        if isinstance(node, exp.Binary):
            return self._quantified(node, walk, scope)
        if isinstance(node, exp.Array):
            return walk(self._as_list(node.expressions[0], scope))
        query = self._binder.query(_of_one_group(node, self._aggregates) or node, scope)
        if len(query.columns) != 1:
            raise NotTaken("a scalar subquery with several columns")
        return self._subqueries.add("scalar", query, (), node)

    def _query(self, node: exp.Expr, query: exp.Expr, scope: Scope) -> BoundQuery | exp.Expr:
        """The query of EXISTS or IN, or what these are where it is not bound as a whole."""
        exists = isinstance(node, exp.Exists)
        try:
            with self._binder.pairs(_sides(query) is None):
                return self._binder.query(query, scope, for_exists=exists)
        except NotTaken:
            if _sides(query) is None:
                raise
            if (either := self._either(node, query, scope)) is not None:
                return either
        return self._binder.query(query, scope, for_exists=exists)

    def _either(self, node: exp.Expr, query: exp.Expr, scope: Scope) -> exp.Expr | None:
        """EXISTS or IN over a UNION as one over either side: these may read the row around, or not.

        None where the sides have other types than the UNION, or what is compared would be computed
        twice.
        """
        sides = _sides(query)
        if sides is None:
            return None
        found: list[exp.Expr] = [exp.Exists(this=s.copy()) for s in sides]
        if isinstance(node, exp.In):
            if node.this.find(exp.Query) or is_volatile(node.this):
                return None
            if self._kinds(query, scope) is None:
                return None
            found = [
                exp.In(this=node.this.copy(), query=exp.Subquery(this=s.unnest().copy()))
                for s in sides
            ]
        return exp.Paren(this=exp.Or(this=found[0], expression=found[1]))

    def _kinds(self, query: exp.Expr, scope: Scope) -> list[str] | None:
        """The types of a query's columns, integers as one; None where sides of a UNION differ."""
        if (sides := _sides(query)) is not None:
            one, other = (self._kinds(s, scope) for s in sides)
            return one if one == other else None
        found = self._binder.query(query, scope).columns
        return ["INTEGER" if c.type in _INTEGERS else c.type for c in found]

    def _as_list(self, query: exp.Expr, scope: Scope) -> exp.Expr:
        """``ARRAY(SELECT e FROM … ORDER BY …)``: the list of e, empty where there are no rows."""
        query = self._first_of_star(query, scope)
        if not isinstance(query, exp.Select) or any(query.args.get(k) for k in _NOT_ROWS):
            return self._as_ordered_list(query, scope)
        if len(query.expressions) != 1 or query.expressions[0].find(exp.Star):
            raise NotTaken("ARRAY over several columns")
        value = query.expressions[0].unalias()
        several = exp.Window, exp.Explode, exp.Unnest
        if self._aggregates.found_in(value) or value.find(*several):
            return self._as_ordered_list(query, scope)
        order = self._order_of_list(query, scope)
        listed = exp.Order(this=value.copy(), expressions=order) if order else value.copy()
        call = exp.Anonymous(this="list", expressions=[listed])
        select = query.copy()
        select.set("order", None)
        select.set("expressions", [exp.Coalesce(this=call, expressions=[exp.Array()])])
        return exp.Subquery(this=select)

    def _first_of_star(self, query: exp.Expr, scope: Scope) -> exp.Expr:
        """``ARRAY(FROM u)`` is the list of u's first column, as DuckDB has it."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or select.args.get("distinct"):
            return query
        items = select.expressions
        if len(items) != 1 or not is_all(items[0], items) or not select.args.get("from_"):
            return query
        select = select.copy()
        select.set("expressions", [exp.column(self._labels(select, scope)[0], quoted=True)])
        return select

    def _as_ordered_list(self, query: exp.Expr, scope: Scope) -> exp.Expr:
        """Of groups, distinct or limited rows, or those of set operations, in their own order."""
        first = query
        while isinstance(first, exp.SetOperation):
            first = first.this.unnest()
        order = query.args.get("order")
        if not isinstance(first, exp.Select) or len(first.expressions) != 1:
            raise NotTaken("ARRAY over several columns")
        if not order:
            raise NotTaken("ARRAY over groups, distinct or limited rows without ORDER BY")
        item, key = first.expressions[0], order.expressions[0]
        by_number = isinstance(key.this, exp.Literal) and key.this.sql() == "1"
        by_name = isinstance(key.this, exp.Column) and not key.this.table
        if by_name and item.alias and isinstance(query, exp.Select) and query.args.get("from_"):
            by_name = item.alias.lower() not in map(str.lower, self._labels(query, scope))
        by_name = by_name and key.this.name.lower() == item.alias_or_name.lower()
        if not by_number and not by_name:
            return self._as_list_of_first(query, scope)
        value = exp.column(VALUE)
        listed = exp.Order(
            this=value, expressions=[exp.Ordered(**{**key.args, "this": value.copy()})]
        )
        call = exp.Anonymous(this="list", expressions=[listed])
        of_none = exp.Coalesce(this=call, expressions=[exp.Array()])
        return exp.Subquery(this=exp.select(of_none).from_(values_of(query)))

    def _as_list_of_first(self, query: exp.Expr, scope: Scope) -> exp.Expr:
        """``ARRAY(SELECT e FROM … ORDER BY k LIMIT 3)``: the list of those rows' e, by their k."""
        if not isinstance(query, exp.Select) or any(query.args.get(k) for k in _NOT_FIRST):
            raise NotTaken("ARRAY over distinct rows, or by ALL, by more than their values")
        group, value = query.args.get("group"), query.expressions[0].unalias()
        if group and any(v for k, v in group.args.items() if k != "expressions"):
            raise NotTaken("ARRAY over grouping sets, by more than their values")
        one_group = self._aggregates.found_in(value) and not group
        if one_group or value.find(exp.Window, exp.Explode, exp.Unnest) or _has_star(value):
            raise NotTaken("ARRAY over windows or one group, by more than their values")
        alias = query.expressions[0].alias.lower()
        called = alias and any(_calls(k, alias) for k in query.args["order"].expressions)
        if called and alias in map(str.lower, self._labels(query, scope)):
            # DuckDB limits the rows by the alias, and then lists them by the column.
            raise NotTaken("ARRAY over limited rows by a name of both SELECT and FROM")
        keys = self._order_of_list(query, scope)
        first = query.copy()
        first.set("expressions", [value.copy(), *(k.this.copy() for k in keys)])
        first.set("order", exp.Order(expressions=[k.copy() for k in keys]))
        names = [VALUE, *(f"{VALUE}_{i}" for i in range(len(keys)))]
        rows = values_of(first)
        rows.args["alias"].set("columns", [exp.to_identifier(n) for n in names])
        by = [
            exp.Ordered(**{**k.args, "this": exp.column(n)})
            for k, n in zip(keys, names[1:], strict=True)
        ]
        listed = exp.Order(this=exp.column(VALUE), expressions=by)
        call = exp.Anonymous(this="list", expressions=[listed])
        of_none = exp.Coalesce(this=call, expressions=[exp.Array()])
        return exp.Subquery(this=exp.select(of_none).from_(rows))

    def _order_of_list(self, query: exp.Select, scope: Scope) -> list[exp.Expr]:
        """ORDER BY of an ARRAY's rows: what list(… ORDER BY …) asks for, which has no aliases.

        As in DuckDB, an alias is only meant where no column of FROM is called so, and ALL is first
        of all FROM's first column: an order if that is what is listed.
        """
        order = query.args.get("order")
        if order is None:
            return []
        item = query.expressions[0]
        keys = [o.copy() for o in order.expressions]
        first = keys[0].this
        if is_all(first, keys) or (isinstance(first, exp.Var) and first.name.upper() == "ALL"):
            value = item.unalias()
            of_first = value.name.lower() == self._labels(query, scope)[0].lower()
            if not isinstance(value, exp.Column) or not of_first:
                raise NotTaken("ARRAY ORDER BY ALL, which is by another column first")
            return [exp.Ordered(**{**keys[0].args, "this": value.copy()})]
        alias = item.alias.lower()
        if alias and any(_calls(k, alias) for k in keys):
            alias = "" if alias in map(str.lower, self._labels(query, scope)) else alias
        for key in keys:
            if isinstance(key.this, exp.Literal):
                if key.this.is_string or key.this.name != "1":
                    raise NotTaken("ARRAY in the order of a constant")
                key.set("this", item.unalias().copy())  # in list(…) it is a constant
            for c in list(key.find_all(exp.Column)) if alias else ():
                if not c.table and c.name.lower() == alias:
                    c.replace(exp.Paren(this=item.unalias().copy()))
        return keys

    def _labels(self, query: exp.Select, scope: Scope) -> list[str]:
        """The names of all columns of a SELECT's FROM items."""
        rows = exp.Select(expressions=[exp.Star()], from_=query.args["from_"].copy())
        rows.set("joins", [j.copy() for j in query.args.get("joins") or ()])
        return [c.label for c in self._binder.query(rows, scope).columns]

    def _quantified(
        self,
        node: exp.Binary,
        walk: Walk,
        scope: Scope,
    ) -> exp.Expr:
        """``= ANY`` is IN, ``<> ALL`` is NOT IN; ``> ALL`` compares with the greatest."""
        is_any = isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any)
        is_not_all = isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All)
        query = self._binder.query(node.expression.this, scope)
        if not is_any and not is_not_all:
            # Rows are unequal where a part of them is, and unknown where one may be.
            if len(query.columns) != 1 or query.columns[0].type.startswith("TUPLE("):
                raise NotTaken("ANY or ALL over several columns")
            quantified = Quantified(type(node), isinstance(node.expression, exp.All))
            query = self._binder.query(quantified.summary(node.expression.this.unnest()), scope)
            written = node.expression.this
            return self._subqueries.add("ends", query, [walk(node.this)], written, quantified)
        bound = [walk(o) for o in _operands(node.this, query, "ANY")]
        found = self._subqueries.add("in", query, bound, node.expression.this)
        return found if is_any else exp.Not(this=found)


def _operands(value: exp.Expr, query: BoundQuery, form: str) -> list[exp.Expr]:
    """The values that are compared with the columns of `query`; a row with a column of rows."""
    is_row = isinstance(value, exp.Tuple) or (
        isinstance(value, exp.Anonymous) and value.name.lower() == "row"
    )
    parts = value.expressions if is_row else [value]
    if len(parts) == len(query.columns):
        if len(parts) > 1 and any("TUPLE(" in c.type for c in query.columns):
            # Beside a NULL of another column DuckDB finds a row with NULLs neither equal nor not.
            raise NotTaken(f"{form} over several columns, one of them of rows")
        return parts
    if len(query.columns) == 1 and query.columns[0].type.startswith("TUPLE("):
        return [value]
    raise NotTaken(f"{form} compares a row with a subquery of another width")


def _of_one_group(
    query: exp.Expr, aggregates: Aggregates, value: exp.Expr | None = None
) -> exp.Subquery | None:
    """``(SELECT e FROM … HAVING c)`` has e of its one group, or no row, which is NULL here:

        (SELECT CASE WHEN c THEN e END FROM …)

    `value`: instead of e. None for anything else.
    """
    select = query.unnest()
    if not isinstance(select, exp.Select) or any(select.args.get(k) for k in _MORE):
        return None
    having, items = select.args.get("having"), select.expressions
    if having is None or len(items) != 1 or not aggregates.found_in(having.this):
        return None
    names = {c.name.lower() for c in having.find_all(exp.Column) if not c.table}
    if items[0].alias.lower() in names or items[0].find(*_NOT_ONE):
        return None
    if _has_star(items[0]):
        return None
    select = select.copy()
    select.set("having", None)
    branch = exp.If(this=having.this.copy(), true=value or items[0].unalias().copy())
    select.set("expressions", [exp.Case(ifs=[branch])])
    return exp.Subquery(this=select)


def _calls(key: exp.Expr, name: str) -> bool:
    """Is there a column in it that is called so, without a table's name?"""
    return any(not c.table and c.name.lower() == name for c in key.find_all(exp.Column))


_NOT_ONE = (exp.Columns, exp.Window, exp.Explode, exp.Unnest)
_MORE = ("group", "qualify", "distinct", "limit", "offset", "order", "windows")
_NOT_FIRST = ("qualify", "distinct", "with_")
_NOT_ROWS = (*_NOT_FIRST, "group", "having", "limit", "offset")


def _has_star(value: exp.Expr) -> bool:
    """Is there a star that is no ``count(*)``?"""
    return any(not isinstance(star.parent, exp.Count) for star in value.find_all(exp.Star))


def _sides(query: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of a UNION without clauses of its own."""
    union = query.unnest()
    clauses = ("with_", "order", "limit", "offset", "by_name", "side", "kind", "on")
    if not isinstance(union, exp.Union) or any(union.args.get(k) for k in clauses):
        return None
    return union.this, union.expression
