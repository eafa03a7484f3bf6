"""How a new view's circuit gets its first rows.

What DuckDB can compute from one table alone, it computes, in one statement, in parallel: filters,
projections, distinct rows and the sums of groups. The circuit gets the rest: each source's rows go
to those of its readers that have no statement of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.shared import SharedArrangements
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.text import defined, identifier, to_sql
from tidewheel.planner.view_sums import Run, Sums, columns, groups_alike


def stepped(query: str, steps: Sequence[L.Filter | L.Project | L.Unnest], last: str = "") -> str:
    """`query` with linear steps on top; `last` is a column that stays the last one."""
    for step in steps:
        if isinstance(step, L.Filter):
            query = f"SELECT * FROM ({query}) WHERE {to_sql(step.predicate)}"
            continue
        exprs = ", ".join([*(to_sql(defined(e)) for e in step.exprs), *filter(None, [last])])
        if isinstance(step, L.Unnest):
            kept = f"* EXCLUDE ({last})" if last else "*"
            exprs = f"{kept}, {exprs}"
        query = f"SELECT {exprs} FROM ({query})"
    return query


MANY: Final = 100_000
FEWER: Final = 8


class Contents:
    """Statements that compute what an operator gives, or gets, from one table."""

    def __init__(self) -> None:
        self._gives: dict[Node, str] = {}
        self._gets: dict[Node, Callable[[Run], Delta | None]] = {}
        self._tables: set[Node] = set()

    def table(self, node: Node, names: Sequence[str], table: str, stored: bool) -> None:
        """A source gives these columns of a table; is it `stored`, so that all sessions have it?"""
        listed = ", ".join(to_sql(identifier(c)) for c in names)
        self._gives[node] = f"SELECT {listed} FROM {table}"
        if stored:
            self._tables.add(node)

    def map(
        self,
        node: Node,
        source: Node,
        names: Sequence[str],
        steps: Sequence[L.Filter | L.Project | L.Unnest],
    ) -> None:
        """A map takes `steps` after `source`, whose columns they call `names`."""
        given = self._gives.get(source)
        if given is not None:
            self._gives[node] = stepped(_named(given, names), steps)

    def sums(self, node: Node, source: Node, names: Sequence[str]) -> None:
        """An `Accumulate` gets the rows of `source`: their sums do."""
        given, op = self._gives.get(source), node.op
        assert isinstance(op, Accumulate)
        if given is not None and Sums.possible(op, source.op.schema.types):
            self._gets[node] = Sums(op, _named(given, names), names)

    def counted(self, node: Node, source: Node) -> None:
        """An operator gets each row of `source` once, with how often it is there."""
        given, schema = self._gives.get(source), source.op.schema
        if given is None or not all(map(groups_alike, schema.types)):
            return
        query = f"SELECT *, count(*) FROM ({given}) GROUP BY ALL"

        def rows(run: Run) -> Delta:
            table = run(query)
            return Delta(schema, columns(table, schema), table.columns[-1].to_numpy())

        self._gets[node] = rows

    def fill(self, circuit: Circuit, source: Node, run: Run) -> int | None:
        """Hand the readers of a source what they get; how many rows it has, if that is known."""
        rest = []
        for reader, port, _ in source.readers[0]:
            if reader in self._gives:
                self.fill(circuit, reader, run)
                continue
            delta = self._gets[reader](run) if reader in self._gets else None
            if delta is None:
                rest.append((reader, port))
            elif len(delta):
                circuit.push(reader, delta)
        if not rest:
            return None
        rows = as_delta(run(self._gives[source]), source.op.schema)
        source.rows_out += len(rows)
        for reader, port in rest if len(rows) else ():
            circuit.push(reader, rows, port=port)
        return len(rows)

    def table_of(self, node: Node) -> Node | None:
        """The source of the one stored table that gives all that `node` gives."""
        while node in self._gives and node not in self._tables and node.inputs:
            node = node.inputs[0].node
        return node if node in self._tables else None

    def collect(self, node: Node, read: Run) -> Delta:
        """What `node` gives, from the rows that its table has now."""
        if node in self._tables:
            return as_delta(read(self._gives[node]), node.op.schema)
        emitted = node.op.step((), [self.collect(node.inputs[0].node, read)])
        return emitted[0][2] if emitted else Delta.empty(node.op.schema)


def put_off(
    circuit: Circuit, contents: Contents, rows: Mapping[Node, int], registry: SharedArrangements
) -> None:
    """Leave out the state by which only a change of a much smaller table finds its partners.

    `rows`: those of the tables behind the sources. A join of many facts with few of something else
    keeps the few; should one of these change, the many are read from their table, and kept then.
    """
    for node in circuit.nodes:
        if node is None or not isinstance(node.op, Arrange):
            continue
        source = contents.table_of(node.inputs[0].node)
        if source is None or rows[source] < MANY:
            continue
        others = [_other(reader, port) for reader, port, _ in node.readers[0]]
        behind = {s for o in others if o is not None for s in _sources(o)}
        few = all(contents.table_of(s) and rows[s] * FEWER <= rows[source] for s in behind)
        if few and None not in others:
            node.op.wait(registry, partial(contents.collect, node.inputs[0].node))


def _other(join: Node, port: int) -> Node | None:
    """The other side of a join; None for other operators."""
    return join.inputs[1 - port].node if isinstance(join.op, Join) else None


def _sources(node: Node) -> set[Node]:
    if not node.inputs:
        return {node}
    return {s for wire in node.inputs for s in _sources(wire.node)}


def as_delta(table: pa.Table, schema: Schema) -> Delta:
    """Every row once; columns by position."""
    return Delta(schema, columns(table, schema), np.ones(table.num_rows, np.int64))


def _named(query: str, names: Sequence[str]) -> str:
    return f"SELECT * FROM ({query}) AS t({', '.join(to_sql(identifier(n)) for n in names)})"
