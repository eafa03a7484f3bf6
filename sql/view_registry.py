"""The registry of maintained views as one session's transaction sees it.

Rows of a maintained view reach DuckDB as an Arrow table that is registered in the connection under
`row_name(key)`; in the catalog the view is a plain view over that name. So any SELECT reads it as
written. What makes it a maintained one is a row in `SCHEMA`.views.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from tidewheel.engine.arrow import Exchanged, pa
from tidewheel.engine.quoting import key_of, parts_of_key, quoted
from tidewheel.planner.maintain import MaintainedView, Maintainer
from tidewheel.planner.meaning import Meaning
from tidewheel.planner.plans import Home, Plan
from tidewheel.sql import errors, functions, run_texts
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.database import Database
from tidewheel.sql.point_reads import PointReads
from tidewheel.sql.reads import ROWS, Names, Relation
from tidewheel.sql.statements import Statement
from tidewheel.sql.time_limit import TimeLimit
from tidewheel.sql.whole_view import WholeViews

if TYPE_CHECKING:
    from tidewheel.planner.context import Context, Parameters
    from tidewheel.planner.logical import Node
    from tidewheel.sql import view_text
    from tidewheel.sql.catalog import Catalog
    from tidewheel.sql.dbapi import Connection
    from tidewheel.sql.row_rules import Rules
    from tidewheel.sql.write_behind import WriteBehind

SCHEMA = "__tidewheel"


def kept_in(database: str) -> str:
    """The table of views of a database, which is named: one may be called as the schema is."""
    return f"{quoted(database)}.{SCHEMA}.views"


def home_of(found: Mapping[str, Any], database: str) -> Home:
    """Where a view was made, as it is stored: without the name of its own database."""
    path = tuple((d or database, s) for d, s in found["path"])
    return Home(path, tuple(found["settings"].items()))


def catalog(database: str) -> str:
    """SQL that makes that table.

    In it the database is named by '': its file may be renamed, or attached by a name.
    """
    return f"""
CREATE SCHEMA IF NOT EXISTS {quoted(database)}.{SCHEMA};
CREATE TABLE IF NOT EXISTS {kept_in(database)}
    (key VARCHAR PRIMARY KEY, sql VARCHAR NOT NULL, position INTEGER NOT NULL, plain BOOLEAN,
     token VARCHAR, home VARCHAR)
"""


def row_name(token: str) -> str:
    """The name under which a view's rows are registered."""
    return f"{ROWS}{token}"


def rows_relation(token: str) -> Relation:
    """What the catalog has for a view's registered rows."""
    return Relation("temp", "main", row_name(token), "view", True)


class Host(Protocol):
    """What a session offers to its views."""

    catalog: Catalog
    database: Database
    frames: dict[str, object]
    writes: bool  # to a file
    in_transaction: bool
    interrupted: threading.Event
    doubted: bool  # has an interrupt come since the transaction began
    told: bool  # and an error
    limit: TimeLimit
    safe_mode: bool
    temporary: bool
    behind: WriteBehind

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The session's."""

    @property
    def unwritten(self) -> duckdb.DuckDBPyConnection:
        """The same while rows of tables wait to be written: for what does not look at tables."""

    @property
    def version(self) -> object:
        """Another one whenever the catalog, the views or settings may have changed."""

    def context(self, parameters: Parameters) -> Context:
        """What a query of this session is run with."""

    def bind(self, sql: str, names: Names | None = None) -> Node:
        """The logical plan of a view's query; `names`: the catalog as it is now."""

    def table(self, sql: str, naive: bool = False) -> pa.Table:
        """Run a query through the planner, on the session's connection, to its end."""

    def at_once(self, sql: str) -> pa.Table:
        """`table` for a query that binds: one that does not ends an open transaction."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query that is DuckDB's."""

    def catalog_changed(self) -> None:
        """Forget cached plans."""

    def finishing(self) -> AbstractContextManager[None]:
        """A block that nothing interrupts."""

    def check_open(self) -> None:
        """Raise if the connection is closed."""

    def python(self) -> Connection:
        """The session as a connection."""


