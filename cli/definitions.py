"""What makes a database again, as SQL: for `.schema` and `.dump`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import cached_property
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidewheel.engine.quoting import key_of, literal, quoted
from tidewheel.planner.meaning import DEFAULTS, QUERY, meaning

from ..sql import errors
from ..sql.statements import split, tokens, words_in
from ..sql.view_text import unquoted

if TYPE_CHECKING:
    from .shell import Shell

Name = tuple[str, str]
"""Schema and name."""

_HERE = "database_name = current_database() AND schema_name <> '__tidewheel' AND NOT internal"


def maintained(shell: Shell) -> dict[Name, str]:
    """The queries of the database's maintained views, in the order in which they were made."""
    rows = shell.query(
        "SELECT schema_name, view_name, sql FROM tidewheel_views() "
        "WHERE database_name = current_database()"
    )
    return {(schema, view): sql for schema, view, sql in rows}


def shown(name: Name) -> str:
    """A name as one reads it: without the schema if that is main."""
    return name[1] if name[0] == "main" else ".".join(name)


def _written(name: Name) -> str:
    return ".".join(map(quoted, name[1:] if name[0] == "main" else name))


class Definitions:
    """CREATE statements, in an order in which they can be run: all, or those of one name.

    `first` is what tables need, `last` what is made of tables.
    """

    def __init__(self, shell: Shell, wanted: str | None = None) -> None:
        self._shell = shell
        self.tables = self._of("table")
        views = self._of("view")
        views.update((name, self._maintained(name, sql)) for name, sql in maintained(shell).items())
        if wanted is None:
            self.first = [*self._schemas(), *self._types(), *self._of("sequence").values()]
            self.last = [
                *_readable({**self._macros(), **views}),
                *self._of("index").values(),
                *self._comments(),
                *self._of("trigger").values(),
            ]
            return
        self.first = []
        self.tables = {n: sql for n, sql in self.tables.items() if _is(n, wanted)}
        self.last = [sql for n, sql in views.items() if _is(n, wanted)]
        if not self.tables and not self.last:
            from .dot_commands import Usage

            raise Usage(f"there is no table or view {wanted}")

    def statements(self) -> list[str]:
        """All of them."""
        return [*self.first, *self.tables.values(), *self.last]

    def _of(self, kind: str) -> dict[Name, str]:
        """DuckDB's own statements."""
        place = {"sequence": "sequences", "index": "indexes"}.get(kind, f"{kind}s")
        here = _HERE if kind in ("table", "view") else _HERE.replace(" AND NOT internal", "")
        rows = self._shell.query(
            f"SELECT schema_name, {kind}_name, sql FROM duckdb_{place}() "
            f"WHERE {here} AND sql IS NOT NULL AND NOT starts_with({kind}_name, '__tw_') "
            f"ORDER BY {kind}_oid"
        )
        return {(schema, name): sql.strip().rstrip(";") + ";" for schema, name, sql in rows}

    def _schemas(self) -> list[str]:
        rows = self._shell.query(
            f"SELECT schema_name FROM duckdb_schemas() WHERE {_HERE} AND schema_name <> 'main'"
        )
        return [f"CREATE SCHEMA {quoted(name)};" for (name,) in rows]

    def _types(self) -> list[str]:
        rows = self._shell.query(
            f"SELECT schema_name, type_name FROM duckdb_types() WHERE {_HERE} ORDER BY type_oid"
        )
        return [f"CREATE TYPE {_written(name)} AS {self._behind(name)};" for name in rows]

    def _behind(self, name: Name) -> str:
        """The type that a name stands for."""
        return str(self._shell.query(f"DESCRIBE SELECT NULL::{_written(name)}")[0][1])

    def _macros(self) -> dict[Name, str]:
        """Each with all its forms; the defaults of parameters, which the catalog does not tell,
        are read from what EXPORT writes of a copy without rows. Safe mode has none of them.
        """
        rows = self._shell.query(
            "SELECT schema_name, function_name, function_type = 'table_macro', parameters, "
            f"macro_definition FROM duckdb_functions() WHERE {_HERE} AND macro_definition "
            "IS NOT NULL AND NOT starts_with(function_name, '__tw_') ORDER BY function_oid"
        )
        forms: dict[Name, list[str]] = {}
        for schema, name, table, parameters, body in rows:
            form = f"({', '.join(map(quoted, parameters))}) AS {'TABLE ' if table else ''}({body})"
            forms.setdefault((schema, name), []).append(form)
        found = {n: f"CREATE MACRO {_written(n)}{', '.join(f)};" for n, f in forms.items()}
        if found and not self._shell.config.get("safe_mode"):
            found.update((n, sql) for n, sql in self._exported_macros() if n in found)
        return found

    def _exported_macros(self) -> Iterator[tuple[Name, str]]:
        with tempfile.TemporaryDirectory() as folder, self._shell.connection.cursor() as cursor:
            ((here,),) = self._shell.query("SELECT current_database()")
            cursor.execute("ATTACH ':memory:' AS __tw_schema")
            try:
                cursor.execute(f"COPY FROM DATABASE {quoted(here)} TO __tw_schema (SCHEMA)")
                cursor.execute(f"EXPORT DATABASE __tw_schema TO {literal(folder)}")
            finally:
                cursor.execute("DETACH __tw_schema")
            script = (Path(folder) / "schema.sql").read_text(encoding="utf-8")
        for statement in split(script):
            if statement.words[:2] == ("CREATE", "MACRO"):
                words = takewhile(lambda t: t.text != "(", islice(tokens(statement.text), 2, None))
                *schema, name = [unquoted(t) for t in words if t.text != "."]
                yield (schema[0] if schema else "main", name), statement.text + ";"

    def _comments(self) -> list[str]:
        """Of what can have one; those of maintained views are DuckDB's of the views behind them."""
        kept = maintained(self._shell)
        found = []
        for kind, place in (("table", "tables"), ("view", "views"), ("index", "indexes"),
                            ("sequence", "sequences"), ("type", "types")):  # fmt: skip
            rows = self._shell.query(
                f"SELECT schema_name, {kind}_name, comment FROM duckdb_{place}() "
                f"WHERE database_name = current_database() AND comment IS NOT NULL "
                f"AND NOT starts_with({kind}_name, '__tw_') ORDER BY ALL"
            )
            for schema, name, comment in rows:
                word = "MATERIALIZED VIEW" if (schema, name) in kept else kind.upper()
                of = _written((schema, name))
                found.append(f"COMMENT ON {word} {of} IS {literal(comment)};")
        rows = self._shell.query(
            "SELECT schema_name, table_name, column_name, comment FROM duckdb_columns() "
            f"WHERE {_HERE} AND comment IS NOT NULL ORDER BY table_oid, column_index"
        )
        for schema, name, column, comment in rows:
            of = f"{_written((schema, name))}.{quoted(column)}"
            found.append(f"COMMENT ON COLUMN {of} IS {literal(comment)};")
        return found

    def _maintained(self, name: Name, sql: str) -> str:
        columns = [column for column, _ in _columns(self._shell, name)]
        try:
            given = [row[0] for row in self._shell.query(f"DESCRIBE {sql}")]
        except errors.Error:  # it looks for names elsewhere than this session
            given = []
        listed = "" if given == columns else f" ({', '.join(map(quoted, columns))})"
        text = sql.strip().rstrip(";")
        home = self._home(name)
        written = ".".join(map(quoted, name)) if home else _written(name)
        made = f"CREATE MATERIALIZED VIEW {written}{listed} AS {text};"
        before = [f"SET {setting} = {literal(value)};" for setting, value in home.items()]
        return "\n".join([*before, made, *(f"RESET {setting};" for setting in home)])

    def _home(self, name: Name) -> dict[str, str]:
        """Where a view was made: its search path and settings, if they are not this session's."""
        home = self._homes.get(key_of(*name))
        if home is None:
            return {}
        values = DEFAULTS | home["settings"]
        found = {name: value for name, value in values.items() if value != self._now.get(name)}
        path = [[part for part in place if part] for place in home["path"]]
        if path != [["main"]]:
            found["search_path"] = ",".join(".".join(map(quoted, place)) for place in path)
        return found

    @cached_property
    def _now(self) -> dict[str, str]:
        """This session's settings."""
        return DEFAULTS | dict(meaning(self._shell.query(QUERY)[0]))

    @cached_property
    def _homes(self) -> dict[str, Any]:
        """By key without the database, as the catalog of views has them."""
        if not maintained(self._shell):
            return {}
        ((here,),) = self._shell.query("SELECT current_database()")
        rows = self._shell.query(f"SELECT key, home FROM {quoted(here)}.__tidewheel.views")
        return {key.split(".", 1)[1]: json.loads(home) for key, home in rows}


