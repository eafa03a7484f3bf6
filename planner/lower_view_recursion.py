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
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from tidewheel.engine.operators.budget import BOUNDS, Meter, RecursionLimitError
from tidewheel.engine.operators.circuit import Circuit, Loop
from tidewheel.engine.operators.circuit import Node as Placed
from tidewheel.engine.operators.cycle import Cycle, Drift, changes
from tidewheel.engine.operators.linear import Concat, Map, selecting
from tidewheel.engine.operators.operator import Operator
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.repeat import Repeat
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import NoDeltaRule, Stream, ViewLowering, lowers
from tidewheel.planner.lower_view_fixpoint import fixpoint
from tidewheel.planner.lower_view_repeat import repeat
from tidewheel.planner.rewrites.children import every
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
    from tidewheel.planner.lower_view import extended

    pairs = zip(columns, stream.columns, strict=True)
    return extended(stream, [L.Named(new, column(old.name)) for new, old in pairs])


@lowers(L.LetRec)
def _let_rec(low: ViewLowering, node: L.LetRec) -> Stream:
    for binding in node.bindings:
        _check(binding)
    limit = node.limit
    if limit is not None:
        _check_limit(node, *limit, low.circuit.depth)
    if node.enough is not None:
        raise NoDeltaRule("a LIMIT that ends its recursion")
    _check_ends(node.bindings)
    outer = low.circuit
    first = node.bindings[0].variable
    if len(node.bindings) == 1 and limit is None:
        b = node.bindings[0]
        watch, steps = Watch(b), _distinct_steps(b)
        alone = fixpoint(low, b, steps, watch) or repeat(low, b, steps, watch)
        if alone is not None:
            if isinstance(alone.op, Repeat):
                watch.closed = alone.op
            if not outer.depth:
                low.contents.computed(alone)
            return _body(low, node, Stream(outer, alone, b.columns))
    watch = Watch(node.bindings[0])
    loop = Loop(outer.depth, watch, f"recursion {first}", *_limit(node))
    if all(b.kind == "union_all" for b in node.bindings):
        watch.closed = loop
    elif limit is None and all(b.kind == "mutual" for b in node.bindings):
        watch.whole = loop
    inner = loop.inner
    inside = _Inside(low, loop)
    mutual = all(b.kind == "mutual" for b in node.bindings)
    anchors: dict[str, Placed | None] = {}
    heads: dict[str, Placed] = {}
    schemas: dict[str, Schema] = {}
    for b in node.bindings:
        steps = _distinct_steps(b)
        anchor = None if b.anchor is None else low.place(b.anchor)
        if anchor is not None:
            types = anchor.arrow.types
        else:
            types = tuple(low.run.arrow([c.type for c in b.columns]))
        schema = schemas[b.variable] = Schema((c.name for c in b.columns), types)
        anchors[b.variable] = None if anchor is None else inside.enter(anchor.placed)
        back = [loop.variable(schema, f"feedback {b.variable}") for _ in steps]
        inputs = [*([anchors[b.variable]] if anchor is not None else []), *back]
        net = b.kind in ("union_all", "mutual")  # the others' heads see to it
        union = inner.add(Concat(schema, len(inputs), f"{b.variable} all", net), *inputs)  # type: ignore[arg-type]
        heads[b.variable] = _head(low, inner, b, schema, union)
        inside.back[b.variable] = back
    saved, saved_variables = low.circuit, dict(low.variables)
    results: dict[str, Placed] = dict(heads)
    low.circuit = inner
    entered = low.entered
    low.entered = inside
    try:
        for b in node.bindings:
            low.variables[b.variable] = Stream(inner, heads[b.variable], b.columns)
        for b in node.bindings:
            for step, variable in zip(_distinct_steps(b), inside.back[b.variable], strict=True):
                stream = low.place(step)
                found, wanted = stream.arrow, schemas[b.variable]
                if found.types != wanted.types:
                    raise NoDeltaRule("a step whose columns Arrow types differently")
                loop.connect(variable, stream.placed)
                if mutual:
                    results[b.variable] = stream.placed
                    low.variables[b.variable] = _renamed_to(stream, b.columns)
    finally:
        low.circuit, low.entered = saved, entered
        low.variables = saved_variables
    ports = {b.variable: loop.leave(results[b.variable]) for b in node.bindings}
    placed = outer.add(loop, *inside.sources)

    for b in node.bindings:
        schema = schemas[b.variable]
        out = Map(schema, selecting(range(len(schema)), schema), f"result {b.variable}")
        result = outer.add(out, placed[ports[b.variable]])
        if not outer.depth:
            low.contents.computed(result)
        low.variables[b.variable] = Stream(outer, result, b.columns)
    try:
        return low(node.body)
    finally:
        low.variables = saved_variables


