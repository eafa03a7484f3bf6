"""Recursions whose steps join a row with one row each of some relations → one `Fixpoint` operator.

What must hold, for every step: it is projections and filters over inner equi-joins of the
recursive table with others, each by columns of the recursive table; each key column of what it
derives is a column of the one or the other, taken as it is; the key of the deriving row can be told
from the derived key and the others' rows; and a value that is minimised or maximised is the
recursive table's own, plus or minus something, or one that is greater for greater ones (LEAST, sums
of doubles, casts), see `Rule.checked`. Anything else is left to the general loop.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.circuit import Circuit
from tidewheel.engine.operators.circuit import Node as Placed
from tidewheel.engine.operators.fixpoint import Fixpoint
from tidewheel.engine.operators.forest import ValuedForest
from tidewheel.engine.operators.linear import Map
from tidewheel.engine.operators.operator import Source
from tidewheel.engine.operators.rule import Related, Rule
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.arithmetic_choice import is_error
from tidewheel.planner.lower_view import Stream, ViewLowering, extended, filtered
from tidewheel.planner.lower_view_widened import (
    MINE,
    Other,
    Step,
    kinds_of,
    narrowed,
    position,
    uncast,
    widened,
)
from tidewheel.planner.rewrites.children import every
from tidewheel.planner.text import column, conjunction, substituted, unchanged

Watch = Callable[[tuple[int, ...]], int]


def fixpoint(low: ViewLowering, b: L.Binding, steps: list[L.Node], watch: Watch) -> Placed | None:
    """The recursive table as one operator, None where it is not of this form."""
    if low.circuit.depth or low.entered is not None or b.anchor is None:
        return None
    value = _value(b)
    if b.kind != "union" and value is None:
        return None
    taken = [t for t in (_taken_apart(step, b, value) for step in steps) if t is not None]
    if len(taken) < len(steps):
        return None
    wide, taken = widened(b, value, taken)
    keys = [i for i in range(len(b.columns)) if i != value]
    if wide.anchor is None or not all(
        isinstance(t.outputs[i], exp.Column) for t in taken for i in keys
    ):
        return None
    anchor = low.place(wide.anchor)
    schema = Schema((c.name for c in b.columns), anchor.arrow.types)
    if value is not None and not ValuedForest.keeps(schema.kinds[value]):
        return None
    found = [_rule(low, wide, schema, value, t) for t in taken]
    rules = [f for f in found if f is not None]
    if len(rules) < len(taken):
        return None
    key = range(len(schema)) if value is None else b.key
    descending = value is not None and b.merge[value] == "max"
    op = Fixpoint(
        schema, tuple(key), [r for r, _ in rules], value, descending, watch,
        f"recursion {b.label}",
    )  # fmt: skip
    placed = low.circuit.add(op, anchor.placed, *(p for _, placed in rules for p in placed))
    if wide is b:
        return placed
    narrow = narrowed(wide.columns, b.columns)
    return low.flush(extended(Stream(low.circuit, placed, wide.columns), narrow)).placed


def _value(b: L.Binding) -> int | None:
    merged = [i for i, m in enumerate(b.merge) if m is not None]
    if b.kind != "improve" or len(merged) != 1 or b.merge[merged[0]] not in ("min", "max"):
        return None
    return merged[0] if b.key and len(b.key) == len(b.columns) - 1 else None


def _reads(node: L.Node, variable: str) -> bool:
    return any(isinstance(n, L.RecRef) and n.variable == variable for n in every(node))


def _taken_apart(step: L.Node, b: L.Binding, value: int | None) -> Step | None:
    above: list[L.Filter | L.Project | L.Aggregate] = []
    node = step
    while not isinstance(node, L.Join):
        if not isinstance(node, L.Filter | L.Project | L.Aggregate):
            return None
        above.append(node)
        node = node.input
    found = Step()
    env = _joined(node, b, found)
    if env is None or not found.others:
        return None
    grouped = False
    for part in reversed(above):
        if isinstance(part, L.Filter):
            if grouped:
                return None
            found.conditions.append(substituted(part.predicate, env))
        elif isinstance(part, L.Project):
            env = {e.column.name: substituted(e.expr, env) for e in part.exprs}
        else:
            if grouped or value is None or part.sets is not None or len(part.aggregates) != 1:
                return None
            grouped = True
            call = part.aggregates[0].expr
            wanted = exp.Min if b.merge[value] == "min" else exp.Max
            if type(call) is not wanted or call.expressions or isinstance(call.this, exp.Distinct):
                return None
            merged = substituted(call.this, env)
            env = {k.column.name: substituted(k.expr, env) for k in part.keys}
            env[part.aggregates[0].column.name] = merged
    found.outputs = [env[c.name] for c in step.schema]
    for i, expression in enumerate(found.outputs):
        if i == value and not _rises(expression, value):
            if not _grows(expression, value):
                return None
            found.checked = True
    return found


def _joined(node: L.Node, b: L.Binding, found: Step) -> dict[str, exp.Expr] | None:
    """The columns of joins over the recursive table, in terms of `MINE` and of the others.

    None where another relation is met otherwise than by columns of the recursive table.
    """
    if isinstance(node, L.RecRef):
        if len(node.columns) != len(b.columns):
            return None
        return {c.name: column(MINE.format(i)) for i, c in enumerate(node.columns)}
    if isinstance(node, L.Project):
        env = _joined(node.input, b, found)
        return env and {e.column.name: substituted(e.expr, env) for e in node.exprs}
    if isinstance(node, L.Filter):
        env = _joined(node.input, b, found)
        if env is not None:
            found.conditions.append(substituted(node.predicate, env))
        return env
    if not isinstance(node, L.Join) or node.kind != "inner" or not node.keys:
        return None
    sides = [_reads(node.left, b.variable), _reads(node.right, b.variable)]
    if sides not in ([True, False], [False, True]):
        return None
    mine, node_ = (node.left, node.right) if sides[0] else (node.right, node.left)
    env = _joined(mine, b, found)
    names = {c.name for c in node_.schema}
    if env is None or any(names & {c.name for c in o.node.schema} for o in found.others):
        return None
    other = Other(node_, [])
    for key in node.keys:
        own, theirs = (key.left, key.right) if sides[0] else (key.right, key.left)
        met = substituted(own, env)
        bare = uncast(met, kinds_of(b, ()))
        at = position(bare)
        if at is not None and bare is not met:
            found.wide.add(at)
        if key.null_safe or at is None or at in (j for j, _ in other.joins):
            return None
        other.joins.append((at, theirs))
    found.others.append(other)
    env = {**env, **{c.name: column(c.name) for c in node_.schema}}
    if node.residual is not None:
        found.conditions.append(substituted(node.residual, env))
    return env


def _touches(expression: exp.Expr, at: int) -> bool:
    return any(position(c) == at for c in expression.find_all(exp.Column))


def _rises(expression: exp.Expr, value: int) -> bool:
    """Is an expression strictly rising in the value: itself, plus or minus something?"""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.Column):
        return position(expression) == value
    if isinstance(expression, exp.Cast) and not isinstance(expression, exp.TryCast):
        to = expression.args["to"]
        integer = isinstance(to, exp.DataType) and to.is_type(*exp.DataType.INTEGER_TYPES)
        return integer and _rises(expression.this, value)
    if isinstance(expression, exp.Add | exp.Sub):
        left, right = expression.this, expression.expression
        if not _touches(right, value):
            return _rises(left, value)
        if isinstance(expression, exp.Add) and not _touches(left, value):
            return _rises(right, value)
    return False


def _grows(expression: exp.Expr, value: int) -> bool:
    """Is an expression never less for a greater value, though it may be the same?"""
    if isinstance(expression, exp.Column):
        return position(expression) == value
    if isinstance(expression, exp.Paren) or type(expression) is exp.Cast:
        return _grows(expression.this, value)
    if isinstance(expression, exp.Coalesce) and is_error(expression.expressions[-1]):
        return len(expression.expressions) == 1 and _grows(expression.this, value)
    if isinstance(expression, exp.Least | exp.Greatest):
        parts = [expression.this, *expression.expressions]
        return all(_grows(e, value) for e in parts if _touches(e, value))
    if isinstance(expression, exp.Add | exp.Sub):
        left, right = expression.this, expression.expression
        if not _touches(right, value):
            return _grows(left, value)
        return (
            isinstance(expression, exp.Add) and not _touches(left, value) and _grows(right, value)
        )
    return False


def _rule(
    low: ViewLowering, b: L.Binding, schema: Schema, value: int | None, step: Step
) -> tuple[Rule, list[Placed]] | None:
    key = [i for i in range(len(schema)) if i != value]
    plain = value is None or position(step.outputs[value]) == value
    if not plain and value is not None and not _is_number(schema.types[value]):
        return None
    if any(at not in key for other in step.others for at, _ in other.joins):
        return None
    used = {
        c.name
        for e in (*step.outputs, *step.conditions)
        for c in e.find_all(exp.Column)
        if position(c) is None
    }
    columns: list[L.Column] = []  # of all others
    types: list[pa.DataType] = []
    streams: list[Stream] = []
    met: list[dict[int, int]] = []  # by relation: position in X → column
    for n, other in enumerate(step.others):
        joins: list[str] = []
        extra: list[L.Named] = []
        for i, (_, expression) in enumerate(other.joins):
            if isinstance(expression, exp.Column):
                joins.append(expression.name)
            else:
                joins.append(f"__tw_join{n}_{i}")
                extra.append(L.Named(L.Column(joins[-1], joins[-1], ""), expression.copy()))
        wanted = used | set(joins)
        kept = unchanged(c for c in other.node.schema if c.name in wanted)
        stream = low.place(L.Project(other.node, (*kept, *extra)))
        at = {c.name: i for i, c in enumerate(stream.schema, len(columns))}
        met.append({j: at[name] for (j, _), name in zip(other.joins, joins, strict=True)})
        streams.append(stream)
        columns += stream.schema
        types += stream.arrow.types
        if any(types[i] != schema.types[j] for j, i in met[-1].items()):
            return None
    by_join = {j: i for of in reversed(met) for j, i in of.items()}
    place = {c.name: i for i, c in enumerate(columns)}
    target: list[tuple[int, int]] = []
    passed: dict[int, int] = {}  # position in X → in the derived key
    for p, i in enumerate(key):
        output = step.outputs[i]
        mine = position(output)
        if mine is None:
            there = place[output.name]
        elif mine in by_join:
            there = by_join[mine]
        else:
            if mine in passed or mine not in key or schema.types[mine] != schema.types[i]:
                return None
            passed[mine] = p
            target.append((0, key.index(mine)))
            continue
        if types[there] != schema.types[i]:
            return None
        target.append((1, there))
    source: list[tuple[int, int]] = []
    for i in key:
        if i in by_join:
            source.append((1, by_join[i]))
        elif i in passed:
            source.append((0, passed[i]))
        else:
            return None
    rewrite, pairs = None, None
    if not plain or step.conditions:
        mine_columns = [L.Column(MINE.format(i), c.label, c.type) for i, c in enumerate(b.columns)]
        both = [*mine_columns, *columns]
        pairs = Schema((c.name for c in both), (*schema.types, *types))
        scratch = Circuit()
        whole = Stream(scratch, scratch.add(Source(pairs)), tuple(both))
        if step.conditions:
            whole = filtered(whole, conjunction([c.copy() for c in step.conditions]))
        named = [
            L.Named(L.Column(c.name, c.label, c.type), e.copy())
            for c, e in zip(b.columns, step.outputs, strict=True)
        ]
        done = low.flush(extended(whole, named)).placed.op
        if not isinstance(done, Map) or done.schema.types != schema.types:
            return None
        rewrite = done.rewrite
    relations: list[Related] = []
    nodes: list[Placed] = []
    first = 0
    for stream, of in zip(streams, met, strict=True):
        own = range(first, first + len(stream.schema))
        derived = [i - first for side, i in target if side and i in own]
        if not derived:
            return None  # any of its rows would do
        forward, node = low.arrange(stream, [i - first for i in of.values()], False)
        reverse, _ = low.arrange(stream, derived, True)
        join = tuple(key.index(j) for j in of)
        relations.append(Related(forward.arrangement, reverse.arrangement, join))
        nodes.append(node)
        first += len(own)
    rounded = not plain and value is not None and pa.types.is_float64(schema.types[value])
    checked = step.checked or rounded
    rule = Rule(tuple(relations), tuple(target), tuple(source), rewrite, pairs, checked)
    return rule, nodes


def _is_number(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(kind) or t.is_float64(kind) or t.is_decimal128(kind))
