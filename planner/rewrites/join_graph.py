"""Turn cross joins under filters into equi-joins, and move predicates down to what they read.

DuckDB does this itself for whatever it gets whole; operators that keep state need it done here.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.conditions import equality
from tidewheel.planner.logical import (
    Aggregate,
    Column,
    EquiKey,
    Filter,
    Join,
    Node,
    Project,
    SetOp,
    Window,
    names_of,
    references,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.text import column, conjunction, paired, substituted, typed, unchanged


def join_graph(node: Node) -> Node:
    """The same relation with predicates pushed down and joins on equal keys."""
    return _push(node, [])


def _push(node: Node, predicates: list[exp.Expr]) -> Node:
    """`node` filtered by `predicates`, all of them as far down as they go."""
    if isinstance(node, Filter):
        return _push(node.input, [*predicates, *conjuncts(node.predicate)])
    if isinstance(node, Join) and node.kind in ("inner", "cross"):
        return _inner(node, predicates)
    if isinstance(node, Join):
        return _outer(node, predicates)
    if isinstance(node, Project):
        named = {e.column.name: e.expr for e in node.exprs}
        through: list[exp.Expr] = []
        above: list[exp.Expr] = []
        for p in predicates:
            simple = all(
                isinstance(named[r], exp.Column | exp.Literal) for r in references(p) if r in named
            )
            (through if simple else above).append(p)
        parts = {e.column.name: typed(e) for e in node.exprs}
        down = [substituted(p, parts) for p in through]
        return _filtered(replace(node, input=_push(node.input, down)), above)
    if isinstance(node, Aggregate) and node.keys and node.sets is None:
        keys: dict[str, exp.Expr] = {
            e.column.name: e.expr for e in node.keys if isinstance(e.expr, exp.Column)
        }
        below = [p for p in predicates if references(p) and references(p) <= set(keys)]
        others = [p for p in predicates if not (references(p) and references(p) <= set(keys))]
        down = [substituted(p, keys) for p in below]
        return _filtered(replace(node, input=_push(node.input, down)), others)
    if isinstance(node, Window):
        return _filtered(replace(node, input=_push(node.input, [])), predicates)
    if isinstance(node, SetOp) and node.op == "union":
        sides = []
        for side in (node.left, node.right):
            renamed: dict[str, exp.Expr] = {
                c.name: column(s.name) for c, s in zip(node.columns, side.schema, strict=True)
            }
            sides.append(_push(side, [substituted(p, renamed) for p in predicates]))
        return replace(node, left=sides[0], right=sides[1])
    return _filtered(over(node, lambda child: _push(child, [])), predicates)


def _filtered(node: Node, predicates: list[exp.Expr]) -> Node:
    condition = conjunction([p.copy() for p in predicates])
    return node if condition is None else Filter(node, condition)


def conjuncts(expression: exp.Expr) -> list[exp.Expr]:
    """The parts of an AND; what all branches of an OR have in common is taken out of it.

    Together they are true of the same rows; of others they may be FALSE where it is NULL.
    """
    if isinstance(expression, exp.Paren) and not isinstance(expression.this, exp.Subquery):
        return conjuncts(expression.this)
    if isinstance(expression, exp.And):
        return [*conjuncts(expression.this), *conjuncts(expression.expression)]
    if isinstance(expression, exp.Or):
        parts = [conjuncts(b) for b in branches(expression)]
        common = [p for p in parts[0] if all(p in other for other in parts[1:])]
        if common:
            return [*common, expression]
        same = _same_or_both_null(parts)
        if same is not None:
            return [same]
    return [expression]


def _same_or_both_null(parts: list[list[exp.Expr]]) -> exp.Expr | None:
    """`a = b OR (a IS NULL AND b IS NULL)` as one equality that holds of NULLs, too."""
    if len(parts) != 2:
        return None
    for equal, nulls in (parts, parts[::-1]):
        if len(equal) == 1 and isinstance(equal[0], exp.EQ) and equality(equal[0]):
            a, b = equal[0].this.unnest(), equal[0].expression.unnest()
            tested = [
                p.this.unnest()
                for p in nulls
                if isinstance(p, exp.Is) and isinstance(p.expression, exp.Null)
            ]
            if len(nulls) == 2 and tested in ([a, b], [b, a]):
                return exp.NullSafeEQ(
                    this=equal[0].this.copy(), expression=equal[0].expression.copy()
                )
    return None


def _implied(predicate: exp.Expr, names: set[str]) -> exp.Expr | None:
    """What an OR says of some columns alone: one of its branches' parts over them is TRUE."""
    while isinstance(predicate, exp.Paren):
        predicate = predicate.this
    if not isinstance(predicate, exp.Or):
        return None
    found: list[exp.Expr] = []
    for branch in branches(predicate):
        mine = [c for c in conjuncts(branch) if references(c) and references(c) <= names]
        condition = conjunction([c.copy() for c in mine])
        if condition is None:
            return None
        found.append(exp.Paren(this=condition))
    return paired(exp.Or, found)


