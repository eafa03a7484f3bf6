"""Logical plan of a maintained view → incremental operators in a circuit, one function per node.

Filters, projections and unnests collect into chains and become one map each, structural where
`structural.py` finds a NumPy form, else one kernel. Stateful nodes arrange what they read; two
readers that need one key of one collection share the arrangement.

What has no rule here raises `NoDeltaRule` with the reason; the view is then recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import duckdb
from sqlglot import exp

from tidewheel.engine.operators.circuit import Circuit
from tidewheel.engine.operators.circuit import Node as Placed
from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.operators.linear import Map, Rewrite, chain, computing, filtering, selecting
from tidewheel.engine.operators.ranged import ArrangePoints, ArrangeRanges, Ends, points_of
from tidewheel.engine.operators.rank import Order
from tidewheel.engine.operators.shared import Shared
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.change import Taken
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.rowwise import ByRow
from tidewheel.planner import logical as L
from tidewheel.planner.list_columns import Lists
from tidewheel.planner.number import NeedsKernel, finished, finished_row
from tidewheel.planner.plans import Run
from tidewheel.planner.rewrites.children import every
from tidewheel.planner.rewrites.merge_projects import fewer_steps
from tidewheel.planner.structural import Constant, compile_predicate, compile_value
from tidewheel.planner.structural_rows import predicate_by_row
from tidewheel.planner.text import to_sql, unchanged, written
from tidewheel.planner.texts import Text, Truth
from tidewheel.planner.unions import looked_into
from tidewheel.planner.view_filling import Filling
from tidewheel.planner.view_kernels import (
    INPUT,
    WEIGHT,
    group_kernel,
    linear_kernel,
    linear_schema,
    statements,
)
from tidewheel.planner.view_statements import stepped

# Types that come back from Arrow as others: as VARCHAR, STRUCT and BLOB. (The name of a STRUCT's
# field has a space behind it.)
_CHANGED = re.compile(r"\b(?:ENUM\(|(?:VARIANT|GEOMETRY)\b(?=$|[,)\[(]))")


class NoDeltaRule(Exception):
    """A part of a query that is not maintained by deltas; the message says which and why."""


@dataclass(slots=True)
class Stream:
    """A collection in the circuit, perhaps with linear steps still to be taken."""

    circuit: Circuit
    placed: Placed
    columns: tuple[L.Column, ...]  # of `placed`
    steps: list[L.Filter | L.Project | L.Unnest] = field(default_factory=list)
    _arrow: Schema | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.placed.op.schema):
            raise L.PlanError(f"{self.placed.op.name} does not have the columns {self.columns}")

    @property
    def arrow(self) -> Schema:
        """The Arrow types of `columns`, under the plan's names (two scans may share a source)."""
        if self._arrow is None:
            self._arrow = self.placed.op.schema.renamed([c.name for c in self.columns])
        return self._arrow

    @property
    def schema(self) -> tuple[L.Column, ...]:
        """The columns after all steps."""
        return self.steps[-1].schema if self.steps else self.columns


Lower = Callable[["ViewLowering", Any], Stream]
LOWER: dict[type[L.Node], Lower] = {}


def lowers(*kinds: type[L.Node]) -> Callable[[Lower], Lower]:
    """Register the function that lowers these kinds of node."""

    def register(function: Lower) -> Lower:
        for kind in kinds:
            LOWER[kind] = function
        return function

    return register


@dataclass(frozen=True, slots=True)
class TableInput:
    """A source of the circuit: which columns of which table or view (by its key) it takes."""

    key: str
    table: str
    taken: Taken
    node: Placed


