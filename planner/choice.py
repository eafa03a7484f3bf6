"""Which way runs a recursive query faster: DuckDB alone, or our loops? Found out by trying both.

A query all of whose recursions DuckDB can run itself may be given to it as it is written. What that
costs depends on how many rows and iterations there will be, which nobody knows beforehand: a tree
and a chain have the same number of edges. So DuckDB is asked first where the tables are small, even
before the loop is planned, and at runs 2, 4, 8 … of a query that the loop runs; it is stopped after
the time in which the loop would be done. The loop is tried once what that costs is little beside
what DuckDB has taken. Both times are kept with the plan.

DuckDB's own recursion has no bounds: the time it is given is so short that none of ours
(planner.lower_recursion.budget) could be reached in it. It ends by DuckDB's own clock: a recursion
that is interrupted from outside may leave DuckDB waiting for its own threads for ever. A recursion
that has come to its end does so again over the same rows, and needs no clock: to set it costs as
much as a small statement.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tidewheel.engine.kernels.duckdb import Parameters, relation
from tidewheel.engine.quoting import literal
from tidewheel.planner.context import Context
from tidewheel.planner.direct import FEW, Held, described, executed_plain, plain_columns
from tidewheel.planner.logical import Block
from tidewheel.planner.text import numbered_parameters

FIRST = 0.04
"""Seconds for the first try, where the tables are small; LONGEST where the loop is `slow`."""
SMALL = 20_000
"""Rows of all tables together."""
LONGEST = 0.5
"""Seconds after which DuckDB is stopped."""
LIMITED = 2.0
"""The same where only a LIMIT may end the recursion. The loop does not stop there, so DuckDB should
come to it on a busy machine, too."""
PLANNING = 0.03
"""Seconds to plan a loop: it is tried once DuckDB has taken as many."""
_AGAIN = 10
"""So many times as long as the loop took DuckDB runs alone, before the loop is tried again."""
_SOON = 2
"""The same after the loop's first run, which may have loaded modules, and has met cold memory."""
_CHEAP = 0.003  # seconds: no loop takes less
_TIMES = 100