def _check_limit(node: L.LetRec, action: str, iterations: int, depth: int) -> None:
    if iterations < 1 or (action == "error" and depth):
        raise NoDeltaRule("a recursion inside of another one with a limit that is an error")
    if any(c.type in ("DOUBLE", "FLOAT") for b in node.bindings for c in b.columns):
        # Ranks and means: one change moves every row of every iteration.
        raise NoDeltaRule("a recursion over floating-point numbers with a limit on its iterations")


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


def _body(low: ViewLowering, node: L.LetRec, stream: Stream) -> Stream:
    """What is read of the one recursive table."""
    saved = dict(low.variables)
    low.variables[node.bindings[0].variable] = stream
    try:
        return low(node.body)
    finally:
        low.variables = saved


def _renamed_to(stream: Stream, columns: tuple[L.Column, ...]) -> Stream:
    return (
        Stream(stream.circuit, stream.placed, tuple(stream.columns))
        if (tuple(c.name for c in stream.columns) == tuple(c.name for c in columns))
        else _renamed(Stream(stream.circuit, stream.placed, stream.columns), columns)
    )


_AT_ONCE = 256  # counters between two looks at the bounds, where each changes few rows


class Watch:
    """Stops a loop that goes on for too long, or whose statement is asked to end.

    The bounds are those of the statement that changes the view (`BOUNDS`). `heads` tell how many
    rows each counter changed, in `Operator.rounds`.
    """

    def __init__(self, binding: L.Binding) -> None:
        self.heads: list[Operator] = []
        self._label = binding.label
        self._kind = binding.kind
        self._width = 8 * len(binding.columns)
        self._meter: Meter | None = None
        self.closed: Loop | Repeat | None = None
        """A loop whose rows at one counter follow from those at the last one, and nothing else."""
        self.whole: Loop | None = None
        """A loop whose tables at one counter follow likewise."""
        self._cycle = 0, Cycle()
        self._drift = 0, Drift()
        self._known: dict[int, tuple[object, int]] = {}

    def __call__(self, counters: tuple[int, ...]) -> int:
        """Before each time, or at the latest at the counter that it gave.

        Raises RecursionLimitError or Interrupted.
        """
        bounds = BOUNDS.get()
        rows = self._changed()
        if bounds.watch is not None:
            bounds.watch(self._label, counters, rows)
        meter = self._meter
        if meter is None or meter.asked is not bounds:
            name = f'"{self._label}" of a maintained view'
            budget = bounds.filled()
            meter = self._meter = Meter(budget, name, self._kind, reports=False, asked=bounds)
        since = None
        if self.closed is not None:
            since = self._since(self.closed, counters)
        elif self.whole is not None:
            since = self._back(self.whole, counters)
        if since is not None:
            raise meter.endless(since)
        bound = meter.spend(counters[-1], rows, rows * self._width)
        if bound is not None:
            raise meter.error(bound)
        following = counters[-1] + _AT_ONCE
        limit = meter.budget.iterations
        return following if limit is None else min(following, max(limit, counters[-1]) + 1)

    def _since(self, loop: Loop | Repeat, counters: tuple[int, ...]) -> int | None:
        """An earlier counter that changed what the last one did; None where earlier runs of the
        loop, too, have a part in that.
        """
        run, cycle = self._cycle
        if run != loop.runs:
            run, cycle = self._cycle = loop.runs, Cycle()
        behind, last = loop.reached + 1, counters[-1] - 1
        if last <= behind:
            return None
        state = loop.left((*counters[:-1], last))
        rows = [0 if d is None else len(d) for d in state]
        since = cycle.since(last - behind, rows, lambda: changes(state))
        return None if since is None else since + behind

    def _back(self, loop: Loop, counters: tuple[int, ...]) -> int | None:
        """An earlier counter that had the tables of the last one, likewise."""
        run, drift = self._drift
        if run != loop.runs:
            run, drift = self._drift = loop.runs, Drift()
        behind, last = loop.reached + 1, counters[-1] - 1
        if last <= behind:
            return None
        since = drift.since(last - behind, loop.left((*counters[:-1], last)))
        return None if since is None else since + behind

    def _changed(self) -> int:
        """The rows that the heads changed since the last call."""
        total = 0
        for head in self.heads:
            rounds = head.rounds or []
            last, seen = self._known.get(id(head), (None, 0))
            seen = seen if last is rounds else 0
            total += sum(sum(rows) for _, rows in rounds[seen:])
            self._known[id(head)] = (rounds, len(rounds))
        return total


