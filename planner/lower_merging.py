"""The best row of each group of a recursion, as DuckDB orders values."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.kernels.connection import KernelConnection, Repeated
from tidewheel.engine.kernels.duckdb import input_name
from tidewheel.engine.operators.merging import (
    CHOOSE,
    COMBINE,
    GROUP,
    ROW,
    Merge,
    merged_by_sorting,
    sortable,
)
from tidewheel.planner.fuse import handoff
from tidewheel.planner.logical import Binding, Column
from tidewheel.planner.text import identifier, to_sql


def merging(binding: Binding, connection: KernelConnection) -> Merge | None:
    """How rows of a group become one; None for a variable that does not group."""
    if binding.kind != "improve":
        return None
    repeated = Repeated(connection, _statement(binding))

    def merge(rows: pa.Table) -> pa.Table:
        if sortable(rows.schema, binding.merge):  # a statement takes a hundred times as long
            return merged_by_sorting(rows, binding.merge)
        return repeated({input_name(0): rows})

    return merge


def _statement(binding: Binding) -> str:
    items = []
    for column, how in zip(binding.columns, binding.merge, strict=True):
        name = to_sql(identifier(column.name))
        if how in CHOOSE:
            best = f"arg_{CHOOSE[how]}({ROW}, {name} ORDER BY {ROW})"
            item = f"coalesce({best}, min({ROW}))"  # (none is the best of NULLs)
        elif how in COMBINE:
            item = f"CAST({how}({name}) AS {column.type})"
        else:
            item = "NULL"
        items.append(f"{item} AS {name}")
    numbers = (Column(n, n, "BIGINT") for n in (GROUP, ROW))
    rows = to_sql(exp.select("*").from_(handoff(input_name(0), (*binding.columns, *numbers))))
    return f"SELECT {', '.join(items)}, {GROUP} FROM ({rows}) GROUP BY {GROUP}"
