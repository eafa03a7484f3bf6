"""`LetRec` to a loop context: ingress, the variables, their steps, feedback, egress.

anchor ──▶ ingress ─▶ iterate ─┬─▶ pick ─▶ step ─▶ feedback ─▶ iterate
                               └─▶ pick ─▶ egress ─▶ body
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.kernels.connection import KernelConnection, KernelReader
from tidewheel.engine.kernels.duckdb import run_table
from tidewheel.engine.operators.budget import DEFAULT_ITERATIONS, Budget
from tidewheel.engine.operators.iterate import Iterate, Part, Pick
from tidewheel.engine.operators.native_loop import NativeLoop
from tidewheel.engine.operators.traverse import Traversal, Traverse
from tidewheel.engine.operators.variable import VariableSpec
from tidewheel.planner.context import Context
from tidewheel.planner.flow import Loop, Operator
from tidewheel.planner.logical import Binding, Block, LetRec, Node, RecRef, Structural
from tidewheel.planner.lower import Lowering, lowers
from tidewheel.planner.lower_merging import merging
from tidewheel.planner.text import VOLATILE, numbered_parameters, select_all, typed_nulls

DEFAULT_ROUNDS = 10_000
"""The bound where each iteration runs statements: a hundred times slower than one that does not."""
_MAY_DIFFER = re.compile(
    VOLATILE.pattern + r"|\b(limit|offset|first|last|any_value|arbitrary|over|list|string_agg)\b",
    re.IGNORECASE,
)
"""What may give other rows though it reads the same, be it in another order."""
ITERATIONS = "987654321987"
"""Stands in the text of a native recursion for the bound on its iterations."""


def budget(context: Context, iterations: int = DEFAULT_ITERATIONS) -> Budget:
    """The bounds of a statement's recursions: the session's settings, or what is sensible."""
    settings = context.settings
    on_limit: Literal["error", "return"] = "return" if settings.on_limit == "return" else "error"
    asked = Budget(
        settings.max_iterations,
        settings.max_recursive_rows,
        settings.max_recursive_bytes,
        context.deadline,
        on_limit,
        context.interrupted,
        context.watch,
    )
    return asked.filled(iterations)


@lowers(RecRef)
def _rec_ref(low: Lowering, node: RecRef) -> Operator:
    return low.variables[f"{node.variable}.{node.part}"]


@lowers(LetRec)
def _let_rec(low: Lowering, node: LetRec) -> Operator:
    structural = node.bindings[0].structural
    if low.fused and low.loop is None and len(node.bindings) == 1 and structural is not None:
        # (in a loop it would run once per counter, and what does not change arrives at the first)
        return _fused(low, node, node.bindings[0], structural)
    if low.fused and len(node.bindings) == 1 and node.bindings[0].native is not None:
        return _native(low, node, node.bindings[0], node.bindings[0].native)
    outer = dict(low.variables)
    late = _afterwards(node)
    node = replace(node, bindings=tuple(b for b in node.bindings if not b.afterwards))
    names = [b.variable for b in node.bindings]
    mutual = node.bindings[0].kind == "mutual"
    loop = Loop("_".join(names), low.loop, frozenset(names), mutual)
    anchors = [low(_each_time(low, node, b.anchor or _nothing(b))) for b in node.bindings]
    ingresses = [low.flow.ingress(loop, a) for a in anchors]
    feedbacks = [[low.flow.feedback(loop, b.columns) for _ in b.steps] for b in node.bindings]
    wanted = _wanted(node, late)
    ports = list(range(len(names)))
    sources = list(ingresses)
    for i, own in enumerate(feedbacks):
        ports += [i] * len(own)
        sources += own
    specs = tuple(_spec(b, i, wanted) for i, b in enumerate(node.bindings))
    limit = node.limit
    closed = _is_closed(node)

    def make(context: Any, connection: KernelConnection) -> Vertex:
        bounds = budget(context, DEFAULT_ROUNDS)
        record = partial(_record, context.record, names) if context.record else None
        merges = [merging(b, connection) for b in node.bindings]
        vertex = Iterate(specs, ports, wanted, bounds, limit, node.enough, record, closed, merges)
        if any(merges):
            vertex.exclusive = connection.key
        return vertex

    head = low.flow.vertex("Iterate", sources, (), None, detail=_detail(node), buffer=None)
    head.make = make
    for i, part in wanted:
        if part != "answer":
            low.variables[f"{names[i]}.{part}"] = _pick(low, node, head, i, part)
    low.loop = loop
    resting: dict[str, Operator] = {}
    try:
        for i, binding in enumerate(node.bindings):
            for step, feedback in zip(binding.steps, feedbacks[i], strict=True):
                rests = mutual and not low.free(step) & loop.variables
                operator = _fed(low, node, loop, step) if rests else low(step)
                if binding.kind == "mutual":
                    # In order, so that two evaluations can be compared.
                    operator = low.flow.sql("Sort", [operator], binding.columns, _ordered)
                elif binding.kind == "union" and _reads_more(step):
                    # Many ways lead to a row: they are joined where they are made.
                    operator = low.flow.sql("Distinct", [operator], binding.columns, _distinct)
                low.flow.connect(feedback, operator)
                if binding.kind == "mutual" and mutual:
                    # Those behind it read what it has just become.
                    if rests:
                        # It is so at every counter, and is sent at the first one only.
                        loop.variables -= {names[i]}
                        operator = resting[names[i]] = _outermost(low, names[i], step)
                    low.variables[f"{names[i]}.all"] = operator
    finally:
        low.loop = loop.parent
    if loop.parent is not None:
        # What reads these variables has to be placed in the loop around this one, too.
        loop.parent.variables |= frozenset(names) - resting.keys()
    low.variables = outer
    for i, name in enumerate(names):
        if (i, "answer") in wanted:
            answer = _pick(low, node, head, i, "answer")
            low.variables[f"{name}.delta"] = resting.get(name) or low.flow.egress(loop, answer)
    for binding in late:
        for read in _references(binding.steps[0]):
            if read.variable in names:
                low.variables[f"{read.variable}.all"] = low.variables[f"{read.variable}.delta"]
        name = binding.variable
        low.variables[f"{name}.delta"] = _outermost(low, name, binding.steps[0])
        names.append(name)
    body = low(node.body)
    low.variables = {**outer, **{k: v for k, v in low.variables.items() if k not in outer}}
    return body


def _is_closed(node: LetRec) -> bool:
    """Do the next rows of UNION ALL, or the next tables of WITH MUTUALLY RECURSIVE, follow from the
    last ones, however often they are asked for?
    """
    kinds = {b.kind for b in node.bindings}
    mutual = kinds == {"mutual"} and node.limit is None
    todo = [step for b in node.bindings for step in b.steps]
    while todo:
        part = todo.pop()
        if isinstance(part, Block):
            if _MAY_DIFFER.search(part.sql):
                return False
        elif not isinstance(part, RecRef) or not (mutual or part.part == "delta"):
            return False
        todo.extend(part.children)
    return mutual or kinds == {"union_all"}


def _fed(low: Lowering, node: LetRec, loop: Loop, step: Node) -> Operator:
    """A step that reads nothing of its loop, for each time that the loop is run."""
    low.loop = loop.parent
    try:
        return low.flow.ingress(loop, low(_each_time(low, node, step)))
    finally:
        low.loop = loop


def _outermost(low: Lowering, name: str, step: Node) -> Operator:
    """The operator of a variable that its step alone tells, outside of loops where it rests.

    What reads it is placed where it lies, or further inside.
    """
    inside = loop = low.loop
    while loop is not None and not low.free(step) & loop.variables:
        loop = loop.parent
    low.loop = loop
    try:
        operator = low(step)
    finally:
        low.loop = inside
    if loop is not None:
        loop.variables |= {name}
    return operator


def _record(
    record: Callable[[str, tuple[int, ...], pa.Table], None],
    names: Sequence[str],
    i: int,
    counters: tuple[int, ...],
    rows: pa.Table,
) -> None:
    record(names[i], counters, rows)


def _fused(low: Lowering, node: LetRec, binding: Binding, structural: Structural) -> Operator:
    """The loop as one vertex, outside of SQL."""
    assert binding.anchor is not None
    sources = [low(binding.anchor), *(low(r) for r in structural.relations)]
    traversal = Traversal(
        binding.label,
        structural.program,
        structural.sources,
        structural.bounds,
        binding.merge,
        structural.carried,
        not structural.sources,
        node.enough,
        binding.kind == "union",
    )
    native = binding.native

    def make(context: Any, connection: KernelConnection) -> Vertex:
        otherwise = partial(_run_loops, binding, context)
        if native is not None and binding.kind == "union" and context.record is None:
            otherwise = partial(_run_native, native, context)
        record = partial(context.record, binding.variable) if context.record else None
        vertex = Traverse(traversal, budget(context), otherwise, record)
        vertex.exclusive = id(context.connection)
        return vertex

    joins = len(structural.relations)
    lookups = f": {joins} lookup{'s'[: joins > 1]} by key" if joins else ""
    detail = f"{_detail(node)}; the loop without SQL{lookups}"
    answer = low.flow.vertex("Traverse", sources, binding.columns, None, detail=detail, buffer=None)
    answer.make = make
    return _body(low, node, binding, answer)


def _native(low: Lowering, node: LetRec, binding: Binding, native: Block) -> Operator:
    """The loop as one statement of DuckDB's."""
    counted = len(native.columns) > len(binding.columns)

    def make(context: Any, connection: KernelConnection) -> Vertex:
        bounds = budget(context)
        limit = str(bounds.iterations if bounds.iterations is not None else 1 << 30)
        beyond = [b + 1 for b in (bounds.rows, bounds.bytes and 8 * bounds.bytes) if b is not None]
        most = min([*beyond, 1 << 62]) if node.enough is None else node.enough

        def reader() -> KernelReader:
            sql = native.sql.replace(ITERATIONS, limit)
            given = numbered_parameters(sql, context.parameters)
            rows = context.settings.batch_rows
            if node.enough is not None:
                # DuckDB would compute ahead, and might fail there.
                rows = max(1, min(rows, node.enough))
            if bounds.deadline is not None:
                rows = min(rows, 8192)  # the clock is looked at between batches
            sql = f"SELECT * FROM (\n{sql}\n) LIMIT {most}"
            once = not context.in_transaction
            return KernelReader(context.connection, context.lock, sql, None, given, rows, once=once)

        vertex = NativeLoop(
            reader,
            binding.label,
            binding.kind,
            counted,
            bounds,
            context.connection.interrupt,
            node.enough,
        )
        vertex.exclusive = id(context.connection)  # as `KernelConnection.key` has it
        return vertex

    detail = f"{_detail(node)}; DuckDB's own recursion"
    answer = low.flow.vertex("NativeLoop", [], binding.columns, None, detail=detail)
    answer.make = make
    return _body(low, node, binding, answer)


