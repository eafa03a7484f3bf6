"""A session's maintained views and transactions: an epoch is a committed transaction.

Rows of a maintained view reach DuckDB as an Arrow table that is registered in the connection under
`row_name(key)`; in the catalog the view is a plain view over that name. So any SELECT reads it as
written. `prepare` registers what a text may read before it runs.

A transaction's changes are captured while it runs (`sql.capture`) and taken through the views just
before DuckDB commits; if either fails both are undone (views are rebuilt from the tables, which is
slow and always right). Until then the connection that writes reads its own views by running their
queries, and all other readers see the last epoch.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.planner import maintain
from tidewheel.planner.maintain import MaintainedView, Maintainer
from tidewheel.sql import errors, introspection, plain_view, view_ddl, view_text
from tidewheel.sql.capture import Capture, Outcome, TableInfo, quote
from tidewheel.sql.database import Database
from tidewheel.sql.reads import Names, Relation, path_of, pivots_by_data, unstable_call
from tidewheel.sql.repeated import Repeated, Row
from tidewheel.sql.statements import Statement, tokens, writing_cte
from tidewheel.sql.subscribe import Subscription, Update, snapshot

if TYPE_CHECKING:
    from tidewheel.engine.operators.circuit import Circuit
    from tidewheel.engine.state.change import Change
    from tidewheel.planner import logical as L
    from tidewheel.planner.logical import Node
    from tidewheel.sql.catalog import Catalog
    from tidewheel.sql.dbapi import Connection

SCHEMA = "__tidewheel"
_CATALOG = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS {SCHEMA}.views
    (key VARCHAR PRIMARY KEY, sql VARCHAR NOT NULL, position INTEGER NOT NULL, plain BOOLEAN,
     token VARCHAR, home VARCHAR)
"""
# A database is named by '' where it is the one that holds the table: a file may be renamed.


def row_name(token: str) -> str:
    """The name under which a view's rows are registered."""
    return f"__tw_rows_{token}"


class Host(Protocol):
    """What a session offers to its views."""

    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    database: Database
    in_transaction: bool
    safe_mode: bool
    temporary: bool

    def bind(self, sql: str) -> Node:
        """The logical plan of a view's query."""

    def table(self, sql: str) -> pa.Table:
        """Run a query through the planner, on the session's connection, to its end."""

    def catalog_changed(self) -> None:
        """Forget cached plans."""

    def python(self) -> Connection:
        """The session as a connection."""


PlanFactory = Callable[[str, frozenset[str], Callable[..., "pa.Table"]], maintain.Plan]


