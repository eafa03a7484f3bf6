"""Which tables have their rows by primary key in an index of ours: those that it is worth it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import table_of
from tidewheel.engine.quoting import quoted
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.key_index import KeyIndex
from tidewheel.engine.state.memory import free
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.row_rules import Rules

if TYPE_CHECKING:
    from tidewheel.sql.view_rows import RowEpochs

_WORTH = 500_000
"""Rows that are read into an index for each statement that has asked for it: 10 ms, where it saves
such a statement 0.2 to 1.5."""
_SHARE = 8
"""An index takes no more than this part of the memory that is free."""
_TOO_MANY = sys.maxsize
"""Rows of a table that takes more: nobody asks often enough for that."""


def index_of(views: RowEpochs, key: str, info: TableInfo, rules: Rules) -> KeyIndex | None:
    """The index of a table; None while too few have asked for it."""
    indexes = views.registry.indexes
    version = views.state_of_tables
    found = indexes.get(key)
    if found is not None and found.version == version:
        return found
    connection = views.host.connection
    known, asked, rows = views.asked.get(key, (None, 0, 0))
    if known != version:
        asked, rows = 0, 0
    if rows <= asked * _WORTH:  # it may have more by now
        rows = connection.execute(f"SELECT count(*) FROM {info.name}").fetchall()[0][0]
    views.asked[key] = version, asked + 1, rows
    if rows > asked * _WORTH:
        return None
    room = free()
    if room is not None and (rows * _width(info) + _text(connection, info)) * _SHARE > room:
        views.asked[key] = version, 0, _TOO_MANY  # to count its text again takes time, too
        return None
    delta = Delta.from_arrow(table_of(connection, f"FROM {info.name}"), 1, info.known)
    index = KeyIndex(info.columns, info.known, rules.key, version)
    index.fill(delta)
    indexes[key] = index
    views.asked[key] = version, 0, rows
    return index


def _width(info: TableInfo) -> int:
    """Bytes that a row takes in an index, but for its text."""
    return 8 * (len(info.columns) + 3)


def _text(connection: duckdb.DuckDBPyConnection, info: TableInfo) -> int:
    """Bytes of all the text in a table."""
    types = zip(info.columns, info.known.types, strict=True)
    names = [name for name, kind in types if pa.types.is_string(kind)]
    if not names:
        return 0
    sums = " + ".join(f"coalesce(sum(strlen({quoted(name)})), 0)" for name in names)
    return int(connection.execute(f"SELECT {sums} FROM {info.name}").fetchall()[0][0])
