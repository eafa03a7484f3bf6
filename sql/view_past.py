"""Where a transaction begins, and the views of its catalog where others have changed that since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import duckdb

from tidewheel.engine.kernels.duckdb import roll_back
from tidewheel.engine.quoting import key_of, parts_of_key
from tidewheel.planner.maintain import MaintainedView, Maintainer
from tidewheel.planner.plans import Home
from tidewheel.sql.reads import Names
from tidewheel.sql.view_home import Homes
from tidewheel.sql.view_registry import SCHEMA, home_of, kept_in

_AT_ONCE = "SELECT current_setting('immediate_transaction_mode')"
_ALL_DATABASES = "SELECT count(*) FROM duckdb_schemas()"


class Past(Homes):
    """Which registry a session reads views by: what it changes concerns those that there are."""

    _at_first: Mapping[str, MaintainedView] = {}
    """The views when the user's transaction first looked."""
    _past: Maintainer | None = None
    """The registry, while a statement reads another one than that of now."""
    _at_once: tuple[int, bool] = -1, False
    _everywhere = False
    """Does the transaction see every database as it was at some time?"""
    _several: tuple[int, bool] = -1, False
    """Do views read more than one database, as of this version of the catalog?"""
    _known_past: tuple[object, Maintainer | None] = None, None

    @property
    def _maintainer(self) -> Maintainer:
        return super()._maintainer if self._past is None else self._past

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """DuckDB's BEGIN, which looks at the database at once if it is set to."""
        at_once = not self.host.in_transaction and self._begins_at_once()
        with self.database.reading if at_once else nullcontext():
            try:
                yield
            except duckdb.InterruptException:
                roll_back(self.host.connection)  # it had begun
                raise
            if at_once:
                self.begin()

    def begin(self) -> None:
        """The user's transaction is about to look at the database: BEGIN alone does not yet."""
        self._start, self._start_catalog = self.database.written, self.database.catalog_version
        self._at_first = self.database.maintainer.views
        self._own_rows.clear()
        self._everywhere = False

    def _look_everywhere(self) -> None:
        """Let DuckDB's transaction see all databases as they are now, if views read several.

        It sees each as it was when a statement first names something of it, and who reads the rows
        of a view that is kept names none of its tables.
        """
        if not self.host.in_transaction:
            return
        _ = self.host.unwritten  # (it begins to look, if it has not yet)
        if self._everywhere:
            return
        self._everywhere, version = True, self.database.catalog_version
        if self._several[0] != version:
            read = {key for view in self._maintainer.views.values() for key in view.reads}
            self._several = version, len({parts_of_key(key)[0] for key in read}) > 1
        if self._several[1]:
            self._do(_ALL_DATABASES)

    @property
    def has_looked(self) -> bool:
        """Has the user's transaction looked at the database?"""
        return self._start is not None

    def _begins_at_once(self) -> bool:
        version = self.host.catalog.settings_version
        if self._at_once[0] != version:
            found = self.host.unwritten.execute(_AT_ONCE).fetchall()
            self._at_once = version, bool(found[0][0])
        return self._at_once[1]

    @contextmanager
    def as_seen(self) -> Iterator[None]:
        """A block that reads views: those that the transaction sees."""
        before, self._past = self._past, self._seen()
        try:
            yield
        finally:
            self._past = before

    def changed_by_others(self, keys: Iterable[str]) -> str | None:
        """One of these views that the transaction sees as it is no more."""
        past, now = self._seen(), super()._maintainer.views
        if past is None:
            return None
        return next((k for k in keys if past.views.get(k) is not now.get(k)), None)

    def _seen(self) -> Maintainer | None:
        others = self.database.maintainer.views
        if self._start is None or self._at_first is others:
            return None
        if self._start_catalog == self.database.catalog_version:
            return None
        version = self._start, self.host.catalog.version, self.database.catalog_version
        if self._known_past[0] != version:
            self._known_past = version, self._look_back()
        return self._known_past[1]

    def _look_back(self) -> Maintainer | None:
        """The registry by what DuckDB shows of it, which is of one state with the tables."""
        now, names = super()._maintainer, self._names()
        there = self._in_catalog(names)
        keys = frozenset(now.views.keys() | {key for key, _, _ in there})
        old: dict[str, MaintainedView] = {}
        for each, (plain, home) in there.items():
            key, token, sql = each
            known = now.views.get(key), self._at_first.get(key)
            same = [v for v in known if v is not None and (v.key, v.token, v.sql) == each]
            if not same:  # others made it while this transaction began, and changed it since
                read = self.read_by(sql, home, names, keys)
                same = [self._view(key, sql, read, plain, token, home)]
            if same[0] is not known[0]:
                old[key] = same[0]
        return Maintainer({**now.views, **old}, now.shared) if old else None

    def _in_catalog(self, names: Names) -> dict[tuple[str, str, str], tuple[bool, Home]]:
        """By the key, token and query of each view that the transaction sees, how it was made."""
        found: dict[tuple[str, str, str], tuple[bool, Home]] = {}
        own = {parts_of_key(k)[0] for k in (*self._at_first, *self.database.maintainer.views)}
        kept = [r.database for r in names.relations if (r.schema, r.name) == (SCHEMA, "views")]
        for name in kept:
            if key_of(name) not in own:
                continue  # it is somebody else's who maintains them
            rows = self.host.rows(f"SELECT key, token, sql, plain, home FROM {kept_in(name)}")
            for key, token, sql, plain, home in rows:
                key = self._key_in(name, key)
                if self._is_there(key, token, names):
                    found[key, token, sql] = plain, home_of(json.loads(home), name)
        return found
