"""DDL on what maintained views read: it must leave them able to go on, or it is undone.

A view whose input was altered is made anew at the commit; its subscribers get the difference as a
part of that epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import empty, pa
from tidewheel.engine.quoting import key_of, parts_of_key, quoted

from . import errors, functions
from .reads import Names
from .statements import BEFORE_KIND, Statement, makes_temporary, tokens, writing_cte
from .unstable import rowid, unstable_call
from .view_text import is_name, unquoted

if TYPE_CHECKING:
    from .views import Views


class _Lost(Exception):
    """A view can't be read after DROP … CASCADE, for some reason."""

    def __init__(self, key: str, why: str = "") -> None:
        self.key = key
        self.why = why


def run(views: Views, statement: Statement, ddl: Callable[[], Any]) -> Any:
    """Run DDL with `ddl`; the result of that."""
    keys = affected(views, statement)
    views.database.catalog_version += 1
    words = {t.text.upper() for t in tokens(statement.text)}
    cascades = statement.words[0] == "DROP" and "CASCADE" in words
    cascades = cascades and bool(views.registry.views)
    if not (keys or cascades) or _is_temporary(views, statement):
        return ddl()
    with views.writing():
        alone = not views.host.in_transaction
        lost: list[str] = []
        while True:
            try:
                return _run(views, statement, ddl, keys, cascades, lost)
            except _Lost as found:
                # that a view can't be read ends DuckDB's transaction: again, without the view
                if not alone:
                    raise refusal(statement, [found.key], found.why, cascades=True) from None
                lost.append(found.key)


def _run(
    views: Views,
    statement: Statement,
    ddl: Callable[[], Any],
    keys: list[str],
    cascades: bool,
    lost: list[str],
) -> Any:
    """`run` under the write lock, without the views that are `lost`."""
    with views.implicitly():
        views.recover()
        try:
            behind = _relations_behind(views) if cascades else {}
            _drop(views, _with_readers(views, lost))
            whole = cascades and _behind(statement) is None
            left = keys
            if whole:
                _drop(views, keys)
                # a schema may have macros and types that views of other schemas read
                schema = "SCHEMA" in statement.words[1:4]
                left = [v.key for v in views.registry.ordered() if schema and not v.plain]
            with views.stand_ins():  # (a table may be made of a view's rows)
                before = _schemas_that_bind(views, _there(views, left))
            result = ddl()
            views.database.catalog_version += 1
            if cascades:
                _drop(views, _bereft(views, behind))
            left = _there(views, left)
            if whole:
                _check_bound(views, [key for key in left if key in before])
                return result
            _check(views, statement, left, before, cascades)
        except (errors.Error, duckdb.Error, _Lost) as error:
            functions.changed()  # what was read of them in the meantime is undone
            views.host.catalog_changed()
            if views.host.in_transaction:
                # What DuckDB has done already must not be committed.
                with suppress(duckdb.Error):
                    views.host.connection.execute("SELECT error('undone')").fetchall()
            clearer = _across(statement, keys, error)
            if clearer is None:
                raise
            raise clearer from None
        views.make_anew(left)
        return result


def _there(views: Views, keys: list[str]) -> list[str]:
    return [key for key in keys if key in views.registry.views]


def _with_readers(views: Views, keys: list[str]) -> list[str]:
    """Views and the maintained ones that read them, inputs first."""
    reached = {*keys, *views.registry.readers(keys)}
    return [v.key for v in views.registry.ordered() if v.key in reached and not v.plain]


def _drop(views: Views, keys: list[str]) -> None:
    """Drop views, given inputs first."""
    for key in reversed(keys):
        views.drop_one(key)


def _check_bound(views: Views, keys: list[str]) -> None:
    for key in keys:
        try:
            _schemas(views, [key])
        except (errors.Error, duckdb.Error):
            raise _Lost(key) from None


def _relations_behind(views: Views) -> dict[str, frozenset[str]]:
    """By view, the tables and plain views that there are now of those that it depends on."""
    names = Names(views.host.connection)
    there = {relation.key for relation in names.relations}
    found: dict[str, frozenset[str]] = {}
    for view in views.registry.views.values():
        plain = names.at(view.home.path).views(view.sql)
        found[view.key] = frozenset(there & {*view.reads, *(r.key for r in plain)})
    return found


def _bereft(views: Views, behind: dict[str, frozenset[str]]) -> list[str]:
    """Views that DROP … CASCADE took a table or plain view from, and their readers.

    A table may depend on a sequence, a macro, a type; a sequence may own it.
    """
    if not behind:
        return []
    there = {relation.key for relation in Names(views.host.connection).relations}
    registry = views.registry
    left = [k for k, relations in behind.items() if k in registry.views and relations - there]
    reached = {*left, *registry.readers(left)}
    return [view.key for view in registry.ordered() if view.key in reached]


