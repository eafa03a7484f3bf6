"""Maintained views that the catalog has and the session has not: those of attached databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from ..engine.quoting import quoted
from . import errors
from .reads import ROWS, Names, Relation
from .view_past import Past
from .view_registry import SCHEMA, kept_in, row_name

if TYPE_CHECKING:
    from .statements import Statement
    from .view_registry import Registry


def is_one(view: Relation | None, names: Names) -> bool:
    """Is it a view over rows that are registered? (Not asked of the session's own.)"""
    if view is None or view.kind != "view" or view.name.startswith(ROWS):
        return False
    return ROWS in names.sql(view)


def error(connection: duckdb.DuckDBPyConnection, view: Relation, names: Names) -> errors.Error:
    """What is said of it."""
    if _has_query(connection, view, names):
        return errors.NotSupportedError(
            f"{view.key} is maintained by whoever opens {view.database} as a database of its own",
            hint=f"open it by itself, or run the view's query on the tables of {view.database}",
        )
    return errors.NotSupportedError(  # COPY FROM DATABASE … (SCHEMA) leaves the queries behind
        f"{view.key} was copied without its query, and is not maintained",
        hint=f"DROP VIEW {view.quoted}, and create it again",
    )


def changed(key: str, statement: Statement, position: int, length: int) -> errors.Error:
    """What is said of a view of the session's own that others have changed."""
    return errors.OperationalError(
        f"another transaction has dropped, renamed or replaced {key.partition('.')[2]} "
        "since this one began",
        hint="end this transaction: the next one sees what there is now",
        text=statement.script,
        position=position,
        length=length,
    )


def _has_query(connection: duckdb.DuckDBPyConnection, view: Relation, names: Names) -> bool:
    if names.find([view.database, SCHEMA, "views"]) is None:
        return False
    tokens = connection.execute(f"SELECT token FROM {kept_in(view.database)}").fetchall()
    return any(quoted(row_name(token)) in names.sql(view) for (token,) in tokens)


def refuse(
    registry: Registry, relation: Relation | None, statement: Statement, position: int
) -> None:
    """An error if what a statement names at `position` is one."""
    if relation is None or relation.key in registry.registry.views:
        return
    if isinstance(registry, Past) and registry.changed_by_others([relation.key]) is not None:
        raise changed(relation.key, statement, position, len(relation.name))
    names = Names(registry.host.connection)
    if is_one(relation, names):
        found = error(registry.host.connection, relation, names)
        found.replace(statement.script, position, len(relation.name))
        raise found