PlanFactory = Callable[[str, Meaning, Callable[..., "pa.Table"]], Plan]


class Registry:
    """The views that there are, and those that the open transaction makes or drops."""

    def __init__(self, host: Host, make_plan: PlanFactory) -> None:
        self.host = host
        self.database = host.database
        self._make_plan = make_plan
        self.implicit = False
        """Is a transaction open that the user did not begin?"""
        self._changes: dict[str, list[pa.Table]] = {}
        self._overlay: Maintainer | None = None
        self._anew: set[str] = set()
        self._start: tuple[int, int] | None = None
        """`Database.written` when the user's transaction first looked: it sees that, or more."""
        self._start_catalog = 0
        """The catalog's version then."""
        self._registered: dict[str, pa.Table | Exchanged | None] = {}
        """By a view's token: one that is dropped and made anew is another one."""
        self._swept = 0
        """The catalog version since which nothing is registered for a view that is gone."""
        self._own_rows: dict[str, pa.Table] = {}
        self._catalog: tuple[tuple[int, int], Names] | None = None
        self._words: tuple[int, dict[str, frozenset[str]]] = (-1, {})
        self._running: frozenset[str] = run_texts.RUNNERS  # (names of calls that run texts)
        self._others: tuple[object, frozenset[str]] = (None, frozenset())
        self._foreign: frozenset[str] = frozenset()
        """The maintained views of attached databases."""
        self._targets: tuple[int, dict[str, str | None]] = (-1, {})
        self._tables: tuple[int, dict[str, TableInfo]] = (-1, {})
        self._rules: tuple[object, dict[str, Rules | None]] = None, {}
        self.asked: dict[str, tuple[object, int, int]] = {}
        """Per table, under which state of the tables, how often for its index, and its rows."""
        self._prepared: dict[str, str] = {}
        """The PREPARE of each prepared statement, by name."""
        self._bound: tuple[str, Node] | None = None
        self._whole_views = WholeViews()
        self._point_reads = PointReads()
        self._scratch_connection: duckdb.DuckDBPyConnection | None = None
        self.database.enter(self)
        if self.database.own_state() is not None:
            functions.nothing_made(host.connection)
        with self.database.reading:
            if not self.database.loaded:
                try:
                    self._load(self.database.maintainer)
                except BaseException:
                    self.database.leave(self)
                    raise
                self.database.loaded = True
                self.database.writer.start()
                if self.database.kept is not None:
                    self.database.kept.state = self.database.state

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

    def load_copied(self) -> None:
        """COPY FROM DATABASE may have brought views to the database in use.

        Not those of another database that are kept here as well: both would have the same rows.
        """
        here = self.host.in_transaction
        self._load(self._change_registry() if here else self.database.maintainer)

    def _load(self, registry: Maintainer) -> None:
        con = self.host.connection
        found = con.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = 'views' "
            "AND database_name = current_database()",
            [SCHEMA],
        ).fetchall()
        if not found[0][0]:
            return
        names = Names(con)
        rows = con.execute(f"FROM {kept_in(names.database)} ORDER BY position").fetchall()
        tokens = {view.token for view in registry.views.values()}
        kept = None if registry.views else self.database.kept
        if kept is not None:
            kept.open()
        for key, sql, position, plain, token, home in rows:
            if token in tokens:
                continue
            self.database.position = max(position, self.database.position)
            key = self._key_in(names.database, key)
            if not self._is_there(key, token, names):
                continue  # plain DuckDB has dropped it, or made another one in its place
            made_at = home_of(json.loads(home), names.database)
            reads = None if kept is None else kept.reads(token, sql)
            known = reads or frozenset(), reads is not None
            registry.add(self._view(key, sql, known, plain, token, made_at))
        self.look_again(names)
        self.database.catalog_version += 1

    def look_again(self, names: Names | None = None) -> None:
        """What views read that name things which were not there: another program dropped them.

        Or of which nobody has looked what they read. `names`: the catalog, if it is known.
        """
        lacking = [view for view in self._maintainer.views.values() if not view.whole]
        if not lacking:
            return
        names, keys = names or Names(self.host.connection), self._keys()
        for view in lacking:
            reads, whole = self.read_by(view.sql, view.home, names, keys)
            if whole or reads != view.reads:
                made = replace(view, reads=reads, whole=whole, plan=None, read=None)
                self._maintainer.views[view.key] = made
                self.database.catalog_version += 1

    @staticmethod
    def read_by(
        sql: str, home: Home, names: Names, keys: frozenset[str]
    ) -> tuple[frozenset[str], bool]:
        """What a view's query reads by now, and whether all is there that it names."""
        reads, whole = names.at(home.path).reads_and_whole(sql, keys)
        return frozenset(reads), whole

    def _view(
        self,
        key: str,
        sql: str,
        read: tuple[frozenset[str], bool],
        plain: bool,
        token: str,
        home: Home,
    ) -> MaintainedView:
        """`read`: as `read_by` tells it."""
        plan = partial(self._make_plan, sql, home.meaning, self._scratch)
        reads, whole = read
        return MaintainedView(key, sql, reads, plan, token, home, plain, whole)

    def _scratch(self, sql: str, **tables: pa.Table) -> pa.Table:
        """Run SQL over Arrow tables, away from the session's transaction."""
        raise NotImplementedError

    def _kept(self, key: str, home: Home) -> str:
        """Where a view was made, as the catalog of its database has it."""
        own = parts_of_key(key)[0]
        path = [("" if d.lower() == own else d, s) for d, s in home.path]
        return json.dumps({"path": path, "settings": dict(home.meaning)})

    def _stored(self, key: str) -> str:
        """A view's key as the catalog of its database has it."""
        return key[key.index(".") :]

    def _catalog_of(self, relation: Relation | None) -> str:
        """The catalog that has a view: the one of its database, be that in use or not."""
        return kept_in((relation or Names(self.host.connection)).database)

    def _names(self) -> Names:
        """The catalog, read once for each version of it; not within what changes it."""
        version = self.host.catalog.version, self.database.catalog_version
        if self._catalog is None or self._catalog[0] != version:
            self._catalog = version, Names(self.host.connection)
        return self._catalog[1]

    def _present(self) -> Names:
        """The catalog, perhaps as it was read before; also within what changes it."""
        version = self.host.catalog.version, self.database.catalog_version
        if self._catalog is not None and self._catalog[0] == version:
            return self._catalog[1]
        return Names(self.host.connection)

    def _relation(self, key: str, names: Names | None = None) -> Relation | None:
        names = names or Names(self.host.connection)
        return next((r for r in names.relations if r.key == key), None)

    @staticmethod
    def _key_in(database: str, stored: str) -> str:
        """A view's key by what is stored of it in a database, whose name may be another one now."""
        return key_of(database) + stored if stored.startswith(".") else stored

    def _is_there(self, key: str, token: str, names: Names) -> bool:
        """Is what the catalog has under a key this maintained view?"""
        relation = self._relation(key, names)
        return relation is not None and quoted(row_name(token)) in names.sql(relation)

    def _do(self, sql: str, parameters: list[Any] | None = None) -> None:
        """Run a statement to its end: an open result would block the connection."""
        self.host.connection.execute(sql, parameters).fetchall()

    def drop_one(self, key: str, names: Names | None = None) -> None:
        """Take a view out of the catalog and the registry; `names`: the catalog, if it is known."""
        relation = self._relation(key, names)
        if relation is not None:
            self._do(f"DROP VIEW {relation.quoted}")
        self._do(f"DELETE FROM {self._catalog_of(relation)} WHERE key = ?", [self._stored(key)])
        self._change_registry().remove(key)

    def rewrite(self, key: str, sql: str) -> None:
        """Give a view a query with the same columns."""
        stored = [sql, self._stored(key)]
        kept = self._catalog_of(self._relation(key))
        self._do(f"UPDATE {kept} SET sql = ? WHERE key = ?", stored)
        registry = self._change_registry()
        old = registry.views[key]
        names = Names(self.host.connection)
        read = self.read_by(sql, old.home, names, self._keys())
        registry.views[key] = self._view(key, sql, read, old.plain, old.token, old.home)

    def make_anew(self, keys: Iterable[str]) -> None:
        """Forget what views hold; those that were filled are filled again at the commit."""
        registry = self._change_registry()
        names = Names(self.host.connection)
        for key in keys:
            view = registry.views[key]
            reads, whole = self.read_by(view.sql, view.home, names, self._keys())
            registry.views[key] = replace(view, reads=reads, whole=whole, plan=None)
            self._anew.add(key)
        self._own_rows.clear()

    def _keys(self) -> frozenset[str]:
        return frozenset(self._maintainer.views)

    def _order(self, key: str) -> int:
        return [v.key for v in self._maintainer.ordered()].index(key)

    def queries(self) -> dict[str, str]:
        """The queries of the maintained views, by key."""
        return {key: view.sql for key, view in self._maintainer.views.items()}

    def registered(self, parts: tuple[str, ...], made: bool = False) -> MaintainedView | None:
        """What the registry has by that name, a plain view too.

        `made`: where CREATE would make it, not wherever the search path finds it.
        """
        names = Names(self.host.connection)
        relation = names.made(parts) if made else names.find(parts)
        return None if relation is None else self._maintainer.views.get(relation.key)

    def named(self, name: str) -> bool:
        """Is there a maintained view of that name, as it is written, in any schema? No catalog."""
        known = {parts_of_key(k)[-1] for k, v in self._maintainer.views.items() if not v.plain}
        return name.strip('"').replace('""', '"').lower() in known

    def resolve(self, parts: tuple[str, ...], statement: Statement, position: int) -> str:
        """The key of a maintained view; an error with the near miss if there is none."""
        relation = Names(self.host.connection).find(list(parts))
        known = None if relation is None else self._maintainer.views.get(relation.key)
        if relation is None or known is None or known.plain:
            from . import foreign_views

            foreign_views.refuse(self, relation, statement, position)
            there = None if relation is None else f"{parts[-1]} is a {relation.kind}"
            raise errors.ProgrammingError(
                f"there is no maintained view {'.'.join(parts)}"
                if there is None
                else f"{there}, not a maintained view",
                hint=self._near(parts[-1])
                if there is None
                else f"CREATE MATERIALIZED VIEW … AS FROM {'.'.join(parts)}",
                text=statement.script,
                position=position,
                length=len(parts[-1]),
            )
        return relation.key

    def in_use(
        self, key: str, statement: Statement, parsed: view_text.CreateView | view_text.ViewName
    ) -> None:
        """An error if a view is not of the database in use, which alone keeps what is made of it.

        (One transaction of DuckDB's can write to one database.)
        """
        used, asked = Names(self.host.connection).database, key.split(".", 1)[0]
        if key_of(used) != asked:
            raise errors.NotSupportedError(
                f"maintained views are made and dropped in the database in use, {used}",
                hint=f"USE {asked} first",
                text=statement.script,
                position=parsed.name_at,
                length=parsed.name_length,
            )

    def _near(self, name: str) -> str | None:
        from difflib import get_close_matches

        known = [parts_of_key(k)[-1] for k in self._maintainer.views]
        near = get_close_matches(name.lower(), known, 1)
        return f"did you mean {near[0]}?" if near else None

    def _refuse_dependents(self, key: str, statement: Statement, position: int) -> None:
        names = ", ".join(k.split(".", 1)[1] for k in self._maintainer.readers([key]))
        cascade = f"DROP MATERIALIZED VIEW {key.split('.', 1)[1]} CASCADE takes them along"
        raise errors.ProgrammingError(
            f"{key.split('.', 1)[1]} is read by maintained views: {names}",
            hint=f"drop those first; {cascade}",
            text=statement.script,
            position=position,
        )

    def writing(self) -> AbstractContextManager[None]:
        """Hold the write lock for a block; a transaction that changes the registry keeps it.

        What others did to the registry meanwhile would be lost with its commit.
        """
        return self.database.writing(self, lambda: self._overlay is not None)
