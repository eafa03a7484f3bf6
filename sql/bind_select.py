"""One SELECT, taken apart clause by clause in SQL's order of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Filter, Node, names_of, references
from tidewheel.planner.text import column, conjunction, substituted, to_sql

from .bind_calls import unnested, with_windows
from .bind_clauses import Clauses, Item
from .bind_correlated import Carried, Correlation, lifted, of_groups
from .bind_from import FromBinder
from .bind_having import HavingNames
from .bind_limit import lets_one_through, limits
from .bind_names import (
    Aggregates,
    conjuncts,
    is_placeholder,
    rebuilt,
    resolve,
    waits,
)
from .bind_nothing import on_nothing
from .bind_one_group import OneGroup
from .bind_order import Ordering
from .bind_prefix import Prefix, runs
from .bind_query import BoundQuery
from .bind_result import Result
from .bind_scope import FURTHER_OUT, NotTaken, Scope, Told, parts_of
from .bind_star import by_columns, by_number, each_of_columns, expanded
from .bind_subquery import Subqueries
from .bind_subquery_forms import SubqueryForms
from .bind_types import is_volatile

if TYPE_CHECKING:
    from .binder import Binder


class SelectBinder:
    """Binds one SELECT; made for one use."""

    def __init__(self, binder: Binder, outer: Scope | None, late: bool = False) -> None:
        """`late`: columns of the SELECT around may stand in the SELECT list (`BoundQuery.late`)."""
        self.binder = binder
        self.scope = Scope(parent=outer)
        self.merged: dict[str, exp.Expr] = {}
        self.around: set[str] = set()
        """Outer columns whose values FROM items have beside them."""
        self.aggregates = Aggregates(binder.oracle)
        self._subqueries = Subqueries(binder)
        self._windows: dict[str, exp.Window] = {}
        self._clauses = Clauses([])
        self._aliases: dict[str, Item] = {}
        self.scope.alias = self._alias
        self._forms = SubqueryForms(binder, self._subqueries, self.aggregates, self._aliases)
        self._correlation = Correlation(binder, outer, late)
        self._late = late
        self._node: Node = None  # type: ignore[assignment]  # set by `bind` before any use

    def bind(self, select: exp.Select) -> BoundQuery:
        """The plan of `select`, or NotTaken."""
        _refuse_unusual(select)
        self._windows = {w.name.lower(): w for w in select.args.get("windows") or ()}
        self._bind_from(select)
        clauses = self._clauses
        numbered = [by_number(e, self.scope) for e in select.expressions]
        items = by_columns(numbered, self.scope, self.binder.oracle)
        clauses.items = self._select_list(items)
        self._bind_where(select)
        ordering = Ordering(self, self._aliases)
        order = ordering.keys(select)
        first_of = ordering.distinct_on(select)
        # what DISTINCT ON groups by goes the way of what ORDER BY orders by
        clauses.order = [*first_of, *order]
        group = select.args.get("group")
        names = HavingNames(self, group)
        clauses.having = [self.clause(c, names) for c in conjuncts(_this(select, "having"))]
        clauses.qualify = [self.clause(c) for c in conjuncts(_this(select, "qualify"))]
        if read := {c.name: call for c, call in self.scope.aggregates.values()}:
            clauses.change(lambda e: substituted(e, read))
        self._correlation.take_out(clauses, names_of(self._node), self.aggregates)
        aggregated = any(map(self.aggregates.found_in, clauses.exprs()))
        if group is not None and (aggregated or not clauses.having) and self._by_nothing(group):
            group = None
        aggregated = aggregated or group is not None
        unnests = any(i.expr.find(exp.Explode, exp.Unnest) for i in clauses.items)
        one_group = aggregated and group is None and not unnests
        alone = select.args.get("from_") is None and not unnests
        if (one_group or alone) and lets_one_through(select):
            select = select.copy()
            select.set("limit", None)
        one_row = one_group and not (clauses.having or clauses.qualify or limits(select))
        grouped = aggregated or bool(select.args.get("distinct"))
        whole = grouped or limits(select) or any(map(self._reads_outer, clauses.exprs()))
        before = None
        if one_row and all(runs(e, self.aggregates) for e in clauses.exprs()):
            before, around = self._correlation.before(self._node, clauses, self.aggregates)
        carried: Carried = []
        if before is None:
            self._node, around = self._correlation.meet(self._node, clauses, whole)
            for condition in clauses.where:
                self._node = self._subqueries.filtered(self._node, condition)
            clauses.where = []
            carried = self._correlation.carried(self._node, grouped)
        empty: list[exp.Expr] | None = None
        if aggregated or clauses.having:
            if self._correlation and group is None and not one_row:
                if clauses.having:
                    raise OneGroup("a correlated subquery with HAVING and no GROUP BY")
                raise NotTaken("a correlated aggregate of all rows that need not give one row")
            empty = self._aggregate(group, carried, before)
        else:
            self._node = lifted(self._node, carried)
        clauses.change(self._attached)
        self._node = with_windows(self._node, clauses, self._correlation, self.binder)
        for condition in clauses.qualify:
            self._node = Filter(self._node, condition)
        clauses.qualify = []
        self._node = unnested(self._node, clauses, self.binder)
        outer = [n for n, _ in carried] if before is None else before.keys
        result = Result(self.binder, clauses, self._correlation, self._late)
        node, columns = result.of(self._node, select, len(first_of), outer)
        correlated = self._correlation.conditions
        return BoundQuery(
            node,
            columns,
            correlated,
            one_row and not correlated,
            empty,
            result.put_off,
            tuple(sorted(self.around.union(around))),
        )

    def _by_nothing(self, group: exp.Group) -> bool:
        """Is it a GROUP BY ALL without a key? DuckDB does not group then."""
        from .bind_group import Grouping

        if not group.args.get("all"):
            return False
        return Grouping(self, self.aggregates, group, ()).sets(self._clauses.items) == [()]

    # -- names

    def resolve_in(
        self,
        scope: Scope,
        expression: exp.Expr,
        pure: bool = False,
        around: bool = False,
        beside: bool = False,
    ) -> exp.Expr:
        """An ON condition; `pure`: over the FROM items alone, no subquery, no outer column.

        `around`: no subquery. `beside`: subqueries all the same, for `beside_sides`.
        """

        def lookup(parts: list[str], node: exp.Column) -> exp.Expr:
            scope.check(node, parts)
            found = scope.find(parts) or scope.row(parts)
            if found is None:
                found = scope.find_around(parts)
                if found is not None and pure:
                    raise NotTaken("an ON that reads the SELECT around, of no inner or left join")
            if found is None:
                raise NotTaken(f"{'.'.join(parts)} is no column of the FROM items")
            return found

        def subquery(node: exp.Expr, walk: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
            if not pure and not around:
                return self._forms.bound(node, walk, scope)
            value = self._forms.of_own_rows(node, walk, scope)
            if value is None and beside:
                return self._forms.bound(node, walk, scope)
            if value is None or (pure and references(value) - _columns(scope)):
                raise NotTaken("a subquery in the condition of an outer join")
            return value

        return resolve(expression, lookup, subquery, self._windows, scope.label_around)

    def beside_sides(
        self, left: Node, right: Node, conditions: Sequence[exp.Expr]
    ) -> tuple[Node, Node, list[exp.Expr]]:
        """The sides of an outer join with the values of the subqueries in its conditions.

        Each is a value of the rows of one side, so it can be had before the join.
        """
        sides = [left, right]

        def walk(part: exp.Expr) -> exp.Expr:
            if not is_placeholder(part):
                return rebuilt(part, walk)
            read = references(part)
            for i, side in enumerate(sides):
                if read <= names_of(side):
                    value, sides[i] = self._subqueries.attached(side, part)
                    return value
            raise NotTaken("a subquery over both sides of an outer join, in its condition")

        found = [walk(c) for c in conditions]
        return sides[0], sides[1], found

    def _reads_outer(self, expression: exp.Expr) -> bool:
        """Is there a subquery in it that reads columns of the SELECTs around this one?"""
        mine = names_of(self._node)
        return any(is_placeholder(p) and references(p) - mine for p in expression.walk())

    def is_local(self, condition: exp.Expr, visible: set[str]) -> bool:
        """Is it a condition over `visible` columns alone, without subqueries?"""
        return references(condition) <= visible and not waits(condition)

    def items(self) -> Sequence[Item]:
        """The SELECT list."""
        return self._clauses.items

    def clause(self, expression: exp.Expr, having: HavingNames | None = None) -> exp.Expr:
        """An expression of this SELECT; what is no column may be an alias of the SELECT list.

        `having`: it is a condition there, where some names are aliases though columns have them.
        """

        def lookup(parts: list[str], node: exp.Column) -> exp.Expr:
            self.scope.check(node, parts)
            found = self.scope.find(parts)
            alias = self._aliases.get(parts[0].lower()) if len(parts) == 1 else None
            if alias is not None and FURTHER_OUT in node.meta:
                raise NotTaken(f"{parts[0]} is an alias in the subquery of a macro")
            if alias is not None and found is not None and found != alias.expr:
                alias = alias if having is not None and having.is_alias(node) else None
            if alias is not None and alias.expr != found:
                if is_volatile(alias.expr):
                    raise NotTaken(f"the alias {parts[0]} gives another value each time")
                return exp.Paren(this=alias.expr.copy())
            found = found or self.scope.row(parts)
            if found is None and self.scope.parent is not None:
                found = self.scope.parent.find_around(parts)
            if found is None:
                raise NotTaken(f"{'.'.join(parts)} is no column of the FROM items")
            return found

        return resolve(
            expression,
            lookup,
            lambda n, w: self._forms.bound(n, w, self.scope),
            self._windows,
            self.scope.label_around,
        )

    def _alias(self, name: str) -> exp.Expr | None:
        """What a subquery reads by a name of the SELECT list that is no column's."""
        item = self._aliases.get(name.lower())
        if item is None:
            return None
        value = item.expr
        if waits(value) or is_volatile(value) or value.find(exp.Window, exp.Explode, exp.Unnest):
            raise NotTaken(f"the alias {name}, in a subquery")
        register = partial(of_groups, self.scope, binder=self.binder)
        return exp.Paren(this=self.aggregates.taken_out(value, {}, register, lambda part: part))

    # -- the clauses

    def _bind_from(self, select: exp.Select) -> None:
        from_ = select.args.get("from_")
        if from_ is None:
            self._node = self.binder.one_row()
            return
        binder = FromBinder(self)
        first, joins = from_.this, select.args.get("joins") or []
        joins = [*(first.args.get("joins") or ()), *joins]  # (FROM t JOIN u SELECT …: t has them)
        binder.where, binder.last = _this(select, "where"), joins[-1] if joins else None
        self._node, relations = binder.bind(first, select.args.get("joins") or ())
        merged = any(j.args.get("using") or j.args.get("method") for j in joins)
        if isinstance(first, exp.Subquery) and not first.alias and not merged:
            # DuckDB's name for the first one without a name; recursions of rows around use it
            relations[0].path = relations[0].path or ("unnamed_subquery",)
        self.scope.relations = relations
        for condition in binder.conditions:
            self._filter(condition)

    def _filter(self, condition: exp.Expr) -> None:
        outer = references(condition) - names_of(self._node)
        if not outer:
            self._node = self._subqueries.filtered(self._node, condition)
            return
        if waits(condition):
            self._clauses.where.append(condition)
        else:
            self._correlation.conditions.append(condition)

    def _bind_where(self, select: exp.Select) -> None:
        where = each_of_columns(_this(select, "where"), self.scope, self.binder.oracle)
        conditions = [self.clause(c) for each in where for c in conjuncts(each)]
        plain = [c for c in conditions if self.is_local(c, names_of(self._node))]
        for condition in plain:
            if any(isinstance(p, exp.Window) for p in condition.walk()):
                raise NotTaken("a window function in WHERE")
        if plain:
            self._node = Filter(self._node, conjunction(plain) or exp.true())
        for condition in conditions:
            if not any(condition is p for p in plain):
                self._filter(condition)

    def _select_list(self, expressions: Sequence[exp.Expr]) -> list[Item]:
        items: list[Item] = []
        for expression in expressions:
            star = expanded(expression, self.scope, self.clause, self._kind, self.binder.oracle)
            if star is not None:
                items += [Item(label, e, False) for label, e in star]
                continue
            aliased = isinstance(expression, exp.Alias)
            bare = expression.this if aliased else expression
            while isinstance(bare, exp.Paren):
                bare = bare.this
            label: str
            if aliased:  # (what a macro stands for is called as its call is written)
                label = expression.alias
                label = label if "(" in label else Told(label)
            elif isinstance(bare, exp.Column):
                label = Told(self.scope.label(parts_of(bare)))
            else:
                label = to_sql(bare)
            item = Item(label, self.clause(bare), aliased)
            items.append(item)
            if aliased:
                self._aliases.setdefault(label.lower(), item)
        if not items:
            raise NotTaken("an empty SELECT list")
        return items

    def _kind(self, value: exp.Expr) -> str:
        """The type of a value of the rows, or of aggregates; '' where it is not known yet."""
        if waits(value):
            return ""
        try:
            return self.binder.oracle.types([value], self.scope.columns_around())[0]
        except NotTaken:
            return ""

    # -- aggregation

    def _aggregate(
        self, group: exp.Group | None, carried: Carried, before: Prefix | None
    ) -> list[exp.Expr] | None:
        """Group the rows; the values of the SELECT list where a correlated one has no rows."""
        from .bind_group import Grouping

        clauses = self._clauses
        grouping = Grouping(self, self.aggregates, group, carried)
        # what was an outer column is a key now, outside of aggregates
        keys = {e.name: column(c.name) for c, e in carried if e.name in self._correlation.met}
        self._node = grouping.prepared(self._node, self._subqueries, clauses.items)
        clauses.change(lambda e: substituted(grouping.over(e), keys))
        grouped = grouping.node(self._node)
        self._check_grouped(grouped.input, grouped)
        self._node = grouped if before is None else before.over(grouped, self.binder.names)
        for condition in clauses.having:
            self._node = self._subqueries.filtered(self._node, condition)
        clauses.having = []
        if not self._correlation or group is not None:
            return None
        equal = {c.this.name: c.expression for c in self._correlation.conditions}
        return on_nothing([i.expr for i in clauses.items], grouping.aggregates, equal)

    def _check_grouped(self, rows: Node, groups: Node) -> None:
        """A subquery may read the key ``a + 1`` where DuckDB finds this text; here it reads a."""
        gone = names_of(rows) - names_of(groups)
        for expression in self._clauses.exprs():
            if references(expression) & gone:
                raise NotTaken("a subquery over an expression that the SELECT around groups by")

    def _attached(self, expression: exp.Expr) -> exp.Expr:
        value, self._node = self._subqueries.attached(self._node, expression)
        return value


def _this(select: exp.Expr, clause: str) -> exp.Expr | None:
    found = select.args.get(clause)
    return None if found is None else found.this


_KNOWN = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit",
    "offset", "distinct", "windows", "with_", "kind", "hint", "operation_modifiers",
}  # fmt: skip


def _refuse_unusual(select: exp.Select) -> None:
    for key, value in select.args.items():
        if key not in _KNOWN and value:
            raise NotTaken(f"{key.strip('_').upper()} in a SELECT")


def _columns(scope: Scope) -> set[str]:
    return {v.column.name for v in scope.visible()}
