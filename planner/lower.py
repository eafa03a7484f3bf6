"""Logical nodes to operators: one function per node type, in the registry `LOWER`.

A node that does not depend on the variable of the loop that reads it is lowered outside of that
loop and brought in through an ingress: it is computed once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tidewheel.planner.flow import Build, Flow, Loop, Operator
from tidewheel.planner.logical import (
    Aggregate,
    AsofJoin,
    Block,
    Distinct,
    Filter,
    Join,
    LetRec,
    Node,
    Project,
    RecRef,
    Scan,
    SetOp,
    TopK,
    Unnest,
    Window,
)
from tidewheel.planner.text import (
    alias_of,
    asof_query,
    block_query,
    column,
    conjunction,
    defined,
    identifier,
    key_condition,
    ordered,
    select_all,
    to_sql,
)

Lower = Callable[["Lowering", Any], Operator]
LOWER: dict[type[Node], Lower] = {}


def lowers(*kinds: type[Node]) -> Callable[[Lower], Lower]:
    """Register the function that lowers these kinds of node."""

    def register(function: Lower) -> Lower:
        for kind in kinds:
            LOWER[kind] = function
        return function

    return register


class Lowering:
    """One plan on its way to a `Flow`. Call it with a node to get the operator that computes it.

    A node that is reached twice (a shared subplan) becomes one operator with two readers.
    `loop` is the loop context in which nodes are being placed, `variables` the streams of the
    recursive variables that are in scope.
    """

    def __init__(self, fused: bool = True) -> None:
        self.fused = fused  # may a loop become one vertex?
        self.flow = Flow()
        self.loop: Loop | None = None
        self.variables: dict[str, Operator] = {}
        self._done: dict[tuple[int, Loop | None], Operator] = {}
        self._kept: list[Node] = []  # ids in `_done` stay taken
        self._free: dict[int, frozenset[str]] = {}

    def __call__(self, node: Node) -> Operator:
        key = (id(node), self.loop)
        found = self._done.get(key)
        if found is None:
            found = self._done[key] = self._place(node)
            self._kept.append(node)
        return found

    def _place(self, node: Node) -> Operator:
        loop = self.loop
        if loop is not None and not self.free(node) & loop.variables:
            self.loop = loop.parent
            try:
                outside = self(node)
            finally:
                self.loop = loop
            return self.flow.ingress(loop, outside)
        try:
            function = LOWER[type(node)]
        except KeyError:
            raise NotImplementedError(f"no lowering for {type(node).__name__}") from None
        return function(self, node)

    def free(self, node: Node) -> frozenset[str]:
        """The recursive variables that `node` reads and does not bind itself."""
        found = self._free.get(id(node))
        if found is None:
            self._kept.append(node)
            if isinstance(node, RecRef):
                found = frozenset({node.variable})
            else:
                found = frozenset().union(*(self.free(c) for c in node.children))
                if isinstance(node, LetRec):
                    found -= {b.variable for b in node.bindings}
            self._free[id(node)] = found
        return found

    def sql(
        self,
        node: Node,
        inputs: Sequence[Node],
        build: Build,
        detail: str = "",
        *,
        text: str | None = None,
        is_scan: bool = False,
    ) -> Operator:
        """The operator of a node that is a query over `inputs`."""
        return self.flow.sql(
            type(node).__name__,
            [self(i) for i in inputs],
            node.schema,
            build,
            detail=detail,
            text=text,
            is_scan=is_scan,
        )


def lower(node: Node, fused: bool = True) -> Flow:
    """The dataflow graph of a plan. `fused`: loops may be run by one vertex each."""
    # The recursion follows the plan's depth; set-operation chains can be long.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
    lowering = Lowering(fused)
    lowering.flow.root = lowering(node)
    return lowering.flow


@lowers(Scan)
def _scan(low: Lowering, node: Scan) -> Operator:
    def build(_: Sequence[exp.Expr]) -> exp.Query:
        items = [
            alias_of(exp.Column(this=identifier(source)), c.name)
            for c, source in zip(node.columns, node.source_columns, strict=True)
        ]
        return exp.select(*items).from_(exp.Table(this=exp.Var(this=node.table)))

    return low.sql(node, (), build, node.table, is_scan=True)


@lowers(Filter)
def _filter(low: Lowering, node: Filter) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        return select_all(sources[0]).where(node.predicate.copy(), copy=False)

    return low.sql(node, (node.input,), build, to_sql(node.predicate))


@lowers(Project)
def _project(low: Lowering, node: Project) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        return exp.select(*(defined(e) for e in node.exprs)).from_(sources[0], copy=False)

    return low.sql(node, (node.input,), build, ", ".join(to_sql(e.expr) for e in node.exprs))


@lowers(Unnest, Window)
def _more_columns(low: Lowering, node: Unnest | Window) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        items = [column(c.name) for c in node.input.schema]
        return exp.select(*items, *(defined(e) for e in node.exprs)).from_(sources[0], copy=False)

    return low.sql(node, (node.input,), build, ", ".join(to_sql(e.expr) for e in node.exprs))


@lowers(Join)
def _join(low: Lowering, node: Join) -> Operator:
    condition = conjunction(
        [
            *map(key_condition, node.keys),
            *([node.residual.copy()] if node.residual is not None else []),
        ]
    )

    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        join = exp.Join(this=sources[1])
        if condition is None and node.kind in ("cross", "inner"):
            join.set("kind", "CROSS")
        else:
            join.set("on", condition.copy() if condition is not None else exp.true())
            if node.kind in ("left", "right", "full"):
                join.set("side", node.kind.upper())
            else:
                join.set("kind", "INNER" if node.kind == "cross" else node.kind.upper())
        query = exp.select(*(column(c.name) for c in node.schema))
        query = query.from_(sources[0], copy=False)
        query.set("joins", [join])
        return query

    detail = f"{node.kind} {to_sql(condition) if condition is not None else ''}".strip()
    return low.sql(node, (node.left, node.right), build, detail)


@lowers(AsofJoin)
def _asof(low: Lowering, node: AsofJoin) -> Operator:
    on = ", ".join(to_sql(e) for e in (*map(key_condition, node.keys), node.nearest))
    return low.sql(
        node,
        (node.left, node.right),
        lambda sources: asof_query(node, sources[0], sources[1]),
        f"asof {node.kind} {on}",
    )


@lowers(Aggregate)
def _aggregate(low: Lowering, node: Aggregate) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        query = exp.select(*(defined(e) for e in (*node.keys, *node.aggregates)))
        query = query.from_(sources[0], copy=False)
        if node.sets is not None:
            sets = [
                exp.Tuple(expressions=[node.keys[i].expr.copy() for i in positions])
                for positions in node.sets
            ]
            group = exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)])
            query.set("group", group)
        elif node.keys:
            # By position: an expression could be a constant, which GROUP BY would misread.
            positions = [exp.Literal.number(i + 1) for i in range(len(node.keys))]
            query.set("group", exp.Group(expressions=positions))
        return query

    keys = ", ".join(to_sql(e.expr) for e in node.keys)
    aggregates = ", ".join(to_sql(e.expr) for e in node.aggregates)
    return low.sql(node, (node.input,), build, f"[{keys}] {aggregates}".strip())


@lowers(Distinct)
def _distinct(low: Lowering, node: Distinct) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        return select_all(sources[0]).distinct(copy=False)

    return low.sql(node, (node.input,), build)


@lowers(SetOp)
def _set_op(low: Lowering, node: SetOp) -> Operator:
    make = {"union": exp.Union, "except": exp.Except, "intersect": exp.Intersect}[node.op]

    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        left = exp.select(
            *(
                alias_of(column(have.name), want.name)
                for have, want in zip(node.left.schema, node.columns, strict=True)
            )
        ).from_(sources[0], copy=False)
        right = exp.select(*(column(c.name) for c in node.right.schema))
        right = right.from_(sources[1], copy=False)
        both: exp.Query = make(this=left, expression=right, distinct=not node.all)
        return both

    return low.sql(node, (node.left, node.right), build, f"{node.op}{' all' if node.all else ''}")


@lowers(TopK)
def _top_k(low: Lowering, node: TopK) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        query = select_all(sources[0])
        if node.keys:
            query.set("order", exp.Order(expressions=[ordered(k) for k in node.keys]))
        if node.limit is not None:
            query.set("limit", exp.Limit(expression=node.limit.copy()))
        if node.offset is not None:
            query.set("offset", exp.Offset(expression=node.offset.copy()))
        return query

    parts = [", ".join(to_sql(ordered(k)) for k in node.keys)]
    parts += [f"limit {to_sql(node.limit)}"] if node.limit is not None else []
    parts += [f"offset {to_sql(node.offset)}"] if node.offset is not None else []
    return low.sql(node, (node.input,), build, " ".join(p for p in parts if p))


@lowers(Block)
def _block(low: Lowering, node: Block) -> Operator:
    def build(sources: Sequence[exp.Expr]) -> exp.Query:
        return block_query(node, sources)

    text = None if node.inputs else node.sql
    detail = f"{' '.join(node.sql.split())} -- {node.reason}"
    return low.sql(node, node.inputs, build, detail, text=text)
