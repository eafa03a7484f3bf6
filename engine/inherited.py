"""DuckDB's connections in a forked child: they are never ended there.

Whoever ends the last one to a database waits for its threads, which a child does not have: with
glibc 2.43 it waits for ever, with older ones it crashes. So they stay, to the end of the process.
"""

from __future__ import annotations

import gc
import os
from typing import Final

import duckdb

_inherited: Final[list[duckdb.DuckDBPyConnection]] = []


def close(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection, unless it is one that this process was forked with."""
    if all(other is not connection for other in _inherited):
        connection.close()


def _in_child() -> None:
    import ctypes

    for found in gc.get_objects():
        if type(found) is duckdb.DuckDBPyConnection:
            _inherited.append(found)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))  # also at Python's end


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
