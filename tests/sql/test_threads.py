"""`SET threads`: what runs at the same time, what does not, and what is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidewheel
from tidewheel.engine.kernels import connection as kernels
from tidewheel.engine.scheduler import shared_pool
from tidewheel.planner import degree

BRANCHES = """
SELECT x.g, x.s, y.s FROM (SELECT g, sum(a) AS s FROM t GROUP BY g) AS x
JOIN (SELECT g, sum(a * a) AS s FROM t GROUP BY g) AS y USING (g) ORDER BY ALL
"""
MUTUAL = """
WITH RECURSIVE p(n) AS (SELECT 1 UNION SELECT n + 1 FROM q WHERE n < 30),
q(n) AS (SELECT 2 UNION SELECT n + 1 FROM p WHERE n < 30)
SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM q)
"""


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(degree, "WORTH", 0)  # however short the kernels of these tests are
    con = tidewheel.connect()
    con.execute("CREATE TABLE t AS SELECT range AS a, range % 7 AS g FROM range(1000)")
    con.execute("SET fusion = 'off'")
    yield con
    con.close()


def started() -> int:
    """Threads that the pool has ever started."""
    return shared_pool()._number


class Kernels:
    """Looks on from inside of kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lock = threading.Lock()
        self.active: list[tuple[object, str]] = []
        self.together: set[frozenset[str]] = set()
        self.violations: list[object] = []
        self.before: Any = lambda sql: None
        table, of_few = kernels.KernelConnection.table, kernels.Repeated._of_few
        watch = self

        def of_table(self: Any, sql: str, *args: Any) -> pa.Table:
            with watch.inside(self.key, sql):
                return table(self, sql, *args)

        def of_repeated(self: Any, inputs: Any) -> pa.Table | None:
            with watch.inside(self._connection.key, self._sql):
                return of_few(self, inputs)

        monkeypatch.setattr(kernels.KernelConnection, "table", of_table)
        monkeypatch.setattr(kernels.Repeated, "_of_few", of_repeated)

    @contextmanager
    def inside(self, key: object, sql: str) -> Iterator[None]:
        with self.lock:
            self.violations += [other for other, _ in self.active if other == key]
            self.together |= {frozenset((sql, other)) for _, other in self.active}
            self.active.append((key, sql))
        try:
            self.before(sql)
            yield
        finally:
            with self.lock:
                self.active.remove((key, sql))