def _is(name: Name, wanted: str) -> bool:
    return wanted.lower() in (name[1].lower(), ".".join(name).lower())


def _readable(definitions: dict[Name, str]) -> list[str]:
    """Views and macros, each behind those that it names in a FROM or calls."""
    by_word: dict[str, list[Name]] = {}
    for name in definitions:
        by_word.setdefault(name[1].lower(), []).append(name)
    placed: dict[Name, str] = {}
    entered: set[Name] = set()

    def place(name: Name) -> None:
        if name in entered:
            return
        entered.add(name)
        for word in _read(definitions[name]):
            for other in by_word.get(word, ()):
                place(other)
        placed[name] = definitions[name]

    for name in definitions:
        place(name)
    return list(placed.values())


def _read(sql: str) -> Iterator[str]:
    """The names that may be relations or calls."""
    for before, token in pairwise(tokens(sql)):
        if before.text.upper() in ("FROM", "JOIN", ",", "."):
            yield from words_in(token.text)
        elif token.text == "(":
            yield from words_in(before.text)


def _columns(shell: Shell, name: Name) -> list[tuple[str, bool]]:
    """Of a table or view, and whether they are computed from others."""
    return [
        (column, generated)
        for column, generated in shell.query(
            "SELECT column_name, is_generated FROM duckdb_columns() "
            "WHERE database_name = current_database() AND schema_name = ? AND table_name = ? "
            "ORDER BY column_index",
            name,
        )
    ]


def rows_of(shell: Shell, table: Name) -> Iterator[str]:
    """An INSERT per row; what is computed from other columns is left out."""
    columns = [column for column, generated in _columns(shell, table) if not generated]
    listed = ", ".join(map(quoted, columns))
    # every value as text that is cast back, so that nothing depends on how types print
    items = ", ".join(
        f"coalesce('''' || replace({quoted(c)}::VARCHAR, '''', '''''') || '''', 'NULL')"
        for c in columns
    )
    for (row,) in shell.query(f"SELECT concat_ws(', ', {items}) FROM {_written(table)}"):
        yield f"INSERT INTO {_written(table)} ({listed}) VALUES ({row});"
