"""Rows that the views have, and DuckDB gets when somebody asks it for something.

Of a database in the memory of this process nothing is left when the process ends, so it makes no
difference when DuckDB has a row, as long as nobody sees it without: whoever asks the session for
its connection gets it with everything written. A statement of one row costs DuckDB 0.3 to 0.5 ms;
a thousand of them written at once take less than two.

What is written is the net change: rows that came and went meanwhile are not. For each table first
what goes, then what is updated in its place, then what comes, in the order in which it came; each
by itself, as DuckDB does not take a key again in the transaction that took it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.quoting import quoted

if TYPE_CHECKING:
    from tidewheel.engine.state.delta import Schema
    from tidewheel.engine.state.rowwise import Row
    from tidewheel.sql.capture import TableInfo

MOST = 1024
"""Rows of one statement that may wait, and rows that wait before another is let wait."""
LETTERS = 1 << 24
"""Letters of text that may wait likewise."""
_ROWS = "__tw_behind"


@dataclass(slots=True)
class _Waiting:
    """What waits for one table. Rows and keys are of values as `engine.state.rowwise` has them."""

    info: TableInfo
    key: Sequence[int]
    come: dict[object, Row] = field(default_factory=dict)
    """By key, or by a number where the table has no key."""
    new: dict[Row, Row] = field(default_factory=dict)
    """By key, whole rows of which some columns have other values than in the table."""
    assigned: set[int] = field(default_factory=set)
    """In `new`, columns that are assigned anywhere."""
    gone: dict[Row, None] = field(default_factory=dict)


class WriteBehind:
    """What waits for one session's connection."""

    def __init__(self, block: Callable[[], AbstractContextManager[None]]) -> None:
        """`block`: in such a block nothing interrupts the session."""
        self._block = block
        self._tables: dict[str, _Waiting] = {}
        self._once: Callable[[], object] | None = None
        self.waiting = 0
        """Changes of single rows that wait."""
        self._letters = 0

    @property
    def full(self) -> bool:
        """Should what waits be written before more does?"""
        return self.waiting >= MOST or self._letters >= LETTERS

    def insert(
        self,
        info: TableInfo,
        key: Sequence[int],
        rows: Sequence[Row],
        once: Callable[[], object] | None,
    ) -> None:
        """Rows come. `once` runs the statement, if it is one, where no other waits."""
        number = self.waiting
        table = self._table(info, key, len(rows), once)
        self._count(rows)
        for i, row in enumerate(rows):
            table.come[_named(row, key) if key else number + i] = row

    def update(
        self,
        info: TableInfo,
        key: Sequence[int],
        rows: Sequence[Row],
        assigned: Sequence[int],
        once: Callable[[], object] | None,
    ) -> None:
        """Rows become `rows`, in which the columns `assigned`, none of the key, may be others."""
        table = self._table(info, key, len(rows), once)
        self._count(rows)
        for row in rows:
            name = _named(row, key)
            if name in table.come:
                table.come[name] = row
            else:
                table.new[name] = row
                table.assigned.update(assigned)

    def delete(
        self,
        info: TableInfo,
        key: Sequence[int],
        rows: Sequence[Row],
        once: Callable[[], object] | None,
    ) -> None:
        """Rows go."""
        table = self._table(info, key, len(rows), once)
        for row in rows:
            name = _named(row, key)
            if table.come.pop(name, None) is None:
                table.new.pop(name, None)
                table.gone[name] = None

    def _count(self, rows: Sequence[Row]) -> None:
        self._letters += sum([len(v) for row in rows for v in row if type(v) is str])

    def _table(
        self, info: TableInfo, key: Sequence[int], rows: int, once: Callable[[], object] | None
    ) -> _Waiting:
        table = self._tables.get(info.name)
        if table is None:
            table = self._tables[info.name] = _Waiting(info, key)
        self._once = None if self.waiting else once
        self.waiting += rows
        return table

    def flush(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write what waits; after an error what is not written waits on."""
        with self._block():
            once, self._once = self._once, None
            if once is not None:
                # it asks for the connection, which must not come here again
                count, self.waiting = self.waiting, 0
                try:
                    once()
                except BaseException:
                    self.waiting = count
                    raise
            else:
                for name in [*self._tables]:
                    _write(self._tables[name], connection)
                    del self._tables[name]
            self._tables.clear()
            self.waiting = self._letters = 0


def _named(row: Row, key: Sequence[int]) -> Row:
    return tuple([row[i] for i in key])


def _write(table: _Waiting, connection: duckdb.DuckDBPyConnection) -> None:
    """Bring one table up to date, and forget step by step what that needs."""
    info, schema = table.info, table.info.known
    names = [quoted(name) for name in info.columns]
    match = " AND ".join(f"t.{names[i]} = r.{names[i]}" for i in table.key)
    if table.gone:
        _run(
            connection,
            f"DELETE FROM {info.name} AS t USING {_ROWS} AS r WHERE {match}",
            schema.select(table.key),
            [*table.gone],
        )
        table.gone.clear()
    if table.new:
        sets = ", ".join(f"{names[i]} = r.{names[i]}" for i in sorted(table.assigned))
        _run(
            connection,
            f"UPDATE {info.name} AS t SET {sets} FROM {_ROWS} AS r WHERE {match}",
            schema,
            [*table.new.values()],
        )
        table.new.clear()
    if table.come:
        _run(connection, f"INSERT INTO {info.name} FROM {_ROWS}", schema, [*table.come.values()])
        table.come.clear()


def _run(
    connection: duckdb.DuckDBPyConnection, sql: str, schema: Schema, rows: Sequence[Row]
) -> None:
    """A statement that reads `rows`."""
    import numpy as np  # whoever has rows has these by now

    from tidewheel.engine.state.delta import Delta

    given = Delta.of_rows(schema, rows, np.ones(len(rows), np.int64)).to_arrow(None)
    connection.register(_ROWS, given)
    try:
        connection.execute(sql).fetchall()
    finally:
        connection.unregister(_ROWS)
