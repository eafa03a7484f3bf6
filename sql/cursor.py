"""PEP 249: Cursor."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, Self

from tidewheel.engine.arrow import pa

from . import errors
from .convert import Exporter, RowConverter, to_numpy, to_pandas, to_polars
from .handed import Handed
from .result import Result
from .types import describe

if TYPE_CHECKING:
    import pandas
    import polars

    from ..planner.context import Parameters
    from .dbapi import Connection

Row = tuple[Any, ...]


class Cursor:
    """Runs statements and reads the rows of the last one.

    A result streams: rows are computed as they are read. If another statement of the same
    connection comes first, what is not yet read is set aside, in memory or on disk.
    """

    __slots__ = (
        "__weakref__", "_arraysize", "_closed", "_converter", "_read", "_result", "_rows",
        "_session", "connection", "lastrowid", "rowcount",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """The connection that it was made by."""
        self._arraysize = 1
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

    @property
    def arraysize(self) -> int:
        """How many rows `fetchmany` returns if not told."""
        return self._arraysize

    @arraysize.setter
    def arraysize(self, size: int) -> None:
        self._arraysize = _number_of_rows(size)

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
        wanted = self._arraysize if size is None else _number_of_rows(size)
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
        """The rows that are not yet read, as a polars DataFrame; a repeated name gets a number."""
        frame: polars.DataFrame = to_polars(self.to_arrow_table())
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

    if not TYPE_CHECKING:  # else every name would be there for type checkers

        def __getattr__(self, name: str) -> None:
            from .duckdb_names import missing

            missing(self, name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Cursor cannot be pickled or copied: fetch its rows, or make another one")

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


def _number_of_rows(size: int) -> int:
    try:
        wanted = index(size)
    except TypeError:
        raise errors.ProgrammingError(
            f"a number of rows is an int, not {type(size).__name__}"
        ) from None
    if wanted < 0:
        raise errors.ProgrammingError(f"the number of rows cannot be negative: {wanted}")
    return wanted