class ViewLowering:
    """One plan on its way into a circuit."""

    def __init__(
        self,
        circuit: Circuit,
        run: Run,
        rows_prefix: str,
        wanted: Mapping[int, tuple[L.Column, ...]],
    ) -> None:
        self.run = run
        self.wanted = wanted
        """What of a join is read at all (see `prune.wanted`)."""
        self.shared = run.shared
        self.circuit = circuit
        self.rows_prefix = rows_prefix
        self.inputs: list[TableInput] = []
        self.contents = Filling()
        self.constants: list[tuple[Placed, str]] = []
        self.variables: dict[str, Stream] = {}
        self.entered: Any = None  # the loop being built, see lower_view_recursion
        self._streams: dict[tuple[int, int], Stream] = {}
        self._placed: dict[tuple[int, int], Stream] = {}
        self._arranged: dict[tuple[int, tuple[int, ...], bool], tuple[Arrange, Placed]] = {}
        self._kept: list[L.Node] = []
        self._keys = 0

    def __call__(self, node: L.Node) -> Stream:
        """The stream of a node; nodes that are reached twice are lowered once."""
        if self.entered is not None and not self.reads_variable(node):
            return self._from_outside(node)
        key = (id(node), id(self.circuit))
        found = self._streams.get(key)
        if found is None:
            rule = LOWER.get(type(node))
            if rule is None:
                raise NoDeltaRule(f"{type(node).__name__} has no delta rule")
            for c in node.schema:
                changed = _CHANGED.search(c.type)
                if changed is not None:
                    kind = changed[0].rstrip("(")
                    raise NoDeltaRule(f"{c.label} has {kind}, which Arrow does not carry unchanged")
            if (union := looked_into(node)) is not None:
                raise NoDeltaRule(f"{union.label} has UNION, whose NULLs of a member Arrow loses")
            found = self._streams[key] = rule(self, node)
            self._kept.append(node)
        return found

    def place(self, node: L.Node) -> Stream:
        """The stream of a node as an operator, all linear steps taken."""
        if self.entered is not None and not self.reads_variable(node):
            return self._from_outside(node)
        key = (id(node), id(self.circuit))
        found = self._placed.get(key)
        if found is None:
            found = self._placed[key] = self.flush(self(node))
            self._kept.append(node)
        return found

    def lowered(self, node: L.Node) -> bool:
        """Does somebody else read a node already?"""
        key = id(node), id(self.circuit)
        return key in self._streams or key in self._placed

    def fresh(self, what: str) -> str:
        """A name for a column that no other has."""
        self._keys += 1
        return f"__tw_{what}{self._keys}"

    def reads_variable(self, node: L.Node) -> bool:
        """Does a node depend on a variable of the loop being built?"""
        found = {n.variable for n in every(node) if isinstance(n, L.RecRef)} & self.variables.keys()
        return any(self.variables[name].circuit is self.circuit for name in found)

    def _from_outside(self, node: L.Node) -> Stream:
        """A collection that does not change in the loop: computed outside, brought in once."""
        inside, inner = self.entered, self.circuit
        self.circuit, self.entered = inside.outer, inside.parent
        try:
            outer = self.place(node)
        finally:
            self.circuit, self.entered = inner, inside
        return Stream(inner, inside.enter(outer.placed), outer.columns)

    def flush(self, stream: Stream) -> Stream:
        """Take the steps that wait, as one map; names alone need none."""
        if not stream.steps:
            return stream
        if all(_renames(step, below) for step, below in _each(stream)):
            return Stream(stream.circuit, stream.placed, stream.schema)
        stream = replace(stream, steps=fewer_steps(stream.steps))
        source = stream.arrow
        rewrites = []
        schema = source
        for step in stream.steps:
            done = self._structural(step, schema)
            if done is None:
                return self._kernel(stream)
            rewrite, schema = done
            rewrites.append(rewrite)
        name = " ".join(type(s).__name__.lower() for s in stream.steps)
        placed = stream.circuit.add(Map(schema, chain(rewrites), name), stream.placed)
        return self._mapped(stream, placed)

    def _mapped(self, stream: Stream, placed: Placed) -> Stream:
        """`stream` after its steps, which `placed` takes."""
        names = [c.name for c in stream.columns]
        self.contents.map(placed, stream.placed, names, stream.steps)
        return Stream(stream.circuit, placed, stream.schema)

    def _structural(self, step: L.Node, schema: Schema) -> tuple[Any, Schema] | None:
        if not statements().ordinary:
            return None
        if isinstance(step, L.Filter):
            predicate = compile_predicate(step.predicate, schema)
            if predicate is None:
                return None
            query = f"SELECT * FROM {INPUT} WHERE {to_sql(step.predicate)}"
            by_row = predicate_by_row(step.predicate, schema)
            return self._guarded(filtering(predicate, by_row), query, schema), schema
        if isinstance(step, L.Project):
            values = [compile_value(e.expr, schema) for e in step.exprs]
            if any(v is None for v in values):
                return None
            names = [e.column.name for e in step.exprs]
            at = [v for v in values if isinstance(v, int)]
            if len(at) == len(values):
                out = Schema(names, (schema.types[i] for i in at))
                return selecting(at, out), out
            return self._computed(step, schema, values)
        return None

    def _computed(
        self, step: L.Project, schema: Schema, values: Sequence[Any]
    ) -> tuple[Any, Schema] | None:
        """A projection with arithmetic."""
        exprs = ", ".join(written(e) for e in step.exprs)
        query = f"SELECT {exprs}, {WEIGHT} FROM {INPUT}"
        try:
            out = linear_schema(query, schema)
        except duckdb.Error:
            return None  # the kernel says so
        parts: list[Any] = []
        by_row: list[ByRow | None] = []
        for value, kind in zip(values, out.types, strict=True):
            if isinstance(value, int):
                parts.append(value)
                by_row.append(itemgetter(value))
                continue
            fixed = isinstance(value, Constant | Text | Truth | Lists)
            part = value.column(kind) if fixed else finished(value, kind)
            if part is None:
                return None
            parts.append(part)
            by_row.append(value.of_row if fixed else finished_row(value, kind))
        known = [f for f in by_row if f is not None]
        rows = known if len(known) == len(parts) else None
        texts = any(isinstance(value, Text | Truth) for value in values)
        return self._guarded(computing(parts, out, rows, texts), query, schema), out

    def _guarded(self, rewrite: Rewrite, query: str, source: Schema) -> Rewrite:
        """`rewrite`, and a kernel for what it leaves to DuckDB."""
        kernels: list[Rewrite] = []

        def guarded(delta: Delta) -> Delta:
            try:
                return rewrite(delta)
            except NeedsKernel:
                if not kernels:
                    kernels.append(linear_kernel(query, source)[0])
                return kernels[0](delta)

        return guarded

    def _kernel(self, stream: Stream) -> Stream:
        """All waiting steps as one statement."""
        query = stepped(INPUT, stream.steps, WEIGHT)
        rewrite, schema = self.bound(linear_kernel, query, stream.arrow)
        placed = stream.circuit.add(Map(schema, rewrite, "kernel"), stream.placed)
        placed.op.detail = query
        return self._mapped(stream, placed)

    def bound(
        self, make: Callable[[str, Schema], tuple[Any, Schema]], sql: str, source: Schema
    ) -> Any:
        """A kernel; NoDeltaRule where DuckDB does not bind it over Arrow."""
        try:
            return make(sql, source)
        except duckdb.InterruptException:
            raise  # that says nothing about the statement
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise NoDeltaRule(f"a part of it does not bind over deltas: {first}") from None

    def columns_for(self, stream: Stream, exprs: Sequence[exp.Expr]) -> tuple[Stream, list[int]]:
        """The stream with each expression among its columns, and their positions."""
        names = {c.name: i for i, c in enumerate(stream.schema)}
        added: list[L.Named] = []
        positions: list[int] = []
        for e in exprs:
            if isinstance(e, exp.Column):
                positions.append(names[e.name])
                continue
            name = self.fresh("key")
            positions.append(len(stream.schema) + len(added))
            added.append(L.Named(L.Column(name, name, ""), e))
        if not added:
            return self.flush(stream), positions
        return self.flush(extended(stream, [*unchanged(stream.schema), *added])), positions

    def arrange(
        self, stream: Stream, key: Sequence[int], null_keys: bool
    ) -> tuple[Arrange, Placed]:
        """The arrangement of a stream by some columns, made once."""
        found = (id(stream.placed), tuple(key), null_keys)
        if found not in self._arranged:
            name = "arrange by " + ", ".join(stream.schema[i].label for i in key)
            arrow, by = stream.arrow, tuple(key)
            shared = self._shared(
                stream, (by, null_keys), lambda: Arrangement(arrow, by, 0, name=name)
            )
            op = Arrange(stream.arrow, key, stream.circuit.depth, null_keys, name, shared)
            self._arranged[found] = (op, stream.circuit.add(op, stream.placed))
        return self._arranged[found]

    def arrange_points(
        self, stream: Stream, order: Order, key: Sequence[int] = (), padded: bool = False
    ) -> tuple[ArrangePoints, Placed]:
        """The arrangement of a stream in the order of a column, perhaps by a key."""
        arrow, depth = stream.arrow, stream.circuit.depth
        by = "".join(f" by {stream.schema[i].label}" for i in key)
        name = f"arrange{by} in order of {stream.schema[order.column].label}"
        how = ("in order of", order, tuple(key), padded)
        shared = self._shared(stream, how, lambda: points_of(arrow, order, 0, name, key))
        op = ArrangePoints(arrow, order, depth, name, shared, key, padded)
        return op, stream.circuit.add(op, stream.placed)

    def arrange_ranges(self, stream: Stream, ends: Ends) -> tuple[ArrangeRanges, Placed]:
        """The arrangement of a stream of ranges."""
        labels = " to ".join(stream.schema[i].label for i in ends.columns)
        op = ArrangeRanges(stream.arrow, ends, stream.circuit.depth, f"arrange ranges {labels}")
        return op, stream.circuit.add(op, stream.placed)

    def type_of(self, expression: exp.Expr, stream: Stream) -> str:
        """DuckDB's type of an expression over a stream."""
        if isinstance(expression, exp.Column):
            known = next(c.type for c in stream.schema if c.name == expression.name)
            if known:
                return known
        query = f"SELECT typeof({to_sql(expression)}) FROM (SELECT 1) LEFT JOIN {INPUT} ON false"
        evaluate, _ = self.bound(group_kernel, query, stream.arrow)
        return str(evaluate(Delta.empty(stream.arrow)).to_pylist()[0][0])

    def _shared(
        self, stream: Stream, how: Hashable, make: Callable[[], Arrangement]
    ) -> Shared | None:
        """Whole tables, arranged, are the same for all views."""
        source = next((i for i in self.inputs if i.node is stream.placed), None)
        if source is None or stream.circuit is not self.circuit:
            return None
        arrow = stream.arrow
        # two views may call a column by different names
        what = (source.key, source.taken.names, tuple(map(str, arrow.types)), how)
        return self.shared.get(what, self, make)


