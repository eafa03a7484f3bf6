"""The engines that a file can be run on, behind one small interface."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa


class Session(Protocol):
    """One connection."""

    def run(self, sql: str) -> pa.Table | None:
        """Execute; the whole answer, or None for a statement that has none."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Engine:
    """`names` are what ``skipif`` and ``onlyif`` know it by; `open` gives its databases.

    `open(path)` returns a function that makes connections to one database and one that closes it.
    """

    names: frozenset[str]
    open: Callable[[Path | None], Database]


class Database(Protocol):
    def connect(self) -> Session: ...

    def close(self) -> None: ...


SETUP = ("SET TimeZone = 'UTC'",)


@dataclass
class DuckSession:
    con: duckdb.DuckDBPyConnection

    def run(self, sql: str) -> pa.Table | None:
        self.con.execute(sql)
        if self.con.description is None:
            return None
        with warnings.catch_warnings():  # it copies the rows once more, which is fine here
            warnings.simplefilter("ignore", UserWarning)
            return self.con.to_arrow_table()

    def close(self) -> None:
        self.con.close()


@dataclass
class DuckDatabase:
    con: duckdb.DuckDBPyConnection

    def connect(self) -> Session:
        cursor = self.con.cursor()
        for sql in (*SETUP, "SET arrow_lossless_conversion = true"):
            cursor.execute(sql)
        return DuckSession(cursor)

    def close(self) -> None:
        self.con.close()


def plain_duckdb() -> Engine:
    """DuckDB itself: the oracle that answers are recorded from."""

    def open_database(path: Path | None) -> Database:
        return DuckDatabase(duckdb.connect(":memory:" if path is None else str(path)))

    return Engine(frozenset({"duckdb"}), open_database)


@dataclass
class OurSession:
    con: Any

    def run(self, sql: str) -> pa.Table | None:
        cursor = self.con.cursor()
        try:
            cursor.execute(sql)
            result = cursor._result  # in the form that keeps every type, as DuckSession has it
            return None if result is None else pa.Table.from_batches(result, result.schema)
        finally:
            cursor.close()

    def close(self) -> None:
        self.con.close()


@dataclass
class OurDatabase:
    name: str
    settings: tuple[str, ...]
    opened: list[Any] = field(default_factory=list)

    def connect(self) -> Session:
        import tidewheel

        self.opened.append(tidewheel.connect(self.name))
        session = OurSession(self.opened[-1])
        for sql in (*SETUP, *self.settings):
            session.run(sql)
        return session

    def close(self) -> None:
        for con in reversed(self.opened):
            with suppress(con.Error):  # its session has closed it
                con.close()


_numbers = itertools.count()


def tidewheel_engine(threads: int = 1, fusion: bool = True) -> Engine:
    """Tidewheel with a degree of parallelism, fused kernels or a vertex per operator."""
    settings = (f"SET threads = {threads}", f"SET fusion = '{'on' if fusion else 'off'}'")
    names = {"tidewheel", "fusion-on" if fusion else "fusion-off", f"threads-{threads}"}

    def open_database(path: Path | None) -> Database:
        # A named memory can be opened more than once, an unnamed one is nobody else's.
        return OurDatabase(str(path or f":memory:slt{next(_numbers)}"), settings)

    return Engine(frozenset(names), open_database)


CONFIGURATIONS: dict[str, Callable[[], Engine]] = {
    "duckdb": plain_duckdb,
    "fused-1": lambda: tidewheel_engine(1, True),
    "unfused-1": lambda: tidewheel_engine(1, False),
    "fused-2": lambda: tidewheel_engine(2, True),
    "unfused-2": lambda: tidewheel_engine(2, False),
}
