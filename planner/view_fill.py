"""How a new view's circuit gets its first rows.

What DuckDB can compute from one table alone, it computes, in one statement, in parallel: filters,
projections, distinct rows and the sums of groups. The circuit gets the rest: each source's rows go
to those of its readers that have no statement of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Circuit, Node
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


class Contents:
    """Statements that compute what an operator gives, or gets, from one table."""

    def __init__(self) -> None:
        self._gives: dict[Node, str] = {}
        self._gets: dict[Node, Callable[[Run], Delta | None]] = {}

    def table(self, node: Node, names: Sequence[str], table: str) -> None:
        """A source gives these columns of a table."""
        listed = ", ".join(to_sql(identifier(c)) for c in names)
        self._gives[node] = f"SELECT {listed} FROM {table}"

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


def as_delta(table: pa.Table, schema: Schema) -> Delta:
    """Every row once; columns by position."""
    return Delta(schema, columns(table, schema), np.ones(table.num_rows, np.int64))


def _named(query: str, names: Sequence[str]) -> str:
    return f"SELECT * FROM ({query}) AS t({', '.join(to_sql(identifier(n)) for n in names)})"
