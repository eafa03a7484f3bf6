"""FROM items that read those before them: LATERAL subqueries, UNNEST, series of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import duckdb
from sqlglot import exp

from tidewheel.planner.logical import (
    Column,
    Filter,
    JoinKind,
    Named,
    Node,
    Project,
    Unnest,
    names_of,
    references,
)
from tidewheel.planner.text import column, substituted, to_sql, unchanged

from .bind_from import FromBinder
from .bind_from_item import From
from .bind_items import alias_of_item, join_kind_of, relation, rows_of_item
from .bind_names import conjuncts
from .bind_own_rows import OwnRows, reads_values_alone
from .bind_query import BoundQuery, split_conditions, with_aggregates
from .bind_scope import NotTaken, Relation, Scope, Visible, deduplicated
from .bind_values import VALUES, values_apart

_MORE = (
    "group", "having", "distinct", "limit", "offset", "order", "qualify", "windows", "with_",
    "joins", "laterals", "sample", "pivots",
)  # fmt: skip
"""Clauses of a SELECT that is more than rows of its FROM."""
_ELEMENT = "__tw_element"


class Lateral:
    """Binds one such item; a subquery becomes a join by what it reads of the items before it."""

    def __init__(self, binder: FromBinder) -> None:
        self._from = binder

    def join(self, left: From, join: exp.Join) -> From | None:
        """An item that reads those before it: a join by what it reads of them, or an UNNEST."""
        if join.args.get("using") or join.args.get("method"):
            return None
        kind = join_kind_of(*((join.args.get(k) or "").upper() for k in ("side", "kind")))
        if kind not in ("inner", "cross", "left"):
            return None
        if (apart := values_apart(join.this)) is not None:
            return self._over_values(left, join, *apart)
        if (series := self._series(left, join, join.this, kind, join.args.get("on"))) is not None:
            return series
        item = join.this.this if isinstance(join.this, exp.Lateral) else join.this
        query = item.this if isinstance(item, exp.Subquery) else None
        if isinstance(item, exp.Values):
            query = item
        if kind != "left" and query is not None and not item.args.get("with_"):
            rows = self._rows(left, join, query)
            if rows is not None:
                return rows
        if reads_values_alone(item):
            with suppress(NotTaken, duckdb.Error):
                return self._of_own_rows(left, join, kind)
        if not isinstance(query, exp.Query | exp.Values) or item.args.get("with_"):
            return None
        return self._query(left, join, query, kind)

    def _over_values(
        self, left: From, join: exp.Join, values: exp.Subquery, call: exp.Expr
    ) -> From:
        """``FROM t, range(t.a, (SELECT max(b) FROM u))``: the subqueries' values join t first."""
        beside = self._from.join(left, exp.Join(this=values))
        after = join.copy()
        after.set("this", call)
        node, relations = self._from.join(beside, after)
        return node, [r for r in relations if r.path != (VALUES,)]

    def _of_own_rows(self, left: From, join: exp.Join, kind: JoinKind) -> From:
        """An item that reads no table but values of those before it."""
        on = conjuncts(join.args.get("on"))
        conditions = [c for c in on if to_sql(c).lower() != "true"]
        item = join.this
        if isinstance(item, exp.Lateral):
            item = item.this.copy()
            item.set("alias", join.this.args.get("alias"))
        if conditions and kind == "left":  # of the rows, before the join adds one for none
            alias, _ = alias_of_item(item)
            if alias.lower() in {v.label.lower() for r in left[1] for v in r.columns}:
                raise NotTaken("an outer join whose ON may mean a column or the rows of a value")
            item = exp.select("*").from_(item).where(*conditions).subquery(alias)
            conditions = []
        select, binder = self._from.select, self._from.binder
        rows = OwnRows(binder, select.aggregates)
        around = Scope(left[1], self._from.around)
        node, labels, columns = rows.item(item, left[0], around, kind == "left")
        made = rows_of_item(join.this, labels, columns)
        whole = Scope([*left[1], made], select.scope.parent)
        self._from.conditions += [select.resolve_in(whole, c) for c in conditions]
        return node, whole.relations

    def _series(
        self,
        left: From,
        join: exp.Join,
        item: exp.Expr,
        kind: JoinKind,
        on: exp.Expr | None = None,
    ) -> From | None:
        """An UNNEST or a series of numbers or times; None for anything else."""
        inner = item.this if isinstance(item, exp.Lateral) else item
        inner = inner.this if isinstance(inner, exp.Table) else inner
        if isinstance(inner, exp.GenerateSeries):
            name = "range" if inner.args.get("is_end_exclusive") else "generate_series"
            lists = [inner]
        elif isinstance(inner, exp.Unnest):
            name, lists = "unnest", inner.expressions
        else:
            return None
        if on is not None and to_sql(on).lower() != "true":
            return None
        if (
            item.args.get("offset")
            or item.args.get("ordinality")
            or (kind == "left" and len(lists) > 1)
        ):
            return None
        return self._unnest(left, item, lists, name, kind)

    def _rows(self, left: From, join: exp.Join, tree: exp.Expr) -> From | None:
        """``LATERAL (SELECT unnest(t.list) AS x)``, ``LATERAL (SELECT k FROM range(t.n) s(k))``:
        an UNNEST, what is selected from it, and what WHERE leaves. None for anything else."""
        if not isinstance(tree, exp.Select) or any(tree.args.get(k) for k in _MORE):
            return None
        items = list(tree.expressions)
        source = tree.args.get("from_")
        select, names = self._from.select, self._from.binder.names
        if source is None:
            lists = [e for e in items if isinstance(e.unalias(), exp.Explode)]
            if len(lists) != 1 or tree.args.get("where") or lists[0].unalias().expressions:
                return None
            item: exp.Expr = exp.Unnest(
                expressions=[lists[0].unalias().this],
                alias=exp.TableAlias(columns=[exp.to_identifier(_ELEMENT)]),
            )
            items = [exp.column(_ELEMENT) if e is lists[0] else e for e in items]
        else:
            item = source.this
        labels = [e.alias if e.find(exp.Explode) else e.alias_or_name for e in tree.expressions]
        if any(e.find(exp.Explode, exp.Unnest, exp.Query, exp.Window) for e in items):
            return None
        found = self._series(left, join, item, "inner")
        if found is None:
            return None
        node, relations = found
        where = tree.args.get("where")
        own = {v.label.lower() for v in relations[-1].columns}
        named = {e.alias.lower() for e in tree.expressions if isinstance(e, exp.Alias)} - own
        read = (c for e in (*items, where) if e is not None for c in e.find_all(exp.Column))
        if any(not c.table and c.name.lower() in named for c in read):
            return None  # an alias of the SELECT list comes before the items around
        scope = Scope(relations[-1:], Scope(left[1], self._from.around))
        if [type(e) for e in items] == [exp.Star] and not any(items[0].args.values()):
            labels = [v.label for v in relations[-1].columns]
            values: list[exp.Expr] = [column(v.column.name) for v in relations[-1].columns]
        elif any(select.aggregates.found_in(e) or e.find(exp.Star) for e in items):
            return None
        else:
            values = [select.resolve_in(scope, e.unalias(), around=True) for e in items]
        for condition in conjuncts(where.this if where is not None else None):
            node = Filter(node, select.resolve_in(scope, condition, around=True))
        types = self._from.binder.oracle.types(values, node.schema)
        new = [names.fresh(label, t) for label, t in zip(labels, types, strict=True)]
        node = Project(node, (*unchanged(left[0].schema), *map(Named, new, values)))
        alias, renamed = alias_of_item(join.this)
        of_it = relation((alias,) if alias else (), deduplicated(labels), new, renamed)
        whole = Scope([*left[1], of_it], self._from.select.scope.parent)
        on = conjuncts(join.args.get("on"))
        self._from.conditions += [select.resolve_in(whole, c) for c in on]
        return node, whole.relations

    def _query(self, left: From, join: exp.Join, tree: exp.Expr, kind: JoinKind) -> From:
        inner = kind != "left"
        alias, renamed = alias_of_item(join.this)
        around = Scope(left[1], self._from.around)
        query = self._from.binder.query(tree, around, late=inner)
        if query.around:
            if not set(query.around) <= names_of(left[0]):
                raise NotTaken("a lateral subquery that refers further out")
            query = query.over(left[0], {n: column(n) for n in query.around})
        labels = deduplicated([c.label for c in query.columns])
        relations = [*left[1], relation((alias,) if alias else (), labels, query.columns, renamed)]
        scope = Scope(relations, self._from.select.scope.parent)
        on = [
            self._from.select.resolve_in(scope, c, pure=not inner)
            for c in conjuncts(join.args.get("on"))
        ]
        if query.empty is not None:
            return self._with_aggregates(left, query, relations, on, inner)
        here = names_of(left[0]) | names_of(query.node)
        if not inner and not all(self._from.select.is_local(c, here) for c in query.correlated):
            raise NotTaken("an outer join with a subquery that refers further out")
        late = {n.column.name: n.expr for n in query.late}
        conditions = [*query.correlated, *(substituted(c, late) for c in on)]
        right = (query.node, relations[-1:])
        node, relations = self._from.finish(
            left, right, relations, "inner" if inner else kind, conditions, ""
        )
        if query.late:
            if not set().union(*map(references, late.values())) <= names_of(node):
                raise NotTaken("a lateral subquery that refers further out")
            node = Project(node, (*unchanged(node.schema), *query.late))
        return node, relations

    def _with_aggregates(
        self,
        left: From,
        query: BoundQuery,
        relations: list[Relation],
        on: list[exp.Expr],
        inner: bool,
    ) -> From:
        """A lateral aggregate without GROUP BY: always one row."""
        keys, rest = split_conditions(query.correlated, names_of(left[0]), names_of(query.node))
        if rest or query.late:
            raise NotTaken("a lateral aggregate over more than equality")
        node, values = with_aggregates(left[0], query, keys, self._from.binder.names)
        node, fresh = self._beside(node, left[0], query.columns, values)
        renamed = {c.name: column(f.name) for c, f in zip(query.columns, fresh, strict=True)}
        conditions = [substituted(c, renamed) for c in on]
        if inner:
            self._from.conditions += conditions
        elif [to_sql(c).lower() for c in conditions] != ["true"]:
            met = exp.and_(*conditions)
            values = [exp.Case(ifs=[exp.If(this=met.copy(), true=column(f.name))]) for f in fresh]
            node, fresh = self._beside(node, left[0], fresh, values)
        seen = relations[-1].columns
        relations[-1].columns = [Visible(v.label, f, f) for v, f in zip(seen, fresh, strict=True)]
        return node, relations

    def _beside(
        self, node: Node, left: Node, columns: Sequence[Column], values: Sequence[exp.Expr]
    ) -> tuple[Node, list[Column]]:
        """The columns of `left` and `values`, under new names."""
        fresh = [self._from.binder.names.fresh(c.label, c.type) for c in columns]
        kept = unchanged(left.schema)
        new = (Named(f, v) for f, v in zip(fresh, values, strict=True))
        return Project(node, (*kept, *new)), fresh

    def _unnest(
        self,
        left: From,
        item: exp.Expr,
        lists: Sequence[exp.Expr],
        name: str,
        kind: JoinKind,
    ) -> From:
        """``FROM t, UNNEST(t.list)``: a row per element; a left join keeps rows without one."""
        alias, renamed = alias_of_item(item)
        scope = Scope(left[1], self._from.select.scope.parent)
        values = [self._from.select.resolve_in(scope, e, pure=True) for e in lists]
        if kind == "left":
            values = [_padded(v) for v in values]
        calls = [exp.Explode(this=v) for v in values]
        types = self._from.binder.oracle.types(calls, left[0].schema)
        called = alias if alias and len(calls) == 1 else name
        labels = list(renamed) + [called] * (len(calls) - len(renamed))
        fresh = [
            self._from.binder.names.fresh(label, t) for label, t in zip(labels, types, strict=True)
        ]
        node = Unnest(left[0], tuple(Named(f, c) for f, c in zip(fresh, calls, strict=True)))
        made = relation((alias or name,), labels, fresh, ())
        if labels == [alias]:
            made.columns[0].also = name
        return node, [*left[1], made]


def _padded(value: exp.Expr) -> exp.Expr:
    """A list, or one NULL where it has no element."""
    some = exp.GT(
        this=exp.Anonymous(this="len", expressions=[value]), expression=exp.Literal.number(0)
    )
    return exp.Case(
        ifs=[exp.If(this=some, true=value.copy())], default=exp.Array(expressions=[exp.null()])
    )
