"""PEP 249: Connection and Cursor."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Self

import pyarrow as pa

from ..planner.context import Parameters
from . import errors
from .result import Result, Rows, iterate
from .session import Session


class Connection:
    """A connection to a database, made by `tidewheel.connect`."""

    def __init__(self, database: str = ":memory:", *, read_only: bool = False, **config: Any) -> None:
        self._session = Session(database, read_only, config)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = None) -> Cursor:
        return self.cursor().execute(sql, parameters)

    def close(self) -> None:
        self._session.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """Runs statements and reads the last one's rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session = connection._session
        self._result: Result | None = None
        self._pending: deque[tuple[Any, ...]] = deque()
        self.arraysize = 1
        self.rowcount = -1

    def execute(self, sql: str, parameters: Parameters = None) -> Self:
        self._result, self.rowcount = self._session.execute(sql, parameters)
        self._pending.clear()
        if self._result is not None:
            self._rows = Rows(self._result.schema)
        return self

    def _fill(self) -> bool:
        if self._result is None:
            raise errors.ProgrammingError("the last statement gave no rows")
        with self._session.lock:
            batch = self._result.next_batch()
            if batch is None:
                return False
            self._pending.extend(self._rows.convert(batch))
            return True

    def fetchone(self) -> tuple[Any, ...] | None:
        if not self._pending and not self._fill():
            return None
        return self._pending.popleft()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        size = self.arraysize if size is None else size
        while len(self._pending) < size and self._fill():
            pass
        return [self._pending.popleft() for _ in range(min(size, len(self._pending)))]

    def fetchall(self) -> list[tuple[Any, ...]]:
        while self._fill():
            pass
        rows = list(self._pending)
        self._pending.clear()
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def to_arrow_table(self) -> pa.Table:
        if self._result is None:
            raise errors.ProgrammingError("the last statement gave no rows")
        with self._session.lock:
            return pa.Table.from_batches(iterate(self._result), self._result.schema)
