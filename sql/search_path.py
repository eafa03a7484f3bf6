"""Where a connection looks for names, and which places DuckDB tries for one, in order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import duckdb

from tidewheel.planner.plans import Path

_PLACE = """
SELECT current_database(), current_schemas(false), current_schema(), current_setting('search_path')
"""
_ENTRY = re.compile(r'(?:"(?:[^"]|"")*"|[^,"])+')
"""One place of a search path, as DuckDB writes it: ``db.schema``, ``db."a,b"``, ``schema``."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_TEMPORARY = "temp", "main"


def place(connection: duckdb.DuckDBPyConnection) -> tuple[Path, str]:
    """Where names are looked for now, as (database, schema), each once; the setting behind it."""
    home, _, setting = _read(connection)
    return home, setting


def search_path(connection: duckdb.DuckDBPyConnection) -> tuple[Path, SearchPath]:
    """Where names are looked for now, as it is written and to look for them."""
    home, entries, _ = _read(connection)
    said = lowered(tuple(e for e in entries if e[0]) if entries else home)
    return home, SearchPath(lowered(home), bare=tuple(p for p in lowered(home) if p not in said))


def _read(connection: duckdb.DuckDBPyConnection) -> tuple[Path, list[tuple[str, str]], str]:
    """As `place`; between them the path's entries, '' for a database that is not named."""
    ((database, schemas, schema, setting),) = connection.execute(_PLACE).fetchall()
    entries = _ENTRY.findall(setting)
    databases = map(_database, entries) if len(entries) == len(schemas) else [""] * len(schemas)
    found = list(zip(databases, schemas, strict=True))
    named = ((of or database, name) for of, name in found)
    return tuple(dict.fromkeys((*named, (database, schema)))), found, setting


def _database(entry: str) -> str:
    """The database that an entry of a search path names; empty if it is just a schema."""
    first, dot, _ = _QUOTED.sub(lambda m: m[0].replace(".", "\0"), entry).partition(".")
    first = first.replace("\0", ".")
    if not dot:
        return ""
    return first[1:-1].replace('""', '"') if first[:1] == '"' else first


def is_said(setting: str) -> bool:
    """Do all entries of a search path name their databases?

    `USE s` in a connection that has set nothing before makes one that does not.
    """
    return all(map(_database, _ENTRY.findall(setting)))


def lowered(path: Path) -> Path:
    """A path in lower case, each place once: names are the same in any case."""
    return tuple(dict.fromkeys((d.lower(), s.lower()) for d, s in path))


@dataclass(frozen=True, slots=True)
class SearchPath:
    """The search path of a connection, or that of a plain view's query in it; in lower case.

    `home`: the connection's. `own`: the database and the schema that the view is in. `bare`: what
    the connection's path has without the name of a database.
    """

    home: Path
    own: tuple[str, str] | None = None
    bare: Path = ()

    @property
    def places(self) -> Path:
        """Where a name without a qualifier is looked for, after temporary objects."""
        own = () if self.own is None else (self.own,)
        return tuple(dict.fromkeys((*own, *self.home, (self.home[0][0], "main"))))

    def candidates(
        self, parts: Sequence[str], databases: Collection[str]
    ) -> Iterator[tuple[str, ...]]:
        """The full names that a name may stand for, the first first; in lower case.

        `databases`: those that there are. What is the name of one is no schema's.
        """
        *qualifiers, name = (p.lower() for p in parts)
        if not qualifiers:
            for place in (_TEMPORARY, *self.places):
                yield *place, name
        elif len(qualifiers) == 2:
            yield *qualifiers, name
        elif len(qualifiers) == 1:
            (qualifier,) = qualifiers
            if qualifier in databases:
                for schema in self.schemas(qualifier):
                    yield qualifier, schema, name
            else:
                for database in self.databases(qualifier):
                    yield database, qualifier, name

    def schemas(self, database: str) -> list[str]:
        """The schemas that a name may mean of which the database is given."""
        if self.own is not None:
            places: Path = (self.own, *self.home)
        else:
            places = tuple(p for p in self.home if p not in self.bare)
        return [s for d, s in places if d == database] or ["main"]

    def databases(self, schema: str) -> list[str]:
        """The databases that a name may mean of which the schema is given.

        DuckDB's catalog has the query of a view without the name of the view's own database.
        """
        of_path = [d for d, s in self.places if s == schema]
        if self.own is None:
            found = of_path or [self.home[0][0]]
        else:
            found = [self.own[0], *of_path]
        return [_TEMPORARY[0], *found] if schema == _TEMPORARY[1] else found
