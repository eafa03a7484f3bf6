"""A query's plan, and what ties it to the SELECT around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidewheel.planner.conditions import equality
from tidewheel.planner.logical import (
    Column,
    Distinct,
    EquiKey,
    Join,
    Named,
    Node,
    Project,
    names_of,
    references,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.text import column, substituted, unchanged

from .bind_scope import Names, NotTaken


@dataclass(slots=True)
class BoundQuery:
    """A query's plan. `columns` are its result; the node may have more (what `correlated` reads).

    `correlated`: conditions over the node's columns and those of the SELECT around. `one_row`: it
    gives exactly one row. `empty`: for a correlated ungrouped aggregate, the result columns where
    no row matches. `late`: result columns that are no columns of the node, since they read columns
    of the SELECT around. `around`: the outer columns that an `Around` in the plan stands for.
    """

    node: Node
    columns: tuple[Column, ...]
    correlated: list[exp.Expr] = field(default_factory=list)
    one_row: bool = False
    empty: list[exp.Expr] | None = None
    late: list[Named] = field(default_factory=list)
    around: tuple[str, ...] = ()

    def over(self, node: Node, values: Mapping[str, exp.Expr]) -> BoundQuery:
        """The query with its `Around` in place: the distinct `values` of the outer columns."""
        return replace(self, node=_placed(self.node, node, values, {}))


@dataclass(frozen=True)
class Around(Node):
    """Stands for the distinct values of columns of the SELECTs around, until these are bound."""

    columns: tuple[Column, ...]
    outer: tuple[str, ...]
    """The names that the columns have there."""

    def __post_init__(self) -> None:
        self._set_schema(self.columns)


def _placed(node: Node, outer: Node, values: Mapping[str, exp.Expr], done: dict[int, Node]) -> Node:
    if isinstance(node, Around):
        if not any(n in values for n in node.outer):
            return node  # it waits for a SELECT further out
        if not all(n in values for n in node.outer):
            raise NotTaken("a subquery that reads columns of several SELECTs around it")
        named = zip(node.columns, node.outer, strict=True)
        new: Node = Distinct(Project(outer, tuple(Named(c, values[n].copy()) for c, n in named)))
        return done.setdefault(id(node), new)
    if id(node) not in done:
        done[id(node)] = over(node, lambda child: _placed(child, outer, values, done))
    return done[id(node)]


def split_conditions(
    conditions: Sequence[exp.Expr], left: set[str], right: set[str]
) -> tuple[list[EquiKey], list[exp.Expr]]:
    """Conditions over two sides as equi-keys and the rest."""
    keys: list[EquiKey] = []
    rest: list[exp.Expr] = []
    for condition in conditions:
        if equality(condition):
            a, b = condition.this, condition.expression
            null_safe = isinstance(condition, exp.NullSafeEQ)
            of_a, of_b = references(a), references(b)
            if of_a and of_b and of_a <= left and of_b <= right:
                keys.append(EquiKey(a, b, null_safe))
                continue
            if of_a and of_b and of_a <= right and of_b <= left:
                keys.append(EquiKey(b, a, null_safe))
                continue
        rest.append(condition)
    return keys, rest


def with_outer(
    node: Node, conditions: Sequence[exp.Expr], outer: Sequence[Column], names: Names
) -> tuple[Join, dict[str, exp.Expr]]:
    """`node` joined by `conditions` with the distinct values of `outer` columns (an `Around`).

    And what is such a column there, by its name outside.
    """
    around, met = around_of(outer, names)
    keys, rest = split_conditions(
        [substituted(c, met) for c in conditions], names_of(node), names_of(around)
    )
    residual = exp.and_(*rest) if rest else None
    return Join(node, around, "inner", tuple(keys), residual), met


def around_of(outer: Sequence[Column], names: Names) -> tuple[Around, dict[str, exp.Expr]]:
    """The distinct values of `outer` columns, and what is such a column there."""
    fresh = [names.fresh(c.label, c.type) for c in outer]
    met: dict[str, exp.Expr] = {c.name: column(f.name) for c, f in zip(outer, fresh, strict=True)}
    return Around(tuple(fresh), tuple(met)), met


def with_aggregates(
    node: Node, query: BoundQuery, keys: Sequence[EquiKey], names: Names
) -> tuple[Node, list[exp.Expr]]:
    """`node` with a correlated ungrouped aggregate: its columns, also where nothing matches.

    It has one row per key already: it was grouped by them.
    """
    assert query.empty is not None
    found = names.fresh("found", "BOOLEAN")
    marked = Project(query.node, (*unchanged(query.node.schema), Named(found, exp.true())))
    values: list[exp.Expr] = []
    for c, empty in zip(query.columns, query.empty, strict=True):
        value: exp.Expr = column(c.name)
        if not isinstance(empty, exp.Null):
            when = exp.If(this=column(found.name), true=value)
            value = exp.Paren(this=exp.Case(ifs=[when], default=empty.copy()))
        values.append(value)
    return Join(node, marked, "left", tuple(keys)), values