@dataclass
class Choice:
    """What is known of the two ways to run `query`; kept with its plan.

    `limited`: the loop may have no end but its bounds, where DuckDB stops at a LIMIT. `ends`: no
    recursion can go on for ever. `slow`: each iteration of the loop takes as long as hundreds of
    DuckDB's may. `steady`: its answer depends on nothing but tables.
    """

    query: Block
    limited: bool = False
    ends: bool = False
    slow: bool = False
    steady: bool = False
    whole: float | None = None  # seconds that DuckDB took
    loop: float | None = None
    cold: bool = False  # has the loop run but once?
    runs: int = 0
    spent: float = 0  # seconds in all that DuckDB took since the loop ran
    few: bool = False  # had DuckDB's last answer few rows, of plain types?
    limits: bool | None = None  # can DuckDB's time be limited? (a SET makes plans anew)
    ended: object = None  # the state of the tables at which it came to its end

    def begin(self, context: Context) -> float:
        """Seconds to give DuckDB in the run that begins; 0: run the loop, inf: as it takes."""
        given = context.settings
        bounds = (given.max_iterations, given.max_recursive_rows, given.max_recursive_bytes)
        if context.record is not None or context.in_transaction or any(bounds) or not FIRST:
            # (a statement that is stopped ends its transaction)
            return 0
        self.runs += 1
        if self.loop is None and self.whole is None:
            if self.limited:
                return LIMITED
            return self.first if _rows(self.query.scans, context) <= SMALL else 0
        if self.whole is not None and self.alone:
            if self.ends or (self.ended is not None and self.ended == self._state(context)):
                return math.inf
            return LIMITED if self.limited else min(4 * self.whole + FIRST, LONGEST)
        if self.loop is not None and self.runs & (self.runs - 1) == 0:
            return min(self.loop, LONGEST)
        return 0

    @property
    def first(self) -> float:
        """Seconds for the first try."""
        return LONGEST if self.slow else FIRST

    @property
    def alone(self) -> bool:
        """Is DuckDB known to be the better one?"""
        if self.whole is None:
            return False
        if self.loop is None:
            few = self.spent < PLANNING
            return few or self.limited or self.slow or self.whole <= _CHEAP
        again = (_SOON if self.cold else _AGAIN) * self.loop
        return self.whole <= self.loop and (self.limited or self.spent < again)

    def run(self, seconds: float, context: Context) -> Held | pa.RecordBatchReader | None:
        """DuckDB's answer, if it has it in time; what it refuses the loop will report."""
        given = numbered_parameters(self.query.sql, context.parameters)
        connection = context.connection
        if context.deadline is not None:
            seconds = min(seconds, max(context.deadline - time.monotonic(), 0.001))
        with context.lock:
            try:
                if seconds < math.inf and not self._limit(connection, seconds):
                    return None
                answer = self._rows(context, given)
                if self.steady and not self.ends:
                    self.steady = self.ended is not None or _only_tables(self.query.scans, context)
                    self.ended = self._state(context)
                return answer
            except duckdb.Error:
                if context.interrupted.is_set():
                    raise
                return None
            finally:
                if seconds < math.inf and self.limits:
                    _set(connection, 0)

    def _state(self, context: Context) -> object:
        """The state of all that the answer depends on; None if others may change it."""
        return context.state() if self.steady and not context.parameters else None

    def _rows(self, context: Context, given: Parameters) -> Held | pa.RecordBatchReader:
        """All rows: not streamed, they would be read when the time is up.

        Few ones are made values of Python: to Arrow and back takes some 0.4 ms.
        """
        connection, sql = context.connection, self.query.sql
        if self.few:
            columns = executed_plain(connection, sql, given)
            if columns is not None:
                rows = connection.fetchall()
                self.few = len(rows) <= FEW
                return Held(columns, rows)
            self.few = False
        if given:
            found = relation(connection, sql, None, given)
        else:
            found = context.bound.relation(connection, sql)
        table = found.to_arrow_table()
        self.few = table.num_rows <= FEW and plain_columns(described(found)) is not None
        return table.to_reader(context.settings.batch_rows)

    def _limit(self, connection: duckdb.DuckDBPyConnection, seconds: float) -> bool:
        """Give DuckDB's next statements so much time, if nobody else does and it can be set."""
        if self.limits is None:
            found = connection.execute("SELECT current_setting('max_execution_time')").fetchall()
            self.limits = found[0][0] == 0
        if self.limits:
            try:
                _set(connection, math.ceil(seconds * 1000))
            except duckdb.Error:  # the configuration is locked
                self.limits = False
        return self.limits

    def note_whole(self, seconds: float, ended: bool) -> None:
        """How long DuckDB took; it is asked again soon if it was the better one until now."""
        if not ended and self.whole is not None:
            self.runs = 2
        self.whole = _late(self.whole, seconds) if ended else None
        self.spent += seconds

    def note_loop(self, seconds: float) -> None:
        """How long the loop took until its first rows."""
        self.cold = self.loop is None
        self.loop = _late(self.loop, seconds)
        self.spent = 0

    def text(self) -> str:
        """What EXPLAIN says."""
        known = [
            f"{name} took {seconds * 1000:.1f} ms"
            for name, seconds in (("DuckDB alone", self.whole), ("the loop", self.loop))
            if seconds is not None
        ]
        if self.loop is None and self.whole is None and self.limited:
            known.append(
                f"DuckDB is asked for the whole answer first, for {LIMITED:g} s: "
                "it stops at the LIMIT"
            )
        elif self.loop is None and self.whole is None:
            known.append(
                f"where its tables have up to {SMALL:,} rows DuckDB is asked for the whole answer "
                f"first, for {self.first * 1000:.0f} ms"
            )
        elif self.alone:
            tried = self.loop is not None or self.limited or self.slow
            until = not tried and (self.whole or 0) > _CHEAP
            most = ", the loop is tried after some runs"
            known.append("DuckDB runs it alone" + (most if until else ""))
        else:
            again = 1 << self.runs.bit_length()
            at = f"; at run {again} DuckDB is asked for the whole answer first"
            known.append("the loop runs it" + (at if self.loop is not None else ""))
        return "; ".join(known)


def _set(connection: duckdb.DuckDBPyConnection, milliseconds: int) -> None:
    """Set how long a statement may take; 0: as long as it likes."""
    for _ in range(_TIMES):
        # The statement has no more time than the one before: on a busy machine it may be late.
        with suppress(duckdb.InterruptException):
            connection.execute(f"SET max_execution_time = {milliseconds}").fetchall()
            return
    connection.execute(f"SET max_execution_time = {milliseconds}").fetchall()


def _late(before: float | None, seconds: float) -> float:
    """The shortest of late: what another process makes it take is no work of ours.

    Unless it is so much more that there must be more rows by now.
    """
    return seconds if before is None else max(min(seconds, before * 1.125), seconds / 8)


def _only_tables(names: Sequence[str], context: Context) -> bool:
    """Are these names of tables that are in memory, and of nothing else? Hold the lock."""
    if not names:
        return True
    query = f"""
        SELECT lower(table_name), database_name IN ('memory', 'temp') FROM duckdb_tables()
        WHERE lower(table_name) IN ({_listed(names)})
        UNION ALL SELECT '', false FROM duckdb_views() WHERE lower(view_name) IN ({_listed(names)})
    """
    found = context.connection.execute(query).fetchall()
    return all(inside for _, inside in found) and {name for name, _ in found} == set(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(literal, names))


def _rows(tables: Sequence[str], context: Context) -> float:
    """About how many rows tables of these names have; very many where one is no table."""
    if not tables:
        return 0
    # (a sum, and a count of names, take longer than the rest)
    query = (
        "SELECT lower(table_name), estimated_size FROM duckdb_tables() "
        f"WHERE lower(table_name) IN ({_listed(tables)})"
    )
    with context.lock:
        found = context.connection.execute(query).fetchall()
    if len({name for name, _ in found}) < len(tables):
        return float("inf")
    return float(sum(rows for _, rows in found))
