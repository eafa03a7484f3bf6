"""EXPORT DATABASE, IMPORT DATABASE and COPY FROM DATABASE where there are maintained views.

DuckDB writes what it knows: the tables, and of a maintained view one over rows that only this
process has, which no IMPORT could make. So the views that are ours, and the views and macros that
read them, are taken out of its `schema.sql`; `maintained_views.json` beside it has them, each
behind what it reads. IMPORT makes them once the tables are there, in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from ..engine.quoting import key_of, quoted
from .reads import Names
from .statements import Statement, split, tokens
from .view_registry import SCHEMA, catalog, home_of, kept_in, row_name
from .view_text import is_name, unquoted

if TYPE_CHECKING:
    from .capture import TableInfo
    from .views import Views

FILE = "maintained_views.json"


def finish_export(views: Views, statement: Statement) -> None:
    """Put right what DuckDB's EXPORT has written."""
    folder = _path(statement, views.host.connection)
    schema = folder / "schema.sql"
    if not schema.is_file() or SCHEMA not in schema.read_text():
        (folder / FILE).unlink(missing_ok=True)  # of an earlier export to the same place
        return
    con = views.host.connection
    named = statement.words[3:4] == ("TO",)
    database = unquoted(list(tokens(statement.text))[2]) if named else Names(con).database
    found = con.execute(f"SELECT token, sql, plain, home FROM {kept_in(database)}").fetchall()
    ours = {row_name(token): tuple(rest) for token, *rest in found}
    kept, moved = _divided(split(schema.read_text()), ours)
    _write(schema, kept)
    load = folder / "load.sql"
    copies = split(load.read_text())
    for copy in copies:
        if _about_catalog(copy):
            _path(copy, views.host.connection).unlink(missing_ok=True)
    _write(load, [copy.text for copy in copies if not _about_catalog(copy)])
    (folder / FILE).write_text(json.dumps(moved, indent=1))


def exported(views: Views, statement: Statement) -> list[dict[str, Any]]:
    """The views beside the tables that an IMPORT is about to read."""
    file = _path(statement, views.host.connection) / FILE
    return json.loads(file.read_text()) if file.is_file() else []


def make(views: Views, found: Mapping[str, Any], run: Callable[[Statement], object]) -> None:
    """Make one of them, where and under the settings that it was made; `run` runs a statement."""
    home = here = views.home()
    if "path" in found:
        home = home_of(found, here.path[0][0])
    with views.at(home):
        run(split(found["statement"])[0])


@dataclass(slots=True)
class _View:
    """A view or macro that DuckDB's export has: its name, how it is made, the words in it."""

    name: str
    made: dict[str, Any]
    words: set[str]
    ours: bool


def _divided(
    schema: Sequence[Statement], ours: Mapping[str, tuple[str, bool, str]]
) -> tuple[list[str], list[dict[str, Any]]]:
    """What of DuckDB's statements stays, and what reads views, each behind what it may read."""
    kept = [s.text for s in schema if not (_queries(s) or _about_catalog(s))]
    found = [_view(s, ours) for s in schema if _queries(s)]
    moved = [view for view in found if view.ours]
    while more := [v for v in found if v not in moved and v.words & {m.name for m in moved}]:
        moved += more
    reads = {
        i: {j for j, other in enumerate(moved) if j != i and other.name in view.words}
        for i, view in enumerate(moved)
    }
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:  # through a word that is no view's name
        order = list(reads)
    kept += [view.made["statement"] for view in found if view not in moved]
    return kept, [moved[i].made for i in order]


@contextmanager
def views_of_both(views: Views, statement: Statement) -> Iterator[None]:
    """Around COPY FROM DATABASE a TO b: DuckDB copies a's table of views, b may have its own.

    Those of b stay. `(DATA)` brings the queries of views that `(SCHEMA)` has brought.
    """
    con = views.host.connection
    parts = list(tokens(statement.text))
    names = Names(con)
    source, target = (unquoted(t) for t in (*parts[3:4], *parts[5:6])) if parts[5:] else ("", "")
    found, kept = (names.find([name, SCHEMA, "views"]) for name in (source, target))
    data = [t.text.upper() for t in parts[7:8]] == ["DATA"]
    if found is None or (kept is None and not data):
        yield
        return
    with views.implicitly():
        stay: list[tuple[Any, ...]] = []
        if kept is not None:
            rows = con.execute(f"SELECT key, token, row FROM {kept_in(target)} row").fetchall()
            made = {relation.key: names.sql(relation) for relation in names.relations}
            stay = [
                tuple(row.values())
                for key, token, row in rows
                if quoted(row_name(token)) in made.get(key_of(target) + key, "")
            ]
        if kept is None:
            con.execute(catalog(target)).fetchall()
        elif data:
            con.execute(f"DELETE FROM {kept_in(target)}").fetchall()
        else:
            con.execute(f"DROP SCHEMA {quoted(target)}.{SCHEMA} CASCADE").fetchall()
        yield
        for row in stay:
            con.execute(
                f"INSERT OR REPLACE INTO {kept_in(target)} VALUES (?, ?, ?, ?, ?, ?)", row
            ).fetchall()


def written(statement: Statement, watched: dict[str, TableInfo]) -> dict[str, TableInfo]:
    """The watched tables that COPY FROM DATABASE a TO b may change: those of b."""
    parts = list(tokens(statement.text))
    if len(parts) < 6 or any(info.has_triggers for info in watched.values()):
        return watched
    target = key_of(unquoted(parts[5]))
    return {key: info for key, info in watched.items() if key.startswith(f"{target}.")}


def _queries(statement: Statement) -> bool:
    """Does it make a view, or a macro that may read one? (Tables can call all other macros.)"""
    if statement.words[:2] == ("CREATE", "MACRO"):
        return any(t.text.upper() == "SELECT" for t in tokens(statement.text) if t.kind == "word")
    return statement.words[:2] == ("CREATE", "VIEW")


def _view(statement: Statement, ours: Mapping[str, tuple[str, bool, str]]) -> _View:
    parts = list(tokens(statement.text))
    names = {unquoted(t) for t in parts if is_name(t)}
    name = unquoted(parts[4 if parts[3].text == "." else 2]).lower()
    row = next((ours[n] for n in names if n in ours), None)
    if row is None:
        return _View(name, {"statement": statement.text}, {n.lower() for n in names}, False)
    sql, plain, home = row
    verb = "CREATE VIEW" if plain else "CREATE MATERIALIZED VIEW"
    at = next(t.start for t in parts if t.kind == "word" and t.text.upper() == "AS")
    target = statement.text[parts[2].start : at].strip()
    words = {unquoted(t).lower() for t in tokens(sql) if is_name(t)}
    return _View(name, {"statement": f"{verb} {target} AS {sql}", **json.loads(home)}, words, True)


def _about_catalog(statement: Statement) -> bool:
    """Does it make, or fill, the catalog of views?"""
    at = 1 if statement.words[0] == "COPY" else 2
    parts = list(tokens(statement.text))
    return len(parts) > at and unquoted(parts[at]) == SCHEMA


def _write(file: Path, statements: Sequence[str]) -> None:
    file.write_text("".join(f"{text};\n" for text in statements))


def _path(statement: Statement, connection: duckdb.DuckDBPyConnection) -> Path:
    """The file or folder that a statement names."""
    texts = (t.text for t in tokens(statement.text) if t.kind in ("string", "dollar"))
    text = next(text for text in texts if not text.startswith('"'))
    ((path,),) = connection.execute(f"SELECT {text}").fetchall()
    return Path(path).expanduser()