class _Any(L.Node):
    """Stands for the input of a step: steps name columns only."""


def extended(stream: Stream, exprs: Sequence[L.Named]) -> Stream:
    """A stream with one more projection to take."""
    source = _Any()
    source._set_schema(stream.schema)
    return Stream(
        stream.circuit,
        stream.placed,
        stream.columns,
        [*stream.steps, L.Project(source, tuple(exprs))],
    )


def _each(stream: Stream) -> Iterator[tuple[L.Node, tuple[L.Column, ...]]]:
    """The steps, each with the columns that it is taken on."""
    columns = stream.columns
    for step in stream.steps:
        yield step, columns
        columns = step.schema


def _renames(step: L.Node, columns: Sequence[L.Column]) -> bool:
    """Does a step give all columns that there are, in their order?"""
    if not isinstance(step, L.Project) or len(step.exprs) != len(columns):
        return False
    pairs = zip(step.exprs, columns, strict=True)
    return all(isinstance(e.expr, exp.Column) and e.expr.name == c.name for e, c in pairs)


def filtered(stream: Stream, predicate: exp.Expr | None) -> Stream:
    """A stream with one more filter to take."""
    if predicate is None:
        return stream
    source = _Any()
    source._set_schema(stream.schema)
    return Stream(
        stream.circuit, stream.placed, stream.columns, [*stream.steps, L.Filter(source, predicate)]
    )


def with_columns(low: ViewLowering, stream: Stream, schema: tuple[L.Column, ...]) -> Stream:
    """The stream with just the columns of `schema`."""
    if tuple(c.name for c in stream.schema) == tuple(c.name for c in schema):
        return stream
    return extended(stream, unchanged(schema))
