"""What one item of FROM is: a table, a view, a CTE, a subquery, a table function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from tidewheel.planner.logical import (
    Column,
    Named,
    Node,
    Project,
    Scan,
)
from tidewheel.planner.text import column

from .bind_collations import bare
from .bind_items import (
    alias_of_item,
    holds_joins,
    relation,
    rows_of_item,
)
from .bind_own_rows import OwnRows
from .bind_pivot import pivoted
from .bind_query import BoundQuery
from .bind_scope import NotTaken, Relation, Told, deduplicated
from .bind_settled import outer_columns, outer_names, settled
from .bind_types import function_name
from .bind_unpivot import as_item, unpivoted
from .bind_values import as_selects, beside_its_values, reads_rows

if TYPE_CHECKING:
    from .bind_select import SelectBinder

From = tuple[Node, list[Relation]]


class Items:
    """Binds items of one SELECT's FROM. Conditions that only WHERE can hold are left in
    `conditions`, resolved."""

    def __init__(self, select: SelectBinder) -> None:
        self.select = select
        self.binder = select.binder
        self.conditions: list[exp.Expr] = []
        self.around = select.scope.parent  # what an item may read: also those before it

    def bind(self, item: exp.Expr, joins: Sequence[exp.Join]) -> From:
        """An item and what is joined to it."""
        raise NotImplementedError

    def _item(self, item: exp.Expr) -> From:
        try:
            return self._alone(item)
        except (NotTaken, duckdb.Error):
            with suppress(NotTaken, duckdb.Error):
                return self._of_own_rows(item)
            raise

    def _of_own_rows(self, item: exp.Expr) -> From:
        """An item that reads no table but values of a SELECT around: beside these."""
        if self.around is None or item.args.get("joins"):
            raise NotTaken("a FROM item with nothing around it")
        bare = item
        if isinstance(item, exp.Lateral):
            bare = item.this.copy()
            bare.set("alias", item.args.get("alias"))
        rows = OwnRows(self.binder, self.select.aggregates)
        node, labels, columns, met = rows.around(bare, self.around)
        self.select.around |= met.keys()
        self.conditions += [
            exp.NullSafeEQ(this=value.copy(), expression=column(name))
            for name, value in met.items()
        ]
        return node, [rows_of_item(item, labels, columns)]

    def _alone(self, item: exp.Expr) -> From:
        if item.args.get("laterals"):
            raise NotTaken("LATERAL VIEW")
        pivots = item.args.get("pivots") or []
        if len(pivots) == 1 and pivots[0].args.get("unpivot"):
            return unpivoted(self, item, pivots[0])
        if len(pivots) == 1:
            return self._pivoted(item, pivots[0])
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Pivot):
            if item.this.args.get("unpivot"):
                return unpivoted(self, *as_item(item), statement=True)
            return self._pivoted(item, item.this)
        special = [
            k for k in ("pivots", "sample", "version", "when", "ordinality") if item.args.get(k)
        ]
        if isinstance(item, exp.Table):
            if special:
                return self._opaque(item, ", ".join(special).upper())
            if isinstance(item.this, exp.Identifier):
                return self._table(item)
            return self._function(item, "a table function")
        if isinstance(item, exp.Subquery):
            if special or item.args.get("with_"):
                return self._opaque(item, ", ".join(special).upper() or "WITH around a FROM item")
            if holds_joins(item):
                return self._parenthesized(item)
            return self._subquery(item)
        if isinstance(item, exp.Lateral):
            # One that refers to nothing before it is an ordinary subquery.
            inner = item.this
            if isinstance(inner, exp.Subquery):
                copy = inner.copy()
                copy.set("alias", item.args.get("alias"))
                return self._subquery(copy)
            raise NotTaken("LATERAL")
        if isinstance(item, exp.Values):
            return self._values(item)
        if isinstance(item, exp.Unnest):
            return self._function(item, "UNNEST in FROM")
        raise NotTaken(f"{type(item).__name__} in FROM")

    def _pivoted(self, item: exp.Expr, pivot: exp.Pivot) -> From:
        try:
            return pivoted(self, item, pivot)
        except NotTaken as error:
            return self._opaque(item, str(error))

    def _parenthesized(self, item: exp.Subquery) -> From:
        if not item.alias:
            return self.bind(item.this, ())
        rows = exp.From(this=exp.Subquery(this=item.this.copy()))
        whole = exp.Select(expressions=[exp.Star()], from_=rows)
        return self._subquery(exp.Subquery(this=whole, alias=item.args["alias"].copy()))

    def _table(self, item: exp.Table) -> From:
        alias, renamed = alias_of_item(item)
        if not item.db and not item.catalog:
            cte = self.binder.ctes.get(item.name.lower())
            if cte is not None:
                try:
                    node, columns = self.binder.cte(cte)
                except NotTaken:
                    if cte.outer is None:
                        raise
                    query = self.binder.correlated_cte(cte)
                    return self._correlated(query, alias or item.name, renamed)
                node, fresh = self._copy(node, columns)
                labels = [c.label for c in columns]
                return node, [relation((alias or item.name,), labels, fresh, renamed)]
        path = tuple(p.name for p in item.parts)
        view = self.binder.view(path)
        if view is not None:
            node, columns = view
            node, fresh = self._copy(node, columns)
            name = (alias,) if alias else path
            return node, [relation(name, [c.label for c in columns], fresh, renamed)]
        table, full, found = self.binder.table(item)
        described = self.binder.oracle.columns(found, table)
        fresh = tuple(self.binder.names.fresh(label, t) for label, t in described)
        labels = [Told(label) for label, _ in described]
        scan: Node = Scan(table, fresh, tuple(labels))
        collated = () if found is None else self.binder.oracle.names.collations(found)
        if collated:
            scan, fresh = self._uncollated(scan, collated)
        return scan, [relation((alias,) if alias else full, labels, fresh, renamed)]

    def _uncollated(self, node: Node, collated: Collection[str]) -> tuple[Node, tuple[Column, ...]]:
        """A table without the collations of some columns."""
        fresh = tuple(self.binder.names.fresh(c.label, c.type) for c in node.schema)
        exprs = (
            Named(f, bare(column(c.name)) if c.label in collated else column(c.name))
            for f, c in zip(fresh, node.schema, strict=True)
        )
        return Project(node, tuple(exprs)), fresh

    def _copy(self, node: Node, columns: Sequence[Column]) -> tuple[Node, tuple[Column, ...]]:
        """A shared plan under new names, so that it can be read more than once."""
        fresh = tuple(self.binder.names.fresh(c.label, c.type) for c in columns)
        exprs = tuple(Named(f, column(c.name)) for f, c in zip(fresh, columns, strict=True))
        return Project(node, exprs), fresh

    def _subquery(self, item: exp.Subquery) -> From:
        query = self.binder.query(item.this, self.around)
        query.columns = self.binder.named(item.this, query.columns)
        return self._correlated(query, *alias_of_item(item))

    def _values(self, item: exp.Values) -> From:
        """VALUES: with subqueries in them they are a SELECT for each row."""
        if not reads_rows(item):
            return self._opaque(item, "VALUES")
        query = self.binder.query(as_selects(item), self.around)
        if not outer_names(query):
            whole = self._opaque(item, "VALUES")
            if [c.type for c in query.columns] != [c.type for c in whole[0].schema]:
                return whole
        return self._correlated(query, *alias_of_item(item))

    def _correlated(self, query: BoundQuery, alias: str, renamed: Sequence[str]) -> From:
        """A query that may read the SELECT around."""
        if query.empty is not None:
            met = outer_columns(self.select.scope.parent, outer_names(query))
            query, _ = settled(query, met, self.binder.names)
        self.select.around.update(query.around)
        self.conditions += query.correlated
        labels = deduplicated([c.label for c in query.columns])
        return query.node, [relation((alias,) if alias else (), labels, query.columns, renamed)]

    def _function(self, item: exp.Expr, reason: str) -> From:
        """A table function; with subqueries for arguments beside their values."""
        alias, _ = alias_of_item(item)
        function = function_name(item.this if isinstance(item, exp.Table) else item)
        rows = beside_its_values(item, alias or function)
        if rows is None:
            return self._opaque(item, reason)
        node, (made,) = self._subquery(rows)
        if function and [c.label for c in made.columns] == [alias]:
            made.columns[0].also = function
        return node, [made]

    def _opaque(self, item: exp.Expr, reason: str) -> From:
        """A FROM item that is kept whole."""
        plain = item.copy()
        plain.set("joins", None)
        alias, _ = alias_of_item(item)
        block = self.binder.block(exp.select("*").from_(plain), reason)
        function = function_name(item.this if isinstance(item, exp.Table) else item)
        name = alias or function
        labels = [c.label for c in block.columns]
        made = relation((name,) if name else (), labels, block.columns, ())
        if function and labels == [alias]:
            made.columns[0].also = function
        return block, [made]
