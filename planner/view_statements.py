"""Statements over a view's tables, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import hugeints, numbers
from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.quoting import quoted
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, Schema, consolidate
from tidewheel.engine.state.order import begins
from tidewheel.engine.state.sorting import tallied
from tidewheel.engine.state.table_columns import table_columns
from tidewheel.engine.type_names import sql_name
from tidewheel.planner import logical as L
from tidewheel.planner.text import OWN, to_sql, written
from tidewheel.planner.view_sums import columns

COUNT: Final = "__tw_count"


def stepped(source: str, steps: Sequence[L.Filter | L.Project | L.Unnest], last: str = "") -> str:
    """Linear steps on top of what stands behind FROM; `last` is a column that stays the last one.

    (Few SELECTs in each other are planned sooner than many.)
    """
    where, made = "", False
    for step in steps:
        if isinstance(step, L.Filter):
            if where:
                source = f"(SELECT * FROM {source}{where})"
            where, made = f" WHERE {to_sql(step.predicate)}", False
            continue
        exprs = ", ".join([*(written(e) for e in step.exprs), *filter(None, [last])])
        if isinstance(step, L.Unnest):
            kept = f"* EXCLUDE ({last})" if last else "*"
            exprs = f"{kept}, {exprs}"
        source, where, made = f"(SELECT {exprs} FROM {source}{where})", "", True
    return source[1:-1] if made else f"SELECT * FROM {source}{where}"


def as_delta(table: pa.Table, schema: Schema) -> Delta:
    """Every row once; columns by position."""
    return Delta(schema, _columns(table, schema), np.ones(table.num_rows, np.int64))


def grouped(run: Callable[[str], pa.Table], query: str, schema: Schema) -> Delta:
    """Each row of a query once, with how often it is there."""
    return counted(run(counting(query)), schema)


def counting(query: str) -> str:
    """Each row of a query once, and behind it how often it is there, as `COUNT`."""
    return f"SELECT *, {OWN}count(*) AS {COUNT} FROM ({query}) GROUP BY ALL"


def counted(table: pa.Table, schema: Schema, counts: int = 1) -> Delta:
    """Rows, and behind their columns how often each is there (see `counting`)."""
    cols = _columns(table.select(range(len(schema))), schema)
    if counts == 1:
        return Delta(schema, cols, numbers(table.columns[-1]))
    return Delta(schema, cols, np.stack([numbers(c) for c in table.columns[-counts:]], axis=1))


def _columns(table: pa.Table, schema: Schema) -> Sequence[Col]:
    if not len(schema):  # of rows without columns a query gives something
        return []
    return table_columns(table, schema.types) or columns(table, schema)


def each_once(table: pa.Table, schema: Schema) -> Delta:
    """Rows of one integer: each once, with how often it is there.

    A table may well be in their order.
    """
    (col,) = columns(table, schema)
    if not isinstance(col, np.ndarray):
        return consolidate(as_delta(table, schema))
    counted = None if col.dtype == np.uint64 else tallied(col.astype(np.int64, copy=False))
    if counted is not None:
        return Delta(schema, [counted[0].astype(col.dtype, copy=False)], counted[1])
    ordered = col if (col[1:] >= col[:-1]).all() else np.sort(col)
    starts = begins(ordered).nonzero()[0]
    counts = np.empty(len(starts), np.int64)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1])
    counts[-1:] = len(ordered) - starts[-1:]
    return Delta(schema, [ordered[starts]], counts)


def named(query: str, names: Sequence[str]) -> str:
    """`query` with other names for its columns."""
    return f"SELECT * FROM {item(query, names)}"


def item(query: str, names: Sequence[str]) -> str:
    """`query` with other names for its columns, to be read in FROM."""
    return f"({query}) AS t({', '.join(map(quoted, names))})"


def row_of(delta: Delta) -> str:
    """The only row of a delta, of numbers and truth values, as a query."""
    values = []
    for kind, col in zip(delta.schema.kinds, delta.cols, strict=True):
        array = kind.dump(col)
        value = (hugeints(array.storage.to_pylist()) if kind.wide else array.to_pylist())[0]
        text = "NULL" if value is None else f"'{value}'"
        values.append(f"{text}::{sql_name(kind.arrow)}")
    return f"SELECT {', '.join(values)}"


def sources(*nodes: Node) -> set[Node]:
    """The inputs of the circuit from which `nodes` come."""
    return {node for node in behind(*nodes) if not node.inputs}


def behind(*nodes: Node) -> set[Node]:
    """`nodes`, and all from which they come."""
    seen: set[Node] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += (wire.node for wire in node.inputs)
    return seen


def sought_alike(kind: pa.DataType) -> bool:
    """Are values of a type, given to DuckDB, equal to those of its tables that operators find?"""
    of = pa.types
    alike = (of.is_integer, of.is_string, of.is_date32, of.is_timestamp)
    return isinstance(kind, pa.Bool8Type) or any(is_(kind) for is_ in alike)
