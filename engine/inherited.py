"""DuckDB's connections in a forked child: they are never ended there.

Whoever ends the last one to a database waits for its threads, which a child does not have: with
glibc 2.43 it waits for ever, with older ones it crashes. So they stay, to the end of the process.
One of each database is enough. (To look for them among all objects would copy the pages that these
are in, which parent and child share, and pass over those that `gc.freeze` put aside.)
"""

from __future__ import annotations

import os
from typing import Final
from weakref import WeakSet

import duckdb

_own: Final[WeakSet[duckdb.DuckDBPyConnection]] = WeakSet()
_inherited: Final[list[duckdb.DuckDBPyConnection]] = []


def kept_in_child(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The first connection to a database, which children of this process are to leave as it is."""
    _own.add(connection)
    return connection


def close(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection, unless it is one that this process was forked with."""
    if all(other is not connection for other in _inherited):
        connection.close()


def _in_child() -> None:
    import ctypes

    for connection in list(_own):
        _inherited.append(connection)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # also at Python's end
    _own.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