def _across(statement: Statement, keys: list[str], error: Exception) -> errors.Error | None:
    """A clearer error where DDL of one database would write to the catalog of another's views."""
    if "single attached database" not in str(error):
        return None
    return errors.NotSupportedError(
        f"maintained views of another database read what this statement changes: {', '.join(keys)}",
        hint="drop those views first: one transaction can write to one database only",
        text=statement.script,
        position=statement.start,
        length=len(statement.words[0]),
    )


def attached(views: Views, replaced: bool) -> None:
    """After ATTACH and DETACH: other tables may have the names that views read, or none.

    What those views hold is forgotten; if a database was `replaced`, what all views hold. They are
    filled again when they are read, if they can be. Views of a database that was detached went
    with it. Who follows one of them is told: other rows may come, by no epoch.
    """
    with views.writing():
        names = Names(views.host.connection)
        registry = views.registry
        rows = views.host.rows("SELECT database_name FROM duckdb_databases()")
        there = tuple(f"{key_of(name)}." for (name,) in rows)
        left = {relation.key for relation in names.relations}
        gone = set[str]()
        for key in [
            k for k in registry.views if not k.startswith(there) or (replaced and k not in left)
        ]:
            gone |= {key} | views.forget([key])
            registry.remove(key)
        keys = frozenset(registry.views)
        for view in list(registry.views.values()):
            reads, whole = views.read_by(view.sql, view.home, names, keys)
            if reads != view.reads or replaced:
                gone |= views.forget(view.reads | reads if replaced else view.reads ^ reads)
                registry.views[view.key] = replace(view, reads=reads, whole=whole, plan=None)
        views.database.catalog_version += 1
        views.database.break_off(gone)


def affected(views: Views, statement: Statement) -> list[str]:
    """The views that read a table or view that DDL names, or lie in a schema that it drops."""
    registry = views.registry
    if not registry.views:
        return []
    words = _changed(statement)
    schema = "SCHEMA" in statement.words[1:4]

    def named(key: str) -> bool:
        return parts_of_key(key)[1 if schema else 2] in words

    read = {key for view in registry.views.values() for key in view.reads if named(key)}
    reached = set(registry.readers(read))
    behind = _behind(statement)
    if behind is not None:
        names = Names(views.host.connection)
        keys = frozenset(registry.views)
        by_name = [
            view.key
            for view in registry.views.values()
            if behind in names.at(view.home.path).words(view.sql, keys)
        ]
        reached |= {*by_name, *registry.readers(by_name)}
    if schema:
        within = [key for key in registry.views if named(key)]
        reached |= {*within, *registry.readers(within)}
    if _may_write_unnamed(views, statement):
        reached = set(registry.views)
    plain = {v.key for v in registry.views.values() if v.plain and not schema}
    return [v.key for v in registry.ordered() if v.key in reached - plain]


def _changed(statement: Statement) -> set[str]:
    """Names in DDL that may mean something else behind it, in lower case."""
    kind, name = _named(statement)
    made = statement.words[0] == "CREATE" and kind in _MADE and name
    if made and writing_cte(list(tokens(statement.text))) is None:
        return {name[-1].lower()}  # what it reads stays as it is
    return {unquoted(t).lower() for t in tokens(statement.text) if is_name(t)}


def _may_write_unnamed(views: Views, statement: Statement) -> bool:
    """May it change rows of tables that it does not name: by triggers, or read from files?"""
    if statement.words[:2] == ("IMPORT", "DATABASE"):
        return True
    if writing_cte(list(tokens(statement.text))) is None:
        return False
    return any(info.has_triggers for info in views.watched_tables().values())


def _named(statement: Statement) -> tuple[str, list[str]]:
    """The kind of thing that CREATE, DROP or ALTER is about, and its name's parts."""
    parts = list(tokens(statement.text))
    at = 1
    while at < len(parts) and parts[at].text.upper() in BEFORE_KIND:
        at += 1
    if at >= len(parts) or statement.words[0] not in ("CREATE", "DROP", "ALTER"):
        return "", []
    kind = parts[at].text.upper()
    at += 1
    while at < len(parts) and parts[at].text.upper() in ("TABLE", "IF", "NOT", "EXISTS"):
        at += 1
    name = [unquoted(t) for t in parts[at : at + 1]]
    while at + 2 < len(parts) and parts[at + 1].text == ".":
        at += 2
        name.append(unquoted(parts[at]))
    return kind, name


def _behind(statement: Statement) -> str | None:
    """The name of the plain view, macro or type that DDL is about, in lower case."""
    kind, name = _named(statement)
    return name[-1].lower() if kind in _BEHIND and name else None


def _is_temporary(views: Views, statement: Statement) -> bool:
    """Does DDL drop or alter what only this connection has? That can't stand behind a view."""
    kind, name = _named(statement)
    if statement.words[0] not in ("DROP", "ALTER") or not name:
        return False
    names = Names(views.host.connection)
    if kind in ("TABLE", "VIEW"):
        relation = names.find(name)
        return relation is not None and relation.temporary
    return name[-1].lower() in names.temporaries(kind)


