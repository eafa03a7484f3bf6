"""Recursions over integers of several types: `SELECT 0 UNION SELECT b …` where `b` is a BIGINT.

The recursive table has the anchor's types, so DuckDB casts what a step derives, and casts again to
compare. Cast once, at the end, its columns are taken as they are, and the recursion is one of those
that `lower_view_fixpoint` knows: all of a column's values are BIGINT on the way round.

Law: the same rows. A value that does not fit the column's type is an error, now as before: all that
is derived is a row of the table, so the cast at the end meets it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.number import INTEGER_BITS
from tidewheel.planner.text import cast_to, column, substituted, unchanged

MINE = "__tw_mine{}"
"""Columns of the recursive table, by position."""
_WIDEST = "BIGINT"
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, _WIDEST: 64}


@dataclass(slots=True)
class Other:
    """A relation that a step joins with the recursive table."""

    node: L.Node
    joins: list[tuple[int, exp.Expr]]  # position in the recursive table, expression over `node`


@dataclass(slots=True)
class Step:
    """A step taken apart. Expressions are over `MINE` columns and those of the others.

    `wide`: positions of columns that are compared as, or come from, integers of another type.
    `checked`: see `Rule`.
    """

    others: list[Other] = field(default_factory=list)
    outputs: list[exp.Expr] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    wide: set[int] = field(default_factory=set)
    checked: bool = False


def position(expression: exp.Expr) -> int | None:
    """The position of a column of the recursive table."""
    prefix = MINE.format("")
    if not isinstance(expression, exp.Column) or not expression.name.startswith(prefix):
        return None
    return int(expression.name[len(prefix) :])


def uncast(expression: exp.Expr, kinds: Mapping[str, str], to: str = "") -> exp.Expr:
    """The integer column of which an expression is a cast that keeps all values, else itself.

    `to`: the outermost may be one to this type, whatever values that has.
    """
    found = expression
    allowed = to
    bits: list[int] = []
    while isinstance(found, exp.Paren) or type(found) is exp.Cast:
        if type(found) is exp.Cast:
            size = INTEGER_BITS.get(found.args["to"].this)
            if size is None:
                return expression
            if _BITS.get(allowed) != size:
                bits.append(size)
            allowed = ""
        found = found.this
    own = _BITS.get(kinds.get(found.name, "")) if isinstance(found, exp.Column) else None
    if own is None or any(own > size for size in bits):
        return expression
    return found


def kinds_of(b: L.Binding, others: Iterable[Other]) -> dict[str, str]:
    """The types of the columns that a step's expressions are over."""
    found = {MINE.format(i): c.type for i, c in enumerate(b.columns)}
    for other in others:
        found |= {c.name: c.type for c in other.node.schema}
    return found


def narrowed(wide: Sequence[L.Column], columns: Sequence[L.Column]) -> list[L.Named]:
    """Columns of the types that they have in the query, of those that they have on the way."""
    return [
        L.Named(c, column(c.name) if c.type == w.type else cast_to(column(c.name), c.type))
        for c, w in zip(columns, wide, strict=True)
    ]


def widened(b: L.Binding, value: int | None, steps: list[Step]) -> tuple[L.Binding, list[Step]]:
    """The recursion with columns of BIGINT where integers of several types meet.

    `value`: the position of what is minimised or maximised, which keeps its type.
    """
    keys = [i for i in range(len(b.columns)) if i != value]
    wide = set().union(*(s.wide for s in steps))
    for step in steps:
        kinds = kinds_of(b, step.others)
        for i in keys:
            bare = uncast(step.outputs[i], kinds, b.columns[i].type)
            if bare is not step.outputs[i]:
                step.outputs[i] = bare
                wide.add(i)
    passed = [(i, position(s.outputs[i])) for s in steps for i in keys]
    while more := {
        j
        for i, at in passed
        if at is not None
        for j, other in ((i, at), (at, i))
        if other in wide and j not in wide
    }:
        wide |= more
    joins = [(at, e, kinds_of(b, s.others)) for s in steps for o in s.others for at, e in o.joins]
    whole = all(_integer(e, kinds) for at, e, kinds in joins if at in wide)
    if not (wide and whole and all(i in keys and b.columns[i].type in _BITS for i in wide)):
        return b, steps
    columns = tuple(replace(c, type=_WIDEST) if i in wide else c for i, c in enumerate(b.columns))
    assert b.anchor is not None
    cast = [
        L.Named(c, cast_to(column(old.name), _WIDEST) if i in wide else column(old.name))
        for i, (c, old) in enumerate(zip(columns, b.anchor.schema, strict=True))
    ]
    anchor = L.Project(b.anchor, tuple(cast))
    return replace(b, columns=columns, anchor=anchor), [_step(s, b, keys, wide) for s in steps]


def _integer(expression: exp.Expr, kinds: Mapping[str, str]) -> bool:
    """Is it an integer that BIGINT has? A cast of another number would round it."""
    return kinds.get(uncast(expression, kinds).name) in _BITS


def _step(step: Step, b: L.Binding, keys: list[int], wide: set[int]) -> Step:
    """The step over columns of BIGINT: what computes has them as they were."""
    narrow = {
        MINE.format(i): cast_to(column(MINE.format(i)), b.columns[i].type)
        for i in wide
        if b.columns[i].type != _WIDEST
    }
    others: list[Other] = []
    made: dict[str, exp.Expr] = {}
    for n, other in enumerate(step.others):
        own = {c.name: c for c in other.node.schema}
        extra: dict[str, L.Named] = {}

        def cast(
            expression: exp.Expr,
            own: dict[str, L.Column] = own,
            extra: dict[str, L.Named] = extra,
            n: int = n,
        ) -> exp.Expr:
            found = own.get(expression.name) if isinstance(expression, exp.Column) else None
            if found is not None and found.type == _WIDEST:
                return expression
            text = expression.sql()
            if text not in extra:
                name = f"__tw_wide{n}_{len(extra)}"
                wider = cast_to(expression.copy(), _WIDEST)
                extra[text] = L.Named(L.Column(name, name, _WIDEST), wider)
            return column(extra[text].column.name)

        joins = [(at, cast(e) if at in wide else e) for at, e in other.joins]
        for i in keys:
            output = step.outputs[i]
            if i in wide and isinstance(output, exp.Column) and output.name in own:
                made[output.name] = cast(output)
        kept = unchanged(own.values())
        node = L.Project(other.node, (*kept, *extra.values())) if extra else other.node
        others.append(Other(node, joins))
    outputs = list(step.outputs)
    for i, output in enumerate(outputs):
        if i not in keys:
            outputs[i] = substituted(output, narrow)
        elif i in wide and isinstance(output, exp.Column):
            outputs[i] = made.get(output.name, output)
    conditions = [substituted(c, narrow) for c in step.conditions]
    return replace(step, others=others, outputs=outputs, conditions=conditions)