class Views:
    """One session's view of the registry, and its transaction's captured changes."""

    def __init__(self, host: Host, make_plan: PlanFactory) -> None:
        self.host = host
        self.database = host.database
        self._make_plan = make_plan
        self.implicit = False
        """Is a transaction open that the user did not begin?"""
        self._changes: dict[str, list[pa.Table]] = {}
        self._overlay: Maintainer | None = None
        self._anew: set[str] = set()
        self._away: str | None = None
        """The search path to go back to when the transaction has ended."""
        self._found_path: tuple[int, maintain.Path, str] | None = None
        self._start_epoch = -1
        self._registered: dict[str, pa.Table | None] = {}
        self._own_rows: dict[str, pa.Table] = {}
        self._words: tuple[int, dict[str, frozenset[str]]] = (-1, {})
        self._targets: tuple[int, dict[str, str | None]] = (-1, {})
        self._tables: tuple[int, dict[str, TableInfo]] = (-1, {})
        self._prepared_writes: set[str] = set()
        self._bound: tuple[str, Node] | None = None
        self._scratch_connection: duckdb.DuckDBPyConnection | None = None
        self.database.enter(self)
        with self.database.reading:
            if not self.database.loaded:
                self.database.loaded = True
                self._load()

    @property
    def _maintainer(self) -> Maintainer:
        """The registry; within a transaction that changed it, what it will be after the commit."""
        return self.database.maintainer if self._overlay is None else self._overlay

    def _change_registry(self) -> Maintainer:
        """The registry as this transaction leaves it: others see it when that is committed."""
        if self._overlay is None:
            base = self.database.maintainer
            self._overlay = Maintainer(base.views, base.shared)
        self.database.catalog_version += 1
        return self._overlay

    @property
    def registry(self) -> Maintainer:
        """The views, as this session's transaction leaves them."""
        return self._maintainer

    @property
    def any(self) -> bool:
        """Does the database have a maintained view?"""
        return bool(self._maintainer.views)

    # -- the catalog -----------------------------------------------------------------------------

    def _load(self) -> None:
        con = self.host.connection
        found = con.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = 'views' "
            "AND database_name = current_database()",
            [SCHEMA],
        ).fetchall()
        if not found[0][0]:
            return
        rows = con.execute(f"FROM {SCHEMA}.views ORDER BY position").fetchall()
        names = Names(con)
        for key, sql, _, plain, token, home in rows:
            key = names.database.lower() + key if key.startswith(".") else key
            path = tuple((d or names.database, s) for d, s in json.loads(home))
            self.database.maintainer.add(self._view(key, sql, names, plain, token, path))
        self.database.catalog_version += 1

    def _view(
        self, key: str, sql: str, names: Names, plain: bool, token: str, home: maintain.Path
    ) -> MaintainedView:
        reads = frozenset(names.at(home).reads(sql, self._keys()))
        plan = partial(self._make_plan, sql, reads, self._scratch)
        return MaintainedView(key, sql, reads, plan, token, home, plain)

    @cached_property
    def _own(self) -> str:
        """The database that holds the catalog of views."""
        found = self.host.connection.execute("SELECT lower(current_database())").fetchall()
        return str(found[0][0])

    def _kept(self, home: maintain.Path) -> str:
        """A path as the catalog has it."""
        return json.dumps([("" if d.lower() == self._own else d, s) for d, s in home])

    def _stored(self, key: str) -> str:
        """A view's key as the catalog has it."""
        own = self._own + "."
        return key[len(own) - 1 :] if key.startswith(own) else key

    def create(self, statement: Statement, plain: list[L.Column] | None = None) -> None:
        """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] AS query.

        `plain`: the columns of the query of a plain view (see `plain_view`).
        """
        parsed = view_text.parse_create(statement, plain is not None)
        con = self.host.connection
        with self.writing():
            names = Names(con)
            relation, key, target = self._name(parsed, names)
            replaced = key in self._maintainer.views
            if relation is not None:
                if parsed.if_not_exists:
                    return
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
            with self.implicitly():
                if replaced:
                    self.drop_one(key)
                elif relation is not None:
                    self._do(f"DROP VIEW {relation.quoted}")
                self._do(_CATALOG)
                if plain is not None:
                    rows = plain_view.no_rows(con, plain)
                else:
                    read = frozenset(names.reads(parsed.query, self._keys()))
                    rows = self._no_rows(parsed.query, read)
                columns = self._columns(rows, parsed, statement)
                token = f"{key.split('.', 1)[1]}~{secrets.token_hex(4)}"
                con.register(row_name(token), rows.rename_columns(columns))
                self._registered.pop(key, None)
                select = f"SELECT {', '.join(map(quote, columns))} FROM {quote(row_name(token))}"
                self._do(f"CREATE VIEW {target} AS {select}")
                sql = parsed.query
                if parsed.columns:
                    listed = ", ".join(map(quote, columns))
                    sql = f"WITH __tw_view({listed}) AS ({sql}\n) SELECT * FROM __tw_view"
                self._do(
                    f"INSERT INTO {SCHEMA}.views "
                    f"SELECT ?, ?, coalesce(max(position), 0) + 1, ?, ?, ? FROM {SCHEMA}.views",
                    [self._stored(key), sql, plain is not None, token, self._kept(names.home)],
                )
                view = self._view(key, sql, names, plain is not None, token, names.home)
                self._change_registry().add(view)
                if not self.host.in_transaction and plain is None:
                    # in a transaction of the user's the view stays cold until it is committed
                    filled = self._maintainer.heat(view.key, Maintenance(self)).plan
                    if filled is not None and filled.rows().schema.types != rows.schema.types:
                        # Arrow has another type than the plan: DuckDB's view must know that one
                        con.register(row_name(token), filled.rows().rename_columns(columns))
                        self._do(f"CREATE OR REPLACE VIEW {target} AS {select}")
        self.host.catalog_changed()

    def bound(self, sql: str) -> Node:
        """The logical plan of a view's query."""
        known, self._bound = self._bound, None
        return known[1] if known is not None and known[0] == sql else self.host.bind(sql)

    def forget_bound(self) -> None:
        """The statement is over: names may mean something else in the next one."""
        self._bound = None

    def _no_rows(self, sql: str, reads: frozenset[str]) -> pa.Table:
        """A table of a query's columns: its rows come when the view is filled."""
        if not self.host.in_transaction:
            for key in sorted(reads & self._keys(), key=self._order):
                self._register(key, self._rows(key))
            try:
                bound = self.host.bind(sql)
                self._bound = (sql, bound)  # it is wanted again when the view is filled
                if bound.schema:  # else it is kept whole, and only DuckDB knows its columns
                    return plain_view.no_rows(self.host.connection, list(bound.schema))
            except (errors.Error, duckdb.Error):
                pass
        return self.host_query(sql, reads)  # also for its error

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
        lower = [c.lower() for c in columns]
        for i, name in enumerate(lower):
            if name in lower[:i]:
                raise errors.ProgrammingError(
                    f"column {columns[i]} appears twice in the view",
                    hint="give one of them another name with AS",
                    text=statement.script,
                    position=parsed.query_at,
                )
        return columns

    def _check_query(
        self, parsed: view_text.CreateView, statement: Statement, names: Names, plain: bool
    ) -> None:
        verb = writing_cte(tokens(parsed.query))
        if verb is not None:
            raise errors.NotSupportedError(
                f"a view can't {verb.text.upper()}: it is read again and again",
                hint="run the statement by itself",
                text=statement.script,
                position=parsed.query_at + verb.start,
                length=len(verb.text),
            )
        pivot = None if plain else pivots_by_data(parsed.query, self.host.connection)
        if pivot is not None:
            raise errors.NotSupportedError(
                "a maintained view can't PIVOT on values that it finds: its columns are fixed",
                hint="list the values: PIVOT … ON column IN (value, …)",
                text=statement.script,
                position=parsed.query_at + pivot.start,
                length=len(pivot.text),
            )
        for what in () if plain else introspection.named(parsed.query):
            raise errors.NotSupportedError(
                f"a maintained view can't read {what}(): it changes while no table does",
                hint="use a plain view",
                text=statement.script,
                position=parsed.query_at,
            )
        call = None if plain else unstable_call(parsed.query, self.host.connection, names)
        if call is not None:
            token, word = call
            raise errors.NotSupportedError(
                f"a maintained view can't call {word}: its value changes while no table does",
                hint="use a plain view, or filter by it when you read the view",
                text=statement.script,
                position=parsed.query_at + token.start,
                length=len(token.text),
            )
        # a registered frame is a temporary view, through which `reads` looks
        read = [*names.reads(parsed.query, self._keys()).values(), *names.mentioned(parsed.query)]
        for relation in read:
            if relation.temporary and not relation.name.startswith("__tw_rows_"):
                raise errors.NotSupportedError(
                    f"a maintained view can't read {relation.name}: only this connection has it",
                    hint=f"copy it into a table: CREATE TABLE … AS FROM {relation.name}",
                    text=statement.script,
                    position=parsed.query_at,
                )

    def _name(self, parsed: view_text.CreateView, names: Names) -> tuple[Relation | None, str, str]:
        """What has the name now, the key, and the qualified name as SQL."""
        relation = names.find(list(parsed.parts))
        if relation is not None:
            return relation, relation.key, relation.quoted
        *qualifiers, name = parsed.parts
        schema = qualifiers[-1] if qualifiers else names.schema
        database = qualifiers[0] if len(qualifiers) == 2 else names.database
        target = ".".join(map(quote, (database, schema, name)))
        return None, f"{database}.{schema}.{name}".lower(), target

    def drop(self, statement: Statement, plain: bool = False) -> None:
        """DROP MATERIALIZED VIEW [IF EXISTS] name [CASCADE]; `plain`: DROP VIEW."""
        parsed = view_text.parse_drop(statement, plain)
        with self.writing():
            relation = Names(self.host.connection).find(list(parsed.parts))
            known = None if relation is None else self._maintainer.views.get(relation.key)
            if relation is None or known is None or (known.plain and not plain):
                if parsed.if_exists and relation is None:
                    return
                raise errors.ProgrammingError(
                    f"there is no maintained view {'.'.join(parsed.parts)}"
                    if relation is None
                    else f"{parsed.parts[-1]} is a {relation.kind}, not a maintained view",
                    hint=self._near(parsed.parts[-1]) if relation is None else None,
                    text=statement.script,
                    position=parsed.name_at,
                    length=parsed.name_length,
                )
            dependents = self._maintainer.readers([relation.key])
            if dependents and not parsed.cascade:
                self._refuse_dependents(relation.key, statement, parsed.name_at)
            with self.implicitly():
                for key in reversed([relation.key, *dependents]):
                    self.drop_one(key)
        self.host.catalog_changed()

    def rename(
        self, statement: Statement, parsed: view_text.ViewName, view: MaintainedView
    ) -> None:
        """ALTER VIEW name RENAME TO another; refused where views read it, by name."""
        (new,) = parsed.rest
        with self.writing():
            if self._maintainer.readers([view.key]):
                self._refuse_dependents(view.key, statement, parsed.name_at)
            with self.implicitly():
                relation = self._relation(view.key)
                assert relation is not None
                self._do(f"ALTER VIEW {relation.quoted} RENAME TO {quote(new)}")
                key = f"{view.key.rsplit('.', 1)[0]}.{new.lower()}"
                old = [self._stored(key), self._stored(view.key)]
                self._do(f"UPDATE {SCHEMA}.views SET key = ? WHERE key = ?", old)
                registry = self._change_registry()
                registry.remove(view.key)
                registry.add(replace(view, key=key))
        self.host.catalog_changed()

    def _relation(self, key: str) -> Relation | None:
        return next((r for r in Names(self.host.connection).relations if r.key == key), None)

    def drop_one(self, key: str) -> None:
        """Take a view out of the catalog and the registry."""
        relation = self._relation(key)
        if relation is not None:
            self._do(f"DROP VIEW {relation.quoted}")
        self._do(f"DELETE FROM {SCHEMA}.views WHERE key = ?", [self._stored(key)])
        self._change_registry().remove(key)

    def _do(self, sql: str, parameters: list[Any] | None = None) -> None:
        """Run a statement to its end: an open result would block the connection."""
        self.host.connection.execute(sql, parameters).fetchall()

    def _install(self) -> bool:
        """After the commit: what it did to the registry holds for everybody.

        Returns whether a view went, or became another one.
        """
        if self._overlay is None:
            return False
        replaced = False
        before, after = self.database.maintainer.views, self._overlay.views
        for key, view in before.items():
            if key not in after or (after[key] is not view and key not in self._anew):
                replaced = True
                self.database.history.broken[key] = self.database.epoch
                if key in self._registered and key not in after:
                    del self._registered[key]
                    if not any(v.token == view.token for v in after.values()):
                        self.host.connection.unregister(row_name(view.token))
        self.database.maintainer.views = after
        self.database.maintainer.settle()
        self.database.catalog_version += 1
        return replaced

    def _refuse_dependents(self, key: str, statement: Statement, position: int) -> None:
        names = ", ".join(k.split(".", 1)[1] for k in self._maintainer.readers([key]))
        raise errors.ProgrammingError(
            f"{key.split('.', 1)[1]} is read by maintained views: {names}",
            hint="drop those first, or use CASCADE",
            text=statement.script,
            position=position,
        )

    def _near(self, name: str) -> str | None:
        from difflib import get_close_matches

        known = [k.rsplit(".", 1)[1] for k in self._maintainer.views]
        near = get_close_matches(name.lower(), known, 1)
        return f"did you mean {near[0]}?" if near else None

    def _keys(self) -> frozenset[str]:
        return frozenset(self._maintainer.views)

    # -- reading ---------------------------------------------------------------------------------

    def needed(self, text: str) -> list[str]:
        """The views that a text may read, through plain views and macros; inputs first."""
        wanted = self._wanted(text)
        return [v.key for v in self._maintainer.ordered() if v.key in wanted] if wanted else []

    def _wanted(self, text: str) -> set[str]:
        """Keys of views that a text may read, and the functions of `introspection`."""
        wanted = set(introspection.named(text))
        if not self._maintainer.views:
            return wanted
        version, words = self._words
        if version != self.database.catalog_version:
            words = self._word_index()
            self._words = (self.database.catalog_version, words)
        for token in tokens(text):
            wanted |= words.get(token.text.strip("\"'").lower(), frozenset())
        return wanted

    def _word_index(self) -> dict[str, frozenset[str]]:
        """Per name in lower case, the views that a text with this name may read."""
        names = Names(self.host.connection)
        keys = self._keys()
        words: dict[str, frozenset[str]] = {}
        for key in keys:
            words[key.rsplit(".", 1)[1]] = words.get(key.rsplit(".", 1)[1], frozenset()) | {key}
        for relation in names.relations:
            if relation.kind == "view" and relation.key not in keys and relation.sql:
                read = keys & set(names.reads(f"FROM {relation.quoted}", keys))
                read |= set(introspection.named(relation.sql))
                if read:
                    word = relation.name.lower()
                    words[word] = words.get(word, frozenset()) | read
        for macro, definition in names.macros.items():
            read = keys & set(names.reads(definition, keys))
            if read:
                words[macro] = words.get(macro, frozenset()) | read
        return words

    def prepare(self, text: str) -> None:
        """Register the rows of every view that `text` may read. Hold `database.reading`."""
        wanted = self._wanted(text)
        if not wanted:
            return
        with self.database.reading:
            for view in self._maintainer.ordered():
                if view.key in wanted:
                    self._register(view.key, self._rows(view.key))
        for what in introspection.FUNCTIONS & wanted:
            # seen by no other connection, so kernels must not use another one
            self.host.temporary = True
            introspection.provide(self.host.connection, what, self._maintainer)

    def _register(self, key: str, rows: pa.Table) -> None:
        if self._registered.get(key) is not rows:
            token = self._maintainer.views[key].token
            self.host.connection.register(row_name(token), rows)
            self._registered[key] = rows

    def _rows(self, key: str) -> pa.Table:
        view = self._maintainer.views[key]
        if self._stale_here(view):
            rows = self._own_rows.get(key)
            if rows is None:
                rows = self._own_rows[key] = self._run(view)
            return rows
        if view.pinned is not None:
            return view.pinned
        if not view.hot and not view.plain:
            # To run the query costs less than to fill the view: that can wait until the view is
            # read again after a change.
            state = self.database.state
            if view.read is None:
                view.read = state, self._run(view)
            if view.read[0] == state:
                return view.read[1]
            view.read = None
        if not view.hot and (view.plain or not self._heat(key)):
            return self._run(view)
        assert view.plan is not None
        return view.plan.rows()

    def _run(self, view: MaintainedView) -> pa.Table:
        """What the view's query gives here and now."""
        with self.at(view.home):
            return self.host_query(view.sql, view.reads)

    @contextmanager
    def at(self, home: maintain.Path) -> Iterator[None]:
        """Look for names in these schemas, in this order."""
        here, setting = self._path()
        if not home or home == here:
            yield
            return
        wanted = ",".join(f"{quote(d)}.{quote(s)}" for d, s in home)
        self._set_path(wanted)
        try:
            yield
        finally:
            try:
                self._set_path(setting)
            except duckdb.Error:
                self._away = setting  # a transaction that failed takes no statement

    def _path(self) -> tuple[maintain.Path, str]:
        """Where the session looks for names, and the setting that says so."""
        version = self.host.catalog.version
        if self._found_path is None or self._found_path[0] != version:
            ((database, schemas, schema, setting),) = self.host.connection.execute(
                "SELECT current_database(), current_schemas(false), current_schema(), "
                "current_setting('search_path')"
            ).fetchall()
            here = path_of(database, [*schemas, schema])
            self._found_path = version, here, setting
        return self._found_path[1:]

    def _set_path(self, path: str) -> None:
        self._found_path = None
        self._do(f"SET search_path = '{path.replace(chr(39), chr(39) * 2)}'")

    def _stale_here(self, view: MaintainedView) -> bool:
        """Must this session run the view's query, because its transaction sees other tables?"""
        if not self.host.in_transaction:
            return False
        if self._start_epoch != self.database.epoch or not view.hot:
            return True
        touched = [k for k, deltas in self._changes.items() if deltas]
        return view.key in self._maintainer.readers(touched)

    def _heat(self, key: str) -> bool:
        """Hydrate a cold view, unless another connection is writing just now."""
        writer = self.database.writer
        if not writer.held_by(self) and not writer.try_acquire(self):
            return False
        try:
            self._maintainer.heat(key, Maintenance(self))
        finally:
            if not self.host.in_transaction:
                writer.release(self)
        return True

    def host_query(self, sql: str, reads: Iterable[str]) -> pa.Table:
        """Run a view's query here and now; the views that it reads are registered first."""
        for key in sorted(set(reads) & self._keys(), key=self._order):
            self._register(key, self._rows(key))
        return self.host.table(sql)

    def _order(self, key: str) -> int:
        return [v.key for v in self._maintainer.ordered()].index(key)

    def run_for_maintenance(self, sql: str) -> pa.Table:
        """A query of the epoch being made: views that it reads are taken as they are now."""
        self.provide(sql)
        return self.host.table(sql)

    def provide(self, sql: str) -> None:
        """Register the views that `sql` reads as they are now, in the epoch being made."""
        for key in self.needed(sql):
            plan = self._maintainer.views[key].plan
            if plan is not None:
                self._register(key, plan.rows())

    def _scratch(self, sql: str, **tables: pa.Table) -> pa.Table:
        """Run SQL over Arrow tables, away from the session's transaction."""
        con = self._scratch_connection
        if con is None:
            access = {"enable_external_access": not self.host.safe_mode}
            con = self._scratch_connection = duckdb.connect(config={"threads": 1, **access})
            con.execute("SET arrow_lossless_conversion = true")
        for name, table in tables.items():
            con.register(name, table)
        try:
            return con.sql(sql).to_arrow_table()
        finally:
            for name in tables:
                con.unregister(name)

    # -- writing ---------------------------------------------------------------------------------

    def writing(self) -> Any:
        """Hold the write lock for a block."""
        return self.database.writing(self)

    def implicitly(self) -> _Implicit:
        """A transaction around a block, if none is open."""
        return _Implicit(self)

    def change(self, statement: Statement, given: Any) -> Outcome | None:
        """INSERT, UPDATE, DELETE, MERGE, COPY or EXECUTE; None: nothing watches, run it as written.

        In autocommit mode this is a whole epoch; within a transaction its changes are kept.
        """
        kind, parts, at = view_text.target(statement)
        key = self.target_key(statement)
        if key is not None and key in self._maintainer.views:
            raise errors.ProgrammingError(
                f"{parts[-1]} is a maintained view: its rows follow from the tables it reads",
                hint="change those tables",
                text=statement.script,
                position=at,
                length=len(parts[-1]),
            )
        self.recover()
        watched = self.watched_tables()
        if not watched or (key is not None and key not in watched):
            return None
        if kind == "other" and not parts and not self._writes_when_executed(statement):
            return None
        capture = Capture(self.host.connection, watched, self.host.connection.cursor)
        touched = frozenset(self._changes)
        self.prepare(statement.text)
        with self.implicitly():
            outcome = capture.run(kind, statement.text, given, key, touched)
            self._own_rows.clear()
            for name, delta in outcome.changes.items():
                self.note(name, delta)
        return outcome

    def note(self, key: str, delta: pa.Table) -> None:
        """The transaction changed a watched table."""
        if delta.num_rows:
            self._changes.setdefault(key, []).append(delta)

    def insert(self, row: Row, plans: Repeated) -> int | None:
        """INSERT of a row in autocommit mode by a plan that is kept; None: run it as written."""
        key = self.target_key(row.form.statement)
        if key is None or key in self._maintainer.views:
            return None
        self.recover()
        info = self.watched_tables().get(key)
        if info is not None:
            # Imported here: it takes long to load, and not everybody has views.
            from tidewheel.sql import row_insert

            return row_insert.insert(self, key, info, row, plans)
        try:
            return int(plans.run(row, returning=False).fetchall()[0][0])
        except duckdb.Error:
            return None

    def _writes_when_executed(self, statement: Statement) -> bool:
        return len(statement.words) > 1 and statement.words[1].lower() in self._prepared_writes

    def note_prepare(self, statement: Statement) -> None:
        """After PREPARE name AS …: remember whether EXECUTE name will write."""
        words = statement.words
        if words[0] == "PREPARE" and len(words) > 1:
            body = re.search(r"\bAS\b(.*)", statement.text, re.IGNORECASE | re.DOTALL)
            first = body.group(1).split() if body else []
            if first and first[0].upper() not in ("SELECT", "FROM", "VALUES"):
                self._prepared_writes.add(words[1].lower())

    def target_key(self, statement: Statement) -> str | None:
        """The key of the table that DML writes, if it is known."""
        _, parts, _ = view_text.target(statement)
        if not parts:
            return None
        version, known = self._targets
        if version != self.database.catalog_version:
            known = {}
            self._targets = (self.database.catalog_version, known)
        name = "\x00".join(parts).lower()
        if name not in known:
            relation = Names(self.host.connection).find(list(parts))
            known[name] = None if relation is None else relation.key
        return known[name]

    def watched_tables(self) -> dict[str, TableInfo]:
        """The base tables that hot views read. A view that turns hot changes the version."""
        version = (self.database.catalog_version << 20) + sum(
            v.hot for v in self._maintainer.views.values()
        )
        if self._tables[0] != version:
            keys = self._maintainer.watched()
            self._tables = (version, table_info(self.host.connection, keys) if keys else {})
        return self._tables[1]

    def begin(self) -> None:
        """After DuckDB's BEGIN."""
        self._start_epoch = self.database.epoch
        self._own_rows.clear()

    def commit(self) -> None:
        """Take the transaction's changes through the views and commit both."""
        with self.database.committing:
            self._commit()

    def _pin(self, changed: Iterable[str]) -> None:
        """Keep the rows of views that are about to change for those who read in the meantime."""
        if self.database.has_others:
            registry = self.database.maintainer
            with self.database.reading:
                for key in {*registry.readers(changed), *self._anew} & set(registry.views):
                    view = registry.views[key]
                    view.pinned = None if view.plan is None else view.plan.rows()

    def _unpin(self) -> None:
        for view in self.database.maintainer.views.values():
            view.pinned = None

    def _commit(self) -> None:
        con = self.host.connection
        self.implicit = True  # until DuckDB has committed, views are computed inside it
        try:
            deltas: dict[str, Change] = {}
            self._pin(self._changes)
            try:
                watched = self._maintainer.watched() if self._changes else ()
                merged = {
                    key: maintain.change(pa.concat_tables(parts, promote_options="permissive"))
                    for key, parts in self._changes.items()
                    if parts and key in watched
                }
                if merged:
                    deltas = self._maintainer.step(merged, Maintenance(self))
                deltas |= self._refill()
            except BaseException:
                con.rollback()
                self._undo(self._changes)
                raise
            with self.database.reading:
                try:
                    con.commit()
                except BaseException:
                    self._undo(self._changes)
                    raise
                self._unpin()
                replaced = self._install()
                if self._changes or self._anew or replaced:
                    self.database.publish(deltas)
        finally:
            self._end()

    def step_ahead(self, key: str, change: Change, write: Callable[[], object]) -> bool:
        """An epoch of one change that is known before `write` commits it, as a statement by itself.

        Returns False if DuckDB refused: then nothing has happened. The views that read the table
        must be incremental.
        """
        maintenance = Maintenance(self)
        try:
            with self.database.committing:
                self._pin([key])
                deltas = self._maintainer.step({key: change}, maintenance)
                with self.database.reading:
                    try:
                        write()
                    except (duckdb.IntegrityError, duckdb.DataError, duckdb.ProgrammingError):
                        self._maintainer.step({key: change.negated()}, maintenance)
                        self._unpin()
                        return False
                    self._unpin()
                    self.database.publish(deltas)
            return True
        except duckdb.Error:
            self._undo([key])
            return False
        except BaseException:
            self._undo([key])
            raise

    def rollback(self) -> None:
        """After DuckDB's ROLLBACK, or when the transaction ended with an error."""
        self._unsettle()
        self._end()

    def _unsettle(self) -> None:
        """DuckDB's rollback took back what was registered since the transaction began."""
        self._registered = dict.fromkeys(self._registered)
        if self._overlay is not None:
            self._overlay = None
            self.database.catalog_version += 1

    def _undo(self, changed: Iterable[str]) -> None:
        """An epoch failed half way: what the views hold is rebuilt from the tables when needed."""
        with self.database.reading:
            self._unpin()
            self._unsettle()
            keys = {*self._maintainer.readers(changed), *self._anew}
            self.database.lapsed |= {k for k in keys if self._maintainer.views[k].hot}
            self._maintainer.cool(keys)
            self.database.catalog_version += 1

    def recover(self) -> None:
        """Fill the views that a failed epoch emptied, before a change that they must take part in.

        The session has the write lock and has changed nothing yet.
        """
        lapsed = self.database.lapsed
        if not lapsed:
            return
        current = not self.host.in_transaction or self._start_epoch == self.database.epoch
        for key in [v.key for v in self._maintainer.ordered() if v.key in lapsed]:
            try:
                if self._changes or not current:
                    raise errors.OperationalError("another state of the tables")
                self._maintainer.heat(key, Maintenance(self))
            except (errors.Error, duckdb.Error):
                with self.database.reading:
                    self.database.history.broken[key] = self.database.epoch
                    self.database.publish({})
        lapsed.clear()

    def _end(self) -> None:
        self.implicit = False
        self._changes = {}
        self._overlay = None
        self._anew = set()
        self._own_rows.clear()
        self._start_epoch = -1
        if self._away is not None:
            away, self._away = self._away, None
            self._set_path(away)
        self.database.writer.release(self)

    def release(self) -> None:
        """The autocommitted statement has ended: the next writer may go on."""
        self.database.writer.release(self)

    def close(self) -> None:
        """The connection has ended."""
        self.release()
        self._own_rows.clear()
        self._registered.clear()
        if self._scratch_connection is not None:
            self._scratch_connection.close()
            self._scratch_connection = None  # plans that others step may want a new one
        self.database.leave(self)

    def lock_for_write(self) -> None:
        """A statement is about to write: wait for other writers, hold until the epoch ends."""
        if not self.database.writer.held_by(self):
            self.database.writer.acquire(self)

    # -- DDL -------------------------------------------------------------------------------------

    def ddl(self, statement: Statement, run: Callable[[], Any]) -> Any:
        """Run DDL; the views that read what it names must be able to go on, else it is undone."""
        return view_ddl.run(self, statement, run)

    def stand_in(self, key: str, rows: pa.Table) -> None:
        """Register a table as a view's rows, until somebody asks for the rows themselves."""
        self.host.connection.register(row_name(self._maintainer.views[key].token), rows)
        self._registered[key] = None

    def rewrite(self, key: str, sql: str) -> None:
        """Give a view a query with the same columns."""
        self._do(f"UPDATE {SCHEMA}.views SET sql = ? WHERE key = ?", [sql, self._stored(key)])
        registry = self._change_registry()
        old = registry.views[key]
        names = Names(self.host.connection)
        registry.views[key] = self._view(key, sql, names, old.plain, old.token, old.home)

    def make_anew(self, keys: Iterable[str]) -> None:
        """Forget what views hold; those that were filled are filled again at the commit."""
        registry = self._change_registry()
        for key in keys:
            registry.views[key] = replace(registry.views[key], plan=None)
            self._anew.add(key)
        self._own_rows.clear()

    def _refill(self) -> dict[str, Change]:
        """What `make_anew` changes in the views that were filled."""
        deltas: dict[str, Change] = {}
        for view in self._maintainer.ordered() if self._anew else ():
            old = self.database.maintainer.views.get(view.key)
            if view.key in self._anew and old is not None and old.plan is not None:
                rows = old.plan.rows()
                new = self._maintainer.heat(view.key, Maintenance(self)).plan
                assert new is not None
                delta = maintain.difference(rows, new.rows(), self._scratch)
                if delta.num_rows:
                    deltas[view.key] = maintain.change(delta)
        return deltas

    def subscribe(self, key: str, epoch: int | None) -> Subscription:
        """Follow a view: from a snapshot now, or behind `epoch` if that is still kept."""
        with self.writing(), self.database.reading:
            view = self._maintainer.heat(key, Maintenance(self))
            assert view.plan is not None
            rows, now = view.plan.rows(), self.database.epoch
            if epoch is not None:
                if epoch > now:
                    raise errors.ProgrammingError(f"epoch {epoch} has not come yet; now is {now}")
                return Subscription(self.database, key, rows.schema, None, epoch)
            first = Update(now, snapshot(rows), snapshot=True)
            return Subscription(self.database, key, rows.schema, first, now)

    # -- VERIFY ----------------------------------------------------------------------------------

    def verify(self, statement: Statement) -> pa.Table:
        """VERIFY VIEW v: what the view lacks (weight > 0) and has too much (weight < 0)."""
        parsed = view_text.parse_verify(statement)
        key = self.resolve(parsed.parts, statement, parsed.name_at)
        view = self._maintainer.views[key]
        if parsed.rest == ("SPARK",):
            return self._verify_on_spark(view)
        with self.writing():
            with self.database.reading:
                kept = self._rows(key)
            fresh = self._run(view)
            return maintain.difference(
                maintain.rounded(kept, self._scratch),
                maintain.rounded(fresh, self._scratch),
                self._scratch,
            )

    def _verify_on_spark(self, view: MaintainedView) -> pa.Table:
        # Imported here: sqlglot and Parquet take long to load.
        from tidewheel.sql.check import against

        def kept() -> pa.Table:
            with self.database.reading:
                return self._rows(view.key)

        here, found = against(self.host.python(), view.sql, kept, self.writing())
        if found.problem:
            raise errors.OperationalError(f"the answers can't be compared: {found.problem}")
        more = [(*row, count) for count, row in found.only_right]
        rows = more + [(*row, -count) for count, row in found.only_left]
        columns = list(zip(*rows, strict=True)) or [()] * (here.num_columns + 1)
        fields = [*here.schema, pa.field(maintain.WEIGHT, pa.int64())]
        arrays = [_shown(c, f.type) for c, f in zip(columns, fields, strict=True)]
        return pa.table(arrays, names=[f.name for f in fields])

    def circuit(self, key: str) -> tuple[Circuit | None, str]:
        """The operators that keep a view; None, and why, for one that is recomputed.

        A view that nobody has read yet is filled. Hold `database.reading`.
        """
        view = self._maintainer.views[key]
        if not view.hot and not self._heat(key):
            raise errors.OperationalError(
                "the view is not filled yet, and another connection is writing just now",
                hint="try again when its transaction has ended",
            )
        assert view.plan is not None
        return view.plan.circuit, view.plan.reason

    def registered(self, parts: tuple[str, ...]) -> MaintainedView | None:
        """What the registry has by that name, a plain view too."""
        relation = Names(self.host.connection).find(list(parts))
        return None if relation is None else self._maintainer.views.get(relation.key)

    def forget_plain(self, parsed: view_text.CreateView, statement: Statement) -> None:
        """Drop a plain view of the registry: another one takes its place."""
        with self.writing():
            relation = Names(self.host.connection).find(list(parsed.parts))
            assert relation is not None
            if self._maintainer.readers([relation.key]):
                self._refuse_dependents(relation.key, statement, parsed.name_at)
            with self.implicitly():
                self.drop_one(relation.key)
        self.host.catalog_changed()

    def queries(self) -> dict[str, str]:
        """The queries of the maintained views, by key."""
        return {key: view.sql for key, view in self._maintainer.views.items()}

    def resolve(self, parts: tuple[str, ...], statement: Statement, position: int) -> str:
        """The key of a maintained view; an error with the near miss if there is none."""
        relation = Names(self.host.connection).find(list(parts))
        known = None if relation is None else self._maintainer.views.get(relation.key)
        if relation is None or known is None or known.plain:
            raise errors.ProgrammingError(
                f"there is no maintained view {'.'.join(parts)}",
                hint=self._near(parts[-1]),
                text=statement.script,
                position=position,
                length=len(parts[-1]),
            )
        return relation.key