def _body(low: Lowering, node: LetRec, binding: Binding, answer: Operator) -> Operator:
    """What reads the answer of a loop that is one vertex."""
    outer = dict(low.variables)
    low.variables[f"{binding.variable}.delta"] = _inward(low, answer)
    if low.loop is not None:
        # What reads it has to be placed in the loop around it, too.
        low.loop.variables |= frozenset([binding.variable])
    body = low(node.body)
    low.variables = outer | {k: v for k, v in low.variables.items() if k not in outer}
    return body


def _inward(low: Lowering, answer: Operator) -> Operator:
    """`answer` where the plan is being placed: it may lie outside of the loops around."""
    loops = []
    loop = low.loop
    while loop is not answer.loop and loop is not None:
        loops.append(loop)
        loop = loop.parent
    for inner in reversed(loops):
        answer = low.flow.ingress(inner, answer)
    return answer


def _run_native(native: Block, context: Context) -> pa.Table:
    sql = native.sql
    return run_table(
        context.connection, context.lock, sql, None, numbered_parameters(sql, context.parameters)
    )


def _run_loops(binding: Binding, context: Context) -> pa.Table:
    """A recursion as a loop context, while the plan that it belongs to waits."""
    from tidewheel.planner import execute  # which imports this

    named = ", ".join(f'"{c.name}"' for c in binding.columns)
    reader = RecRef(binding.variable, binding.columns)
    text = f'SELECT {named} FROM "__tw_rows"'
    body = Block(text, (reader,), ("__tw_rows",), binding.columns, "all rows")
    native = binding.native if binding.kind == "union_all" and context.record is None else None
    loop = LetRec((replace(binding, native=native, structural=None),), body)
    settings = replace(context.settings, threads=1)
    stream = execute.run(loop, replace(context, settings=settings, in_transaction=True))
    rows = pa.Table.from_batches(list(stream), stream.schema)
    return rows.rename_columns([c.name for c in binding.columns])


