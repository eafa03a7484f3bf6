"""Calls into DuckDB from a frame without variables.

DuckDB looks for a table that the catalog lacks among the Python variables of the frame that calls
it. Here that frame holds nothing but names that no query has.
"""

from __future__ import annotations

from typing import Any

import duckdb

from ..engine.arrow import pa
from ..engine.kernels import duckdb as kernel
from ..planner.context import Parameters

_BIND = compile("__tw_r.append(__tw_c._bind(__tw_sql, with_writes=True))", "<statement>", "exec")


def execute(connection: duckdb.DuckDBPyConnection, sql: str, given: Parameters) -> list[Any]:
    """`connection.execute(sql, given).fetchall()`."""
    kernel.execute(connection, sql, given)
    return connection.fetchall()


def answer(connection: duckdb.DuckDBPyConnection, sql: str, given: Parameters) -> pa.Table:
    """The rows of a statement, under its own names: a relation lets no two be the same."""
    kernel.execute(connection, sql, given)
    return kernel.executed(connection)


def relation(
    connection: duckdb.DuckDBPyConnection, sql: str, given: Parameters
) -> duckdb.DuckDBPyRelation | None:
    """`connection.sql(sql, params=given)`."""
    return kernel.relation(connection, sql, params=given)


def bound(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]] | None:
    """Label and type of each column of a query; None for a statement that must run to tell.

    It takes a third of what DESCRIBE takes.
    """
    if not hasattr(connection, "_bind"):
        return None
    found: list[Any] = []
    exec(_BIND, {"__tw_c": connection, "__tw_sql": sql, "__tw_r": found})
    labels, types, _, kind, deferred, _ = found[0]
    if kind != "query_result" or deferred:
        return None
    return list(zip(labels, map(str, types), strict=True))


def describe(
    connection: duckdb.DuckDBPyConnection, sql: str, given: Parameters
) -> list[tuple[str, str]]:
    """Label and type of each column of a query, which does not run."""
    found = None if given else bound(connection, sql)
    if found is not None:
        return found
    described = relation(connection, f"DESCRIBE {sql}", given)
    return [] if described is None else [(row[0], row[1]) for row in described.fetchall()]