class _Inside:
    """What a loop reads from outside, each collection entered once."""

    def __init__(self, low: ViewLowering, loop: Loop) -> None:
        self.low = low
        self.loop = loop
        self.parent = low.entered
        self.outer = low.circuit
        self.sources: list[Placed] = []
        self.back: dict[str, list[Placed]] = {}
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


def _check(b: L.Binding) -> None:
    if any((how or "").startswith("arg_") for how in b.merge):
        raise NoDeltaRule(
            "arg_min or arg_max in a recursive step: of equal ones it takes the first"
        )
    if b.kind == "using_key":
        raise NoDeltaRule("USING KEY, where a later row replaces an earlier one")
    if b.by_turns:
        raise NoDeltaRule("recurring rows in a step whose result depends on when they were found")
    if b.together and b.kind == "union_all":
        raise NoDeltaRule("a step of UNION ALL that may have rows where the last step has none")
    if b.together or (b.kind == "union" and any(_summed(s, b.variable) for s in b.steps)):
        raise NoDeltaRule("a step of UNION that looks at the rows of the step before it together")
    if b.kind == "union_all":
        for step in b.steps:
            _check_linear(step, b.variable)


def _summed(node: L.Node, variable: str) -> bool:
    """Does an aggregate stand over the last step's rows? (sqlglot does not know all of them.)"""
    sums = (n for n in every(node) if isinstance(n, L.Aggregate) and n.aggregates)
    return any(_reads_delta(n, variable) for n in sums)


def _reads_delta(node: L.Node, variable: str) -> bool:
    found = (n for n in every(node) if isinstance(n, L.RecRef))
    return any(n.variable == variable and n.part == "delta" for n in found)


def _check_ends(bindings: Sequence[L.Binding]) -> None:
    """Refuse at once a recursion that surely goes on for ever, where its anchor has a row."""
    follows = {
        b.variable: set().union(*map(_always, b.steps)) if b.kind == "union_all" else set()
        for b in bindings
    }
    for b in bindings:
        reached: set[str] = set()
        new = follows[b.variable]
        while new:
            reached |= new
            new = set().union(*(follows.get(v, set()) for v in new)) - reached
        if b.variable in reached:
            raise RecursionLimitError(
                f'recursive table "{b.label}" of a maintained view has no end: each row of a step '
                "gives another one. A condition that ends it is missing. A LIMIT ends it only "
                f"where the query reads it as SELECT … FROM {b.label} LIMIT n.",
                b.label,
            )