def _ordered(sources: Sequence[exp.Expr]) -> exp.Query:
    query = select_all(sources[0])
    query.set("order", exp.Order(expressions=[exp.Var(this="ALL")]))
    return query


def _distinct(sources: Sequence[exp.Expr]) -> exp.Query:
    return select_all(sources[0]).distinct(copy=False)


def _reads_more(node: Node) -> bool:
    """Does a step read more than the last step's rows? Not told of text, which may be collated."""
    if any("VARCHAR" in c.type for c in node.schema):
        return False
    if isinstance(node, RecRef):
        return node.part != "delta"
    return any(map(_reads_more, node.children))


def _nothing(binding: Binding) -> Node:
    return Block(typed_nulls(binding.columns), (), (), binding.columns, "starts empty")


def _each_time(low: Lowering, node: LetRec, anchor: Node) -> Node:
    """An anchor that comes at each counter of the loop around, even if it does not change there.

    A loop is run again when rows of its anchor arrive; what its steps read may have changed.
    """
    if low.loop is None or low.free(anchor) & low.loop.variables:
        return anchor
    around = tuple(r for r in _references(node) if r.variable in low.loop.variables)
    names = ", ".join(f'"{c.name}"' for c in anchor.schema)
    aliases = ("__tw_anchor", *(f"__tw_around{i}" for i in range(len(around))))
    sql = f'SELECT {names} FROM "__tw_anchor"'
    return Block(sql, (anchor, *around), aliases, anchor.schema, "at each counter around")