class Maintenance:
    """What plans may ask of the session in whose transaction they are filled and stepped."""

    def __init__(self, views: Views, home: maintain.Path = ()) -> None:
        self._views = views
        self._home = home
        self.epoch = views.database.epoch
        self.shared = views.database.maintainer.shared

    def of(self, view: MaintainedView) -> Maintenance:
        return Maintenance(self._views, view.home)

    def __call__(self, sql: str) -> pa.Table:
        with self._views.at(self._home):
            return self._views.run_for_maintenance(sql)

    def bind(self, sql: str) -> Node:
        with self._views.at(self._home):
            self._views.provide(sql)
            return self._views.bound(sql)


class _Implicit:
    """A transaction around a block in autocommit mode; within a user's transaction, nothing."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._mine = False

    def __enter__(self) -> None:
        views = self._views
        views.lock_for_write()
        self._mine = not views.host.in_transaction
        if self._mine:
            views.host.connection.begin()
            views.implicit = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._views.forget_bound()
        if not self._mine:
            return
        views = self._views
        if kind is None:
            views.commit()
            return
        views.implicit = False
        try:
            views.host.connection.rollback()
        except duckdb.Error:
            pass  # the error has ended it already
        views.rollback()


def _shown(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of a comparison in the type of their column; as text where they are no more."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([None if v is None else str(v) for v in values], pa.string())


def table_info(connection: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> dict[str, TableInfo]:
    """What change capture needs to know of tables."""
    # Imported here: it takes long to load, and not everybody has views.
    from tidewheel.engine.state.delta import Schema

    found: dict[str, TableInfo] = {}
    triggers = {
        f"{d}.{s}.{t}".lower()
        for d, s, t in connection.execute(
            "SELECT database_name, schema_name, table_name FROM duckdb_triggers()"
        ).fetchall()
    }
    rows = connection.execute(
        "SELECT database_name, schema_name, table_name, "
        "  (SELECT constraint_column_names FROM duckdb_constraints() c "
        "   WHERE c.table_oid = t.table_oid AND c.database_oid = t.database_oid "
        "   AND constraint_type = 'PRIMARY KEY') "
        "FROM duckdb_tables() t"
    ).fetchall()
    wanted = set(keys)
    for database, schema, table, primary in rows:
        key = f"{database}.{schema}.{table}".lower()
        if key not in wanted:
            continue
        name = ".".join(map(quote, (database, schema, table)))
        arrow = connection.sql(f"FROM {name} LIMIT 0").to_arrow_table().schema
        plain = arrow if all(map(_is_plain, arrow.types)) else None
        found[key] = TableInfo(
            name,
            tuple(arrow.names),
            tuple(primary or ()),
            key in triggers,
            plain,
            None if plain is None else Schema.of(plain),
        )
    return found


def _is_plain(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_boolean(t)
        or pa.types.is_string(t)
        or pa.types.is_decimal128(t)
        or pa.types.is_date32(t)
    )