def branches(expression: exp.Expr) -> list[exp.Expr]:
    """The parts of an OR."""
    if isinstance(expression, exp.Paren):
        return branches(expression.this)
    if isinstance(expression, exp.Or):
        return [*branches(expression.this), *branches(expression.expression)]
    return [expression]


def _outer(node: Join, predicates: list[exp.Expr]) -> Node:
    left_names, right_names = names_of(node.left), names_of(node.right)
    into_left: list[exp.Expr] = []
    above: list[exp.Expr] = []
    for p in predicates:
        keeps_left = node.kind in ("left", "semi", "anti")
        (into_left if keeps_left and references(p) <= left_names else above).append(p)
    into_right: list[exp.Expr] = []
    residual: list[exp.Expr] = []
    keys = list(node.keys)
    for p in conjuncts(node.residual) if node.residual is not None else []:
        key = equi_key(p, left_names, right_names)
        if key is not None:
            keys.append(copied(key))
        elif node.kind in ("left", "semi", "anti") and references(p) <= right_names:
            into_right.append(p)
        else:
            residual.append(p)
    joined = replace(
        node,
        left=_push(node.left, into_left),
        right=_push(node.right, into_right),
        keys=tuple(keys),
        residual=conjunction([p.copy() for p in residual]),
    )
    return _filtered(joined, above)


def equi_key(p: exp.Expr, left: set[str], right: set[str]) -> EquiKey | None:
    """An equality of something of the columns `left` with something of `right`, as a key.

    The key is made of `p`'s own parts: `copied` is for a plan.
    """
    if not equality(p):
        return None
    a, b = p.this, p.expression
    null_safe = isinstance(p, exp.NullSafeEQ)
    one, other = references(a), references(b)
    if not one or not other:
        return None
    if one <= left and other <= right:
        return EquiKey(a, b, null_safe)
    if one <= right and other <= left:
        return EquiKey(b, a, null_safe)
    return None


def copied(key: EquiKey) -> EquiKey:
    """The same key, of expressions that belong to nothing else."""
    return EquiKey(key.left.copy(), key.right.copy(), key.null_safe)


def _inner(node: Join, predicates: list[exp.Expr]) -> Node:
    relations: list[Node] = []
    found = list(predicates)
    flatten(node, relations, found)
    names = [names_of(r) for r in relations]
    local: list[list[exp.Expr]] = [[] for _ in relations]
    rest: list[exp.Expr] = []
    for p in found:
        reads = references(p)
        home = next((i for i, n in enumerate(names) if reads and reads <= n), None)
        (rest if home is None else local[home]).append(p)
        if home is None:
            for i, n in enumerate(names):
                implied = _implied(p, n)
                if implied is not None:
                    local[i].append(implied)
    parts = [_push(r, ps) for r, ps in zip(relations, local, strict=True)]
    remaining = list(range(len(parts)))
    order = remaining.pop(0)
    tree, have = parts[order], set(names[order])
    while remaining:
        best = next(
            (i for i in remaining if any(equi_key(p, have, names[i]) for p in rest)),
            remaining[0],
        )
        remaining.remove(best)
        keys: list[EquiKey] = []
        residual: list[exp.Expr] = []
        later: list[exp.Expr] = []
        for p in rest:
            key = equi_key(p, have, names[best])
            if key is not None:
                keys.append(copied(key))
            elif references(p) <= have | names[best]:
                residual.append(p)
            else:
                later.append(p)
        rest = later
        have |= names[best]
        tree = Join(
            tree,
            parts[best],
            "inner" if keys else "cross",
            tuple(keys),
            conjunction([p.copy() for p in residual]),
        )
    out = _filtered(tree, rest)
    return in_order(out, node.schema)


def flatten(node: Node, relations: list[Node], predicates: list[exp.Expr]) -> None:
    """Add what inner joins join to `relations`, and their conditions to `predicates`."""
    if isinstance(node, Filter):
        predicates.extend(conjuncts(node.predicate))
        flatten(node.input, relations, predicates)
    elif isinstance(node, Join) and node.kind in ("inner", "cross"):
        flatten(node.left, relations, predicates)
        flatten(node.right, relations, predicates)
        for key in node.keys:
            kind = exp.NullSafeEQ if key.null_safe else exp.EQ
            predicates.append(kind(this=key.left.copy(), expression=key.right.copy()))
        if node.residual is not None:
            predicates.extend(conjuncts(node.residual))
    else:
        relations.append(node)


def in_order(node: Node, schema: tuple[Column, ...]) -> Node:
    """Columns where the reader expects them; by name nobody cares, and most read by name."""
    if tuple(c.name for c in node.schema) == tuple(c.name for c in schema):
        return node
    return Project(node, unchanged(schema))
