"""A connection as the kernels of one plan use it, and what it reads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress

import duckdb

from tidewheel.engine.arrow import Exchanged, pa
from tidewheel.engine.kernels.duckdb import (
    Bound,
    Parameters,
    is_query,
    readable,
    reader_of,
    relation,
    run_table,
    streamed_error,
    table_of,
)

Profile = Callable[[str, str], None]
"""Takes a statement and DuckDB's profile of it, as JSON."""


class KernelReader(Iterator["pa.RecordBatch"]):
    """The statement's result, batch by batch; DuckDB computes ahead by a bounded buffer only.

    While it is open the connection can run nothing else (DuckDB refuses): `close` it, or read it
    to its end.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lock: threading.RLock,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
        batch_rows: int = 122_880,
        bound: Bound | None = None,
        once: bool = False,
    ) -> None:
        self._lock = lock
        self._reader: pa.RecordBatchReader | None
        self.relation: duckdb.DuckDBPyRelation | None = None
        with lock:
            # The owner of what the reader reads is kept, and so are the inputs.
            if once and not params:
                self._reader, owner = reader_of(connection, sql, inputs, batch_rows)
            else:
                if bound is not None and not (inputs or params):
                    self.relation = owner = bound.relation(connection, sql)
                else:
                    self.relation = owner = relation(connection, sql, inputs, params)
                self._reader = owner.to_arrow_reader(batch_rows)
            self._owns = owner, inputs
        self.schema: pa.Schema = self._reader.schema

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end."""
        if self._reader is None:
            raise StopIteration
        try:
            with self._lock:
                return self._reader.read_next_batch()
        except OSError as error:  # Arrow wraps what DuckDB raises while a result streams
            self.close()
            raise streamed_error(str(error)) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection free; safe to call again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with self._lock:
                reader.close()


class Access:
    """What DuckDB may look at, as it was when `version` last moved; asked anew always without."""

    def __init__(self, version: Callable[[], int] | None = None) -> None:
        self._version = version
        self._known: tuple[int, tuple[bool, bool]] | None = None

    def of(self, connection: duckdb.DuckDBPyConnection) -> tuple[bool, bool]:
        """At Python variables, and at what is outside of the database? Hold the lock."""
        version = self._version and self._version()
        if version is None or self._known is None or self._known[0] != version:
            # fetchall: a result that is not read to its end blocks the connection
            found = connection.execute(_ACCESS).fetchall()[0]
            if version is None:
                return found
            self._known = version, found
        return self._known[1]


_ACCESS = (
    "SELECT current_setting('python_enable_replacements'), "
    "current_setting('enable_external_access')"
)