def _always(node: L.Node) -> set[str]:
    """The variables of which each row surely gives a row."""
    if isinstance(node, L.Project):
        return _always(node.input)
    if isinstance(node, L.SetOp) and node.op == "union" and node.all:
        return set().union(*map(_always, node.children))
    return {node.variable} if isinstance(node, L.RecRef) else set()


def _check_linear(node: L.Node, variable: str) -> bool:
    """Does `node` read the variable? NoDeltaRule where it does other than linearly."""
    reads = isinstance(node, L.RecRef) and node.variable == variable
    found = [_check_linear(c, variable) for c in node.children]
    if any(found):
        linear = isinstance(node, L.Filter | L.Project | L.Unnest)
        linear |= isinstance(node, L.Join) and node.kind in ("inner", "cross") and sum(found) == 1
        linear |= (
            isinstance(node, L.Join)
            and node.kind in ("semi", "anti", "left")
            and (found == [True, False] and node.residual is None)
        )
        linear |= isinstance(node, L.SetOp) and node.op == "union" and node.all
        if not linear:
            raise NoDeltaRule(f"{type(node).__name__} over the rows of one step of UNION ALL")
    return reads or any(found)


def _distinct_steps(b: L.Binding) -> list[L.Node]:
    """Steps up to the parts that they read."""
    seen: dict[str, L.Node] = {}
    for step in map(_one_term, b.steps):
        if b.kind == "union_all" and _reads_old(step):
            raise NoDeltaRule("a step of UNION ALL that reads recursive tables more than once")
        whole = _whole(step)
        seen.setdefault(_shape(whole), step)
    return list(seen.values())


def _one_term(step: L.Node) -> L.Node:
    """The last of a step's terms, which differ in the parts that they read (docs/recursion.md)."""
    if not _reads_old(step):
        return step
    if isinstance(step, L.Project | L.Filter):
        return replace(step, input=_one_term(step.input))
    if isinstance(step, L.LetRec):
        return replace(step, body=_one_term(step.body))
    if (
        isinstance(step, L.SetOp)
        and (step.op, step.all) == ("union", True)
        and not _reads_old(step.right)
    ):
        pairs = zip(step.columns, step.right.schema, strict=True)
        return L.Project(step.right, tuple(L.Named(to, column(c.name)) for to, c in pairs))
    return step


def _reads_old(node: L.Node) -> bool:
    """Does a part of it read all rows but the last step's, as terms but the last one do?"""
    return any(isinstance(n, L.RecRef) and n.part == "old" for n in every(node))


def _whole(node: L.Node) -> L.Node:
    if isinstance(node, L.RecRef):
        return replace(node, part="all")
    changes: dict[str, Any] = {}
    for f in fields(node):
        if not f.init:
            continue
        value = getattr(node, f.name)
        if isinstance(value, L.Node):
            changes[f.name] = _whole(value)
        elif isinstance(value, tuple) and value and all(isinstance(v, L.Node) for v in value):
            changes[f.name] = tuple(_whole(v) for v in value)
    return replace(node, **changes) if changes else node


def _shape(node: L.Node) -> str:
    """A text that is equal for equal plans."""
    parts = [type(node).__name__]
    for f in fields(node):
        value = getattr(node, f.name) if f.name != "schema" else None
        if isinstance(value, L.Node):
            parts.append(_shape(value))
        elif isinstance(value, tuple) and value and all(isinstance(v, L.Node) for v in value):
            parts.extend(_shape(v) for v in value)
        else:
            parts.append(_text(value))
    return "(" + " ".join(parts) + ")"


def _text(value: object) -> str:
    if isinstance(value, exp.Expr):
        return to_sql(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, L.Named):
        return f"{value.column}={to_sql(value.expr)}"
    return repr(value)
