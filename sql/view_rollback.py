"""How a transaction ends that is taken back, and what becomes of the views.

An epoch that failed leaves them empty, to be filled from the tables: slow, and always right.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from tidewheel.engine.kernels.duckdb import roll_back
from tidewheel.planner import maintain
from tidewheel.sql import errors, view_text
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.view_reading import Reading


class Rollback(Reading):
    """ROLLBACK, epochs that failed, and views that were emptied by one."""

    def take_back(self) -> None:
        """ROLLBACK, of DuckDB's part."""
        roll_back(self.host.connection)

    def failed(self) -> bool:
        """Does DuckDB take no further statement in the transaction, which a user began?

        Where nothing was changed, rows of views may have been registered to be read.
        """
        views = not self.implicit and (self._maintainer.views or self._overlay is not None)
        if not (views or self.host.doubted):
            return False
        try:
            self._do("SELECT 1")
        except duckdb.InterruptException:
            self.take_back()
            self.rollback()
            raise
        except duckdb.Error:
            return True
        return False

    def rollback(self) -> None:
        """After DuckDB's ROLLBACK, or when the transaction ended with an error."""
        self._unsettle()
        self._end()

    def _end(self) -> None:
        self.implicit = False
        self._changes = {}
        self._overlay = None
        self._anew = set()
        self._own_rows.clear()
        if self._start is not None and self._start_catalog != self.database.catalog_version:
            with self.database.reading:  # what it read of the catalog may be as others left it
                self.database.catalog_version += 1
        self._start, self._at_first = None, {}
        self.come_back()
        self.database.writer.release(self)

    def _unsettle(self) -> None:
        """DuckDB's rollback took back what was registered since the transaction began."""
        self._registered = dict.fromkeys(self._registered)
        if self._overlay is not None:
            self._overlay = None
            self.database.catalog_version += 1

    def _undo(self, changed: Iterable[str], error: BaseException) -> None:
        """An epoch failed half way: what the views hold is rebuilt from the tables when needed."""
        limit = self.host.limit
        with self.database.reading:
            self._unpin()
            self._unsettle()
            view = self._maintainer.views.get(maintain.failed_view(error) or "")
            if view is not None and limit.late() and view.falls_behind():
                view.too_short = limit.milliseconds or 0
            self._forget({*self._maintainer.readers(changed), *self._anew})

    def _as_written(self, error: BaseException) -> errors.Error | None:
        """How DuckDB tells of an epoch's error in a view's query as it was written.

        An operator's error names the plan's columns. None if the query as a whole does not tell.
        """
        view = self._maintainer.views.get(maintain.failed_view(error) or "")
        interrupted = isinstance(error, duckdb.InterruptException)
        if view is None or interrupted or not isinstance(error, duckdb.Error):
            return None
        text, start = view_text.as_written(view.sql)
        try:
            Maintenance(self).of(view)(view.sql)
        except (errors.DataError, errors.ProgrammingError) as told:
            told.move(view.sql, text, -start)
            told.add_note(f"{maintain.FAILED_VIEW}{view.key}")
            return told
        except (errors.Error, duckdb.Error):
            pass
        return None

    def forget(self, changed: Iterable[str]) -> set[str]:
        """What views hold that read these is no more: it is filled again when it is wanted."""
        keys = set(self._maintainer.readers(changed))
        with self.database.reading:
            self._forget(keys)
        return keys

    def recover(self) -> None:
        """Fill the views that a failed epoch emptied, before a change that they must take part in.

        The session has the write lock and has changed nothing yet. The time is not the statement's:
        else no change would come through under a timeout that is shorter than the filling takes.
        Nor would many if a view were late again, and again: it stays cold if that was soon.
        """
        if self.database.lapsed:
            with self.host.limit.stopped():
                self._recover(self.database.lapsed)

    def _recover(self, lapsed: set[str]) -> None:
        current = not self.host.in_transaction or not self._behind_others
        there = self.database.maintainer.views  # a transaction may have dropped or replaced some
        here = [v.key for v in self._maintainer.ordered() if there.get(v.key) is v]
        here = [key for key in here if key in lapsed]
        for key in here:
            try:
                long_enough = self.host.limit.longer(self._maintainer.views[key].too_short)
                if self._changes or not current or not long_enough:
                    raise errors.OperationalError("another state of the tables, or too little time")
                view = self._maintainer.heat(key, Maintenance(self))
                view.refilled = view.epochs
            except (errors.Error, duckdb.Error):
                if self.host.interrupted.is_set():
                    raise  # the next change goes on from here
                self.database.break_off([key])
        lapsed.difference_update(here)

    def _pin(self, changed: Iterable[str]) -> None:
        """Keep the rows of views that are about to change for those who read in the meantime."""
        if self.database.has_others or self._behind_others:
            registry = self.database.maintainer
            with self.database.reading:
                for key in {*registry.readers(changed), *self._anew} & set(registry.views):
                    view = registry.views[key]
                    view.pinned = None if view.plan is None else view.plan.rows()

    def _unpin(self) -> None:
        for view in self.database.maintainer.views.values():
            view.pinned = None
