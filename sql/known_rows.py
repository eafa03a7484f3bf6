"""Statements of few rows, in autocommit mode, whose rows are known before DuckDB has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa

from ..planner.context import Parameters
from .keyed_forms import Copied, KeyedForms, copied
from .repeated import Repeated, plain
from .sigint import Deferred
from .statements import Statement, split
from .upsert import find
from .write_behind import MOST

if TYPE_CHECKING:
    from .session import Session

_APPEND = split("APPEND")[0]
Known = tuple[Statement, Callable[[], int | None]]
"""A statement, and what makes its change; that gives the number of rows, or None."""


class KnownRows:
    """The forms of such statements that a session has seen, and their way through it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._repeated = Repeated(lambda: session.connection)
        self._keyed = KeyedForms()

    def run(self, script: str, parameters: Parameters) -> int | None:
        """An INSERT, or an UPDATE or DELETE by a key; how many rows that were.

        None: not that, or run it as written.
        """
        session = self._session
        if session.in_transaction or not (session.autocommit and isinstance(script, str)):
            return None
        found = self._found(script, plain(parameters))
        if found is None:
            return None
        statement, change = found
        with self._around(statement, script):
            return change()

    def _found(self, script: str, parameters: Parameters) -> Known | None:
        session, views = self._session, self._session.views
        row = self._repeated.find(script, parameters, session.catalog.version)
        if row is not None:
            return row.form.statement, partial(views.insert, row, self._repeated)
        keyed = self._keyed.find(script, parameters) if views.any else None
        if keyed is not None:
            return keyed.form.statement, partial(views.change_row, keyed)
        rows = find(script, parameters) if views.any else None
        if rows is not None:
            return rows.form.statement, partial(views.upsert_rows, rows)
        if views.any and session.frames and parameters is None:
            return self._copied(script)
        return None

    def insert(self, into: Copied | Sequence[str], rows: pa.Table) -> int | None:
        """Few rows into a table of some name by the names of their columns, or, by INSERT INTO t
        SELECT * FROM …, by their places. How many there are; None: nothing is done.
        """
        session = self._session
        if session.in_transaction or not (session.autocommit and session.views.any):
            return None
        if not 0 < rows.num_rows <= MOST:
            return None
        with self._around(into.statement if isinstance(into, Copied) else _APPEND):
            if isinstance(into, Copied):
                return session.views.insert_rows(into, rows, again=False)
            return session.views.append_rows(into, rows)

    @contextmanager
    def _around(self, statement: Statement, script: str | None = None) -> Iterator[None]:
        """What comes before such a change, and after it."""
        session = self._session
        with Deferred(), session.begun(statement), session.guard(statement):
            session.views.lock_for_write()
            try:
                if session.behind.full:
                    session.write_behind()
                yield
            except duckdb.ConstraintException:
                if script is None:
                    raise
                with session.guard(split(script)[0], as_written=False):
                    raise
            finally:
                session.views.release()

    def _copied(self, script: str) -> Known | None:
        """An INSERT of all that a registered Arrow table has."""
        session = self._session
        found = copied(script)
        if found is None:
            return None
        named = [name for name in session.frames if name.lower() == found.frame]
        # a table that was made since would hide it
        if len(named) != 1 or session.framed_at.get(named[0]) != session.database.catalog_version:
            return None
        rows = session.frames[named[0]]
        if not isinstance(rows, pa.Table):
            return None
        return found.statement, partial(session.views.insert_rows, found, rows)
