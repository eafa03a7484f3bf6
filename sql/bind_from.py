"""FROM: tables, views, CTEs, subqueries, table functions, joins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from tidewheel.planner.logical import (
    AsofJoin,
    Block,
    Column,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Scan,
    references,
)
from tidewheel.planner.text import column, identifier, substituted, to_sql

from .bind_collations import bare
from .bind_items import (
    alias_of_item,
    holds_joins,
    join_kind_of,
    relation,
    rows_of_item,
    to_their_items,
)
from .bind_names import conjuncts, waits
from .bind_own_rows import OwnRows
from .bind_pivot import pivoted
from .bind_query import BoundQuery, names_of, split_conditions, with_outer
from .bind_scope import NotTaken, Relation, Scope, Visible, deduplicated
from .bind_settled import outer_columns, outer_names, reads_tables, settled
from .bind_types import function_name
from .bind_unpivot import as_item, unpivoted

if TYPE_CHECKING:
    from .bind_select import SelectBinder

From = tuple[Node, list[Relation]]


class FromBinder:
    """Binds the FROM clause of one SELECT. Conditions of inner joins that only WHERE can hold
    (subqueries, references to the SELECT around) are left in `conditions`, resolved."""

    def __init__(self, select: SelectBinder) -> None:
        self.select = select
        self.binder = select.binder
        self.conditions: list[exp.Expr] = []
        self.where: exp.Expr | None = None
        self.around = select.scope.parent  # what an item may read: also those before it
        self.last: exp.Join | None = None
        """The last join of the SELECT: its sides are all of the FROM items."""

    def bind(self, item: exp.Expr, joins: Sequence[exp.Join]) -> From:
        """An item and what is joined to it."""
        left = self._item(item)
        for join in to_their_items([*(item.args.get("joins") or ()), *joins]):
            left = self._join(left, join)
        return left

    # -- items

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
            if special or not isinstance(item.this, exp.Identifier):
                return self._opaque(item, ", ".join(special).upper() or "a table function")
            return self._table(item)
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
            return self._opaque(item, "VALUES")
        if isinstance(item, exp.Unnest):
            return self._opaque(item, "UNNEST in FROM")
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
        labels = [label for label, _ in described]
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

    def _correlated(self, query: BoundQuery, alias: str, renamed: Sequence[str]) -> From:
        """A query that may read the SELECT around."""
        if query.empty is not None:
            met = outer_columns(self.select.scope.parent, outer_names(query))
            query, _ = settled(query, met, self.binder.names)
            self.select.over_aggregate = True
        self.select.around.update(query.around)
        self.conditions += query.correlated
        labels = deduplicated([c.label for c in query.columns])
        return query.node, [relation((alias,) if alias else (), labels, query.columns, renamed)]

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

    # -- joins

    def _join(self, left: From, join: exp.Join) -> From:
        if any(join.args.get(k) for k in ("global_", "match_condition", "pivots", "expressions")):
            raise NotTaken("an unusual join")
        waiting, around = len(self.conditions), self.around
        self.around = Scope(left[1], around, before=True)
        try:
            right = self.bind(join.this, ())
        except (NotTaken, duckdb.Error):
            if join.this.args.get("joins"):  # (a LATERAL that these have on their left)
                raise
            del self.conditions[waiting:]
            from .bind_lateral import Lateral

            if (lateral := Lateral(self).join(left, join)) is None:
                raise
            return lateral
        finally:
            self.around = around
        method = (join.args.get("method") or "").upper()
        side = (join.args.get("side") or "").upper()
        kind = (join.args.get("kind") or "").upper()
        using = [u.name for u in join.args.get("using") or ()]
        if method == "NATURAL":
            using = _common(left[1], right[1])
            if not using:
                raise NotTaken("NATURAL JOIN without common columns")
        elif method and method not in ("ASOF", "POSITIONAL"):
            raise NotTaken(f"{method} JOIN")
        if method == "POSITIONAL":
            return self._positional(left, right)
        join_kind = join_kind_of(side, kind)
        # What waits for WHERE is true of the rows below an outer join, not of those that it adds.
        plain = ("inner", "cross") if using or method else ("inner", "cross", "left")
        added = len(self.conditions) > waiting and join_kind not in plain
        if added or (self.conditions and join_kind in ("right", "full")):
            raise NotTaken("a subquery in a condition below an outer join")
        relations = [*left[1], *right[1]]
        if using:
            conditions, relations = self._using(left, right, using, join_kind, method == "ASOF")
            return self.finish(left, right, relations, join_kind, conditions, method)
        scope = Scope(relations, self.select.scope.parent)
        on = join.args.get("on")
        if join_kind == "left" and not method:
            resolved = [
                self.select.resolve_in(scope, c, around=True, beside=True) for c in conjuncts(on)
            ]
            if any(map(waits, self.conditions[waiting:])):
                raise NotTaken("a subquery in a condition below an outer join")
            left, right, resolved = self._beside_sides(left, right, resolved)
            resolved += self.conditions[waiting:]
            del self.conditions[waiting:]
            left, resolved = self._beside_outer(left, right, resolved, join is self.last)
        elif join_kind == "inner" and not method:
            resolved = [self.select.resolve_in(scope, c) for c in conjuncts(on)]
        else:
            beside = not method
            resolved = [
                self.select.resolve_in(scope, c, pure=True, beside=beside) for c in conjuncts(on)
            ]
            left, right, resolved = self._beside_sides(left, right, resolved)
        if join_kind in ("semi", "anti"):
            relations = left[1]
        return self.finish(left, right, relations, join_kind, resolved, method)

    def _beside_sides(
        self, left: From, right: From, conditions: Sequence[exp.Expr]
    ) -> tuple[From, From, list[exp.Expr]]:
        one, two, found = self.select.beside_sides(left[0], right[0], conditions)
        return (one, left[1]), (two, right[1]), found

    def _beside_outer(
        self, left: From, right: From, conditions: Sequence[exp.Expr], last: bool
    ) -> tuple[From, list[exp.Expr]]:
        """The left side of an outer join beside what its conditions read of the SELECT around.

        What WHERE says of the left side holds before the join, too, and leaves fewer pairs.
        """
        here, there = names_of(left[0]), names_of(right[0])
        read = set().union(*map(references, conditions)) - here - there
        if not read:
            return left, list(conditions)
        known = self._known(left, right) if last else []
        if not known and reads_tables(left[0]):
            raise NotTaken("an outer join that reads the SELECT around as its left side does not")
        read = read.union(*map(references, known)) - here
        outer = outer_columns(self.select.scope.parent, read)
        node, met = with_outer(left[0], known, outer, self.binder.names)
        self.select.around |= read
        self.conditions += [
            exp.NullSafeEQ(this=met[c.name].copy(), expression=column(c.name)) for c in outer
        ]
        return (node, left[1]), [substituted(c, met) for c in conditions]

    def _known(self, left: From, right: From) -> list[exp.Expr]:
        """Conditions of WHERE over the left side of the last join and the SELECT around."""
        scope = Scope([*left[1], *right[1]], self.select.scope.parent)
        outer = {c.name for c in scope.parent.columns_around()} if scope.parent else set()
        found = []
        for condition in conjuncts(self.where):
            if condition.find(exp.Query, exp.Window, exp.Subquery):
                continue
            try:
                resolved = self.select.resolve_in(scope, condition, around=True)
            except NotTaken:
                continue
            if references(resolved) <= names_of(left[0]) | outer and references(resolved) & outer:
                found.append(resolved)
        return found

    def finish(
        self,
        left: From,
        right: From,
        relations: list[Relation],
        kind: JoinKind,
        conditions: list[exp.Expr],
        method: str,
    ) -> From:
        if method == "ASOF":
            return self._asof(left[0], right[0], kind, conditions), relations
        here, there = names_of(left[0]), names_of(right[0])
        if kind == "inner":
            visible = here | there
            later = [c for c in conditions if not self.select.is_local(c, visible)]
            self.conditions += later
            conditions = [c for c in conditions if not any(c is x for x in later)]
        one_sided = [
            c for c in conditions if kind == "inner" and (_all_of(c, here) or _all_of(c, there))
        ]
        keys, rest = split_conditions(
            [c for c in conditions if not any(c is o for o in one_sided)], here, there
        )
        if kind == "inner" and not keys and not rest:
            kind = "cross"
        residual = exp.and_(*rest) if rest else None
        node: Node = Join(left[0], right[0], kind, tuple(keys), residual)
        for condition in one_sided:
            node = Filter(node, condition)
        if kind == "full" and any(
            v.merged is not None and v.merged.name not in names_of(node)
            for r in relations
            for v in r.columns
        ):
            node = self._with_merged(node, relations)
        return node, relations

    def _asof(
        self, left: Node, right: Node, kind: JoinKind, conditions: Sequence[exp.Expr]
    ) -> Node:
        keys, rest = split_conditions(conditions, names_of(left), names_of(right))
        if kind not in ("inner", "left") or len(rest) != 1:
            # DuckDB 2.0: a prepared ASOF RIGHT JOIN breaks at its second run.
            raise NotTaken(f"ASOF {kind.upper()} JOIN")
        return AsofJoin(left, right, kind, tuple(keys), rest[0])

    def _using(
        self, left: From, right: From, using: Sequence[str], kind: JoinKind, asof: bool
    ) -> tuple[list[exp.Expr], list[Relation]]:
        """The conditions of USING, and the relations with the merged columns marked."""
        conditions: list[exp.Expr] = []
        relations = [
            Relation(r.path, [replace(v) for v in r.columns]) for r in (*left[1], *right[1])
        ]
        split = len(left[1])
        for position, name in enumerate(using):
            mine = _unqualified(relations[:split], name)
            theirs = _unqualified(relations[split:], name)
            assert mine.merged is not None
            assert theirs.merged is not None
            equal: type[exp.Binary] = exp.GTE if asof and position == len(using) - 1 else exp.EQ
            conditions.append(
                equal(this=column(mine.merged.name), expression=column(theirs.merged.name))
            )
            if kind == "right":
                mine.merged = theirs.merged
            elif kind == "full":
                type_ = self.binder.oracle.types(
                    [_coalesced(mine.merged.name, theirs.merged.name)],
                    [mine.merged, theirs.merged],
                )[0]
                merged = self.binder.names.fresh(name, type_)
                self._merged[merged.name] = _coalesced(mine.merged.name, theirs.merged.name)
                mine.merged = merged
            theirs.merged = None
        if kind in ("semi", "anti"):
            return conditions, left[1]
        return conditions, relations

    @property
    def _merged(self) -> dict[str, exp.Expr]:
        return self.select.merged

    def _with_merged(self, node: Node, relations: Sequence[Relation]) -> Node:
        have = names_of(node)
        new = [
            v.merged
            for r in relations
            for v in r.columns
            if v.merged is not None and v.merged.name not in have
        ]
        return Project(
            node,
            (
                *(Named(c, column(c.name)) for c in node.schema),
                *(Named(m, self._merged[m.name]) for m in new),
            ),
        )

    def _positional(self, left: From, right: From) -> From:
        """A join that only DuckDB does, over both sides as inputs."""
        names = (self.binder.input_alias(), self.binder.input_alias())
        columns = (*left[0].schema, *right[0].schema)
        items = ", ".join(to_sql(column(c.name)) for c in columns)
        a, b = (to_sql(identifier(n)) for n in names)
        sql = f"SELECT {items} FROM {a} POSITIONAL JOIN {b}"
        node = Block(sql, (left[0], right[0]), names, columns, "POSITIONAL JOIN")
        return node, [*left[1], *right[1]]


def _common(left: Sequence[Relation], right: Sequence[Relation]) -> list[str]:
    theirs = {v.label.lower() for r in right for v in r.columns if v.merged is not None}
    found = [v.label for r in left for v in r.columns if v.merged is not None]
    return [label for label in found if label.lower() in theirs]


def _unqualified(relations: Sequence[Relation], name: str) -> Visible:
    found = [
        v
        for r in relations
        for v in r.columns
        if v.merged is not None and v.label.lower() == name.lower()
    ]
    if len(found) != 1:
        raise NotTaken(f"USING ({name}) is ambiguous")
    return found[0]


def _coalesced(a: str, b: str) -> exp.Expr:
    return exp.Coalesce(this=column(a), expressions=[column(b)])


def _all_of(condition: exp.Expr, names: set[str]) -> bool:
    used = {c.name for c in condition.find_all(exp.Column)}
    return bool(used) and used <= names