def test_independent_kernels_run_at_the_same_time(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = con.execute(BRANCHES).fetchall()
    con.execute("SET threads = 2")
    looking = Kernels(monkeypatch)
    meeting = threading.Barrier(2, timeout=30)
    # each branch's kernel waits inside until the other one is inside, too
    looking.before = lambda sql: meeting.wait() if "SUM(" in sql else None
    assert con.execute(BRANCHES).fetchall() == want
    assert not meeting.broken
    assert not looking.violations


def test_steps_of_a_loop_run_at_the_same_time(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = con.execute(MUTUAL).fetchall()
    con.execute("SET threads = 2")
    looking = Kernels(monkeypatch)
    meeting = threading.Barrier(2, timeout=30)
    waited = []

    def before(sql: str) -> None:
        if "WHERE n" in sql and len(waited) < 2:  # in the first iteration
            waited.append(sql)
            meeting.wait()

    looking.before = before
    assert con.execute(MUTUAL).fetchall() == want
    assert len(set(waited)) == 2
    assert not looking.violations


def test_kernels_of_one_connection_never_run_together(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute("SET threads = 4")
    looking = Kernels(monkeypatch)
    looking.before = lambda sql: time.sleep(0.002)
    con.execute("BEGIN")  # then all are kernels of the session's connection
    for _ in range(5):
        con.execute(BRANCHES).fetchall()
        con.execute(MUTUAL).fetchall()
    con.execute("COMMIT")
    assert not looking.together
    assert not looking.violations


def test_what_only_the_session_sees_is_seen_by_all_kernels(con: tidewheel.Connection) -> None:
    con.execute("CREATE TEMP TABLE u AS SELECT 5 AS g, 7 AS w")
    con.register("f", pa.table({"g": [5, 6], "z": [1, 2]}))
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    con.execute("SET VARIABLE bonus = 1000")
    query = """
        SELECT x.g, x.s, y.s, y.h FROM (SELECT g, sum(a) + getvariable('bonus') AS s FROM t JOIN u
        USING (g) GROUP BY g) AS x JOIN (SELECT g, sum(a) AS s, max(date_part('hour',
        TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL 1 HOUR * z)) AS h
        FROM t JOIN f USING (g) GROUP BY g) AS y USING (g)
    """
    con.execute("SET threads = 1")
    want = con.execute(query).fetchall()
    assert want[0][3] == 10  # in Tokyo
    for statement in ("SET threads = 4", "CREATE TEMP MACRO abs(x) AS 42", "BEGIN"):
        con.execute(statement)
        assert con.execute(query).fetchall() == want
    con.execute("UPDATE t SET a = a + 1 WHERE g = 5")
    changed = con.execute(query).fetchall()
    assert changed != want
    con.execute("SET threads = 1")
    assert con.execute(query).fetchall() == changed
    con.execute("ROLLBACK")


def test_a_temporary_macro_hides_a_function_of_duckdbs(con: tidewheel.Connection) -> None:
    con.execute("CREATE TEMP MACRO abs(x) AS 42")
    query = BRANCHES.replace("sum(a)", "sum(abs(a))").replace("sum(a * a)", "sum(abs(a))")
    for threads in (1, 4):
        con.execute(f"SET threads = {threads}")
        assert con.execute(query).fetchall()[0][1:] == (143 * 42, 143 * 42)


def test_a_plan_cached_at_4_runs_at_1_without_threads(con: tidewheel.Connection) -> None:
    """LucidDB's published bug: the degree was burnt into the plan and missing from the key."""
    con.execute("SET threads = 4")
    before = started()
    want = con.execute(BRANCHES).fetchall()
    parallel = started()
    assert parallel > before  # it did use threads
    assert con.execute(BRANCHES).fetchall() == want  # from the cache
    again = started()
    assert again > parallel
    con.execute("SET threads = 1")
    assert con.execute(BRANCHES).fetchall() == want
    assert con.execute(BRANCHES).fetchall() == want
    assert started() == again
    assert shared_pool().threads == 0
    con.execute("SET threads = 4")
    assert con.execute(BRANCHES).fetchall() == want
    assert started() > again


def test_each_connection_has_its_own_degree(con: tidewheel.Connection) -> None:
    other = tidewheel.connect()
    other.execute("CREATE TABLE t AS SELECT range AS a, range % 7 AS g FROM range(1000)")
    other.execute("SET fusion = 'off'")
    con.execute("SET threads = 4")
    other.execute("SET threads = 1")
    before = started()
    other.execute(BRANCHES).fetchall()
    assert started() == before
    con.execute(BRANCHES).fetchall()
    assert started() > before
    other.close()


def test_threads_are_not_used_where_they_gain_nothing(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute("SET threads = 4")
    before = started()
    con.execute("SELECT g, sum(a) FROM t GROUP BY g").fetchall()  # a chain of kernels
    assert started() == before
    monkeypatch.setattr(degree, "WORTH", 10**12)
    con.execute(BRANCHES).fetchall()  # how long it takes is not known yet
    learned = started()
    con.execute(BRANCHES).fetchall()
    assert started() == learned


@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_an_interrupt_ends_kernels_on_all_connections(
    con: tidewheel.Connection, wait: float
) -> None:
    con.execute("SET threads = 2")
    long = """
        SELECT x.s, y.s FROM (SELECT g, sum(hash(a, r)) AS s FROM t, range(100000000) AS b(r)
        GROUP BY g) AS x JOIN (SELECT g, sum(hash(r, a)) AS s FROM t, range(100000000) AS b(r)
        GROUP BY g) AS y USING (g)
    """
    timer = threading.Timer(wait, con.interrupt)
    caught: list[BaseException] = []
    while not caught:  # an interrupt that comes before the statement is not meant for it
        timer = threading.Timer(wait, con.interrupt)
        again = threading.Timer(5.0, con.interrupt)
        timer.start()
        again.start()
        try:
            con.execute(long).fetchall()
        except tidewheel.Error as error:
            caught.append(error)
        finally:
            timer.cancel()
            again.cancel()
            timer.join()
            again.join()
    assert "nterrupt" in str(caught[0])
    assert con.execute("SELECT 42").fetchall() == [(42,)]
    assert shared_pool().threads == 0


def test_an_error_of_one_kernel_ends_the_statement(con: tidewheel.Connection) -> None:
    con.execute("SET threads = 2")
    query = BRANCHES.replace("sum(a * a)", "sum(CAST('x' || a AS INTEGER))")
    with pytest.raises(tidewheel.Error, match="Could not convert string 'x"):
        con.execute(query).fetchall()
    assert con.execute(BRANCHES).fetchall()
    assert shared_pool().threads == 0


LEFT = """
import os, sys, threading
import duckdb
import tidewheel

def files():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    return found - {f"/proc/{os.getpid()}/fd"}

started = []

class Noted(threading.Thread):
    def start(self):
        started.append(self.name)
        super().start()

threading.Thread = Noted
duckdb.connect().execute("SELECT 1").fetchall()
threads, before = set(threading.enumerate()), files()
con = tidewheel.connect(sys.argv[1])
con.execute("CREATE TABLE t AS SELECT range AS a, range % 7 AS g FROM range(1000)")
con.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(a) AS s FROM t GROUP BY g")
con.execute("INSERT INTO t VALUES (1, 1)")
con.execute("SELECT * FROM v").fetchall()
con.execute("SET fusion = 'off'; SET threads = 4")
for query in sys.argv[2:]:
    con.execute(query).fetchall()
    con.execute(f"EXPLAIN ANALYZE {query}").fetchall()
    half_read = con.execute(query)
    half_read.fetchone()
open_result = con.execute("SELECT * FROM range(10000000)")
open_result.fetchone()
assert set(started) - {"tidewheel-interrupts"} and files() != before
con.close()
print(sorted(t.name for t in set(threading.enumerate()) - threads), sorted(files() - before))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_nothing_outlives_a_closed_connection(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(tmp_path / "a.db"), BRANCHES, MUTUAL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "[] []", done.stderr


def test_two_recursions_of_duckdbs_own_queue_for_the_connection(con: tidewheel.Connection) -> None:
    con.execute("SET fusion = 'on'; SET threads = 2")
    query = """
    WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < 3000),
    b(n) AS (SELECT 2 UNION ALL SELECT n + 2 FROM b WHERE n < 6000)
    SELECT count(*) FROM a JOIN b USING (n)
    """
    shown = con.execute("EXPLAIN (KERNELS) " + query).fetchall()[0][1]
    assert shown.count("NativeLoop") >= 2
    for _ in range(5):
        assert con.execute(query).fetchall() == [(1500,)]
