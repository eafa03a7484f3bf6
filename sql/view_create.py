"""CREATE MATERIALIZED VIEW: what it may be, and how it comes into the catalog and the registry."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.quoting import key_of, quoted
from tidewheel.sql import errors, hidden, introspection, plain_view, view_text
from tidewheel.sql.reads import Names, Relation
from tidewheel.sql.statements import Statement, Token, mentions_recursion, tokens, writing_cte
from tidewheel.sql.unstable import pivots_by_data, rowid, unstable_call
from tidewheel.sql.view_reading import Maintenance
from tidewheel.sql.view_registry import CATALOG, SCHEMA, row_name, rows_relation
from tidewheel.sql.view_rows import RowEpochs

if TYPE_CHECKING:
    from tidewheel.planner import logical as L


# Types that Arrow has others for: DuckDB's view casts to them, or no view can have them. (The name
# of a STRUCT's field has a space behind it.)
_CHANGED = re.compile(r"\b(?:(?:ENUM|TUPLE)\(|GEOMETRY\b(?=$|[,)\[(]))")
_VARIANT = re.compile(r"\bVARIANT\b(?=$|[,)\[])")


class Creation(RowEpochs):
    """How a view is made."""

    def create(self, statement: Statement, plain: list[L.Column] | None = None) -> None:
        """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] AS query.

        `plain`: the columns of the query of a plain view (see `plain_view`).
        """
        parsed = view_text.parse_create(statement, plain is not None)
        with self.writing():
            version, present = self.host.catalog.version, self._present()
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
        relation, key, target = self._name(parsed, names)
        if len(parsed.parts) > 1:
            self.in_use(key, statement, parsed)
        replaced = key in self._maintainer.views
        if relation is not None:
            if parsed.if_not_exists:
                return []
            alike = plain is not None and relation.kind == "view"
            if replaced:
                alike = self._maintainer.views[key].plain == (plain is not None)
            if not (parsed.replace and alike):
                what = "maintained view" if replaced else relation.kind
                raise errors.ProgrammingError(
                    f"{what} {parsed.parts[-1]} exists already",
                    hint="CREATE OR REPLACE MATERIALIZED VIEW" if replaced and alike else None,
                    text=statement.script,
                    position=parsed.name_at,
                    length=parsed.name_length,
                )
            if self._maintainer.readers([key]):
                self._refuse_dependents(key, statement, parsed.name_at)
        self._check_query(parsed, statement, names, plain is not None)
        unlike = present.unlike(parsed.query, names)
        if unlike is not None:  # the path names no database, which that of the view will
            raise _refusal(
                statement,
                parsed,
                f"a view can't keep what {unlike} means under this search_path",
                "name the schema, too: database.schema.table",
            )
        itself = replaced and key in names.reads(parsed.query, self._keys())
        with self.implicitly():
            if replaced:
                self.drop_one(key)
            elif relation is not None:
                self._do(f"DROP VIEW {relation.quoted}")
            kept = names.find([names.database, SCHEMA, "views"]) is not None
            come: list[Relation] = []
            if not kept:
                self._do(CATALOG)
                come.append(Relation(names.database, SCHEMA, "views", "table", False))
            if relation is None:
                self._hides(names, key)
            if plain is not None:
                types = [c.type for c in plain]
                rows = plain_view.no_rows(plain, self.arrow(types))
            else:
                read = frozenset(names.reads(parsed.query, self._keys()))
                known = names.after(come) if relation is None else None
                try:
                    rows, types = self._no_rows(parsed.query, read, known)
                except errors.ProgrammingError:
                    if itself:
                        raise _of_itself(statement, parsed) from None
                    raise
            columns = self._columns(rows, parsed, statement)
            for column, kind in zip(columns, types, strict=True):
                if plain is None and _VARIANT.search(kind):
                    raise _refusal(
                        statement,
                        parsed,
                        f"a maintained view can't keep {column}, which is a VARIANT",
                        "cast it to JSON, VARCHAR, or the type that its values have",
                    )
            items = ", ".join(map(_typed, columns, types))
            token = f"{key.split('.', 1)[1]}~{secrets.token_hex(4)}"
            con.register(row_name(token), rows.rename_columns(columns))
            self._registered[token] = None
            select = f"SELECT {items} FROM {quoted(row_name(token))}"
            self._do(f"CREATE VIEW {target} AS {select}")
            sql = parsed.query
            if parsed.columns or columns != rows.column_names:
                sql = view_text.with_columns(sql, columns)
            self._do(
                f"INSERT INTO {SCHEMA}.views "
                f"SELECT ?, ?, coalesce(max(position), 0) + 1, ?, ?, ? FROM {SCHEMA}.views",
                [self._stored(key), sql, plain is not None, token, self._kept(home)],
            )
            view = self._view(key, sql, names, plain is not None, token, home)
            self._change_registry().add(view)
            if not self.host.in_transaction and plain is None:
                # in a transaction of the user's the view stays cold until it is committed
                filled = self._maintainer.heat(view.key, Maintenance(self)).plan
                if filled is not None and filled.rows().schema.types != rows.schema.types:
                    # Arrow has another type than the plan: DuckDB's view must know that one
                    con.register(row_name(token), filled.rows().rename_columns(columns))
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
                    return plain_view.no_rows(columns, self.arrow(types)), types
            except (errors.Error, duckdb.Error):
                pass
        rows = self.host_query(sql, reads)  # also for its error
        types = [""] * rows.num_columns
        # (what only Tidewheel can run would end the transaction)
        if any(f.metadata or _loses(f.type) for f in rows.schema) and not mentions_recursion(sql):
            types = [t for _, t in hidden.describe(self.host.connection, sql, None)]
        return rows, types

    def _columns(
        self, rows: pa.Table, parsed: view_text.CreateView, statement: Statement
    ) -> list[str]:
        columns: list[str] = list(rows.column_names)
        if parsed.columns:
            if len(parsed.columns) > len(columns):
                raise errors.ProgrammingError(
                    f"the list names {len(parsed.columns)} columns, the query gives {len(columns)}",
                    text=statement.script,
                    position=parsed.name_at,
                )
            columns[: len(parsed.columns)] = parsed.columns
        return _distinct(columns)

    def _check_query(
        self, parsed: view_text.CreateView, statement: Statement, names: Names, plain: bool
    ) -> None:
        verb = writing_cte(tokens(parsed.query))
        if verb is not None:
            raise _refusal(
                statement,
                parsed,
                f"a view can't {verb.text.upper()}: it is read again and again",
                "run the statement by itself",
                verb,
            )
        pivot = None if plain else pivots_by_data(parsed.query, self.host.connection)
        if pivot is not None:
            raise _refusal(
                statement,
                parsed,
                "a maintained view can't PIVOT on values that it finds: its columns are fixed",
                "list the values: PIVOT … ON column IN (value, …)",
                pivot,
            )
        for what in () if plain else introspection.named(parsed.query):
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't read {what}(): it changes while no table does",
                "use a plain view",
            )
        if not plain:
            self._check_stable(parsed, statement, names)
        own = names.temporary(parsed.query, self._keys())
        if own is not None:
            kind, name = own
            made = kind in ("macro", "type")
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't read {name}: only this connection has it",
                f"create the {kind} without TEMP"
                if made
                else f"copy it into a table: CREATE TABLE … AS FROM {name}",
            )

    def _check_stable(
        self, parsed: view_text.CreateView, statement: Statement, names: Names
    ) -> None:
        """What changes while no table does could not be kept right."""
        con = self.host.connection
        call = unstable_call(parsed.query, con)
        if call is not None:
            token, word = call
            named = word in ("query", "query_table")
            why = "what it reads is not seen" if named else "its value changes while no table does"
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't call {word}: {why}",
                "write the query itself"
                if named
                else "use a plain view, or filter by it when you read the view",
                token,
            )
        place = rowid(parsed.query, con)
        if place is not None:
            raise _refusal(
                statement,
                parsed,
                "a maintained view can't read rowid: a commit may give the rows others",
                "give the table a key column",
                place,
            )
        unlisted = names.unlisted(parsed.query)
        if unlisted is not None:
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't read {unlisted}: its changes would not be seen",
                "is it in a schema in a schema, or in a hidden database? Use a plain view",
            )
        alike = names.alike(parsed.query)
        if alike:
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't read {min(alike)}: {_ALIKE}",
                "give one of them another name",
            )
        own = names.catalog(parsed.query)
        for view, query in names.views(parsed.query).items():
            through = unstable_call(query, con)
            inner = through[1] if through is not None else names.catalog(query)
            if inner is None and rowid(query, con) is not None:
                inner = "rowid"
            own = own or (f"{view.name}: it reads {inner}" if inner is not None else None)
        if own is not None:
            raise _refusal(
                statement,
                parsed,
                f"a maintained view can't read {own}, which changes while no table does",
                "use a plain view",
            )

    def _name(self, parsed: view_text.CreateView, names: Names) -> tuple[Relation | None, str, str]:
        """What has the name now, the key, and the qualified name as SQL."""
        relation = names.made(parsed.parts)
        if relation is not None:
            return relation, relation.key, relation.quoted
        database, schema = names.target(parsed.parts)
        name = parsed.parts[-1]
        target = ".".join(map(quoted, (database, schema, name)))
        return None, key_of(database, schema, name), target


_ALIKE = "there are several of that name, but for the case of a letter"


def _typed(name: str, kind: str) -> str:
    """A view's column, of its type again where Arrow has another one for it."""
    if not _CHANGED.search(kind):
        return quoted(name)
    return f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}"


