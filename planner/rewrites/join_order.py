"""Join the relations whose result is smallest first, in any shape of tree.

A maintained join keeps what it joins, so an order that DuckDB would choose anew for each run is
chosen once here, by the sizes that there are when the view is filled. Any order is right.

Source: Fegaras, "A new heuristic for optimizing large queries" (DEXA 1998): greedy operator
ordering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from sqlglot import exp

from tidewheel.planner.logical import (
    Aggregate,
    EquiKey,
    Filter,
    Join,
    LetRec,
    Named,
    Node,
    Project,
    RecRef,
    Scan,
    SetOp,
    references,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_graph import (
    conjuncts,
    equi_key,
    flatten,
    in_order,
    join_graph,
)
from tidewheel.planner.text import conjunction, defined, identifier, in_one, to_sql

Query = Callable[[str], Sequence[Any]]
"""Runs a statement of one row."""
_UNKNOWN = 10_000
_VALUES = 100  # of a column of what is not known: two of these are best joined late
_TABLES = 4
_KEPT = "system.main.stats"
_MOST = 10_000_000  # rows of a join that are counted


@dataclass(frozen=True, slots=True)
class _Part:
    """A relation, joined of those whose positions are in `members`."""

    node: Node
    members: tuple[int, ...]
    rows: float
    distinct: dict[str, float]  # of the columns that joins compare

    @property
    def names(self) -> set[str]:
        return {c.name for c in self.node.schema}

    def values(self, keys: list[exp.Expr]) -> float:
        """How many different keys there are, about."""
        known = (self.distinct.get(k.name, self.rows) for k in keys)
        return max(1.0, min(self.rows, prod(known)))


def join_order(node: Node, query: Query) -> Node:
    """The same relation with inner joins of three relations and more in the order found best."""
    return _in_best_order(node, query, {})


def _in_best_order(node: Node, query: Query, done: dict[int, Node]) -> Node:
    """`done`: what became of nodes that several read."""
    found = done.get(id(node))
    if found is None:
        found = done[id(node)] = _reordered(node, query, done)
    return found


def _reordered(node: Node, query: Query, done: dict[int, Node]) -> Node:
    if isinstance(node, LetRec):
        bindings = tuple(
            replace(
                b,
                anchor=b.anchor and _in_best_order(join_graph(b.anchor), query, done),
                steps=tuple(_step(s, query, done) for s in b.steps),
            )
            for b in node.bindings
        )
        return replace(node, bindings=bindings, body=_in_best_order(node.body, query, done))
    if isinstance(node, Join) and node.kind in ("semi", "anti"):
        below = _below_joins(node, query, done)
        if below is not None:
            return below
    if isinstance(node, Join) and node.kind in ("inner", "cross"):
        relations: list[Node] = []
        conditions: list[exp.Expr] = []
        flatten(node, relations, conditions)
        relations = [_kept(_in_best_order(r, query, done), conditions) for r in relations]
        if len(relations) > 2 and not any(map(recursive, relations)):
            parts = _measured_all(relations, conditions, query)
            return in_order(_ordered(parts, conditions).node, node.schema)
    return over(node, lambda child: _in_best_order(child, query, done))


def _step(step: Node, query: Query, done: dict[int, Node]) -> Node:
    """A step in which what stays the same in all rounds is joined first, if that does not grow."""
    above: list[Filter | Project | Aggregate] = []
    joins = step
    while isinstance(joins, Filter | Project | Aggregate):
        above.append(joins)
        joins = joins.input
    if not isinstance(joins, Join) or joins.kind not in ("inner", "cross"):
        return step
    relations: list[Node] = []
    conditions: list[exp.Expr] = []
    while above and isinstance(lowest := above[-1], Filter):
        conditions += conjuncts(lowest.predicate)
        above.pop()
    flatten(joins, relations, conditions)
    moving = [r for r in relations if recursive(r)]
    fixed = [r for r in relations if not recursive(r)]
    if len(moving) != 1 or len(fixed) < 2:
        return step
    names = {c.name for r in fixed for c in r.schema}
    inside = [c for c in conditions if references(c) and references(c) <= names]
    rest = [c for c in conditions if not any(c is i for i in inside)]
    fixed = [_kept(_in_best_order(r, query, done), inside) for r in fixed]
    if None in map(_text, fixed):
        return step  # whether it grows is not known
    if not any(isinstance(c, exp.EQ | exp.NullSafeEQ) for c in inside) and all(
        _met(r, moving[0], rest) for r in fixed
    ):
        return step  # each is met by the recursive table alone: they have nothing in common
    parts = _measured_all(fixed, inside, query)
    whole = _ordered(parts, inside)
    if whole.rows > 2 * max(p.rows for p in parts):
        return step
    joined = _ordered([_Part(moving[0], (-1,), _UNKNOWN, {}), whole], rest)
    node = in_order(joined.node, joins.schema)
    for part in reversed(above):
        node = replace(part, input=node)
    return node


def _met(fixed: Node, moving: Node, conditions: list[exp.Expr]) -> bool:
    """Does a relation have a column that is to be equal to one of the recursive table?"""
    sides = {c.name for c in fixed.schema}, {c.name for c in moving.schema}
    return any(equi_key(c, *sides) is not None for c in conditions)


def _below_joins(node: Join, query: Query, done: dict[int, Node]) -> Node | None:
    """A semi or anti join over inner joins, made with the one relation that it asks about instead.

    None where that is not certain, or the joins have fewer rows than that relation.
    """
    joins = node.left
    while isinstance(joins, Project) and all(_as_it_is(e) for e in joins.exprs):
        joins = joins.input
    if not isinstance(joins, Join | Filter):
        return None
    relations: list[Node] = []
    conditions: list[exp.Expr] = []
    flatten(joins, relations, conditions)
    reads = set().union(*(references(k.left) for k in node.keys))
    reads |= references(node.residual) - {c.name for c in node.right.schema}
    homes = [i for i, r in enumerate(relations) if reads <= {c.name for c in r.schema}]
    if len(relations) < 2 or len(homes) != 1 or any(map(recursive, relations)):
        return None
    relations = [_kept(_in_best_order(r, query, done), conditions) for r in relations]
    parts = _measured_all(relations, conditions, query)
    home = parts[homes[0]]
    whole = _ordered(parts, [*conditions])
    if home.rows >= whole.rows:
        return None
    right = _in_best_order(node.right, query, done)
    few = min(home.rows, _UNKNOWN)
    parts[homes[0]] = _Part(
        replace(node, left=home.node, right=right),
        home.members,
        few,
        {c: min(d, few) for c, d in home.distinct.items()},
    )
    return in_order(_ordered(parts, conditions).node, node.schema)


def _as_it_is(e: Named) -> bool:
    return isinstance(e.expr, exp.Column) and e.expr.name == e.column.name


def _kept(node: Node, conditions: list[exp.Expr]) -> Node:
    """A relation with the conditions on it alone, which are taken out of the list."""
    names = {c.name for c in node.schema}
    mine = [c for c in conditions if references(c) and references(c) <= names]
    conditions[:] = [c for c in conditions if not any(c is m for m in mine)]
    condition = conjunction(mine)
    return node if condition is None else Filter(node, condition)


def recursive(node: Node) -> bool:
    """Does it depend on a variable of a recursion?"""
    return isinstance(node, RecRef) or any(map(recursive, node.children))


def _measured_all(relations: list[Node], conditions: list[exp.Expr], query: Query) -> list[_Part]:
    compared: set[str] = set()
    for c in conditions:
        if isinstance(c, exp.EQ | exp.NullSafeEQ):
            sides = (c.this, c.expression)
            compared |= {s.name for s in sides if isinstance(s, exp.Column)}
    return _measured(relations, compared, query)


def _ordered(parts: list[_Part], conditions: list[exp.Expr]) -> _Part:
    """All parts joined; the conditions are taken out of the list."""
    while len(parts) > 1:
        choices = [
            (*_cost(a, b, conditions), a.members, b.members, i, j)
            for i, a in enumerate(parts)
            for j, b in enumerate(parts)
            if i < j
        ]
        *_, i, j = min(choices)
        joined = _joined(parts[i], parts[j], conditions)
        parts = [joined if k == i else p for k, p in enumerate(parts) if k != j]
    rest = conjunction([c.copy() for c in conditions])
    return parts[0] if rest is None else replace(parts[0], node=Filter(parts[0].node, rest))


def _keys(a: _Part, b: _Part, conditions: list[exp.Expr]) -> list[tuple[exp.Expr, EquiKey]]:
    found = ((c, equi_key(c, a.names, b.names)) for c in conditions)
    return [(c, key) for c, key in found if key is not None]


def _size(a: _Part, b: _Part, keys: list[EquiKey]) -> float:
    values = max(a.values([k.left for k in keys]), b.values([k.right for k in keys]))
    return a.rows * b.rows / values


def _cost(a: _Part, b: _Part, conditions: list[exp.Expr]) -> tuple[bool, float]:
    """Pairs without a common key come last, then the size of what comes out counts."""
    keys = [k for _, k in _keys(a, b, conditions)]
    return not keys, _size(a, b, keys) if keys else a.rows * b.rows


def _joined(a: _Part, b: _Part, conditions: list[exp.Expr]) -> _Part:
    """The join of two parts; the conditions that it meets are taken out of the list."""
    pairs = _keys(a, b, conditions)
    keys = [k for _, k in pairs]
    names = a.names | b.names
    used = [c for c, _ in pairs]
    residual = [c for c in conditions if references(c) <= names and not any(c is u for u in used)]
    conditions[:] = [c for c in conditions if not any(c is u for u in (*used, *residual))]
    node = Join(
        a.node,
        b.node,
        "inner" if keys else "cross",
        tuple(keys),
        conjunction([c.copy() for c in residual]),
    )
    rows = max(1.0, _size(a, b, keys) if keys else a.rows * b.rows)
    distinct = {n: min(v, rows) for n, v in (a.distinct | b.distinct).items()}
    return _Part(node, tuple(sorted((*a.members, *b.members))), rows, distinct)


def _measured(nodes: list[Node], compared: set[str], query: Query) -> list[_Part]:
    """The relations with their sizes.

    How many values a table's column has DuckDB keeps; to count those that a filter leaves takes as
    long as the whole query may.
    """
    columns = [[c.name for c in n.schema if c.name in compared] for n in nodes]
    texts = [_text(n) for n in nodes]
    known: list[dict[str, int]] = [{} for _ in nodes]
    single = [i for i, t in enumerate(texts) if t is not None and _tables(t) == 1 and columns[i]]
    stats = (
        _listed([f"any_value({_KEPT}({_name(c)}).approx_unique::BIGINT)" for c in columns[i]])
        + f" FROM (FROM ({texts[i]}) LIMIT 1)"
        for i in single
    )
    for i, values in zip(single, _together(stats, query), strict=True):
        known[i] = {c: v for c, v in zip(columns[i], values, strict=True) if v is not None}
    there = [i for i, t in enumerate(texts) if t is not None]
    counts = (
        _listed(
            ["count(*)"]
            + [f"approx_count_distinct({_name(c)})" for c in columns[i] if c not in known[i]]
        )
        + f" FROM ({texts[i]})"
        for i in there
    )
    rows: list[float] = [_UNKNOWN] * len(nodes)
    for i, (count, *values) in zip(there, _together(counts, query), strict=True):
        rows[i] = max(1.0, count)
        known[i] |= zip((c for c in columns[i] if c not in known[i]), values, strict=True)
    return [
        _Part(node, (i,), rows[i], {c: max(1.0, known[i].get(c, _VALUES)) for c in columns[i]})
        for i, node in enumerate(nodes)
    ]


def _together(asked: Iterable[str], query: Query) -> Sequence[Sequence[Any]]:
    queries = list(asked)
    return query(in_one(queries))[0] if queries else ()


def _listed(items: Sequence[str]) -> str:
    return f"SELECT [{', '.join(items)}]"


def _name(column: str) -> str:
    return to_sql(identifier(column))


def _tables(text: str) -> int:
    return text.count('FROM "')


def _text(node: Node) -> str | None:
    """What is made of at most `_TABLES` tables, as SQL; None for what takes longer to look at."""
    found = _sql(node)
    return None if found is None or _tables(found) > _TABLES else found


def _sql(node: Node) -> str | None:
    if isinstance(node, Scan):
        pairs = zip(node.source_columns, node.columns, strict=True)
        items = [f"{to_sql(identifier(s))} AS {to_sql(identifier(c.name))}" for s, c in pairs]
        return f"SELECT {', '.join(items) or '1'} FROM {node.table}"
    if isinstance(node, Filter):
        below = _sql(node.input)
        return below and f"SELECT * FROM ({below}) WHERE {to_sql(node.predicate)}"
    if isinstance(node, Project):
        below = _sql(node.input)
        items = [to_sql(defined(e)) for e in node.exprs]
        return below and f"SELECT {', '.join(items) or '1'} FROM ({below})"
    if isinstance(node, Join) and node.kind == "inner" and node.keys and node.residual is None:
        left, right = _sql(node.left), _sql(node.right)
        same = {False: "=", True: "IS NOT DISTINCT FROM"}
        keys = [f"{to_sql(k.left)} {same[k.null_safe]} {to_sql(k.right)}" for k in node.keys]
        both = left and right and f"({left}) JOIN ({right}) ON {' AND '.join(keys)}"
        return both and f"SELECT * FROM (SELECT * FROM {both} LIMIT {_MOST})"
    if isinstance(node, SetOp) and node.op == "union" and node.all:
        left, right = _sql(node.left), _sql(node.right)
        names = ", ".join(to_sql(identifier(c.name)) for c in node.columns)
        return left and right and f"SELECT * FROM ({left} UNION ALL {right}) AS t({names})"
    return None
