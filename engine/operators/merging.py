"""Which row of each group of a recursion is the best one, and what the rows make together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers, pc
from tidewheel.engine.state.order import begins

GROUP: Final = "__tw_group"
ROW: Final = "__tw_row"
"""Columns of what a `Merge` reads, behind those of the rows: a group's number, and a row's."""

Merge = Callable[[pa.Table], pa.Table]
"""Of some rows a row per group, with its number: of a value that is chosen, the number of the row
that has it, the first one of those that are as good; of one that is combined, the value."""

CHOOSE: Final = {"min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}
"""Merging that takes the value of one of the rows, and which. NULL is the worst."""
COMBINE: Final = ("bit_or", "bit_and")
"""Merging that makes a new value."""


def sortable(schema: pa.Schema, how: Sequence[str | None]) -> bool:
    """Are values only chosen, of types that Arrow orders as DuckDB does?"""
    t = pa.types
    return all(
        which in CHOOSE
        and (
            t.is_string(kind)
            or t.is_integer(kind)
            or t.is_decimal128(kind)
            or t.is_date(kind)
            or t.is_time(kind)
            or t.is_timestamp(kind)
        )
        for kind, which in zip(schema.types, how, strict=False)
        if which is not None and not which.startswith("arg_")
    )


def merged_by_sorting(rows: pa.Table, how: Sequence[str | None]) -> pa.Table:
    """A `Merge` of what is `sortable`."""
    group = numbers(rows.column(GROUP))
    columns: list[pa.Array] = []
    for name, which in zip(rows.column_names, how, strict=False):
        if which not in CHOOSE:
            columns.append(pa.nulls(int(group.max()) + 1))
            continue
        direction = "ascending" if CHOOSE[which] == "min" else "descending"
        keys: Any = [(GROUP, "ascending"), (name, direction), (ROW, "ascending")]
        order = numbers(pc.sort_indices(rows, sort_keys=keys)).astype(np.int64)
        columns.append(array_of(order[begins(group[order])]))
    columns.append(array_of(np.unique(group)))
    return pa.Table.from_arrays(columns, [*rows.column_names[: len(how)], GROUP])
