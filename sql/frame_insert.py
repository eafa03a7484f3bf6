"""Rows of an Arrow table, inserted in autocommit mode.

`INSERT INTO t FROM frame`, `Connection.append` and `executemany` do that.

Few rows, of the types of the table's columns, are known before DuckDB has them, and go through the
views first, like a single one (`row_insert`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidewheel.engine.arrow import pa
from tidewheel.engine.state import columns
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.rowwise import all_rows
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.key_indexes import index_of
from tidewheel.sql.write_behind import MOST

if TYPE_CHECKING:
    from tidewheel.sql.view_rows import RowEpochs


def insert(
    views: RowEpochs,
    key: str,
    info: TableInfo,
    rows: pa.Table,
    once: Callable[[], object] | None,
    named: bool = False,
) -> int | None:
    """Insert rows into a table that views read; how many there were.

    Column by column, or, `named`, by the columns' names. None: nothing is done. `once` runs the
    statement as it is, where it is one.
    """
    if info.layout is None or not 0 < rows.num_rows <= MOST:
        return None
    if (once is None and not views.database.private) or not views.registry.incremental(key):
        return None
    rules = views.rules(key, info)
    given = None if rules is None else _fitting(rows, info, named)
    if rules is None or given is None:
        return None
    delta = Delta.from_arrow(given, 1, info.layout)
    if any(columns.is_null(delta.cols[i]) is not None for i in rules.required):
        return None
    write = once
    if rules.may_wait:
        index = index_of(views, key, info, rules) if rules.key else None
        if not rules.key or (index is not None and index.takes(delta.cols, len(delta))):
            try:
                new = all_rows(info.layout.kinds, delta.cols)
            except UnicodeDecodeError:
                return None  # DuckDB says which text is none
            # not the statement: when that ran, other values might lie where the frame's are
            write = partial(views.behind.insert, info, rules.key, new, None)
    if write is None:
        return None
    done = views.step_ahead(key, Change.of(delta, info.columns), write)
    return len(delta) if done else None


def _fitting(rows: pa.Table, info: TableInfo, named: bool) -> pa.Table | None:
    """The rows in the order and of the types of the table's columns; None if they do not fit.

    They are copies: a frame may lie over arrays into which the caller writes the next rows.
    """
    layout = info.known
    if rows.num_columns != len(layout):
        return None
    if named:
        place = {name.lower(): i for i, name in enumerate(rows.column_names)}
        order = [place.get(name.lower()) for name in info.columns]
        if None in order or len(place) < len(order):
            return None
        rows = rows.select(order)
    arrays = []
    for column, kind in zip(rows.columns, layout.types, strict=True):
        t = pa.types
        if column.type == kind:
            arrays.append(column)
        elif t.is_null(column.type) or (t.is_integer(column.type) and t.is_integer(kind)):
            try:
                arrays.append(column.cast(kind))
            except pa.ArrowInvalid:  # an integer that does not fit
                return None
        else:
            return None
    every = np.arange(rows.num_rows)
    return pa.table([a.take(every) for a in arrays], names=list(layout.names))
