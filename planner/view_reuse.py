"""What a view's filling reads twice, made once: rows of joins as temporary tables.

Statements that fill a view are nested: what one of them joins, the next one joins with more. (A
temporary table has statistics, by which DuckDB orders joins; an Arrow table has none.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tidewheel.engine.operators.shared import KEYS, Read
from tidewheel.planner.plans import Queries, Run
from tidewheel.planner.view_statements import COUNT, counting

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.engine.state.delta import Delta
_NUMBERS: Final = itertools.count()


class Reading(Queries):
    """Runs queries by `read`, over tables as they were before the present turn."""

    def __init__(self, read: Read, keys: pa.Table | None = None) -> None:
        self._read = read
        self._keys = keys

    def __call__(self, sql: str) -> pa.Table:
        return self._read(sql, self._keys)

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        columns = [c.to_pylist() for c in self(sql).columns]
        return list(zip(*columns, strict=True))

    def row(self, sql: str) -> Sequence[Any]:
        (found,) = self.rows(sql)
        return found


class Reusing(Queries):
    """Runs queries; those in them that were `kept` are read, not run again."""

    def __init__(self, run: Run, texts: Sequence[str]) -> None:
        self._run = run
        self._texts = texts
        self._kept: dict[str, str] = {}
        self._tables: list[str] = []
        self._found: dict[str, pa.Table] = {}
        self._computed: dict[str, tuple[str, Delta]] = {}

    def __call__(self, sql: str) -> pa.Table:
        return self._run(self._with(sql))

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        return self._run.rows(self._with(sql))

    def row(self, sql: str) -> Sequence[Any]:
        return self._run.row(self._with(sql))

    def once(self, sql: str, keys: pa.Table | None = None) -> pa.Table:
        """The result of a query that several ask for."""
        if sql not in self._found:
            self._found[sql] = self._run(self._with(sql), keys)
        return self._found[sql]

    def found(self, sql: str, table: pa.Table) -> None:
        """The result of a query that is asked for `once`: another one had it."""
        self._found[sql] = table

    def again(self, sql: str) -> bool:
        """Do others read the result of a query?"""
        return any(f"({sql})" in text for text in self._texts)

    def kept(self, sql: str) -> pa.Table:
        """The result of a query that is wanted again."""
        return self._made(sql, sql, "*")

    def counted(self, sql: str, distinct: str) -> pa.Table:
        """Each row of a query, then how often it is there; `distinct` rows are wanted again."""
        return self._made(counting(sql), distinct, f"* EXCLUDE ({COUNT})")

    def computed(self, sql: str, rows: Delta) -> None:
        """Others may read rows that operators computed in place of a query."""
        self._computed[f"({sql})"] = sql, rows

    def known(self, sql: str, instead: str) -> None:
        """Others read a query instead."""
        self._kept[f"({sql})"] = f"({instead})"

    def _made(self, sql: str, again: str, columns: str) -> pa.Table:
        table = self._table(self._with(sql))
        self.known(again, f"SELECT {columns} FROM {table}")
        return self._run(f"FROM {table}")

    def _table(self, sql: str, keys: pa.Table | None = None) -> str:
        table = f"temp.main.__tw_fill{next(_NUMBERS)}"
        self._run.rows(f"CREATE TEMP TABLE {table} AS {sql}", keys)
        self._tables.append(table)
        return table

    def _with(self, sql: str) -> str:
        if f"({sql})" in self._computed or f"({sql})" in self._kept:
            sql = f"FROM ({sql})"  # all of it, and nothing else
        for text in [text for text in self._computed if text in sql]:
            query, delta = self._computed.pop(text)
            rows = delta.repeated().to_arrow(None)
            rows = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
            self.known(query, f"FROM {self._table(f'FROM {KEYS}', rows)}")
        for text, instead in reversed(self._kept.items()):  # the later ones hold earlier ones
            sql = sql.replace(text, instead)
        return sql

    def end(self) -> None:
        """Drop the tables."""
        for table in self._tables:
            self._run.rows(f"DROP TABLE {table}")


@contextmanager
def reusing(run: Run, texts: Sequence[str]) -> Iterator[Reusing]:
    """Queries of one filling, and what all of them are."""
    found = Reusing(run, texts)
    try:
        yield found
    except BaseException:
        with suppress(Exception):  # a transaction that has failed takes its tables with it
            found.end()
        raise
    found.end()
