"""One SELECT, taken apart clause by clause in SQL's order of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import (
    Column,
    Distinct,
    Filter,
    Join,
    Named,
    Node,
    Project,
    SortKey,
    Unnest,
    Window,
    references,
)
from tidewheel.planner.text import column, substituted, to_sql

from .bind_from import FromBinder
from .bind_limit import limited, limits, row_numbers
from .bind_names import (
    Aggregates,
    conjuncts,
    rebuilt,
    resolve,
    windows_taken_out,
)
from .bind_scope import NotTaken, Scope, parts_of
from .bind_star import expanded
from .bind_subquery import Around, BoundQuery, Subqueries, names_of, split_conditions
from .bind_types import function_name, is_volatile

if TYPE_CHECKING:
    from .binder import Binder

_ZERO_ON_NOTHING = {"count", "count_star", "count_if", "countif", "approx_count_distinct"}
_NULL_ON_NOTHING = {
    "sum", "avg", "mean", "min", "max", "first", "last", "any_value", "list", "array_agg",
    "string_agg", "group_concat", "listagg", "bool_and", "bool_or", "bit_and", "bit_or",
    "bit_xor", "product", "median", "mode", "stddev", "stddev_samp", "stddev_pop", "variance",
    "var_samp", "var_pop", "arg_min", "arg_max", "min_by", "max_by", "quantile_cont",
    "quantile_disc", "fsum", "corr", "covar_pop", "covar_samp",
}  # fmt: skip


@dataclass(slots=True)
class Item:
    """One column of the SELECT list: its label and its bound expression."""

    label: str
    expr: exp.Expr
    aliased: bool


class SelectBinder:
    """Binds one SELECT; made for one use."""

    def __init__(self, binder: Binder, outer: Scope | None, late: bool = False) -> None:
        """`late`: columns of the SELECT around may stand in the SELECT list (`BoundQuery.late`)."""
        self.binder = binder
        self.scope = Scope(parent=outer)
        self.merged: dict[str, exp.Expr] = {}
        self._aggregates = Aggregates(binder.oracle)
        self._subqueries = Subqueries(binder)
        self._windows: dict[str, exp.Window] = {}
        self._items: list[Item] = []
        self._aliases: dict[str, Item] = {}
        self._correlated: list[exp.Expr] = []
        self._each: list[exp.Expr] | None = None
        """What splits a correlated SELECT into its answers: all of its conditions, equalities."""
        self._late = late
        self._put_off: list[Named] = []
        self._met: set[str] = set()
        self._node: Node = None  # type: ignore[assignment]  # set by `bind` before any use

    def bind(self, select: exp.Select) -> BoundQuery:
        """The plan of `select`, or NotTaken."""
        _refuse_unusual(select)
        self._windows = {w.name.lower(): w for w in select.args.get("windows") or ()}
        self._bind_from(select)
        self._items = self._select_list(select.expressions)
        self._bind_where(select)
        order = self._order_items(select)
        first_of = self._distinct_on(select, order)
        # what DISTINCT ON groups by goes the way of what ORDER BY orders by
        order = [*first_of, *order]
        having = [self._clause(c, True) for c in conjuncts(_this(select, "having"))]
        qualify = [self._clause(c, True) for c in conjuncts(_this(select, "qualify"))]
        group = select.args.get("group")
        aggregated = group is not None or any(
            self._aggregates.found_in(e)
            for e in (*(i.expr for i in self._items), *having, *qualify, *(k.expr for k in order))
        )
        grouped = aggregated or bool(select.args.get("distinct"))
        around = self._meet_around(having, qualify, order, grouped or limits(select))
        correlated_by = self._correlation(grouped)
        empty: list[exp.Expr] | None = None
        if aggregated or having:
            empty = self._aggregate(group, having, qualify, order, correlated_by)
        else:
            self._lift(correlated_by)
        self._attach(qualify, order)
        self._add_windows(qualify, order)
        for condition in qualify:
            self._node = Filter(self._node, condition)
        self._unnest(order)
        if self._correlated and empty is not None and having:
            raise NotTaken("a correlated subquery with HAVING and no GROUP BY")
        columns = self._project(select, order, len(first_of), [n for n, _ in correlated_by])
        one_row = aggregated and group is None and not having and not qualify
        return BoundQuery(
            self._node,
            columns,
            self._correlated,
            one_row and not limits(select) and not self._correlated,
            empty if self._correlated and group is None else None,
            self._put_off,
            around,
        )

    # -- names

    def resolve_in(self, scope: Scope, expression: exp.Expr, pure: bool = False) -> exp.Expr:
        """An ON condition; `pure`: over the FROM items alone, no subquery, no outer column."""

        def lookup(parts: list[str], node: exp.Column) -> exp.Expr:
            found = scope.find(parts)
            if found is None and not pure and scope.parent is not None:
                found = _outer(scope.parent, parts)
            if found is None:
                raise NotTaken(f"{'.'.join(parts)} is no column of the FROM items")
            return found

        def subquery(node: exp.Expr, walk: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
            if pure:
                raise NotTaken("a subquery in the condition of an outer join")
            return self._on_subquery(node, walk, scope)

        return resolve(expression, lookup, subquery, self._windows)

    def is_local(self, condition: exp.Expr, visible: set[str]) -> bool:
        """Is it a condition over `visible` columns alone, without subqueries?"""
        return references(condition) <= visible and not any(
            Subqueries.is_placeholder(p) for p in condition.walk()
        )

    def _clause(self, expression: exp.Expr, aliases_first: bool = False) -> exp.Expr:
        """An expression of this SELECT; what is no column may be an alias of the SELECT list."""

        def lookup(parts: list[str], node: exp.Column) -> exp.Expr:
            found = self.scope.find(parts)
            alias = self._aliases.get(parts[0].lower()) if len(parts) == 1 else None
            if alias is not None and (found is None or aliases_first):
                if found is not None and found != alias.expr:
                    raise NotTaken(f"{parts[0]} is a column and an alias")
                if is_volatile(alias.expr):
                    raise NotTaken(f"the alias {parts[0]} gives another value each time")
                return exp.Paren(this=alias.expr.copy()) if found is None else found
            if found is None and self.scope.parent is not None:
                found = _outer(self.scope.parent, parts)
            if found is None:
                raise NotTaken(f"{'.'.join(parts)} is no column of the FROM items")
            return found

        return resolve(
            expression, lookup, lambda n, w: self._on_subquery(n, w, self.scope), self._windows
        )

    def _on_subquery(
        self,
        node: exp.Expr,
        walk: Callable[[exp.Expr], exp.Expr],
        scope: Scope,
    ) -> exp.Expr:
        visible = {v.column.name for v in scope.visible()} | set(self.merged)
        if isinstance(node, exp.Exists):
            query = self.binder.query(node.this, scope, for_exists=True)
            return self._subqueries.add("exists", query, (), visible)
        if isinstance(node, exp.In):
            query = self.binder.query(node.args["query"], scope)
            operands = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            bound = [walk(o) for o in operands]
            if len(bound) != len(query.columns):
                raise NotTaken("IN compares a row with a subquery of another width")
            return self._subqueries.add("in", query, bound, visible)
        if isinstance(node, exp.Binary):
            return self._quantified(node, walk, scope, visible)
        query = self.binder.query(node, scope)
        if len(query.columns) != 1:
            raise NotTaken("a scalar subquery with several columns")
        return self._subqueries.add("scalar", query, (), visible)

    def _quantified(
        self,
        node: exp.Binary,
        walk: Callable[[exp.Expr], exp.Expr],
        scope: Scope,
        visible: set[str],
    ) -> exp.Expr:
        """``= ANY`` is IN, ``<> ALL`` is NOT IN."""
        is_any = isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any)
        is_not_all = isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All)
        if not is_any and not is_not_all:
            raise NotTaken("ANY or ALL with an inequality")
        query = self.binder.query(node.expression.this, scope)
        if len(query.columns) != 1:
            raise NotTaken("ANY over several columns")
        found = self._subqueries.add("in", query, [walk(node.this)], visible)
        return found if is_any else exp.Not(this=found)

    # -- the clauses

    def _bind_from(self, select: exp.Select) -> None:
        from_ = select.args.get("from_")
        if from_ is None:
            self._node = self.binder.one_row()
            return
        binder = FromBinder(self)
        self._node, relations = binder.bind(from_.this, select.args.get("joins") or ())
        self.scope.relations = relations
        for condition in binder.conditions:
            self._filter(condition)

    def _filter(self, condition: exp.Expr) -> None:
        outer = references(condition) - names_of(self._node)
        if not outer:
            self._node = self._subqueries.filtered(self._node, condition)
            return
        if any(Subqueries.is_placeholder(p) for p in condition.walk()):
            raise NotTaken("a subquery that refers to a SELECT further out")
        self._correlated.append(condition)

    def _bind_where(self, select: exp.Select) -> None:
        conditions = [self._clause(c) for c in conjuncts(_this(select, "where"))]
        plain = [c for c in conditions if self.is_local(c, names_of(self._node))]
        for condition in plain:
            if any(isinstance(p, exp.Window) for p in condition.walk()):
                raise NotTaken("a window function in WHERE")
        if plain:
            self._node = Filter(self._node, exp.and_(*plain))
        for condition in conditions:
            if not any(condition is p for p in plain):
                self._filter(condition)

    def _select_list(self, expressions: Sequence[exp.Expr]) -> list[Item]:
        items: list[Item] = []
        for expression in expressions:
            star = expanded(expression, self.scope, self._clause)
            if star is not None:
                items += [Item(label, e, False) for label, e in star]
                continue
            aliased = isinstance(expression, exp.Alias)
            bare = expression.this if aliased else expression
            if aliased:
                label = expression.alias
            elif isinstance(bare, exp.Column):
                label = parts_of(bare)[-1]
            else:
                label = to_sql(bare)
            item = Item(label, self._clause(bare), aliased)
            items.append(item)
            if aliased:
                self._aliases.setdefault(label.lower(), item)
        if not items:
            raise NotTaken("an empty SELECT list")
        return items

    def _order_items(self, select: exp.Select) -> list[SortKey]:
        order = select.args.get("order")
        if order is None:
            return []
        keys: list[SortKey] = []
        for item in order.expressions:
            expression = item.this
            descending = bool(item.args.get("desc"))
            nulls_first = bool(item.args.get("nulls_first"))
            if item.args.get("with_fill"):
                raise NotTaken("ORDER BY WITH FILL")
            keys += [SortKey(e, descending, nulls_first) for e in self._order_by(expression)]
        return keys

    def _distinct_on(self, select: exp.Select, order: Sequence[SortKey]) -> list[SortKey]:
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return []
        if not order:
            raise NotTaken("DISTINCT ON without ORDER BY: which row is the first is open")
        items = on.expressions if isinstance(on, exp.Tuple) else [on]
        keys = [SortKey(e, False, False) for i in items for e in self._order_by(i)]
        if not keys:
            raise NotTaken("DISTINCT ON a constant")
        return keys

    def _order_by(self, expression: exp.Expr) -> list[exp.Expr]:
        if isinstance(expression, exp.Literal):
            if expression.is_string:
                return []  # a constant orders nothing
            return [self._items[_position(expression, len(self._items))].expr.copy()]
        name = expression.name.lower() if isinstance(expression, (exp.Column, exp.Var)) else ""
        plain = not isinstance(expression, exp.Column) or not expression.table
        if name == "all" and plain and self.scope.find([name]) is None:
            return [i.expr.copy() for i in self._items]
        if name in self._aliases and plain:
            return [self._aliases[name].expr.copy()]
        if isinstance(expression, exp.Collate):
            raise NotTaken("ORDER BY … COLLATE")
        return [self._clause(expression)]

    # -- aggregation

    def _meet_around(
        self,
        having: list[exp.Expr],
        qualify: list[exp.Expr],
        order: list[SortKey],
        whole: bool,
    ) -> tuple[str, ...]:
        """Join the outer columns that are read, where equalities alone do not tell answers apart.

        `whole`: an answer is not a sum over its rows. Without any equality the join would have all
        pairs of rows, which recomputing does not.
        """
        mine = names_of(self._node)
        exprs = [*(i.expr for i in self._items), *having, *qualify, *(k.expr for k in order)]
        read = set().union(*map(references, exprs)) - mine
        whole = whole or any(e.find(exp.Window) for e in exprs)
        equal = [c for c in self._correlated if _equality(c, mine)]
        needed = whole and (read or len(equal) < len(self._correlated))
        if not equal or not (needed or (read and not self._late)):
            return ()
        outer = sorted(read.union(*map(references, self._correlated)) - mine)
        known = {c.name: c for c in self._around()}
        if not known.keys() >= set(outer):
            return ()
        fresh = [self.binder.names.fresh(known[n].label, known[n].type) for n in outer]
        met = {n: column(c.name) for n, c in zip(outer, fresh, strict=True)}
        self._met = {c.name for c in fresh}
        conditions = [substituted(c, met) for c in self._correlated]
        keys, rest = split_conditions(conditions, mine, {c.name for c in fresh})
        residual = exp.and_(*rest) if rest else None
        self._node = Join(self._node, Around(tuple(fresh)), "inner", tuple(keys), residual)
        for item in self._items:
            item.expr = substituted(item.expr, met)
        having[:] = [substituted(e, met) for e in having]
        qualify[:] = [substituted(e, met) for e in qualify]
        order[:] = [SortKey(substituted(k.expr, met), k.descending, k.nulls_first) for k in order]
        self._correlated = [exp.NullSafeEQ(this=met[n].copy(), expression=column(n)) for n in outer]
        return tuple(outer)

    def _correlation(self, grouped: bool) -> list[tuple[Column, exp.Expr]]:
        """What correlated conditions need of this SELECT's rows, as columns to be carried out.

        Below a grouping only ``inner = outer`` can wait: its inner side becomes a key.
        """
        carried: list[tuple[Column, exp.Expr]] = []
        mine = names_of(self._node) if self._correlated else set()
        each: list[exp.Expr] = []
        conditions: list[exp.Expr] = []
        for condition in self._correlated:
            sides = _equality(condition, mine)
            if sides:
                inner, outer = sides
                type_ = self.binder.oracle.types([inner], self._node.schema)[0]
                new = self.binder.names.fresh("key", type_)
                carried.append((new, inner))
                each.append(column(new.name))
                equal = type(condition)(this=column(new.name), expression=outer.copy())
                conditions.append(equal)
            elif grouped:
                raise NotTaken("an aggregate over rows chosen by more than equality")
            else:
                conditions.append(condition)
                for name in sorted(references(condition) & mine):
                    have = next(c for c in self._node.schema if c.name == name)
                    if not any(c.name == name for c, _ in carried):
                        carried.append((have, column(name)))
        self._each = each if len(each) == len(conditions) else None
        self._correlated = conditions
        return carried

    def _split(self, what: str) -> list[exp.Expr]:
        """What a correlated SELECT's answers are told apart by; nothing if it is not correlated."""
        if self._correlated and self._each is None:
            raise NotTaken(f"{what} over rows chosen by more than equality")
        return [e.copy() for e in self._each or ()]

    def _lift(self, carried: Sequence[tuple[Column, exp.Expr]]) -> None:
        new = [(c, e) for c, e in carried if c.name not in names_of(self._node)]
        if new:
            self._node = Project(
                self._node,
                (
                    *(Named(c, column(c.name)) for c in self._node.schema),
                    *(Named(c, e) for c, e in new),
                ),
            )

    def _aggregate(
        self,
        group: exp.Group | None,
        having: list[exp.Expr],
        qualify: list[exp.Expr],
        order: list[SortKey],
        carried: Sequence[tuple[Column, exp.Expr]],
    ) -> list[exp.Expr] | None:
        from .bind_group import Grouping

        grouping = Grouping(self, self._aggregates, group, carried)
        # what was an outer column is a key now, outside of aggregates
        keys = {e.name: column(c.name) for c, e in carried if e.name in self._met}

        def over(e: exp.Expr) -> exp.Expr:
            return substituted(grouping.over(e), keys)

        self._node = grouping.prepared(self._node, self._subqueries, self._items)
        for item in self._items:
            item.expr = over(item.expr)
        having[:] = [over(e) for e in having]
        qualify[:] = [over(e) for e in qualify]
        order[:] = [SortKey(over(k.expr), k.descending, k.nulls_first) for k in order]
        self._node = grouping.node(self._node)
        for condition in having:
            self._node = self._subqueries.filtered(self._node, condition)
        if not self._correlated or group is not None:
            return None
        nothing = {named.column.name: _on_nothing(named) for named in grouping.aggregates}
        nothing.update((c.this.name, c.expression) for c in self._correlated)
        return [_folded(substituted(i.expr, nothing)) for i in self._items]

    # -- after aggregation

    def _attach(self, qualify: list[exp.Expr], order: list[SortKey]) -> None:
        for item in self._items:
            item.expr, self._node = self._subqueries.attached(self._node, item.expr)
        for i, condition in enumerate(qualify):
            qualify[i], self._node = self._subqueries.attached(self._node, condition)
        for i, key in enumerate(order):
            expr, self._node = self._subqueries.attached(self._node, key.expr)
            order[i] = SortKey(expr, key.descending, key.nulls_first)

    def _add_windows(self, qualify: list[exp.Expr], order: list[SortKey]) -> None:
        calls: dict[str, exp.Window] = {}
        places: dict[str, Column] = {}

        def register(window: exp.Window) -> exp.Expr:
            text = to_sql(window)
            if text not in places:
                if is_volatile(window):
                    raise NotTaken("a window over random values")
                places[text] = Column("", "", "")
                calls[text] = window
            return exp.Placeholder(this=text)

        everything = [*(i.expr for i in self._items), *qualify, *(k.expr for k in order)]
        taken = [windows_taken_out(e, register) for e in everything]
        if not calls:
            return
        each = self._split("a window function")
        for window in calls.values():
            inner = next(window.find_all(exp.Window))
            inner.set("partition_by", [*each, *(inner.args.get("partition_by") or ())])
        types = self.binder.oracle.types(list(calls.values()), self._node.schema)
        for text, type_ in zip(calls, types, strict=True):
            places[text] = self.binder.names.fresh("window", type_)
        self._node = Window(self._node, tuple(Named(places[t], w) for t, w in calls.items()))

        def put(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Placeholder) and node.this in places:
                return column(places[node.this].name)
            return rebuilt(node, put)

        done = iter([put(e) for e in taken])
        for item in self._items:
            item.expr = next(done)
        qualify[:] = [next(done) for _ in qualify]
        order[:] = [SortKey(next(done), k.descending, k.nulls_first) for k in order]

    def _unnest(self, order: list[SortKey]) -> None:
        """Set-returning calls in the SELECT list become columns of an Unnest."""
        calls: dict[str, exp.Expr] = {}

        def walk(node: exp.Expr) -> exp.Expr:
            if isinstance(node, (exp.Unnest, exp.Explode)) or function_name(node) == "unnest":
                text = to_sql(node)
                if len(list(node.iter_expressions())) != 1 or any(
                    n is not node and isinstance(n, (exp.Unnest, exp.Explode)) for n in node.walk()
                ):
                    raise NotTaken("UNNEST with options, or inside another")
                calls.setdefault(text, node)
                return exp.Placeholder(this=text)
            return rebuilt(node, walk)

        taken = [walk(i.expr) for i in self._items]
        keys = [walk(k.expr) for k in order]
        if not calls:
            return
        types = self.binder.oracle.types(list(calls.values()), self._node.schema)
        places = {
            t: self.binder.names.fresh("unnest", y) for t, y in zip(calls, types, strict=True)
        }
        self._node = Unnest(self._node, tuple(Named(places[t], c) for t, c in calls.items()))

        def put(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Placeholder) and node.this in places:
                return column(places[node.this].name)
            return rebuilt(node, put)

        for item, expr in zip(self._items, taken, strict=True):
            item.expr = put(expr)
        order[:] = [
            SortKey(put(e), k.descending, k.nulls_first) for e, k in zip(keys, order, strict=True)
        ]

    # -- the result

    def _project(
        self,
        select: exp.Select,
        order: list[SortKey],
        first_of: int,
        carried: Sequence[Column],
    ) -> tuple[Column, ...]:
        """The SELECT list, DISTINCT, ORDER BY, LIMIT; the `first_of` keys are DISTINCT ON's."""
        input_ = self._node
        visible = names_of(input_)
        distinct = select.args.get("distinct")
        late = [bool(references(i.expr) - visible) for i in self._items]
        if any(references(k.expr) - visible for k in order) or (
            any(late) and (not self._late or distinct is not None)
        ):
            raise NotTaken("a column of the SELECT around, outside WHERE")
        around = self._around() if any(late) else ()
        types = self.binder.oracle.types([i.expr for i in self._items], (*input_.schema, *around))
        exprs: list[Named] = []
        by_text: dict[str, Column] = {}
        used: set[str] = {c.name for c in carried}
        columns: list[Column] = []
        for item, type_, later in zip(self._items, types, late, strict=True):
            if later:
                columns.append(self.binder.names.fresh(item.label, type_))
                self._put_off.append(Named(columns[-1], item.expr))
                continue
            bare = isinstance(item.expr, exp.Column) and item.expr.name not in used
            name = item.expr.name if bare else self.binder.names.fresh(item.label, type_).name
            used.add(name)
            new = Column(name, item.label, type_)
            columns.append(new)
            exprs.append(Named(new, item.expr))
            by_text.setdefault(to_sql(item.expr), new)
        exprs += [Named(c, column(c.name)) for c in carried]
        read = set().union(*(references(e.expr) for e in self._put_off))
        have = {e.column.name for e in exprs}
        exprs += [Named(c, column(c.name)) for c in input_.schema if c.name in read - have]
        exprs = exprs or [Named(c, column(c.name)) for c in input_.schema[:1]]
        keys: list[SortKey] = []
        hidden: list[Named] = []
        for key in order:
            text = to_sql(key.expr)
            if text not in by_text:
                if distinct is not None and not first_of:
                    raise NotTaken("DISTINCT ordered by what is not selected")
                type_ = self.binder.oracle.types([key.expr], input_.schema)[0]
                by_text[text] = self.binder.names.fresh("sort", type_)
                hidden.append(Named(by_text[text], key.expr))
            keys.append(SortKey(column(by_text[text].name), key.descending, key.nulls_first))
        self._node = Project(input_, (*exprs, *hidden))
        if first_of:
            self._node = self._first_rows(keys[:first_of], keys[first_of:])
        elif distinct is not None:
            self._node = Distinct(self._node)
        each = self._split("LIMIT") if limits(select) else []
        self._node = limited(self._node, select, keys[first_of:], each, self.binder.names)
        if hidden:
            self._node = Project(
                self._node, tuple(Named(e.column, column(e.column.name)) for e in exprs)
            )
        return tuple(columns)

    def _around(self) -> tuple[Column, ...]:
        """The columns of the SELECTs around."""
        found: dict[str, Column] = {}
        scope = self.scope.parent
        while scope is not None:
            found.update((v.column.name, v.column) for v in scope.visible())
            scope = scope.parent
        return tuple(found.values())

    def _first_rows(self, on: Sequence[SortKey], order: Sequence[SortKey]) -> Node:
        """DISTINCT ON: of each group the first row in the order."""
        groups = [*self._split("DISTINCT ON"), *(k.expr for k in on)]
        place, numbered = row_numbers(self._node, groups, order, self.binder.names)
        return Filter(numbered, exp.EQ(this=place, expression=exp.Literal.number(1)))


