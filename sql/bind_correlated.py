"""A SELECT's conditions over columns of the SELECTs around it, as its rows change into answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.conditions import equality
from tidewheel.planner.logical import Column, Named, Node, Project, names_of, references
from tidewheel.planner.text import column, substituted, to_sql, unchanged

from .bind_clauses import Clauses
from .bind_names import Aggregates, rebuilt, waits
from .bind_prefix import Prefix, prefix, put_together
from .bind_query import with_outer
from .bind_scope import NotTaken, Scope

if TYPE_CHECKING:
    from .binder import Binder

Carried = list[tuple[Column, exp.Expr]]
"""Columns that conditions need of a SELECT's rows, with what they are in its FROM items."""


class Correlation:
    """The correlated conditions of one SELECT; nothing to do while there are none."""

    def __init__(self, binder: Binder, outer: Scope | None, late: bool) -> None:
        self.conditions: list[exp.Expr] = []
        self.met: set[str] = set()
        """Outer columns that were joined to the rows, under their names here."""
        self._binder = binder
        self._outer = outer
        self._late = late
        self._each: list[exp.Expr] | None = None
        """What splits the rows into answers: all of the conditions, if they are equalities."""

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def take_out(self, clauses: Clauses, mine: set[str], aggregates: Aggregates) -> None:
        """An aggregate of nothing but columns of the SELECT around is an aggregate of that one, and
        a column of its groups here."""
        theirs = {c.name: c for c in self.around()}
        if not theirs:
            return

        def register(call: exp.Expr) -> exp.Expr:
            read = references(call)
            if not read & theirs.keys():
                return call
            if read & mine:  # it may have one of the other SELECT's in it
                return rebuilt(call, taken_out)
            assert self._outer is not None
            scope = self._outer
            if scope.before or waits(call) or not read <= {v.column.name for v in scope.visible()}:
                raise NotTaken("an aggregate of a SELECT further out, in a subquery")
            return of_groups(scope, call, self._binder)

        def taken_out(e: exp.Expr) -> exp.Expr:
            return aggregates.taken_out(e, {}, register, lambda part: part)

        def change(e: exp.Expr) -> exp.Expr:
            if not any(references(c) & theirs.keys() for c in aggregates.calls(e)):
                return e
            return taken_out(e)

        clauses.change(change)
        self.conditions = [change(c) for c in self.conditions]

    def meet(self, node: Node, clauses: Clauses, whole: bool) -> tuple[Node, tuple[str, ...]]:
        """Join the outer columns that are read, where equalities alone do not tell answers apart.

        `whole`: an answer is not a sum over its rows, or a subquery here reads outer columns.
        """
        mine = names_of(node)
        exprs = clauses.exprs()
        read = set().union(*map(references, exprs)) - mine
        whole = whole or any(e.find(exp.Window) for e in exprs)
        equal = [c for c in self.conditions if _equality(c, mine)]
        needed = whole and (read or len(equal) < len(self.conditions))
        if not (needed or (read and not self._late)):
            return node, ()
        outer = sorted(read.union(*map(references, self.conditions)) - mine)
        known = {c.name: c for c in self.around()}
        if not known.keys() >= set(outer):
            return node, ()
        joined, met = with_outer(
            node, self.conditions, [known[n] for n in outer], self._binder.names
        )
        self.met = {c.name for c in met.values()}
        clauses.change(lambda e: substituted(e, met))
        self.conditions = [exp.NullSafeEQ(this=met[n].copy(), expression=column(n)) for n in outer]
        return joined, tuple(outer)

    def before(
        self, node: Node, clauses: Clauses, aggregates: Aggregates
    ) -> tuple[Prefix | None, tuple[str, ...]]:
        """What the one condition is where it compares with a value: see `bind_prefix`."""
        mine = names_of(node)
        read = set().union(*map(references, clauses.exprs())) - mine
        if len(self.conditions) != 1 or read:
            return None, ()
        names = sorted(references(self.conditions[0]) - mine)
        known = {c.name: c for c in self.around()}
        if not known.keys() >= set(names):
            return None, ()
        found = prefix(self.conditions[0], node, [known[n] for n in names], self._binder)
        if found is None:
            return None, ()
        if found.unequal and not put_together(clauses.exprs(), node, aggregates, self._binder):
            return None, ()
        self.conditions = [
            exp.NullSafeEQ(this=column(c.name), expression=column(n))
            for c, n in zip(found.keys, names, strict=True)
        ]
        return found, tuple(names)

    def carried(self, node: Node, grouped: bool) -> Carried:
        """What the conditions need of the rows of `node`, as columns to be carried out.

        Below a grouping only ``inner = outer`` can wait: its inner side becomes a key.
        """
        carried: Carried = []
        mine = names_of(node) if self.conditions else set()
        each: list[exp.Expr] = []
        conditions: list[exp.Expr] = []
        for condition in self.conditions:
            sides = _equality(condition, mine)
            if sides:
                inner, outer = sides
                inner, type_ = self._binder.oracle.compared(
                    inner, node.schema, outer, self.around()
                )
                new = self._binder.names.fresh("key", type_)
                carried.append((new, inner))
                each.append(column(new.name))
                equal = type(condition)(this=column(new.name), expression=outer.copy())
                conditions.append(equal)
            elif grouped:
                raise NotTaken("an aggregate over rows chosen by more than equality")
            else:
                conditions.append(condition)
                for name in sorted(references(condition) & mine):
                    have = next(c for c in node.schema if c.name == name)
                    if not any(c.name == name for c, _ in carried):
                        carried.append((have, column(name)))
        self._each = each if len(each) == len(conditions) else None
        self.conditions = conditions
        return carried

    def split(self, what: str) -> list[exp.Expr]:
        """What a correlated SELECT's answers are told apart by; nothing if it is not correlated."""
        if self.conditions and self._each is None:
            raise NotTaken(f"{what} over rows chosen by more than equality")
        return [e.copy() for e in self._each or ()]

    def reads_own(self, expression: exp.Expr) -> bool:
        """Does it read a column of this SELECT's rows? What does not is no key of GROUP BY ALL."""
        return not references(expression) <= self.met.union(c.name for c in self.around())

    def around(self) -> tuple[Column, ...]:
        """The columns of the SELECTs around."""
        return () if self._outer is None else self._outer.columns_around()


def of_groups(scope: Scope, call: exp.Expr, binder: Binder) -> exp.Expr:
    """An aggregate of a SELECT's rows as a column of its groups, for its subqueries."""
    text = to_sql(call)
    if text not in scope.aggregates:
        (type_,) = binder.oracle.types([call], scope.columns_around())
        scope.aggregates[text] = binder.names.fresh("aggregate", type_), call
    return column(scope.aggregates[text][0].name)


def lifted(node: Node, carried: Sequence[tuple[Column, exp.Expr]]) -> Node:
    """`node` with the columns that are carried out of it."""
    new = [(c, e) for c, e in carried if c.name not in names_of(node)]
    if not new:
        return node
    return Project(node, (*unchanged(node.schema), *(Named(c, e) for c, e in new)))


def _equality(condition: exp.Expr, mine: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """A correlated condition's inner and outer side, if it compares one with the other."""
    if not equality(condition):
        return None
    for inner, outer in (
        (condition.this, condition.expression),
        (condition.expression, condition.this),
    ):
        reads = references(inner)
        if reads and reads <= mine and not references(outer) & mine:
            return inner, outer
    return None