_BEHIND = {"VIEW", "MACRO", "FUNCTION", "TYPE"}
_MADE = {*_BEHIND, "TABLE", "SEQUENCE", "INDEX", "UNIQUE"}


def _schemas(views: Views, keys: list[str]) -> dict[str, pa.Schema]:
    """The columns that the views' queries give now. `keys`: inputs first."""
    found: dict[str, pa.Schema] = {}
    place = {view.key: i for i, view in enumerate(views.registry.ordered())}

    def schema(key: str) -> pa.Schema:
        if key not in found:
            view = views.registry.views[key]
            for other in views.needed(view.sql):
                # (one behind it is called as a word in its query is)
                if other in place and place[other] < place[key]:
                    views.stand_in(other, empty(schema(other)))
            with views.there(view):
                found[key] = views.host.table(f"SELECT * FROM ({view.sql}\n) LIMIT 0").schema
        return found[key]

    return {key: schema(key) for key in keys}


def _schemas_that_bind(views: Views, keys: list[str]) -> dict[str, pa.Schema]:
    """`_schemas`, without the views that can't be read anyway: what they read may be detached."""
    try:
        return _schemas(views, keys)
    except (errors.Error, duckdb.Error):
        found: dict[str, pa.Schema] = {}
        for key in keys:
            with suppress(errors.ProgrammingError, duckdb.Error):
                found |= _schemas(views, [key])
        return found


def _check(
    views: Views,
    statement: Statement,
    keys: list[str],
    before: dict[str, pa.Schema],
    cascades: bool,
) -> None:
    """Can the views go on, with the columns that they had? More columns are left out."""
    names = Names(views.host.connection)
    behind = _behind(statement) is not None
    for key in keys:
        view = views.registry.views[key]
        keys_now = frozenset(views.registry.views)
        here = names.at(view.home.path)
        reads = frozenset(here.reads(view.sql, keys_now))
        if reads & {key, *views.registry.readers([key])}:
            raise refusal(statement, [key], "it would read itself")
        if here.alike(view.sql):
            raise refusal(statement, [key], "names would differ in the case of a letter alone")
        if not (behind or view.reads <= reads):
            made = statement.words[0] == "CREATE"
            lost = min(view.reads - reads).split(".", 1)[1] if made else ""
            raise refusal(statement, [key] if made else keys, hides=lost)
        why = _unseen(here, view.sql, keys_now, views.host.connection) if behind else None
        if why is not None:
            raise refusal(statement, [key], why)
        if key not in before:
            continue
        try:
            after = _schemas(views, [key])[key]
        except (errors.Error, duckdb.Error) as error:
            altered = statement.words[0] == "ALTER"
            why = error.message if isinstance(error, errors.Error) and (behind or altered) else ""
            stuck = [key] if altered else keys
            raise _Lost(key, why) if cascades else refusal(statement, stuck, why) from None
        if after == before[key]:
            continue
        for old in before[key]:
            if after.names.count(old.name) != 1:
                raise refusal(statement, [key], f"it would lose column {old.name}")
            if after.field(old.name).type != old.type:
                raise refusal(statement, [key], f"column {old.name} would have another type")
        columns = ", ".join(map(quoted, before[key].names))
        views.rewrite(key, f"SELECT {columns} FROM ({view.sql}\n)")


def _unseen(
    names: Names, sql: str, keys: frozenset[str], connection: duckdb.DuckDBPyConnection
) -> str | None:
    """What a view's query would come to read through plain views and macros that it may not."""
    unlisted = names.unlisted(sql)
    if unlisted is not None:
        return f"changes of {unlisted} would not be seen"
    for text in names.texts(sql, keys):
        call = unstable_call(text, connection)
        what = names.catalog(text) if call is None else call[1]
        if what is None and rowid(text, connection) is not None:
            what = "rowid"
        if what is not None:
            return f"{what} changes while no table does"
    return None


def refusal(
    statement: Statement,
    keys: list[str],
    why: str = "",
    hides: str = "",
    cascades: bool = False,
) -> errors.Error:
    """The error for DDL that views stand against. `hides`: what it would take the name of.

    `cascades`: they would be dropped if no transaction were open.
    """
    names = ", ".join(".".join(parts_of_key(k)[1:]) for k in keys)
    reason = f" ({why})" if why else ""
    drop = statement.words[0] == "DROP"
    does, hint = "changes", "drop those views first"
    if makes_temporary(statement):
        does, hint = "hides from this connection", "give it another name"
    elif hides:
        does, hint = f"hides, {hides}", "give it another name"
    elif cascades:
        hint += ", or end the transaction"
    elif drop:
        hint += ", or use DROP … CASCADE"
    return errors.ProgrammingError(
        f"maintained views read what this statement {does}: {names}{reason}",
        hint=hint,
        text=statement.script,
        position=statement.start,
        length=len(statement.words[0]),
    )