def _outer(scope: Scope | None, parts: list[str]) -> exp.Expr | None:
    while scope is not None:
        found = scope.find(parts)
        if found is not None:
            return found
        scope = scope.parent
    return None


def _equality(condition: exp.Expr, mine: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """A correlated condition's inner and outer side, if it compares one with the other."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    for inner, outer in (
        (condition.this, condition.expression),
        (condition.expression, condition.this),
    ):
        reads = references(inner)
        if reads and reads <= mine and not references(outer) & mine:
            return inner, outer
    return None


def _this(select: exp.Expr, clause: str) -> exp.Expr | None:
    found = select.args.get(clause)
    return None if found is None else found.this


def _position(literal: exp.Expr, width: int) -> int:
    if not literal.name.isdigit() or not 1 <= int(literal.name) <= width:
        raise NotTaken(f"position {literal.name} of {width} columns")
    return int(literal.name) - 1


def _on_nothing(named: Named) -> exp.Expr:
    node = named.expr
    while isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.this
    name = function_name(node)
    if name in _ZERO_ON_NOTHING:
        return exp.Literal.number(0)
    if name in _NULL_ON_NOTHING:
        return exp.Var(this=f"CAST(NULL AS {named.column.type})")
    raise NotTaken(f"{name} over no rows in a correlated subquery")


def _folded(expression: exp.Expr) -> exp.Expr:
    """NULL where the whole is a NULL, so that no CASE is needed to choose it."""
    if isinstance(expression, exp.Var):
        return exp.Null()
    if isinstance(expression, (exp.Mul, exp.Add, exp.Sub, exp.Div)):
        parts = [_folded(expression.this), _folded(expression.expression)]
        if any(isinstance(p, exp.Null) for p in parts):
            return exp.Null()
    if isinstance(expression, exp.Paren):
        inner = _folded(expression.this)
        return inner if isinstance(inner, exp.Null) else expression
    return expression


_KNOWN = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit",
    "offset", "distinct", "windows", "with_", "kind", "hint", "operation_modifiers",
}  # fmt: skip


def _refuse_unusual(select: exp.Select) -> None:
    for key, value in select.args.items():
        if key not in _KNOWN and value:
            raise NotTaken(f"{key.strip('_').upper()} in a SELECT")
