"""What plans of views ask of a session: statements over its tables, now and as they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import decoded, pa
from tidewheel.engine.interruption import interruptible, stop_if_asked
from tidewheel.engine.kernels.duckdb import table_of
from tidewheel.engine.operators.shared import KEYS
from tidewheel.planner.maintain import MaintainedView
from tidewheel.sql.view_home import own_settings

if TYPE_CHECKING:
    from tidewheel.planner.logical import Node
    from tidewheel.sql.view_reading import Reading


class Maintenance:
    """What plans may ask of the session in whose transaction they are filled and stepped."""

    def __init__(
        self,
        views: Reading,
        view: MaintainedView | None = None,
        ahead: bool = False,
        looked: set[str] | None = None,
    ) -> None:
        """`looked`: is told the views whose plans are filled or read tables in the transaction."""
        self._views = views
        self._view = view
        self.ahead = ahead
        self._looked = looked
        self.epoch = views.database.epoch
        self.shared = views.database.maintainer.shared
        self.remembered = views.database.remembered

    def of(self, view: MaintainedView) -> Maintenance:
        return Maintenance(self._views, view, self.ahead, self._looked)

    def held(self, key: str) -> int | None:
        if self.ahead or self._views.changes_wait:
            return None  # some views have the change already, others not
        views = self._views.registry.views.values()
        known = (v.plan.held(key) for v in views if v.plan is not None and key in v.reads)
        return next(filter(None, known), None)

    def there(self) -> AbstractContextManager[None]:
        return nullcontext() if self._view is None else self._views.there(self._view)

    def __call__(self, sql: str, keys: pa.Table | None = None) -> pa.Table:
        with self._provided(), _registered(self._views.host.connection, keys):
            return decoded(self._views.host.at_once(sql))

    def rows(self, sql: str, keys: pa.Table | None = None) -> Sequence[Sequence[Any]]:
        with self._provided(), _registered(self._views.host.connection, keys):
            return self._views.host.rows(sql)

    def row(self, sql: str) -> Sequence[Any]:
        return self.rows(sql)[0]

    def filling(self) -> int:
        self._looks()  # (also if another view has all that it reads)
        return self._views.database.writer.ended

    def _looks(self) -> None:
        if self._looked is not None and self._view is not None:
            self._looked.add(self._view.key)

    @contextmanager
    def _provided(self) -> Iterator[None]:
        stop_if_asked()
        self._looks()
        with self.there():
            if self._view is not None:
                self._views.provide(self._view)
            yield

    def committed(self, sql: str, keys: pa.Table | None = None) -> pa.Table:
        view = self._view
        there = nullcontext() if view is None else self._views.at(view.home)
        with there, self._views.host.connection.cursor() as apart:
            apart.execute("SET arrow_lossless_conversion = true")
            if view is not None:  # of its own the connection has the settings of no session
                apart.execute(own_settings(view.home)).fetchall()
            self._views.provide_before(apart, sql)
            with _registered(apart, keys), interruptible(apart.interrupt):
                return table_of(apart, sql)

    def bind(self, sql: str) -> Node:
        with self._provided():
            return self._views.bound(sql)

    def arrow(self, types: Sequence[str]) -> list[pa.DataType]:
        with self.there():
            return self._views.arrow(types)


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, keys: pa.Table | None) -> Iterator[None]:
    """Let queries read `keys`."""
    if keys is not None:
        connection.register(KEYS, keys)
    try:
        yield
    finally:
        if keys is not None:
            connection.unregister(KEYS)
