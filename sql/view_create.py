"""CREATE MATERIALIZED VIEW: how a view comes into the catalog and the registry."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import Exchanged, pa
from tidewheel.engine.kernels.duckdb_types import unnamed
from tidewheel.engine.quoting import literal, quoted
from tidewheel.sql import collations, errors, hidden, plain_view, view_text
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.reads import Names, Relation
from tidewheel.sql.statements import Statement
from tidewheel.sql.view_checks import Checks, check_columns, check_types, named_query, of_itself
from tidewheel.sql.view_registry import SCHEMA, catalog, kept_in, row_name, rows_relation

if TYPE_CHECKING:
    from tidewheel.planner import logical as L


# Types that Arrow has others for: DuckDB's view casts to them. (The name of a STRUCT's
# field has a space behind it.)
_CHANGED = re.compile(r"\b(?:(?:ENUM|TUPLE)\(|GEOMETRY\b(?=$|[,)\[(]))")


# Types of which DuckDB's answers are what Arrow has for them, under all settings.
_PLAIN = re.compile(
    r"U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|BOOLEAN|"
    r"VARCHAR|DATE|TIME|TIMESTAMP|UUID"
)


class Creation(Checks):
    """How a view is made."""

    def create(self, statement: Statement, plain: list[L.Column] | None = None) -> None:
        """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] AS query.

        `plain`: the columns of the query of a plain view (see `plain_view`).
        """
        parsed = view_text.parse_create(statement, plain is not None)
        with self.writing():
            version, present = self.host.catalog.version, self._present()
            if self._answers[0] != version:
                self._answers = version, {}
            try:
                come = self._create(statement, parsed, plain, present)
            except (errors.Error, duckdb.OutOfRangeException) as error:
                if not isinstance(error, errors.Error):  # an operator's, not of a statement
                    error = errors.DataError(str(error))
                told = self._as_asked(parsed.query, error)
                told.move(parsed.query, statement.script, parsed.query_at)
                raise told from None
            if come is None:
                self.host.catalog_changed()
            else:
                self._went_on(present, version, come)

    def _as_asked(self, query: str, error: errors.Error) -> errors.Error:
        """An error of filling a view, as DuckDB tells it of the query."""
        if isinstance(error, errors.DataError) and not self.host.in_transaction:
            try:
                self.host_query(query, Names(self.host.connection).reads(query, self._keys()))
            except errors.DataError as told:
                return told
        return error

    def _create(
        self,
        statement: Statement,
        parsed: view_text.CreateView,
        plain: list[L.Column] | None,
        present: Names,
    ) -> list[Relation] | None:
        """What has come into the catalog; None if something has gone, too, or nobody knows.

        `present`: the catalog as it is.
        """
        con = self.host.connection
        home = self.home()
        names = present.at(home.path)
        found = self._check(statement, parsed, plain is not None, present, names)
        if found is None:
            return []
        relation, key, target, replaced = found.relation, found.key, found.target, found.replaced
        with self.implicitly():
            if replaced:
                self.drop_one(key)
            elif relation is not None:
                self._do(f"DROP VIEW {relation.quoted}")
            kept = names.find([names.database, SCHEMA, "views"]) is not None
            come: list[Relation] = []
            if not kept:
                self._do(catalog(names.database))
                come.append(Relation(names.database, SCHEMA, "views", "table", False))
            if relation is None:
                self._hides(names, key)
            if plain is not None:
                types = [c.type for c in plain]
                check_types(statement, parsed, [c.name for c in plain], types)
                rows = plain_view.no_rows(plain, self.arrow(types))
            else:
                read = frozenset(names.reads(parsed.query, self._keys()))
                known = names.after(come) if relation is None else None
                try:
                    rows, types = self._no_rows(parsed.query, read, known)
                except errors.ProgrammingError:
                    if found.itself:
                        raise of_itself(statement, parsed) from None
                    raise
            columns = check_columns(statement, parsed, rows.column_names)
            if plain is None:
                check_types(statement, parsed, columns, types)
            collated = self._collations(parsed.query, names) if plain is None else []
            items = ", ".join(map(_typed, columns, types, collated or repeat("")))
            token = f"{key.split('.', 1)[1]}~{secrets.token_hex(4)}"
            # (to be exchanged for its rows at the first read, if they are few)
            given = self._registered[token] = Exchanged(rows.rename_columns(columns))
            con.register(row_name(token), given)
            select = f"SELECT {items} FROM {quoted(row_name(token))}"
            sql = named_query(parsed, rows.column_names, columns)
            self._rename_bound(parsed.query, sql, columns)
            self.database.position += 1
            kept_as = [self._stored(key), sql, self.database.position, plain is not None, token]
            views = kept_in(names.database)
            # (a row may be left of one that plain DuckDB dropped; OR REPLACE takes twice as long)
            self._do(
                f"CREATE VIEW {target} AS {select}; "
                f"DELETE FROM {views} WHERE key = {literal(self._stored(key))}; "
                f"INSERT INTO {views} VALUES (?, ?, ?, ?, ?, ?)",
                [*kept_as, self._kept(key, home)],
            )
            reads, whole = names.reads_and_whole(sql, self._keys())
            of = frozenset(reads), whole
            view = self._view(key, sql, of, plain is not None, token, home)
            self._change_registry().add(view)
            if not self.host.in_transaction and plain is None:
                # in a transaction of the user's the view stays cold until it is committed
                filled = self._maintainer.heat(view.key, Maintenance(self)).plan
                as_said = filled is not None and filled.rows().schema.types == rows.schema.types
                if as_said and all(map(_PLAIN.fullmatch, types)):
                    self._answers[1][key] = given.schema
                elif filled is not None and not as_said:
                    # Arrow has another type than the plan: DuckDB's view must know that one
                    self.stand_in(key, filled.rows().rename_columns(columns))
                    self._do(f"CREATE OR REPLACE VIEW {target} AS {select}")
        (name, *qualifiers) = reversed(parsed.parts)
        if relation is not None or qualifiers or not name.isascii():
            return None
        come.append(Relation(names.database, names.schema, name, "view", False))
        return [*come, rows_relation(token)]

    def _no_rows(
        self, sql: str, reads: frozenset[str], names: Names | None
    ) -> tuple[pa.Table, list[str]]:
        """A table of a query's columns, and their types: its rows come when the view is filled.

        `names`: the catalog, if nothing has changed it since it was read.
        """
        if not self.host.in_transaction:
            for key in sorted(reads & self._keys(), key=self._order):
                self._register(key, self._rows(key))
            try:
                bound = self.host.bind(sql, names)
                self._bound = (sql, bound)  # it is wanted again when the view is filled
                if bound.schema:  # else it is kept whole, and only DuckDB knows its columns
                    columns = list(bound.schema)
                    types = [c.type for c in columns]
                    if any(map(unnamed, types)):
                        return self.host_query(sql, reads), types
                    return plain_view.no_rows(columns, self.arrow(types)), types
            except (errors.Error, duckdb.Error):
                pass
        rows = self.host_query(sql, reads)  # also for its error
        types = [""] * rows.num_columns
        with suppress(duckdb.Error):  # what only Tidewheel can run
            told = [t for _, t in hidden.describe(self.host.connection, sql, None)]
            if any(map(unnamed, told)) or any(f.metadata or _loses(f.type) for f in rows.schema):
                types = told
        return rows, types

    def _collations(self, query: str, names: Names) -> list[str]:
        """The collation of each column of a query; empty if surely none has one."""
        if "collate" not in query.lower() and names.collated(query) == ():
            return []
        return collations.of_query(self.host.connection, query)

    def _rename_bound(self, query: str, named: str, columns: list[str]) -> None:
        """The plan of `query` is wanted as that of the same one with other names for `columns`."""
        if self._bound is not None and self._bound[0] == query != named:
            from .view_logical import called

            node = called(self._bound[1], columns)
            self._bound = None if node is None else (named, node)


def _typed(name: str, kind: str, collation: str) -> str:
    """A view's column, of its type again where Arrow has another one for it."""
    if collation:
        return collations.typed(name, collation)
    if not _CHANGED.search(kind):
        return quoted(name)
    return f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}"


def _loses(kind: pa.DataType) -> bool:
    """May an Arrow type stand for another one of DuckDB's?"""
    if pa.types.is_struct(kind) and kind.num_fields and kind[0].name == "element1":
        return True
    inner = (kind.field(i) for i in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(f.metadata or _loses(f.type) for f in inner)
