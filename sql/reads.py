"""Which tables and views a query reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import duckdb

from tidewheel.engine.quoting import key_of, quoted
from tidewheel.planner.plans import Path
from tidewheel.sql import functions, introspection
from tidewheel.sql.search_path import SearchPath, lowered, search_path
from tidewheel.sql.statements import tokens, words_in
from tidewheel.sql.table_names import names_in, relations_in, tables_in

ROWS = "__tw_rows_"
"""What the names begin with under which the rows of maintained views are registered."""
_RELATIONS = """
SELECT database_name, schema_name, table_name, 'table', temporary, internal,
       sql ILIKE '%collate%', schema_oid
FROM duckdb_tables()
UNION ALL
SELECT database_name, schema_name, view_name, 'view', temporary, internal, false, schema_oid
FROM duckdb_views()
"""
_NESTED = "SELECT oid FROM duckdb_schemas() WHERE parent_schema_oid IS NOT NULL"
_QUERIES = """
SELECT database_name, schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal
"""
_SCHEMAS = "SELECT database_name, schema_name FROM duckdb_schemas()"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of the catalog; `key` names it in the registry of views."""

    database: str
    schema: str
    name: str
    kind: str
    temporary: bool

    @property
    def key(self) -> str:
        return key_of(self.database, self.schema, self.name)

    @property
    def quoted(self) -> str:
        """The qualified name as SQL."""
        return ".".join(map(quoted, (self.database, self.schema, self.name)))


