"""any_value(x) of what the keys of the groups decide is max(x): any row has it.

    any_value(p.name) FROM p JOIN o ON o.p = p.id GROUP BY p.id   ─▶   max(p.name)

where `id` is the primary key of `p`, or UNIQUE and NOT NULL. Of the rows of one table the first one
can be told; of those of a join it depends on how DuckDB joins, but many who write any_value know it
to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    AsofJoin,
    Column,
    Distinct,
    Filter,
    Join,
    Named,
    Node,
    Project,
    Scan,
    TopK,
    Unnest,
    Window,
    references,
)
from tidewheel.planner.order_of_rows import by_place, call_of, name
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_order import recursive
from tidewheel.planner.text import to_sql

KeysOf = Callable[[str], Collection[frozenset[str]]]
"""The columns of a table's keys, in lower case: its primary key, and UNIQUE ones without NULL."""

_WORDS = "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT"
INTEGERS: Final = frozenset(_WORDS.split())
_OTHERS = ("VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
EXACT: Final = INTEGERS.union(_OTHERS)
"""What is equal is the same (0.0 and -0.0 are not, nor are 1 month and 30 days)."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Columns, and those whose values they decide."""

    of: frozenset[str]
    decided: frozenset[str]
    by_null: bool = False
    """Where all of the former are NULL, are the latter?"""


def same_in_groups(node: Node, keys_of: KeysOf) -> Node:
    """The same relation, with max for first, last and any_value where they tell the same."""
    node = over(node, lambda child: same_in_groups(child, keys_of))
    if not isinstance(node, Aggregate):
        return node
    asked = [n for n in node.aggregates if _argument(n.expr) is not None]
    if not asked or recursive(node):
        return node
    by = () if node.sets is not None else node.keys  # (of constants any row tells the same)
    keys = {to_sql(k.expr): k.column.type for k in by}
    columns = (k for k in by if isinstance(k.expr, exp.Column))
    known = frozenset(k.expr.name for k in columns if exact(k.column))
    known = decided(known, node.input, keys_of)
    changed = [replace(n, expr=_greatest(n, keys, known)) for n in node.aggregates]
    return replace(node, aggregates=tuple(changed))


def decided(of: frozenset[str], node: Node, keys_of: KeysOf) -> frozenset[str]:
    """Columns, of exact types, and all of those of `node` whose values they decide."""
    return _decided(of, list(_rules(node, keys_of)))


def _greatest(named: Named, keys: dict[str, str], known: frozenset[str]) -> exp.Expr:
    argument = _argument(named.expr)
    if argument is None:
        return named.expr
    same = plain(keys.get(to_sql(argument), "")) in EXACT
    if not same and not references(argument) <= known:
        return named.expr
    if not references(argument) and named.column.type == '"NULL"':
        return named.expr
    greatest = exp.Max(this=argument.copy())
    if isinstance(named.expr, exp.Filter):
        return exp.Filter(this=greatest, expression=named.expr.expression.copy())
    return greatest


def _argument(expression: exp.Expr) -> exp.Expr | None:
    """What such an aggregate gives of some row."""
    call = call_of(expression)
    if not by_place(expression) or isinstance(call.this, exp.Distinct):
        return None
    if isinstance(call, exp.First | exp.Last | exp.AnyValue | exp.Mode):
        found = call.this
    elif name(call) in ("arbitrary", "first", "last") and len(call.expressions) == 1:
        found = call.expressions[0]
    else:
        return None
    if not isinstance(found, exp.Expr):
        return None
    return found if references(found) or _written(found) else None


def _written(expression: exp.Expr) -> bool:
    """Is it a value as it stands there?"""
    while isinstance(expression, exp.Cast | exp.Neg | exp.Paren):
        expression = expression.this
    return isinstance(expression, exp.Literal | exp.Null | exp.Boolean)


def keys_of_scan(node: Scan, keys_of: KeysOf) -> Iterator[frozenset[str]]:
    """The table's keys of which all is read, and of exact types."""
    pairs = list(zip(node.source_columns, node.columns, strict=True))
    for key in keys_of(node.table):
        held = [c for source, c in pairs if source.lower() in key]
        if len(held) == len(key) and all(map(exact, held)):
            yield _names(held)


def _rules(node: Node, keys_of: KeysOf) -> Iterator[_Rule]:
    """What columns decide in the rows of `node`."""
    match node:
        case Scan():
            for key in keys_of_scan(node, keys_of):
                yield _Rule(key, _names(node.columns), True)
        case Join(kind="semi" | "anti"):
            yield from _rules(node.left, keys_of)
        case Join():
            keys = [key for key in node.keys if not key.null_safe]
            left, right = list(_rules(node.left, keys_of)), list(_rules(node.right, keys_of))
            if node.kind in ("right", "full"):
                left = _padded(left, [key.left for key in keys])
            if node.kind in ("left", "full"):
                right = _padded(right, [key.right for key in keys])
            yield from (*left, *right, *_of_join(node))
        case AsofJoin():
            right = list(_rules(node.right, keys_of))
            if node.kind == "left":
                right = _padded(right, [k.right for k in node.keys if not k.null_safe])
            yield from (*_rules(node.left, keys_of), *right)
        case Project():
            yield from _named(node.exprs)
            yield from _rules(node.input, keys_of)
        case Aggregate(sets=None):
            yield from _named(node.keys)
            keys_ = [k.column for k in node.keys]
            if all(map(exact, keys_)):
                yield _Rule(_names(keys_), _names([a.column for a in node.aggregates]))
            yield from _rules(node.input, keys_of)
        case Filter() | Distinct() | TopK() | Unnest() | Window():
            yield from _rules(node.input, keys_of)


def _padded(rules: Sequence[_Rule], compared: Sequence[exp.Expr]) -> list[_Rule]:
    """Those that hold with a row of NULLs, too: what is `compared` is NULL in that one only."""
    there = {c.name for c in compared if isinstance(c, exp.Column)}
    ones = [(*r.of, *r.decided) for r in rules if r.by_null and len(r.of) == len(r.decided) == 1]
    while new := {one for one, other in ones if other in there and one not in there}:
        there |= new
    alone = [frozenset({name}) for name in there]
    return [
        *(replace(r, by_null=True) for r in rules if r.by_null or r.of & there),
        *(_Rule(of, _decided(of, rules), True) for of in alone),
    ]


def _decided(of: frozenset[str], rules: Sequence[_Rule]) -> frozenset[str]:
    """Columns, and all whose values they decide."""
    while new := [r.decided for r in rules if r.of <= of and not r.decided <= of]:
        of = of.union(*new)
    return of


def equal_columns(join: Join) -> list[tuple[str, str]]:
    """Columns of both sides that are the same in the rows that meet."""
    there = {c.name: plain(c.type) for c in join.schema}
    return [
        (left.name, right.name)
        for left, right in ((key.left, key.right) for key in join.keys)
        if isinstance(left, exp.Column)
        and isinstance(right, exp.Column)
        and _told_by_equality({there[left.name], there[right.name]})
    ]


def _told_by_equality(kinds: set[str]) -> bool:
    """(HUGEINT and UHUGEINT are compared as DOUBLE.)"""
    if len(kinds) == 1:
        return kinds <= EXACT
    return kinds <= INTEGERS and kinds != {"HUGEINT", "UHUGEINT"}


def _of_join(join: Join) -> Iterator[_Rule]:
    """Of the columns that are equal; in a LEFT JOIN the left one tells whether there is a pair."""
    pairs = [(frozenset({left}), frozenset({right})) for left, right in equal_columns(join)]
    if join.kind == "inner":
        for one, other in pairs:
            yield _Rule(one, other, True)
            yield _Rule(other, one, True)
    elif join.kind == "left" and join.residual is None and pairs and len(pairs) == len(join.keys):
        left, right = (frozenset[str]().union(*side) for side in zip(*pairs, strict=True))
        yield _Rule(left, right, not any(key.null_safe for key in join.keys))


def _named(exprs: tuple[Named, ...]) -> Iterator[_Rule]:
    for named in exprs:
        new, read = frozenset({named.column.name}), frozenset(references(named.expr))
        if isinstance(named.expr, exp.Column):
            yield _Rule(new, read, True)
            yield _Rule(read, new, True)
        elif read:
            yield _Rule(read, new)


def _names(columns: Sequence[Column]) -> frozenset[str]:
    return frozenset(c.name for c in columns)


def plain(kind: str) -> str:
    """A type without its precision."""
    return "INTEGER" if kind.startswith("DECIMAL(") else kind


def exact(of: Column) -> bool:
    return plain(of.type) in EXACT
