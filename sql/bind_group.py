"""GROUP BY: keys, grouping sets, and expressions over them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Aggregate, Column, Named, Node, names_of, references
from tidewheel.planner.text import cast_to, column, substituted, to_sql

from .bind_clauses import Item
from .bind_names import Aggregates
from .bind_scope import NotTaken
from .bind_types import function_name

if TYPE_CHECKING:
    from .bind_select import SelectBinder
    from .bind_subquery import Subqueries

Sets = list[tuple[exp.Expr, ...]]


class Grouping:
    """The aggregation of one SELECT. `carried` are keys that correlated conditions add."""

    def __init__(
        self,
        select: SelectBinder,
        aggregates: Aggregates,
        group: exp.Group | None,
        carried: Sequence[tuple[Column, exp.Expr]],
    ) -> None:
        self._select = select
        self._functions = aggregates
        self._group = group
        self._carried = carried
        self._keys: list[Named] = []
        self._places: dict[str, exp.Expr] = {}
        self._sets: list[tuple[int, ...]] | None = None
        self._written: dict[str, str] = {}
        self._two_names = False
        self._input: Node | None = None
        self._subqueries: Subqueries | None = None
        self.aggregates: list[Named] = []

    def prepared(self, node: Node, subqueries: Subqueries, items: Sequence[Item]) -> Node:
        """Bind the keys; `node` with the subqueries that they need."""
        self._input, self._subqueries = node, subqueries
        for new, expression in self._carried:
            self._keys.append(Named(new, expression))
        sets = self.sets(items)
        of_nothing = () in sets
        if self._carried and not of_nothing:
            # What is read of the row around alone is one value for all of its groups.
            here = names_of(self._input)
            sets = [tuple(e for e in s if not references(e) or references(e) & here) for s in sets]
        expressions: dict[str, exp.Expr] = {}
        for one in sets:
            for e in one:
                expressions.setdefault(to_sql(e), e)
        if any(references(e) - names_of(self._input) for e in expressions.values()):
            raise NotTaken("a GROUP BY that reads the SELECT around")
        alike = {text: [to_sql(s) for s in subqueries.alike(e)] for text, e in expressions.items()}
        positions = {text: len(self._keys) + i for i, text in enumerate(expressions)}
        attached: list[exp.Expr] = []
        for e in expressions.values():
            value, self._input = subqueries.attached(self._input, e)
            attached.append(value)
        types = self._select.binder.oracle.types(attached, self._input.schema)
        for text, e, type_ in zip(expressions, attached, types, strict=True):
            if isinstance(e, exp.Column):
                new = Column(e.name, e.name, type_)
            else:
                new = self._select.binder.names.fresh("key", type_)
            self._keys.append(Named(new, e))
            for same in (text, *alike[text]):
                self._places.setdefault(same, column(new.name))
        correlated = bool(self._carried or self._select._correlation)
        if correlated and self._group is not None and of_nothing:
            # it has its row also where the row around meets nothing
            raise NotTaken("GROUP BY () in a correlated subquery")
        if len(sets) != 1:
            if correlated:
                raise NotTaken("grouping sets in a correlated subquery")
            if self._two_names:
                raise NotTaken("grouping sets over two names of one expression")
            if any(alike.values()):
                raise NotTaken("grouping sets over a subquery that is written twice")
            if any(isinstance(k.expr, exp.Literal) for k in self._keys):
                raise NotTaken("grouping sets over constants")
            # a set has a key once, also where it comes from several ROLLUPs
            self._sets = [tuple(dict.fromkeys(positions[to_sql(e)] for e in one)) for one in sets]
        return self._input

    def over(self, expression: exp.Expr) -> exp.Expr:
        """An expression of the SELECT list, HAVING … over the aggregation's output."""
        subqueries = self._subqueries
        assert subqueries is not None
        read = {c.name: call for c, call in self._select.scope.aggregates.values()}

        def by_keys(part: exp.Expr) -> exp.Expr:
            return substituted(subqueries.by_keys(part, self._places), read)

        return self._functions.taken_out(expression, self._places, self._register, by_keys)

    def node(self, _: Node) -> Aggregate:
        """The aggregation, once every expression has been through `over`."""
        assert self._input is not None
        if not self._keys and not self.aggregates:  # GROUP BY (): one row all the same
            only = self._select.binder.names.fresh("rows", "BIGINT")
            self.aggregates.append(Named(only, exp.Count(this=exp.Star())))
        sets = tuple(self._sets) if self._sets is not None else None
        return Aggregate(self._input, tuple(self._keys), tuple(self.aggregates), sets)

    def _register(self, call: exp.Expr) -> exp.Expr:
        if grouping := function_name(call) in ("grouping", "grouping_id"):
            for argument in list(call.iter_expressions()):  # a name of the SELECT list's, say
                argument.replace(bare(argument))
        text = to_sql(call)
        found = self._places.get(text)
        if found is not None:
            return found.copy()
        assert self._input is not None
        assert self._subqueries is not None
        if any(isinstance(p, exp.Window) for p in call.walk()):
            raise NotTaken("a window function inside an aggregate")
        value, self._input = self._subqueries.attached(self._input, call)
        names = {c.name for c in self._input.schema}
        if {c.name for c in value.find_all(exp.Column)} - names:
            raise NotTaken("an aggregate over a column of the SELECT around")
        oracle = self._select.binder.oracle
        if grouping:
            arguments = call.expressions or list(call.iter_expressions())
            if any(to_sql(a) not in self._places for a in arguments):
                raise NotTaken("GROUPING of what is no key")
            type_ = oracle.describe("SELECT grouping(x) FROM (SELECT 1 AS x) GROUP BY x")[0][1]
            if self._sets is None:  # each row is of a group by all keys
                return cast_to(exp.Literal.number(0), type_)
        else:
            type_ = oracle.types([value], self._input.schema)[0]
        new = self._select.binder.names.fresh(function_name(call) or "aggregate", type_)
        self.aggregates.append(Named(new, value))
        self._places[text] = column(new.name)
        return column(new.name)

    # -- the keys

    def sets(self, items: Sequence[Item]) -> Sets:
        group = self._group
        if group is None:
            return [()]
        if group.args.get("all"):
            reads_own = self._select._correlation.reads_own
            keys = [i.expr for i in items if not self._functions.found_in(i.expr)]
            asked = self._asked({to_sql(bare(k)) for k in keys})
            return [tuple(bare(k) for k in (*filter(reads_own, keys), *asked))]
        if group.args.get("totals"):
            raise NotTaken("GROUP BY … WITH TOTALS")
        parts: list[Sets] = []
        for element in (
            *group.expressions,
            *(group.args.get("grouping_sets") or ()),
            *(group.args.get("rollup") or ()),
            *(group.args.get("cube") or ()),
        ):
            parts.append(self._element(element, items))
        return [
            tuple(itertools.chain.from_iterable(combination))
            for combination in itertools.product(*parts)
        ]

    def _asked(self, keys: Set[str]) -> list[exp.Expr]:
        """The columns that HAVING reads outside of aggregates: DuckDB's GROUP BY ALL takes them
        for keys, too. Where one stands in an expression that is a key, its versions differ.
        """
        found: list[exp.Expr] = []
        for condition in self._select._clauses.having:
            inside = {id(n) for call in self._functions.calls(condition) for n in call.walk()}
            found += [c for c in condition.find_all(exp.Column) if id(c) not in inside]
        for at in found:
            while at.parent is not None and to_sql(at) not in keys:
                at = at.parent
                if to_sql(bare(at)) in keys:
                    raise NotTaken("GROUP BY ALL whose HAVING has a key that is an expression")
        return found

    def _element(self, element: exp.Expr, items: Sequence[Item]) -> Sets:
        if isinstance(element, (exp.Rollup, exp.Cube, exp.GroupingSets)) and not isinstance(
            element.expressions, list
        ):
            raise NotTaken("GROUP BY … WITH ROLLUP")
        if isinstance(element, exp.Rollup):
            groups = [self._tuple(e, items) for e in element.expressions]
            return [_joined(groups[:n]) for n in range(len(groups), -1, -1)]
        if isinstance(element, exp.Cube):
            groups = [self._tuple(e, items) for e in element.expressions]
            return [
                _joined(chosen)
                for n in range(len(groups), -1, -1)
                for chosen in itertools.combinations(groups, n)
            ]
        if isinstance(element, exp.GroupingSets):
            return [s for e in element.expressions for s in self._element(e, items)]
        return [self._tuple(element, items)]

    def _tuple(self, element: exp.Expr, items: Sequence[Item]) -> tuple[exp.Expr, ...]:
        if isinstance(element, exp.Tuple):
            return tuple(self._key(e, items) for e in element.expressions)
        return (self._key(element, items),)

    def _key(self, expression: exp.Expr, items: Sequence[Item]) -> exp.Expr:
        if isinstance(expression, exp.Literal) and not expression.is_string:
            if not expression.name.isdigit() or not 1 <= int(expression.name) <= len(items):
                raise NotTaken("GROUP BY a position that is none")
            bound = items[int(expression.name) - 1].expr.copy()
        else:
            bound = self._select.clause(expression)
        if self._functions.found_in(bound):
            raise NotTaken("GROUP BY an aggregate")
        bound = bare(bound)
        # DuckDB groups twice by what has two names; a set may have it under one of them.
        text = to_sql(bare(expression))
        self._two_names |= self._written.setdefault(to_sql(bound), text) != text
        return bound


def bare(expression: exp.Expr) -> exp.Expr:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def _joined(groups: Sequence[tuple[exp.Expr, ...]]) -> tuple[exp.Expr, ...]:
    return tuple(itertools.chain.from_iterable(groups))