class KernelConnection:
    """A connection as the kernels of one plan use it: one statement at a time.

    `open` lets DuckDB find the inputs (Python variables; the session's connection has that turned
    off), `close` puts the setting back. Both cost a statement, so a plan without inputs skips them.
    Where external access is off DuckDB looks at no variable: then inputs are registered. `access`
    is what the session knows of that.

    `once`: statements are bound once (see `table_of`): not in a transaction of the user's.

    `beside`: the connection of the same database that was opened before this one, which is its
    cursor; settings of the whole database are made there. A cursor is closed with its kernels.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lock: threading.RLock,
        batch_rows: int = 122_880,
        beside: KernelConnection | None = None,
        access: Access | None = None,
        once: bool = False,
    ) -> None:
        self._connection = connection
        self._lock = lock
        self._batch_rows = batch_rows
        self._beside = beside
        self._access = access or Access()
        self._once = once
        self._profile: Profile | None = None
        self._restore: list[str] = []
        self._registers = False
        self._registered: set[str] = set()

    def open(self) -> None:
        """Make inputs findable."""
        if self._beside is not None:
            self._registers = self._beside._registers
            return
        with self._lock:
            variables, outside = self._access.of(self._connection)
            self._registers = not outside
            if not (variables or self._registers):
                self._connection.execute("SET python_enable_replacements = true").fetchall()
                self._restore.append("SET python_enable_replacements = false")

    def close(self) -> None:
        """Undo `open`; no reader may be open any more. Safe to call again."""
        restore, self._restore = self._restore, []
        for statement in restore:
            with self._lock:
                self._connection.execute(statement).fetchall()
        registered, self._registered = self._registered, set()
        for name in registered:
            # A transaction that failed takes no statement; then the next input replaces this one.
            with self._lock, suppress(duckdb.Error):
                self._connection.unregister(name)
        if self._beside is not None:
            self._connection.close()

    @property
    def key(self) -> Hashable:
        """What kernels on this connection have in common: they never run at once."""
        return id(self._connection)

    def interrupt(self) -> None:
        """End the statement that runs; from any thread."""
        self._connection.interrupt()

    def measure(self, profile: Profile) -> None:
        """From now on tell `profile` what DuckDB measures; not where settings are locked."""
        with self._lock, suppress(duckdb.Error):
            query = "SELECT current_setting('enable_profiling')"
            if self._connection.execute(query).fetchall()[0][0] is None:
                self._connection.execute("SET enable_profiling = 'no_output'").fetchall()
                self._restore.append("RESET enable_profiling")
            self._profile = profile

    def measured(self, sql: str) -> None:
        """A statement has just ended: pass on DuckDB's profile of it."""
        if self._profile is not None:
            with self._lock:
                self._profile(sql, self._connection.get_profiling_information(format="json"))

    def _found(self, inputs: Mapping[str, pa.Table] | None) -> Mapping[str, pa.Table] | None:
        if self._registers and inputs:
            with self._lock:
                for name, table in inputs.items():
                    self._connection.register(name, readable(self._connection, table))
            self._registered.update(inputs)
            return None
        return inputs

    def table(
        self,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
    ) -> pa.Table:
        """The statement's whole result."""
        found = self._found(inputs)
        if self._once and not params:
            with self._lock:
                table = table_of(self._connection, sql, found)
        else:
            table = run_table(self._connection, self._lock, sql, found, params)
        self.measured(sql)
        return table

    def reader(
        self,
        sql: str,
        inputs: Mapping[str, pa.Table] | None = None,
        params: Parameters = None,
    ) -> KernelReader:
        """The statement's result as it is computed; close it before the next statement."""
        found = self._found(inputs)
        rows, once = self._batch_rows, self._once
        return KernelReader(self._connection, self._lock, sql, found, params, rows, once=once)


class Repeated:
    """A statement that is run again and again, over inputs of the same schemas.

    While they have few rows it is bound once, which is a third of what it costs to run it.
    """

    def __init__(self, connection: KernelConnection, sql: str, params: Parameters = None) -> None:
        self._connection = connection
        self._sql = sql
        self._params = params
        self._relation: duckdb.DuckDBPyRelation | None = None
        self._inputs: dict[str, Exchanged] = {}

    def __call__(self, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """The whole result for some inputs."""
        found = self._of_few(inputs)
        if found is None:
            return self._connection.table(self._sql, inputs, self._params)
        self._connection.measured(self._sql)
        return found

    def _of_few(self, inputs: Mapping[str, pa.Table]) -> pa.Table | None:
        on = self._connection
        # (DuckDB takes an input whose rows it can't count for one of a single row)
        if on._registers or math.prod(max(t.num_rows, 1) for t in inputs.values()) > _FEW:
            return None
        with on._lock:
            if self._relation is None:
                self._inputs = {name: Exchanged(table) for name, table in inputs.items()}
                found = relation(on._connection, self._sql, self._inputs, self._params)
                if is_query(found):
                    self._relation = found
                return found.to_arrow_table()
            if not all(self._inputs[name].exchange(table) for name, table in inputs.items()):
                return None
            return self._relation.to_arrow_table()


_FEW = 10_000
"""Combinations of rows."""
