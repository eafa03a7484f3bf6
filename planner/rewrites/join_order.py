"""Join the relations whose result is smallest first, in any shape of tree.

A maintained join keeps what it joins, so an order that DuckDB would choose anew for each run is
chosen once here, by the sizes that there are when the view is filled. Any order is right.

Source: Fegaras, "A new heuristic for optimizing large queries" (DEXA 1998): greedy operator
ordering.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from sqlglot import exp

from tidewheel.planner.conditions import equality
from tidewheel.planner.logical import (
    Aggregate,
    Column,
    Distinct,
    EquiKey,
    Filter,
    Join,
    LetRec,
    Named,
    Node,
    Project,
    RecRef,
    references,
)
from tidewheel.planner.rewrites.children import every, over
from tidewheel.planner.rewrites.join_graph import (
    conjuncts,
    copied,
    equi_key,
    flatten,
    in_order,
    join_graph,
)
from tidewheel.planner.rewrites.measured import UNKNOWN, Measures, countable
from tidewheel.planner.text import column, conjunction


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


_Done = dict[int, tuple[Node, Node]]
"""What became of nodes, which several may read. They are kept, so that no other gets their id."""


def join_order(node: Node, measures: Measures) -> Node:
    """The same relation with inner joins of three relations and more in the order found best."""
    return _in_best_order(node, measures, {})


def _in_best_order(node: Node, measures: Measures, done: _Done) -> Node:
    found = done.get(id(node))
    if found is None:
        found = done[id(node)] = node, _reordered(node, measures, done)
    return found[1]


def _reordered(node: Node, measures: Measures, done: _Done) -> Node:
    if isinstance(node, LetRec):
        bindings = tuple(
            replace(
                b,
                anchor=b.anchor and _in_best_order(join_graph(b.anchor), measures, done),
                steps=tuple(_step(join_graph(s), measures, done) for s in b.steps),
            )
            for b in node.bindings
        )
        return replace(node, bindings=bindings, body=_in_best_order(node.body, measures, done))
    if isinstance(node, Join) and node.kind in ("semi", "anti"):
        joined = _semi_join(node, measures, done)
        if joined is not None:
            return joined
    if isinstance(node, Join) and node.kind in ("inner", "cross"):
        relations: list[Node] = []
        conditions: list[exp.Expr] = []
        flatten(node, relations, conditions)
        relations = [_kept(_in_best_order(r, measures, done), conditions) for r in relations]
        if len(relations) > 2 and not any(map(recursive, relations)):
            parts = _measured(relations, conditions, measures)
            return in_order(_ordered(parts, conditions).node, node.schema)
    return over(node, lambda child: _in_best_order(child, measures, done))


def _step(step: Node, measures: Measures, done: _Done) -> Node:
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
    fixed = [_kept(_in_best_order(r, measures, done), inside) for r in fixed]
    if not all(map(countable, fixed)):
        return step  # whether it grows is not known
    if not any(equality(c) for c in inside) and all(_met(r, moving[0], rest) for r in fixed):
        return step  # each is met by the recursive table alone: they have nothing in common
    parts = _measured(fixed, inside, measures)
    whole = _ordered(parts, inside)
    if whole.rows > 2 * max(p.rows for p in parts):
        return step
    joined = _ordered([_Part(moving[0], (-1,), UNKNOWN, {}), whole], rest)
    node = in_order(joined.node, joins.schema)
    for part in reversed(above):
        node = replace(part, input=node)
    return node


def _met(fixed: Node, moving: Node, conditions: list[exp.Expr]) -> bool:
    """Does a relation have a column that is to be equal to one of the recursive table?"""
    sides = {c.name for c in fixed.schema}, {c.name for c in moving.schema}
    return any(equi_key(c, *sides) is not None for c in conditions)


def _semi_join(node: Join, measures: Measures, done: _Done) -> Node | None:
    """A semi or anti join over inner joins, made below or between them; None: above, as it is."""
    relations, conditions = _flat(node.left)
    if len(relations) < 2 or any(map(recursive, relations)):
        return None
    reads = set().union(*(references(k.left) for k in node.keys))
    reads |= references(node.residual) - {c.name for c in node.right.schema}
    homes = [i for i, r in enumerate(relations) if reads <= {c.name for c in r.schema}]
    between = node.kind == "semi" and node.residual is None and not homes
    if len(homes) != 1 and not between:
        return None
    relations = [_kept(_in_best_order(r, measures, done), conditions) for r in relations]
    right = _in_best_order(node.right, measures, done)
    if between:
        return _between_joins(node, right, relations, conditions, measures)
    parts = _measured(relations, conditions, measures)
    return _below_joins(node, right, parts, homes[0], conditions)


def _below_joins(
    node: Join, right: Node, parts: list[_Part], at: int, conditions: list[exp.Expr]
) -> Node | None:
    """Made with the one relation that it asks about, unless the joins have fewer rows than that."""
    home = parts[at]
    whole = _ordered(parts, [*conditions])
    if home.rows >= whole.rows:
        return None
    few = min(home.rows, UNKNOWN)
    parts[at] = _Part(
        replace(node, left=home.node, right=right),
        home.members,
        few,
        {c: min(d, few) for c, d in home.distinct.items()},
    )
    return in_order(_ordered(parts, conditions).node, node.schema)


def _between_joins(
    node: Join, right: Node, relations: list[Node], conditions: list[exp.Expr], measures: Measures
) -> Node | None:
    """A semi join over relations that nothing but its keys brings together, as inner joins.

    Each row finds one of the right side's distinct keys at most. None where all pairs would have
    to be made in any case, or in none.
    """
    keys = [
        Named(Column(f"{right.schema[0].name}__key{i}", "key", ""), key.right.copy())
        for i, key in enumerate(node.keys)
    ]
    equal = [
        (exp.NullSafeEQ if key.null_safe else exp.EQ)(
            this=key.left.copy(), expression=column(each.column.name)
        )
        for key, each in zip(node.keys, keys, strict=True)
    ]
    distinct = Distinct(Project(right, tuple(keys)))
    parts = _measured([*relations, distinct], [*conditions, *equal], measures)
    if not _has_pairs(_ordered(parts[:-1], [*conditions]).node):
        return None
    whole = _ordered(parts, [*conditions, *equal]).node
    return None if _has_pairs(whole) else in_order(whole, node.schema)


def _has_pairs(joins: Node) -> bool:
    """Do rows meet without an equality?"""
    while isinstance(joins, Filter):
        joins = joins.input
    if not isinstance(joins, Join) or joins.kind not in ("inner", "cross"):
        return False
    return joins.kind == "cross" or _has_pairs(joins.left) or _has_pairs(joins.right)


def _flat(joins: Node) -> tuple[list[Node], list[exp.Expr]]:
    """The relations of inner joins, below projections that compute nothing, and all conditions."""
    relations: list[Node] = []
    conditions: list[exp.Expr] = []
    while isinstance(joins, Project) and all(_as_it_is(e) for e in joins.exprs):
        joins = joins.input
    flatten(joins, relations, conditions)
    return relations, conditions


def _as_it_is(e: Named) -> bool:
    return isinstance(e.expr, exp.Column) and e.expr.name == e.column.name


def _kept(node: Node, conditions: list[exp.Expr]) -> Node:
    """A relation with the conditions on it alone, which are taken out of the list."""
    names = {c.name for c in node.schema}
    mine: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for c in conditions:
        reads = references(c)
        (mine if reads and reads <= names else others).append(c)
    conditions[:] = others
    condition = conjunction(mine)
    return node if condition is None else Filter(node, condition)


def recursive(node: Node) -> bool:
    """Does it depend on a variable of a recursion?"""
    return any(isinstance(n, RecRef) for n in every(node))


def _measured(relations: list[Node], conditions: list[exp.Expr], measures: Measures) -> list[_Part]:
    compared: set[str] = set()
    for c in conditions:
        if equality(c):
            sides = (c.this, c.expression)
            compared |= {s.name for s in sides if isinstance(s, exp.Column)}
    sizes = measures(relations, compared)
    return [
        _Part(node, (i,), rows, values)
        for i, (node, (rows, values)) in enumerate(zip(relations, sizes, strict=True))
    ]


def _ordered(parts: list[_Part], conditions: list[exp.Expr]) -> _Part:
    """All parts joined; the conditions are taken out of the list."""
    known: dict[tuple[tuple[int, ...], ...], tuple[bool, float]] = {}

    def cost(a: _Part, b: _Part) -> tuple[bool, float]:
        pair = a.members, b.members  # conditions that others meet are none of theirs
        if pair not in known:
            known[pair] = _cost(a, b, conditions)
        return known[pair]

    while len(parts) > 1:
        choices = [
            (*cost(a, b), a.members, b.members, i, j)
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
    keys = [copied(k) for _, k in pairs]
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