def _loses(kind: pa.DataType) -> bool:
    """May an Arrow type stand for another one of DuckDB's?"""
    if pa.types.is_struct(kind) and kind.num_fields and kind[0].name == "element1":
        return True
    inner = (kind.field(i) for i in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(f.metadata or _loses(f.type) for f in inner)


def _distinct(names: Sequence[str]) -> list[str]:
    """What DuckDB calls a view's columns: one whose name is there already gets a number."""
    last: dict[str, int] = {}
    found = []
    for name in names:
        new = name
        while new.lower() in last:
            last[name.lower()] += 1
            new = f"{name}_{last[name.lower()]}"
        last[new.lower()] = 0
        found.append(new)
    return found


def _of_itself(statement: Statement, parsed: view_text.CreateView) -> errors.Error:
    name = parsed.parts[-1]
    return errors.ProgrammingError(
        f"a view can't read itself, and the query of {name} reads {name}",
        hint=f"write out what {name} is made of (SELECT sql FROM tidewheel_views() has its query), "
        "or give the new view another name; to be up to date a view needs neither",
        text=statement.script,
        position=parsed.name_at,
        length=parsed.name_length,
    )


def _refusal(
    statement: Statement,
    parsed: view_text.CreateView,
    message: str,
    hint: str,
    token: Token | None = None,
) -> errors.Error:
    """The error for a query that no view can have; `token`: what in the query is the cause."""
    return errors.NotSupportedError(
        message,
        hint=hint,
        text=statement.script,
        position=parsed.query_at + (0 if token is None else token.start),
        length=1 if token is None else len(token.text),
    )
