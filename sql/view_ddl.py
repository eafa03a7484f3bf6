"""DDL on what maintained views read: it must leave them able to go on, or it is undone.

A view whose input was altered is made anew at the commit; its subscribers get the difference as a
part of that epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import empty, pa

from . import errors
from .capture import quote
from .reads import Names
from .statements import Statement, tokens

if TYPE_CHECKING:
    from .views import Views


def run(views: Views, statement: Statement, ddl: Callable[[], Any]) -> Any:
    """Run DDL with `ddl`; the result of that."""
    keys = affected(views, statement)
    views.database.catalog_version += 1
    if not keys:
        return ddl()
    words = {t.text.upper() for t in tokens(statement.text)}
    with views.writing(), views.implicitly():
        views.recover()
        try:
            if statement.words[0] == "DROP" and "CASCADE" in words:
                for key in reversed(keys):
                    views.drop_one(key)
                return ddl()
            before = _schemas(views, keys)
            result = ddl()
            _check(views, statement, keys, before)
        except errors.Error:
            if views.host.in_transaction:
                # What DuckDB has done already must not be committed.
                with suppress(duckdb.Error):
                    views.host.connection.execute("SELECT error('undone')").fetchall()
            raise
        views.make_anew(keys)
        return result


def affected(views: Views, statement: Statement) -> list[str]:
    """The views that read a table or view that DDL names, or lie in a schema that it drops."""
    registry = views.registry
    if not registry.views:
        return []
    words = {t.text.strip('"').lower() for t in tokens(statement.text)}
    schema = "SCHEMA" in statement.words[1:4]

    def named(key: str) -> bool:
        return key.split(".", 2)[1 if schema else 2] in words

    read = {key for view in registry.views.values() for key in view.reads if named(key)}
    reached = set(registry.readers(read))
    if schema:
        within = [key for key in registry.views if named(key)]
        reached |= {*within, *registry.readers(within)}
    plain = {v.key for v in registry.views.values() if v.plain and not schema}
    return [v.key for v in registry.ordered() if v.key in reached - plain]


def _schemas(views: Views, keys: list[str]) -> dict[str, pa.Schema]:
    """The columns that the views' queries give now. `keys`: inputs first."""
    found: dict[str, pa.Schema] = {}

    def schema(key: str) -> pa.Schema:
        if key not in found:
            view = views.registry.views[key]
            for other in views.needed(view.sql):
                if other != key:
                    views.stand_in(other, empty(schema(other)))
            with views.at(view.home):
                found[key] = views.host.table(f"SELECT * FROM ({view.sql}\n) LIMIT 0").schema
        return found[key]

    return {key: schema(key) for key in keys}


def _check(
    views: Views, statement: Statement, keys: list[str], before: dict[str, pa.Schema]
) -> None:
    """Can the views go on, with the columns that they had? More columns are left out."""
    names = Names(views.host.connection)
    for key in keys:
        view = views.registry.views[key]
        try:
            keys_now = frozenset(views.registry.views)
            if not view.reads <= frozenset(names.at(view.home.path).reads(view.sql, keys_now)):
                raise refusal(statement, keys)
            after = _schemas(views, [key])[key]
        except (errors.Error, duckdb.Error):
            raise refusal(statement, keys) from None
        if after == before[key]:
            continue
        for old in before[key]:
            if after.names.count(old.name) != 1:
                raise refusal(statement, [key], f"it would lose column {old.name}")
            if after.field(old.name).type != old.type:
                raise refusal(statement, [key], f"column {old.name} would have another type")
        columns = ", ".join(map(quote, before[key].names))
        views.rewrite(key, f"SELECT {columns} FROM ({view.sql}\n)")


def refusal(statement: Statement, keys: list[str], why: str | None = None) -> errors.Error:
    """The error for DDL that views stand against."""
    names = ", ".join(k.split(".", 1)[1] for k in keys)
    reason = f" ({why})" if why else ""
    drop = statement.words[0] == "DROP"
    return errors.ProgrammingError(
        f"maintained views read what this statement changes: {names}{reason}",
        hint="drop those views first" + (", or use DROP … CASCADE" if drop else ""),
        text=statement.script,
        position=statement.start,
        length=len(statement.words[0]),
    )
