"""PEP 249: Connection."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Self

from . import errors
from .activity import Progress
from .cursor import Cursor

if TYPE_CHECKING:
    from ..planner.context import Parameters
    from .session import Session
    from .subscribe import Subscription


class Connection:
    """A connection to a database, made by `tidewheel.connect`.

    Several threads may share it: one statement runs at a time, the others wait. A cursor belongs
    to one thread at a time. `close()` rolls an open transaction back; so does the end of a ``with``
    block, which closes it, and so it is if nobody has the connection any more, nor a cursor of it.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    # what is not there, as sqlite3's row_factory, cannot be set either
    __slots__ = ("__weakref__", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def autocommit(self) -> bool:
        """Whether a statement outside `begin()` … `commit()` commits by itself; True at first.

        While it is False every statement belongs to a transaction, begun when it is needed and
        ended by `commit` or `rollback`. Setting it to True commits the one that is open.
        """
        return self._session.autocommit

    @autocommit.setter
    def autocommit(self, wanted: bool) -> None:
        if wanted not in (True, False):
            raise errors.ProgrammingError(f"autocommit is True or False, not {wanted!r}")
        with self._session.lock:
            self._session.check_open()
            if wanted and not self._session.autocommit:
                self.commit()
            self._session.autocommit = bool(wanted)

    @property
    def in_transaction(self) -> bool:
        """Is a transaction open?"""
        return self._session.in_transaction

    def cursor(self) -> Cursor:
        """A new cursor: its results are its own, its transaction is the connection's."""
        self._session.check_open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = None) -> Cursor:
        """Run `sql` on a new cursor, and return that; see `Cursor.execute`."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Cursor:
        """Run `sql` once per set of parameters on a new cursor, all or nothing."""
        return self.cursor().executemany(sql, parameters)

    def append(self, table: str, data: object) -> int:
        """Add rows to `table`, all or nothing, as one epoch; returns how many there were.

        `data` is a pandas or polars DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader,
        or anything with ``__arrow_c_stream__``. Columns go by name; one that is missing gets its
        default. Raises `ProgrammingError` where a column or its type does not fit, `DataError` for
        a value that does not, `IntegrityError` for a broken constraint: then nothing was written.
        """
        from .append import append

        return append(self._session, table, data)

    def script(
        self,
        sql: str,
        parameters: Parameters = None,
        *,
        explain: bool = False,
        as_text: bool = False,
    ) -> Iterator[Cursor]:
        """Run the statements of `sql` one by one, each when it is asked for: a cursor for each.

        With `explain` queries are explained instead of run. `as_text`: the rows will be read by
        `text_rows`.
        """
        from .statements import explained

        self._session.scan(sql)
        for statement, given in self._session.statements(sql, parameters):
            if explain:
                statement = explained(statement)
            elif statement.words[:1] == ("SUBSCRIBE",):
                raise errors.NotSupportedError(
                    "SUBSCRIBE never ends, so nothing behind it in a script would run",
                    hint="in the shell: .watch VIEW; in Python: Connection.subscribe",
                    text=statement.script,
                    position=statement.start,
                    length=len("SUBSCRIBE"),
                )
            cursor = self.cursor()
            cursor._take(*self._session.run(statement, given, as_text))
            yield cursor

    def begin(self) -> None:
        """Start a transaction; without one every statement commits by itself."""
        self._session.execute("BEGIN", None)

    def commit(self) -> None:
        """Commit the transaction; nothing to do if none is open (PEP 249)."""
        self._session.end_transaction("COMMIT")

    def rollback(self) -> None:
        """Take back the transaction; nothing to do if none is open (PEP 249)."""
        self._session.end_transaction("ROLLBACK")

    def register(self, name: str, frame: object) -> None:
        """Make a frame readable as table `name` on this connection, without a copy.

        A pandas or polars DataFrame, a pyarrow Table, RecordBatchReader (to be read once) or
        Dataset, NumPy arrays, and any object with the Arrow PyCapsule interface (read at once).
        """
        from .frames import register

        register(self._session, name, frame)

    def unregister(self, name: str) -> None:
        """Forget a frame."""
        from .frames import unregister

        unregister(self._session, name)

    def subscribe(self, view: str, epoch: int | None = None) -> Subscription:
        """Follow a maintained view: iterate over its `Update`s, one per committed transaction.

        The first is a snapshot; with `epoch` there is none, and what came after that epoch follows.
        Iterate with ``for`` or ``async for``; `close()` it from any thread.
        """
        return self._session.subscribe(view, epoch)

    def enable_progress(self) -> None:
        """From now on `progress` tells what a statement is at."""
        self._session.enable_progress()

    def progress(self) -> Progress | None:
        """What the running statement is at; None before `enable_progress`. From any thread."""
        return self._session.progress()

    def interrupt(self) -> None:
        """Stop the running statement, from another thread: it raises `OperationalError`."""
        self._session.interrupt()

    def close(self) -> None:
        """Close the connection and what its cursors have not read yet.

        Closing it a second time is an error, like every other use after that (PEP 249).
        """
        self._session.check_open()
        self._session.close()

    if not TYPE_CHECKING:  # else every name would be there for type checkers

        def __getattr__(self, name: str) -> None:
            from .duckdb_names import missing

            missing(self, name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Connection cannot be pickled or copied: connect again, in each process")

    def __enter__(self) -> Self:
        self._session.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()


def connect(
    database: str | bytes | os.PathLike[str] = ":memory:",
    *,
    read_only: bool = False,
    autocommit: bool = True,
    safe_mode: bool = False,
    config: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Connection:
    """Open a database file, made if it is not there, or a new database in memory.

    `autocommit` is `Connection.autocommit`. With `safe_mode` SQL reaches no file, no network, no
    extension, no setting and no Python variable, and no statement undoes that; all connections of a
    process to one file must agree on it. `settings` are Tidewheel's (`threads`, `fusion` …) and
    DuckDB's (`memory_limit` …); `config` holds more of them, as in `duckdb.connect`.
    """
    # Imported here: the planner and the engine take as long to load as DuckDB and pyarrow.
    from .session import Session

    chosen = {**(config or {}), **settings}
    connection = Connection(Session(os.fsdecode(database), read_only, chosen, safe_mode))
    connection.autocommit = autocommit
    weakref.finalize(connection, _forgotten, connection._session).atexit = False
    return connection


def _forgotten(session: Session) -> None:
    """Roll back what a connection has left open that nobody can reach any more.

    Who still reads a result of it goes on. Not waited for: this may be called anywhere.
    """
    if session.closed or session.forked or not session.in_transaction:
        return
    if session.lock.acquire(blocking=False):
        try:
            with suppress(Exception):
                session.end_transaction("ROLLBACK")
        finally:
            session.lock.release()
