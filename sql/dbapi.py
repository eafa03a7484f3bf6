"""PEP 249: Connection and Cursor."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from tidewheel.engine.arrow import pa

from . import errors
from .activity import Progress
from .convert import Exporter, RowConverter, to_numpy, to_pandas
from .handed import Handed
from .result import Result
from .types import describe

if TYPE_CHECKING:
    import pandas
    import polars

    from ..planner.context import Parameters
    from .session import Session
    from .subscribe import Subscription

Row = tuple[Any, ...]


class Connection:
    """A connection to a database, made by `tidewheel.connect`.

    Several threads may share it: one statement runs at a time, the others wait. A cursor belongs
    to one thread at a time. `close()` rolls an open transaction back; so does the end of a ``with``
    block, which closes it.
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

    def __enter__(self) -> Self:
        self._session.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()


class Cursor:
    """Runs statements and reads the rows of the last one.

    A result streams: rows are computed as they are read. If another statement of the same
    connection comes first, what is not yet read is set aside, in memory or on disk.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """The connection that it was made by."""
        self.arraysize = 1
        """How many rows `fetchmany` returns if not told."""
        self.rowcount = -1
        """Rows that the last statement changed; -1 where that is not known."""
        self.lastrowid = None
        """Always None: rows have no number of their own; use ``INSERT … RETURNING``."""
        self._session = connection._session
        self._result: Result | None = None
        self._converter: RowConverter | None = None
        self._rows: deque[Row] = deque()
        self._read = 0
        self._closed = False

    def execute(self, sql: str, parameters: Parameters = None) -> Self:
        """Run the statements of `sql` in order and keep the rows of the last one.

        Values for ``?`` come as a sequence (each statement takes its share), values for ``$name``
        as a mapping. Raises a subclass of `tidewheel.Error` that names the place.
        """
        self._reset()
        self._session.scan(sql)
        self._take(*self._session.execute(sql, parameters))
        return self

    def _take(self, result: Result | None, rowcount: int) -> None:
        self._result, self.rowcount = result, rowcount

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Self:
        """Run `sql` once for each set of parameters, in one transaction: all or nothing."""
        self._reset()
        self._session.scan(sql)
        from .many import execute_many

        self.rowcount = execute_many(self._session, sql, parameters)
        return self

    def callproc(self, name: str, parameters: Sequence[Any] = ()) -> None:
        """Always `NotSupportedError`: there are no stored procedures."""
        raise errors.NotSupportedError(
            "there are no stored procedures", hint=f"a macro is called by SELECT {name}(…)"
        )

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """(name, type code, None × 5) per column, None if the last statement gave no rows.

        A type code is DuckDB's name of the type and equals its type object: ``== NUMBER``.
        """
        return None if self._result is None else describe(self._result.columns)

    @property
    def status(self) -> str | None:
        """What the last statement says besides its rows: VERIFY VIEW, what it compared."""
        return None if self._result is None else self._result.status

    # -- rows --------------------------------------------------------------------------------------

    @property
    def rownumber(self) -> int | None:
        """The number, from 0, of the row that comes next; None if there is no result."""
        return None if self._result is None else self._read

    def fetchone(self) -> Row | None:
        """The next row, None after the last."""
        self._need_rows()
        if not (self._rows or self._fill()):
            return None
        self._read += 1
        return self._rows.popleft()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (default: `arraysize`), fewer at the end."""
        self._need_rows()
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise errors.ProgrammingError(f"the number of rows cannot be negative: {wanted}")
        while len(self._rows) < wanted and self._fill():
            pass
        found = [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]
        self._read += len(found)
        return found

    def fetchall(self) -> list[Row]:
        """All remaining rows."""
        result = self._need_rows()
        rows = list(self._rows)
        self._rows.clear()
        while (more := self._more(result)) is not None:
            rows.extend(more)
        self._read += len(rows)
        return rows

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _fill(self) -> bool:
        result = self._need_rows()
        more = self._more(result)
        if more is None:
            return False
        self._rows.extend(more)
        return True

    def _more(self, result: Result) -> list[Row] | None:
        """The next rows; None at the end."""
        rows = result.next_rows()
        if rows is not None:
            return rows
        batch = result.next_batch()
        return None if batch is None else self._convert(result, batch)

    def _convert(self, result: Result, batch: pa.RecordBatch) -> list[Row]:
        if self._converter is None:
            self._converter = RowConverter(result.schema)
        return self._converter.rows(batch)

    # -- Arrow and frames --------------------------------------------------------------------------

    def to_arrow_table(self) -> pa.Table:
        """The rows that are not yet read, as a pyarrow Table."""
        result = self._need_rows()
        lossless = pa.Table.from_batches(self._unread(result), result.schema)
        return Exporter(result.schema).table(lossless)

    def to_arrow_reader(self) -> pa.RecordBatchReader:
        """The rows that are not yet read, as a stream of Arrow batches.

        To stop before the end, close the cursor or drop the reader: pyarrow does not tell of a
        reader's `close`.
        """
        result = self._need_rows()
        exporter = Exporter(result.schema)
        rest = self._unread(result)

        def batches() -> Generator[pa.RecordBatch]:
            try:
                for batch in rest:
                    yield exporter.batch(batch)
            finally:
                result.close()

        return pa.RecordBatchReader.from_batches(exporter.schema, Handed(batches()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: any Arrow library can read a cursor."""
        return self.to_arrow_reader().__arrow_c_stream__(requested_schema)

    def df(self) -> pandas.DataFrame:
        """The rows that are not yet read, as a pandas DataFrame."""
        result = self._need_rows()
        return to_pandas(pa.Table.from_batches(self._unread(result), result.schema))

    def pl(self) -> polars.DataFrame:
        """The rows that are not yet read, as a polars DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow_table())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def fetchnumpy(self) -> dict[str, Any]:
        """The rows that are not yet read, as a NumPy array per column (masked where NULL)."""
        result = self._need_rows()
        return to_numpy(pa.Table.from_batches(self._unread(result), result.schema))

    def _repr_html_(self) -> str | None:
        """The first rows, for a notebook; they stay there to be read."""
        if self._closed or self._session.closed or self._result is None or self._rows:
            return None
        from .notebook import ROWS, html

        batches, ended = self._result.peek(ROWS)
        return html(self._result.schema, batches, ended)

    def text_rows(self) -> Iterator[tuple[str | None, ...]]:
        """The rows that are not yet read, every value as DuckDB writes it (VARCHAR or NULL)."""
        return self._unread(self._need_rows()).text()

    def _unread(self, result: Result) -> Result:
        if self._rows:
            raise errors.ProgrammingError(
                "some rows of this batch were already fetched one by one",
                hint="read a result either as rows or as Arrow",
            )
        return result

    # -- the rest of PEP 249 -----------------------------------------------------------------------

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Has no effect (PEP 249 allows it)."""
        self._check()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Has no effect (PEP 249 allows it)."""
        self._check()

    def close(self) -> None:
        """Give up what is not read; the cursor cannot be used any more."""
        self._closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop(self) -> None:
        result, self._result = self._result, None
        self._rows.clear()
        self._read = 0
        self._converter = None
        if result is not None:
            with self._session.lock:
                result.close()

    def _reset(self) -> None:
        self._check()
        self._drop()
        self.rowcount = -1

    def _check(self) -> None:
        if self._closed:
            raise errors.ProgrammingError("the cursor is closed")
        self._session.check_open()

    def _need_rows(self) -> Result:
        self._check()
        if self._result is None:
            raise errors.ProgrammingError("the last statement gave no rows")
        return self._result


def connect(
    database: str | os.PathLike[str] = ":memory:",
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
    connection = Connection(Session(os.fspath(database), read_only, chosen, safe_mode))
    connection.autocommit = autocommit
    return connection