def _references(node: Node) -> list[RecRef]:
    if isinstance(node, RecRef):
        return [node]
    found: dict[tuple[str, str], RecRef] = {}
    for child in node.children:
        found.update({(r.variable, r.part): r for r in _references(child)})
    own = {b.variable for b in node.bindings} if isinstance(node, LetRec) else set()
    return [r for r in found.values() if r.variable not in own]


def _pick(low: Lowering, node: LetRec, head: Operator, i: int, part: Part) -> Operator:
    binding = node.bindings[i]
    return low.flow.vertex(
        "Pick", [head], binding.columns, lambda: Pick(i, part), detail=f"{binding.variable} {part}"
    )


def _afterwards(node: LetRec) -> list[Binding]:
    """The bindings that are computed when the loop is over, of those that are read then."""
    needed = {r.variable for r in _references(node.body)}
    found: list[Binding] = []
    for binding in reversed(node.bindings):
        if binding.afterwards and binding.variable in needed:
            found.insert(0, binding)
            needed |= {r.variable for r in _references(binding.steps[0])}
    return found


def _wanted(node: LetRec, late: Sequence[Binding]) -> list[tuple[int, Part]]:
    """Which parts of which variables the steps and the body read, and bindings behind the loop."""
    positions = {b.variable: i for i, b in enumerate(node.bindings)}
    found: dict[tuple[int, Part], None] = {}

    def walk(part: Node, inside: bool) -> None:
        if isinstance(part, RecRef) and part.variable in positions:
            found[positions[part.variable], part.part if inside else "answer"] = None
        for child in part.children:
            walk(child, inside)

    for binding in node.bindings:
        for step in binding.steps:
            walk(step, True)
    for binding in late:
        walk(binding.steps[0], False)
    walk(node.body, False)
    if not any(part == "answer" for _, part in found):
        found[0, "answer"] = None  # the loop has to have a way out
    return list(found)


def _spec(binding: Binding, i: int, wanted: Sequence[tuple[int, Part]]) -> VariableSpec:
    keep = (i, "all") in wanted or (i, "old") in wanted
    return VariableSpec(
        binding.label,
        binding.kind,
        binding.key,
        binding.merge,
        keep,
        changes_only=not binding.every,
        from_nothing=binding.together or binding.of_none,
    )


def _detail(node: LetRec) -> str:
    parts = [f"{b.variable} {b.kind.replace('_', ' ')}" for b in node.bindings]
    if node.limit is not None:
        parts.append(f"{node.limit[0]} at recursion limit {node.limit[1]}")
    return ", ".join(parts)
