"""Rows of an Arrow table, inserted in autocommit mode by `INSERT INTO t FROM frame`.

Few rows, of the types of the table's columns, are known before DuckDB has them, and go through the
views first, like a single one (`row_insert`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.engine.arrow import pa
from tidewheel.engine.state import columns
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.rowwise import all_rows
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.key_indexes import index_of
from tidewheel.sql.write_behind import MOST

if TYPE_CHECKING:
    from tidewheel.sql.view_epochs import Epochs


def insert(
    views: Epochs, key: str, info: TableInfo, rows: pa.Table, once: Callable[[], object]
) -> int | None:
    """Insert rows, column by column, into a table that views read; how many there were.

    None: nothing is done, run the statement as written. `once` runs it as a whole.
    """
    if info.layout is None or not 0 < rows.num_rows <= MOST:
        return None
    if rows.schema.types != list(info.layout.types) or not views.registry.incremental(key):
        return None
    rules = views.rules(key, info)
    if rules is None:
        return None
    delta = Delta.from_arrow(rows, 1, info.layout)
    if any(columns.is_null(delta.cols[i]) is not None for i in rules.required):
        return None
    write: Callable[[], object] = once
    if rules.in_memory and views.database.private:
        index = index_of(views, key, info, rules) if rules.key else None
        if not rules.key or (index is not None and index.takes(delta.cols, len(delta))):
            new = all_rows(info.layout.kinds, delta.cols)
            write = partial(views.behind.insert, info, rules.key, new, once)
    done = views.step_ahead(key, Change.of(delta, info.columns), write)
    return len(delta) if done else None
