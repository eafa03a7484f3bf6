"""Recursive views: a `LetRec` as a loop of the circuit, kept up to date in the product order.

    union      X = distinct(anchor ⊎ step(X))
    union_all  X = anchor ⊎ step(X), where a row counts at its own counter only
    improve    X = best by key(anchor ⊎ step(X))
    mutual     X = step(X), starting from nothing

`RecRef.part` is about evaluating once; here a variable's differences go round by themselves, so all
parts mean the variable, and steps that differ in parts only are one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tidewheel.engine.operators.budget import RecursionLimitError
from tidewheel.engine.operators.circuit import Circuit, Loop
from tidewheel.engine.operators.circuit import Node as Placed
from tidewheel.engine.operators.latest import Latest
from tidewheel.engine.operators.linear import Concat, Map, selecting
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.repeat import Repeat
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.aggregate_parts import part_of
from tidewheel.planner.deciding import deciding, rising
from tidewheel.planner.lower_recursion import DEFAULT_ROUNDS
from tidewheel.planner.lower_view import NoDeltaRule, Stream, ViewLowering, extended, lowers
from tidewheel.planner.lower_view_fixpoint import fixpoint
from tidewheel.planner.lower_view_repeat import repeat
from tidewheel.planner.recursion_steps import check_ends, check_limit, distinct_steps, reads_all
from tidewheel.planner.recursion_watch import Watch
from tidewheel.planner.stepwise_recursion import Replaced, step_by_step
from tidewheel.planner.text import column, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT, group_kernel


@lowers(L.RecRef)
def _rec_ref(low: ViewLowering, node: L.RecRef) -> Stream:
    if node.variable not in low.variables:
        raise NoDeltaRule("a recursive table that is read outside of its query")
    stream = low.variables[node.variable]
    columns = tuple(node.columns)
    if len(columns) != len(stream.columns):
        raise NoDeltaRule("a recursive table read by some of its columns")
    return _renamed(stream, columns)


def _renamed(stream: Stream, columns: tuple[L.Column, ...]) -> Stream:
    if tuple(c.name for c in columns) == tuple(c.name for c in stream.columns):
        return Stream(stream.circuit, stream.placed, columns)
    pairs = zip(columns, stream.columns, strict=True)
    return extended(stream, [L.Named(new, column(old.name)) for new, old in pairs])


@lowers(L.LetRec)
def _let_rec(low: ViewLowering, node: L.LetRec) -> Stream:
    if node.enough is not None:
        raise NoDeltaRule("a LIMIT that ends its recursion")
    check_ends(node.bindings)
    given = node.bindings
    closed = all(b.kind == "union_all" and not reads_all(b) for b in given)
    node = step_by_step(node)
    if node.limit is not None:
        check_limit(node, *node.limit, low.circuit.depth)
    elif len(node.bindings) == 1:
        alone = _alone(low, node.bindings[0])
        if alone is not None:
            return _body(low, node, [alone])
    outer = low.circuit
    watch = Watch(given[0])
    loop = Loop(outer.depth, watch, f"recursion {node.bindings[0].variable}", *_limit(node))
    loop.slow = node.bindings is not given
    mutual = all(b.kind == "mutual" for b in node.bindings)
    if loop.slow:
        watch.most = DEFAULT_ROUNDS  # as the query has, whose iterations these are
    if closed:
        watch.closed = loop
        if len(given) == 1 and node.bindings is given:
            watch.deciding = _deciding(given[0], given[0].steps)
    elif len(given) == 1 and given[0].kind == "union" and node.bindings is given:
        watch.rising = rising(given[0], given[0].steps)
        watch.deciding = () if watch.rising is None else _deciding(given[0], given[0].steps)
        if watch.deciding:
            watch.closed = loop
    elif node.limit is None and mutual:
        watch.whole = loop
    inner = loop.inner
    inside = _Inside(low, loop)
    back: dict[str, list[Placed]] = {}
    heads: dict[str, Placed] = {}
    schemas: dict[str, Schema] = {}
    for b in node.bindings:
        anchor = None if b.anchor is None else low.place(b.anchor)
        if anchor is not None:
            types = anchor.arrow.types
        else:
            types = tuple(low.run.arrow([c.type for c in b.columns]))
        schema = schemas[b.variable] = Schema((c.name for c in b.columns), types)
        inputs = [] if anchor is None else [inside.enter(anchor.placed)]
        back[b.variable] = [
            loop.variable(schema, f"feedback {b.variable}") for _ in distinct_steps(b)
        ]
        inputs += back[b.variable]
        net = b.kind in ("union_all", "mutual")  # the others' heads see to it
        union = inner.add(Concat(schema, len(inputs), f"{b.variable} all", net), *inputs)
        heads[b.variable] = _head(low, inner, b, schema, union)
    saved = low.circuit, low.entered, dict(low.variables)
    results: dict[str, Placed] = dict(heads)
    low.circuit, low.entered = inner, inside
    try:
        for b in node.bindings:
            low.variables[b.variable] = Stream(inner, heads[b.variable], b.columns)
        for b in node.bindings:
            for step, variable in zip(distinct_steps(b), back[b.variable], strict=True):
                stream = low.place(_ungrouped(step, b, schemas[b.variable]))
                if stream.arrow.types != schemas[b.variable].types:
                    raise NoDeltaRule("a step whose columns Arrow types differently")
                loop.connect(variable, stream.placed)
                if mutual:
                    results[b.variable] = stream.placed
                    low.variables[b.variable] = _renamed(stream, b.columns)
    finally:
        low.circuit, low.entered, low.variables = saved
    ports = [loop.leave(results[b.variable]) for b in node.bindings]
    placed = outer.add(loop, *inside.sources)
    left: list[Placed] = []
    for b, port in zip(node.bindings, ports, strict=True):
        schema = schemas[b.variable]
        out = Map(schema, selecting(range(len(schema)), schema), f"result {b.variable}")
        left.append(outer.add(out, placed[port]))
    return _body(low, node, left)


def _alone(low: ViewLowering, b: L.Binding) -> Placed | None:
    """The one recursive table of a query as one operator; None if it needs a loop."""
    watch, steps = Watch(b), distinct_steps(b)
    found = fixpoint(low, b, steps, watch) or repeat(low, b, steps, watch)
    if found is not None and isinstance(found.op, Repeat):
        watch.closed = found.op
        watch.deciding = _deciding(b, steps)
    return found


def _body(low: ViewLowering, node: L.LetRec, results: Sequence[Placed]) -> Stream:
    """What is read of the recursive tables."""
    saved = dict(low.variables)
    for b, result in zip(node.bindings, results, strict=True):
        if not low.circuit.depth:
            low.contents.computed(result)
        low.variables[b.variable] = Stream(low.circuit, result, b.columns)
    try:
        return low(node.body)
    finally:
        low.variables = saved


@lowers(Replaced)
def _replaced(low: ViewLowering, node: Replaced) -> Stream:
    new, old = low.place(node.new), low.place(node.old)
    op = Latest(new.arrow, node.key, low.circuit.depth, "the latest of each key")
    return Stream(low.circuit, low.circuit.add(op, new.placed, old.placed), node.schema)


def _deciding(b: L.Binding, steps: Sequence[L.Node]) -> tuple[int, ...]:
    """The columns that decide of the next rows, if there are others."""
    found = deciding(b, steps)
    return found if len(found) < len(b.columns) else ()


def _limit(node: L.LetRec) -> tuple[int | None, Callable[[], object] | None]:
    """After how many iterations a loop ends, and what is done if it still changes."""
    if node.limit is None:
        return None, None
    action, iterations = node.limit
    names = ", ".join(f'"{b.label}"' for b in node.bindings)

    def over() -> None:
        raise RecursionLimitError(
            f"{names} still changes after {iterations} iterations, the limit that the query sets",
            node.bindings[0].label,
        )

    return iterations, over if action == "error" else None


class _Inside:
    """What a loop reads from outside, each collection entered once."""

    def __init__(self, low: ViewLowering, loop: Loop) -> None:
        self.low = low
        self.loop = loop
        self.parent = low.entered
        self.outer = low.circuit
        self.sources: list[Placed] = []
        self._entered: dict[int, Placed] = {}

    def enter(self, placed: Placed) -> Placed:
        """A collection of the outer circuit, inside."""
        found = self._entered.get(id(placed))
        if found is None:
            self.sources.append(placed)
            found = self._entered[id(placed)] = self.loop.enter(placed.op.schema)
        return found


def _head(low: ViewLowering, inner: Circuit, b: L.Binding, schema: Schema, union: Placed) -> Placed:
    if b.kind == "union":
        return inner.add(Tally(schema, depth=inner.depth), union)
    if b.kind == "improve":
        names = [to_sql(identifier(n)) for n in schema.names]
        items = [
            n if m is None else f"{m}({n}) AS {n}" for n, m in zip(names, b.merge, strict=True)
        ]
        by = [names[i] for i in b.key]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        query = f"SELECT {', '.join(items)} FROM {INPUT}{group}"
        structural = _best(schema, b)
        if structural is not None:
            return inner.add(structural(inner.depth), union)
        evaluate, out = low.bound(group_kernel, query, schema)
        if out.types != schema.types:
            raise NoDeltaRule("an aggregate of a recursion that widens its type")
        key = list(b.key)
        return inner.add(Regroup(schema, key, evaluate, out, key, inner.depth, "best"), union)
    return union


def _ungrouped(step: L.Node, b: L.Binding, schema: Schema) -> L.Node:
    """A step without its GROUP BY, if the table's own best rows say what it would: one operator
    less that keeps all rows by key."""
    node, names = step, [c.name for c in step.schema]
    while isinstance(node, L.Project):
        given = {e.column.name: e.expr for e in node.exprs}
        names = [e.name if isinstance(e := given[n], exp.Column) else "" for n in names]
        if "" in names:
            return step
        node = node.input
    if b.kind != "improve" or not isinstance(node, L.Aggregate) or node.sets is not None:
        return step
    if len(node.aggregates) != 1 or not node.keys or _best(schema, b) is None:
        return step
    part = part_of(node.aggregates[0])
    if part is None or part.argument is None or part.count > 1 or part.function not in b.merge:
        return step
    exprs = {e.column.name: e.expr for e in node.keys}
    best = part.named.column.name
    out: list[L.Named] = []
    for name, to, merge in zip(names, step.schema, b.merge, strict=True):
        expr = part.argument if name == best and merge is not None else exprs.get(name)
        if expr is None or (merge is not None and name != best):
            return step
        out.append(L.Named(to, expr))
    return L.Project(node.input, tuple(out))


def _best(schema: Schema, b: L.Binding) -> Any:
    """min or max of one column by key, without a statement."""
    from tidewheel.engine.operators.best import Best
    from tidewheel.engine.operators.rank import rankable

    merged = [i for i, m in enumerate(b.merge) if m is not None]
    if len(merged) != 1 or b.merge[merged[0]] not in ("min", "max"):
        return None
    if not rankable(schema.types[merged[0]]) or len(b.key) != len(schema) - 1 or not b.key:
        return None
    descending = b.merge[merged[0]] == "max"
    return lambda depth: Best(schema, b.key, merged[0], descending, depth)
