"""Subqueries in expressions become joins, where that is provably the same.

* [NOT] EXISTS as a conjunct: semi or anti join; correlated conditions are its keys and residual.
* x IN (S) as a conjunct: semi join on x = s.
* x NOT IN (S) as a conjunct: anti join on x = s, and a filter on S's counts, since a NULL in S or x
  makes it unknown unless S is empty.
* (x, y) NOT IN (S): likewise; where there are NULLs, an anti join on what may be equal.
* EXISTS and IN as values: left join with the distinct keys and a marker column.
* x IN (an ungrouped aggregate that is correlated): it has one row always, so x = its value.
* A scalar subquery of one row for sure: cross join. Any other: its rows are counted, a second is
  an error, as in DuckDB.
* A scalar aggregate correlated by equality: grouped by the inner side, left join; where nothing
  matches, the value of the aggregates over nothing (the "count bug").
* Correlated by more than equality: the distinct values of the outer columns are joined into the
  subquery (`Around`); then it is correlated by equality with them (Neumann and Kemper, "Unnesting
  Arbitrary Queries", BTW 2015).
* So is a side of a set operation, a WITH table, a FROM item that aggregates (`bind_settled`).
* An aggregate over the rows before or after a value: a window over rows and values (`bind_prefix`).

Everything else raises `NotTaken`, and the SELECT around it stays whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    EquiKey,
    Filter,
    Join,
    Named,
    Node,
    Project,
    TopK,
    names_of,
    references,
)
from tidewheel.planner.text import atomic, column, substituted, to_sql, unchanged

from .bind_names import SUBQUERY, is_placeholder, rebuilt, waits
from .bind_nulls import asked_of, maybe_in
from .bind_quantified import Quantified
from .bind_query import BoundQuery, split_conditions, with_aggregates, with_outer
from .bind_scope import NotTaken
from .bind_types import is_volatile

if TYPE_CHECKING:
    from .binder import Binder

_MANY = (
    "More than one row returned by a subquery used as an expression - scalar subqueries can only "
    "return a single row."
)


_LONG = 20  # parts of an operand

Form = Literal["exists", "in", "scalar", "ends"]


@dataclass(slots=True)
class Pending:
    """A subquery that waits for its place: what `__tw_subquery(number, …)` stands for."""

    form: Form
    query: BoundQuery
    operands: int
    outer: tuple[str, ...]
    written: exp.Expr
    quantified: Quantified | None = None
    """Of ANY or ALL whose `query` tells the ends of its values."""


class Subqueries:
    """The subqueries of one SELECT."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._pending: list[Pending] = []
        self._attached: dict[str, exp.Expr] = {}

    def add(
        self,
        form: Form,
        query: BoundQuery,
        operands: Sequence[exp.Expr],
        written: exp.Expr,
        quantified: Quantified | None = None,
    ) -> exp.Expr:
        """Remember a subquery; the expression that stands for it."""
        inner = names_of(query.node)
        outer = sorted({n for c in query.correlated for n in references(c)} - inner)
        pending = Pending(form, query, len(operands), tuple(outer), written, quantified)
        self._pending.append(pending)
        number = exp.Literal.number(len(self._pending) - 1)
        return exp.Anonymous(
            this=SUBQUERY, expressions=[number, *operands, *(column(n) for n in outer)]
        )

    def alike(self, expression: exp.Expr) -> Iterator[exp.Expr]:
        """An expression that holds one subquery as it is where that is written once more."""
        held = [int(n.expressions[0].name) for n in expression.walk() if is_placeholder(n)]
        ours = self._pending[held[0]] if len(held) == 1 else None
        if ours is None or is_volatile(ours.written):
            return
        for number, other in enumerate(self._pending):
            same = (other.form, other.outer, other.quantified) == (
                ours.form,
                ours.outer,
                ours.quantified,
            )
            if same and other is not ours and to_sql(other.written) == to_sql(ours.written):
                found = expression.copy()
                place = next(n for n in found.walk() if is_placeholder(n))
                place.expressions[0].replace(exp.Literal.number(number))
                yield found

    def by_keys(self, part: exp.Expr, keys: Mapping[str, exp.Expr]) -> exp.Expr:
        """What stands for a subquery that reads what is grouped by (`keys`, by text) as columns."""
        pending, operands, mapping = self._of(part)
        query = pending.query
        # (others are aggregates)
        outer = {n: a for n, a in mapping.items() if isinstance(a, exp.Column)}
        if query.around or all(to_sql(a) in keys for a in outer.values()):
            return part

        def keyed(e: exp.Expr) -> exp.Expr:
            key = keys.get(to_sql(e))
            return rebuilt(e, keyed) if key is None else key.copy()

        query = replace(
            query,
            correlated=[keyed(substituted(c, outer)) for c in query.correlated],
            empty=query.empty and [keyed(substituted(e, outer)) for e in query.empty],
        )
        return self.add(pending.form, query, operands, pending.written, pending.quantified)

    # -- taking a placeholder apart

    def _of(self, part: exp.Expr) -> tuple[Pending, list[exp.Expr], dict[str, exp.Expr]]:
        """The subquery, its operands, and what its outer columns are."""
        number, *arguments = part.expressions
        pending = self._pending[int(number.name)]
        outer = zip(pending.outer, arguments[pending.operands :], strict=True)
        return pending, arguments[: pending.operands], dict(outer)

    def _over(self, part: exp.Expr, node: Node) -> tuple[Pending, list[exp.Expr], list[exp.Expr]]:
        """The same for rows of `node`; what it is correlated by."""
        pending, operands, mapping = self._of(part)
        if pending.query.around:
            query = pending.query.over(node, mapping)
            if query.empty is not None:
                query.empty = [substituted(x, mapping) for x in query.empty]
            pending = replace(pending, query=query)
        return pending, operands, [substituted(c, mapping) for c in pending.query.correlated]

    # -- conjuncts

    def filtered(self, node: Node, condition: exp.Expr) -> Node:
        """`node` restricted to rows for which `condition` is TRUE."""
        negated, inner = False, condition
        while isinstance(inner, (exp.Not, exp.Paren)):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        if is_placeholder(inner):
            pending, operands, correlated = self._over(inner, node)
            if pending.form in ("exists", "in") and not any(map(waits, operands)):
                return self._semi(node, pending, operands, correlated, negated)
        value, attached = self.attached(node, condition)
        return Filter(attached, value)

    def _semi(
        self,
        node: Node,
        pending: Pending,
        operands: list[exp.Expr],
        correlated: list[exp.Expr],
        negated: bool,
    ) -> Node:
        query = pending.query
        left, right = names_of(node), names_of(query.node)
        keys, rest = split_conditions(correlated, left, right)
        if pending.form == "exists":
            if query.one_row or query.empty is not None:  # an ungrouped aggregate has its row
                return Filter(node, exp.false()) if negated else node
            return Join(node, query.node, _kind(negated), tuple(keys), _and(rest))
        if query.empty is not None:
            same, node = self._in_one(node, query, operands, correlated)
            return Filter(node, exp.Not(this=same) if negated else same)
        equal = [EquiKey(o, column(c.name)) for o, c in zip(operands, query.columns, strict=True)]
        if not negated:
            return Join(node, query.node, "semi", (*keys, *equal), _and(rest))
        if len(equal) > 1 and not correlated:
            left_out = Join(node, query.node, "anti", tuple(equal))
            maybe, found = maybe_in(left_out, query, operands, self._binder.names)
            return Filter(found, exp.Not(this=column(maybe)))
        if len(equal) > 1:
            raise NotTaken("a correlated NOT IN over several columns")  # nor does DuckDB take it
        operand, value = operands[0], column(query.columns[0].name)
        if correlated:
            unknown = exp.Coalesce(
                this=exp.EQ(this=atomic(operand), expression=value), expressions=[exp.true()]
            )
            return Join(node, query.node, "anti", tuple(keys), _and([*rest, unknown]))
        asked, none, nulls = asked_of(query, (), self._binder.names)
        node = Join(Join(node, query.node, "anti", tuple(equal)), asked, "cross")
        known = exp.Not(this=exp.Is(this=atomic(operand.copy()), expression=exp.Null()))
        certain = exp.or_(column(none), exp.and_(known, exp.Not(this=column(nulls))))
        return Filter(node, certain)

    # -- values

    def attached(self, node: Node, expression: exp.Expr) -> tuple[exp.Expr, Node]:
        """`expression` with its subqueries' values as columns, and `node` joined with them."""

        def walk(part: exp.Expr) -> exp.Expr:
            nonlocal node
            part = rebuilt(part, walk)
            if is_placeholder(part):
                known = self._attached.get(text := to_sql(part))
                if known is not None and references(known) <= names_of(node):
                    return known.copy()
                value, node = self._value(node, *self._over(part, node))
                self._attached[text] = value
                return value
            return part

        if not waits(expression):
            return expression, node
        return walk(expression), node

    def _value(
        self,
        node: Node,
        pending: Pending,
        operands: list[exp.Expr],
        correlated: list[exp.Expr],
    ) -> tuple[exp.Expr, Node]:
        if pending.form == "scalar":
            return self._scalar(node, pending.query, correlated)
        if pending.form == "exists":
            return self._exists(node, pending.query, correlated)
        if pending.quantified is not None:
            node, operands = self._held(node, operands)
            summary, joined = self._values(node, pending.query, correlated)
            return pending.quantified.value(operands[0], summary), joined
        if pending.query.empty is not None:
            return self._in_one(node, pending.query, operands, correlated)
        return self._in(node, pending.query, operands, correlated)

    def _exists(
        self, node: Node, query: BoundQuery, correlated: list[exp.Expr]
    ) -> tuple[exp.Expr, Node]:
        if query.one_row or query.empty is not None:
            return exp.true(), node
        if correlated:
            query, keys = self._by_keys(node, query, correlated)
            groups, marker = self._marked(query.node, [k.right for k in keys])
            joined = Join(node, groups, "left", _renamed(keys, groups))
            return exp.Not(this=exp.Is(this=column(marker), expression=exp.Null())), joined
        count = self._binder.names.fresh("rows", "BIGINT")
        one = TopK(query.node, (), exp.Literal.number(1))
        counted = Aggregate(one, (), (Named(count, exp.Count(this=exp.Star())),))
        value = exp.GT(this=column(count.name), expression=exp.Literal.number(0))
        return value, Join(node, counted, "cross")

    def _in(
        self,
        node: Node,
        query: BoundQuery,
        operands: list[exp.Expr],
        correlated: list[exp.Expr],
    ) -> tuple[exp.Expr, Node]:
        if len(operands) > 1:
            if correlated:
                raise NotTaken("a correlated IN over several columns, used as a value")
            return self._in_rows(*self._held(node, operands), query)
        node, operands = self._held(node, operands)
        query, keys = self._by_keys(node, query, correlated)
        inner = [k.right for k in keys]
        (value,) = self._compared(node, query, operands)
        groups, marker = self._marked(query.node, [*inner, value])
        compared = EquiKey(operands[0], value)
        joined: Node = Join(node, groups, "left", _renamed([*keys, compared], groups))
        asked, none, nulls = asked_of(
            query, self._key_columns(query.node, inner), self._binder.names
        )
        joined = Join(joined, asked, "left" if keys else "cross", _renamed(keys, asked))
        unknown = exp.or_(
            exp.Is(this=atomic(operands[0].copy()), expression=exp.Null()), column(nulls)
        )
        no_row = exp.Coalesce(this=column(none), expressions=[exp.true()])
        result = exp.Case(
            ifs=[
                exp.If(this=column(marker), true=exp.true()),
                exp.If(this=no_row, true=exp.false()),
                exp.If(this=unknown, true=exp.Null()),
            ],
            default=exp.false(),
        )
        return exp.Paren(this=result), joined

    def _in_one(
        self,
        node: Node,
        query: BoundQuery,
        operands: Sequence[exp.Expr],
        correlated: list[exp.Expr],
    ) -> tuple[exp.Expr, Node]:
        """IN a correlated ungrouped aggregate: it has its one row, over no rows, too."""
        if len(operands) > 1:
            raise NotTaken("IN over several correlated ungrouped aggregates")
        value, joined = self._scalar(node, query, correlated)
        equal = exp.EQ(this=atomic(operands[0].copy()), expression=atomic(value))
        return exp.Paren(this=equal), joined

    def _in_rows(
        self, node: Node, operands: Sequence[exp.Expr], query: BoundQuery
    ) -> tuple[exp.Expr, Node]:
        """Several columns: TRUE where there is such a row, else NULL where one may be."""
        values = self._compared(node, query, operands)
        groups, marker = self._marked(query.node, values)
        equal = _renamed([EquiKey(o, v) for o, v in zip(operands, values, strict=True)], groups)
        met = Join(node, groups, "left", equal)
        maybe, joined = maybe_in(met, query, operands, self._binder.names)
        ifs = [
            exp.If(this=column(marker), true=exp.true()),
            exp.If(this=column(maybe), true=exp.Null()),
        ]
        return exp.Paren(this=exp.Case(ifs=ifs, default=exp.false())), joined

    def _compared(
        self, node: Node, query: BoundQuery, operands: Sequence[exp.Expr]
    ) -> list[exp.Expr]:
        """The columns of a subquery, as IN compares them with `operands`."""
        schema, of = query.node.schema, self._binder.oracle.compared
        pairs = zip(operands, query.columns, strict=True)
        return [of(column(c.name), schema, o, node.schema)[0] for o, c in pairs]

    def _scalar(
        self, node: Node, query: BoundQuery, correlated: list[exp.Expr]
    ) -> tuple[exp.Expr, Node]:
        (value,), joined = self._values(node, query, correlated)
        return value, joined

    def _values(
        self, node: Node, query: BoundQuery, correlated: list[exp.Expr]
    ) -> tuple[list[exp.Expr], Node]:
        """The columns of the one row of a subquery."""
        if not correlated:
            if query.one_row:
                return [column(c.name) for c in query.columns], Join(node, query.node, "cross")
            single, checked = self._single(query, [])
            return checked, Join(node, single, "cross")
        query, keys = self._by_keys(node, query, correlated)
        if query.empty is None:
            single, checked = self._single(query, [k.right for k in keys])
            return checked, Join(node, single, "left", _renamed(keys, single))
        joined, values = with_aggregates(node, query, keys, self._binder.names)
        return values, joined

    def _by_keys(
        self, node: Node, query: BoundQuery, correlated: list[exp.Expr]
    ) -> tuple[BoundQuery, list[EquiKey]]:
        """The query, correlated by equality alone, and with what.

        By more: the distinct values of the outer columns are joined to its rows.
        """
        mine = names_of(query.node)
        keys, rest = split_conditions(correlated, names_of(node), mine)
        if not rest:
            return query, keys
        read = set().union(*map(references, correlated)) - mine
        outer = [c for c in node.schema if c.name in read]
        joined, met = with_outer(query.node, correlated, outer, self._binder.names)
        bound = replace(query, node=joined, around=tuple(met))
        again = [EquiKey(column(n), value, True) for n, value in met.items()]
        return bound.over(node, {n: column(n) for n in met}), again

    def _marked(self, node: Node, expressions: Sequence[exp.Expr]) -> tuple[Node, str]:
        """The distinct values of `expressions`, and behind them a column that is TRUE."""
        groups = Aggregate(node, self._key_columns(node, expressions), ())
        marker = self._binder.names.fresh("found", "BOOLEAN")
        return Project(groups, (*unchanged(groups.schema), Named(marker, exp.true()))), marker.name

    def _single(
        self, query: BoundQuery, expressions: Sequence[exp.Expr]
    ) -> tuple[Node, list[exp.Expr]]:
        """Per value of `expressions` the one row, and its columns, which refuse a second one.

        Of one row `max` is the value, and a view can keep it; where any row will do, `first`.
        """
        names = self._binder.names
        any_row = self._binder.first_row_of_many
        keys = self._key_columns(query.node, expressions)
        values: list[Named] = []
        for c in query.columns:
            call: exp.Expr = exp.Max(this=column(c.name))
            if any_row:
                call = exp.Anonymous(this="first", expressions=[column(c.name)])
            values.append(Named(names.fresh(c.label, c.type), call))
        count = names.fresh("rows", "BIGINT")
        counted = Named(count, exp.Count(this=exp.Star()))
        node = Aggregate(query.node, keys, (*values, counted))
        found: list[exp.Expr] = [column(v.column.name) for v in values]
        if any_row:
            return node, found
        many = exp.GT(this=column(count.name), expression=exp.Literal.number(1))
        error = exp.Anonymous(this="error", expressions=[exp.Literal.string(_MANY)])
        refused = exp.If(this=many, true=error)
        return node, [exp.Paren(this=exp.Case(ifs=[refused.copy()], default=f)) for f in found]

    def _held(self, node: Node, operands: Sequence[exp.Expr]) -> tuple[Node, list[exp.Expr]]:
        """Operands that will be written several times, the long ones as columns of `node`.

        Where such an operand holds another one, and so on, they would double at each.
        """
        long = [o for o in operands if sum(1 for _ in o.walk()) > _LONG]
        if not long:
            return node, list(operands)
        types = self._binder.oracle.types(long, node.schema)
        held = [
            Named(self._binder.names.fresh("operand", t), o)
            for o, t in zip(long, types, strict=True)
        ]
        kept = unchanged(node.schema)
        known = {id(h.expr): column(h.column.name) for h in held}
        return Project(node, (*kept, *held)), [known.get(id(o), o) for o in operands]

    def _key_columns(self, node: Node, expressions: Sequence[exp.Expr]) -> tuple[Named, ...]:
        types = self._binder.oracle.types(expressions, node.schema)
        fresh = self._binder.names.fresh
        return tuple(Named(fresh("key", t), e) for e, t in zip(expressions, types, strict=True))


def _renamed(keys: Sequence[EquiKey], groups: Node) -> tuple[EquiKey, ...]:
    """The keys of a join with groups, whose first columns are what the keys had on the right."""
    pairs = zip(keys, groups.schema, strict=False)
    return tuple(EquiKey(k.left, column(c.name), k.null_safe) for k, c in pairs)


def _kind(negated: bool) -> Literal["anti", "semi"]:
    return "anti" if negated else "semi"


def _and(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    return exp.and_(*parts) if parts else None
