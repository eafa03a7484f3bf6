"""Queries by operators, and as maintained views under random edits, against DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import duckdb

import tidewheel


def rows(con: tidewheel.Connection | duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """The rows of a query, as a bag."""
    return sorted(map(repr, con.execute(query).fetchall()))


def like_duckdb(
    setup: Sequence[str],
    queries: Sequence[str],
    edit: Callable[[random.Random], str],
    drawn: random.Random,
    steps: int,
    last: Sequence[str] = (),
) -> None:
    """Run `queries` after `setup`, then keep them while `steps` edits and the `last` ones go on."""
    theirs = duckdb.connect()
    with tidewheel.connect() as con:
        for statement in setup:
            con.execute(statement)
            theirs.execute(statement)
        con.execute("SET fusion = off")
        for query in queries:
            assert rows(con, query) == rows(theirs, query), query
        con.execute("RESET fusion")
        for i, query in enumerate(queries):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for change in (*(edit(drawn) for _ in range(steps)), *last):
            con.execute(change)
            theirs.execute(change)
            for i, query in enumerate(queries):
                assert rows(con, f"FROM v{i}") == rows(theirs, query), (query, change)