class Names:
    """The catalog's relations and macros at one moment, looked up by what a query calls them.

    `home`: where the connection looks for names, if that is known.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, home: Path | None = None) -> None:
        every = connection.execute(_RELATIONS).fetchall()
        inner = {oid for (oid,) in connection.execute(_NESTED).fetchall()}
        rows = [row for *row, oid in every if oid not in inner]
        self._nested = {row[2].lower() for row in every if row[-1] in inner}
        self.relations = [Relation(*row) for *row, internal, _ in rows if not internal]
        self._collated = {
            Relation(*row).key for *row, internal, collated in rows if collated and not internal
        }
        self._own = {(row[1], row[2]) for row in rows if row[-2]}
        self._by_name: dict[str, list[Relation]] = {}
        for relation in self.relations:
            self._by_name.setdefault(relation.name.lower(), []).append(relation)
        lettered = (r for r in self.relations if not (r.name + r.schema + r.database).isascii())
        self._alike = {key for key, times in Counter(r.key for r in lettered).items() if times > 1}
        """Names that differ in the case of letters outside ASCII, which tell names apart to DuckDB
        but not to us."""
        self._connection = connection
        self._collations: dict[str, dict[str, str]] = {}
        self.columns: dict[str, list[tuple[str, str]]] = {}
        """Label and type of each column of tables of which somebody has asked, by their names in
        full."""
        if home is None:
            self._go(*search_path(connection))
        else:
            self._go(home, SearchPath(lowered(home)))

    def _go(self, home: Path, search_path: SearchPath) -> None:
        self.home = home
        self.database, self.schema = home[0]
        self._search_path = search_path

    @cached_property
    def _queries(self) -> dict[tuple[str, str, str], str]:
        """CREATE VIEW of each view: to have DuckDB write them takes longer than all the rest."""
        rows = self._connection.execute(_QUERIES).fetchall()
        return {(d, s, n): sql for d, s, n, sql in rows}

    def sql(self, view: Relation) -> str:
        """The CREATE VIEW of a view."""
        return self._queries.get((view.database, view.schema, view.name), "")

    def collated(self, text: str) -> Collection[str] | None:
        """Names, in lower case, of the columns with a collation of what `text` reads.

        None: a plain view or a macro may have more of them.
        """
        if not self._collated and all(r.kind == "table" for r in self.mentioned(text)):
            return ()
        found, views, texts = self._followed(text, frozenset())
        tables = [found[key] for key in self._collated & found.keys()]
        if not tables and not any("collate" in each.lower() for each, _ in texts):
            return ()
        if len(texts) > 1 + len(views) or not all(map(self.maintained, views)):
            return None
        labels = (label for r in (*tables, *views) for label in self.collations(r))
        return {label.lower() for label in labels}

    def collations(self, relation: Relation) -> Collection[str]:
        """The columns of a table or a maintained view that have a collation."""
        from .collations import of_table, of_view

        if relation.kind == "view":
            sql = self.sql(relation)
            ours = "collate" in sql.lower() and self.maintained(relation)
            return of_view(body(sql)) if ours else ()
        if relation.key not in self._collated:
            return ()
        known = self._collations.get(relation.key)
        if known is None:
            known = self._collations[relation.key] = of_table(self._connection, relation.quoted)
        return known

    def maintained(self, view: Relation) -> bool:
        """Is a view one of ours, whose rows are registered?"""
        return ROWS in self.sql(view)

    @property
    def internal(self) -> set[str]:
        """The names of DuckDB's own tables and views, in lower case."""
        return {name.lower() for _, name in self._own}

    @property
    def macros(self) -> dict[str, tuple[str, ...]]:
        """The macros' definitions, by their names in lower case."""
        return functions.of(self._connection).macros

    def find(self, parts: Sequence[str]) -> Relation | None:
        """The relation that `name`, `schema.name`, `database.name` or all three mean here."""
        candidates = self._by_name.get(parts[-1].lower())
        if candidates is None:
            return None
        known = {_place_of(relation): relation for relation in candidates}
        found = (known[place] for place in self.places(parts) if place in known)
        return next(found, None)

    def places(self, parts: Sequence[str]) -> list[tuple[str, ...]]:
        """The databases and schemas where a name is looked for, the first first; in lower case."""
        return [full[:-1] for full in self._search_path.candidates(parts, self._databases)]

    @cached_property
    def _databases(self) -> set[str]:
        return {"temp", *(d.lower() for d in {relation.database for relation in self.relations})}

    def has(self, name: str) -> bool:
        """Is a relation of this name anywhere?"""
        return name.lower() in self._by_name

    def made(self, parts: Sequence[str]) -> Relation | None:
        """What stands where CREATE would make a relation of this name."""
        return self.find([*self.target(parts), parts[-1]])

    @property
    def path(self) -> Path:
        """Where a name without a qualifier is looked for, after temporary objects; lower case."""
        return self._search_path.places

    def at(self, home: Path) -> Names:
        """The same catalog, seen from other schemas."""
        other = copy(self)
        other._go(home, SearchPath(lowered(home)))
        return other

    def inside(self, view: Relation) -> Names:
        """The same catalog as a plain view's query sees it: the view's own schema comes first.

        Behind it comes what the connection's path says, also in a view that another one reads.
        """
        if view.temporary:
            return self
        home, own = self._search_path.home, (view.database.lower(), view.schema.lower())
        inside = SearchPath(home, own)
        if self._search_path in (SearchPath((own,)), inside):
            return self
        other = copy(self)
        other._search_path = inside
        return other

    def target(self, parts: Sequence[str]) -> tuple[str, str]:
        """The database and the schema in which CREATE makes a relation of this name."""
        *qualifiers, _ = parts
        if not qualifiers:
            return self.database, self.schema
        if len(qualifiers) > 1:
            return qualifiers[0], qualifiers[1]
        (name,) = qualifiers
        schemas = self._connection.execute(_SCHEMAS).fetchall()
        if any(database.lower() == name.lower() for database, _ in schemas):
            return name, self._search_path.schemas(name.lower())[0]
        of = (d for d in self._search_path.databases(name.lower()) if d != "temp")
        return next(of), name

    def qualified(self, text: str) -> str:
        """A query with its tables called in full: what it means here it means everywhere."""
        from .recursion_scan import scan

        scanned = scan(text)
        named = dict(scanned.qualified)
        for reference in scanned.references:
            if not (reference.recurring or scanned.resolve(reference)):
                named[reference.name] = (reference.label,)
        for span in sorted(named, key=lambda s: -s.start):
            found = self.find(named[span])
            if found is not None and not found.temporary:
                text = f"{text[: span.start]}{found.quoted}{text[span.end :]}"
        return text

    def beside(self, tables: Iterable[str]) -> Names:
        """The same catalog with temporary tables of these names, which have come since."""
        return self.after([Relation("temp", "main", name, "table", True) for name in tables])

    def after(self, come: Sequence[Relation] = (), gone: Collection[str] = ()) -> Names:
        """The same catalog once these have come, and those of some keys have gone."""
        other = copy(self)
        other.relations = [*(r for r in self.relations if r.key not in gone), *come]
        other._by_name = {}
        for relation in other.relations:
            other._by_name.setdefault(relation.name.lower(), []).append(relation)
        if gone or any(r.kind == "view" for r in come):
            other.__dict__.pop("_queries", None)
        return other

    def mentioned(self, text: str) -> list[Relation]:
        """What `text` may read: its table references, or every name in it if it can't be parsed."""
        return [r for r in map(self.find, names_in(text)) if r is not None]

    def unlike(self, text: str, other: Names) -> str | None:
        """The first name in `text` that means something else to `other`, as it is written."""
        for parts, cte, *_ in (
            () if self._search_path == other._search_path else tables_in(text) or ()
        ):
            if not cte and all(parts) and self.find(parts) != other.find(parts):
                return ".".join(parts)
        return None

    def reads(self, text: str, stop: frozenset[str] = frozenset()) -> dict[str, Relation]:
        """Tables, and views whose key is in `stop`, that a query depends on, through plain views.

        May hold more than it reads (where the text cannot be parsed), never less.
        """
        return self._followed(text, stop)[0]

    def views(self, text: str) -> dict[Relation, str]:
        """The plain views that a query depends on, with their queries."""
        return self._followed(text, frozenset())[1]

    def texts(self, text: str, stop: frozenset[str]) -> list[str]:
        """A query, and those of the plain views and macros that it depends on."""
        return [each for each, _ in self._followed(text, stop)[2]]

    def words(self, text: str, stop: frozenset[str]) -> set[str]:
        """In lower case, every name in these texts."""
        return set().union(*map(words_in, self.texts(text, stop)))

    def temporary(self, text: str, stop: frozenset[str]) -> tuple[str, str] | None:
        """The first thing that a query means which only this connection has: kind and name."""
        found, views, texts = self._followed(text, stop)
        named = (r for text, names in texts for r in names.mentioned(text))
        for relation in (*found.values(), *views, *named):
            if relation.temporary and not relation.name.startswith("__tw_"):
                return relation.kind, relation.name
        own, types = self.temporaries("MACRO"), self.temporaries("TYPE")
        for each, _ in texts if own or types else ():
            for _, word in functions.calls(each):
                if word in own:
                    return "macro", word
            for token in tokens(each):
                if token.word in types:
                    return "type", token.text
        return None

    def temporaries(self, kind: str) -> frozenset[str]:
        """The macros or types that only this connection has, in lower case."""
        if kind == "TYPE":
            return functions.of(self._connection).temporary_types
        return functions.of(self._connection).temporary

    @property
    def hiding(self) -> bool:
        """Has this connection something of its own, which may hide what others see?"""
        macros = self.temporaries("MACRO") - introspection.FUNCTIONS
        return bool(
            macros
            or self.temporaries("TYPE")
            or any(r.temporary and not r.name.startswith("__tw_") for r in self.relations)
        )

    def _followed(
        self, text: str, stop: frozenset[str]
    ) -> tuple[dict[str, Relation], dict[Relation, str], list[tuple[str, Names]]]:
        """Tables, plain views with their queries, and all texts with the catalog as each sees it,
        the query first."""
        found: dict[str, Relation] = {}
        views: dict[Relation, str] = {}
        texts: list[tuple[str, Names]] = []
        seen: set[tuple[str, SearchPath]] = set()
        todo: list[tuple[str, Names]] = [(text, self)]
        while todo:
            current, names = todo.pop()
            texts.append((current, names))
            called = self.macros and words_in(current)
            for name in set(called or ()) & set(self.macros):
                if (name, names._search_path) not in seen:  # it reads what its caller would
                    seen.add((name, names._search_path))
                    todo += ((body_, names) for body_ in self.macros[name])
            for relation in names.mentioned(current):
                if relation.key in found:
                    continue
                if relation.kind != "view" or relation.key in stop:
                    found[relation.key] = relation
                    continue
                inside = names.inside(relation)
                if (relation.key, inside._search_path) not in seen:
                    seen.add((relation.key, inside._search_path))
                    views[relation] = body(self.sql(relation))
                    todo.append((views[relation], inside))
        return found, views, texts

    def alike(self, text: str) -> set[str]:
        """What a query depends on of which there are several, but for the case of a letter."""
        if not self._alike:
            return set()
        texts = self._followed(text, frozenset())[2]
        return self._alike & {r.key for each, names in texts for r in names.mentioned(each)}

    def reads_and_whole(self, text: str, stop: frozenset[str]) -> tuple[dict[str, Relation], bool]:
        """What a query `reads`, and whether all relations are there that it may depend on."""
        found, _, texts = self._followed(text, stop)
        lacking = any(
            names.find(parts) is None and not names._is_own(parts)
            for each, names in texts
            for parts in relations_in(each)
        )
        return found, not lacking

    def unlisted(self, text: str) -> str | None:
        """The first relation that a query depends on which is none of `relations`.

        It is in a schema in a schema, or in a database that was attached as hidden.
        """
        for each, names in self._followed(text, frozenset())[2]:
            if tables_in(each) is None:  # any word may be one
                found = next((w for (w,) in names_in(each) if w.lower() in self._nested), None)
                if found is not None and names.find((found,)) is None:
                    return found
            for parts in relations_in(each):
                unknown = names.find(parts) is None and not names._is_own(parts)
                if unknown and (len(parts) > 1 or names._hidden) and self._is_there(parts):
                    return ".".join(parts)
        return None

    def _is_there(self, parts: Sequence[str]) -> bool:
        """Does DuckDB know it? What was in a database that is detached is in no catalog either.

        Asked of another transaction: an error would be the end of this one.
        """
        if parts[-1].lower() in self._nested:
            return True
        name = ".".join(map(quoted, parts))
        try:
            with self._connection.cursor() as other:
                other.execute(f"USE {quoted(self.database)}").execute(
                    f"SELECT 1 FROM {name} LIMIT 0"
                )
        except duckdb.Error:
            return False
        return True

    @cached_property
    def _hidden(self) -> bool:
        """Is the database in use one that was attached as hidden?"""
        rows = self._connection.execute("SELECT lower(database_name) FROM duckdb_databases()")
        return (self.database.lower(),) not in rows.fetchall()

    def _is_own(self, parts: Sequence[str]) -> bool:
        """Is it one of DuckDB's own views?"""
        name = parts[-1].lower()
        schemas = [parts[-2].lower()] if len(parts) > 1 else ["main", "pg_catalog"]
        return any((schema, name) in self._own for schema in schemas)

    def catalog(self, text: str) -> str | None:
        """The first of DuckDB's own views (``information_schema.tables``) that a query reads."""
        for parts, cte, *_ in tables_in(text) or ():
            if all(parts) and not cte and self.find(parts) is None and self._is_own(parts):
                return ".".join(p.lower() for p in parts)
        return None


def body(create_view: str) -> str:
    """The query of ``CREATE VIEW name AS query``."""
    parts = list(tokens(create_view))
    for token in parts:
        if token.kind == "word" and token.text.upper() == "AS":
            return create_view[token.start + 2 :].rstrip().rstrip(";")
    return create_view


def _place_of(relation: Relation) -> tuple[str, ...]:
    return relation.database.lower(), relation.schema.lower()
