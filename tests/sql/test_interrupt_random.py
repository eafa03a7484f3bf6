"""Interrupts at random moments: a statement has happened or not, and the views are right.

When an interrupt arrives is not known, so no test fails for a slow machine: it then comes late, and
meets another statement, or none.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

import tidewheel

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER, s VARCHAR, ts TIMESTAMP);
INSERT INTO t SELECT i, i % 20, (i * 7919) % 1000, 's' || (i % 97),
    TIMESTAMP '2020-01-01' + INTERVAL (i * 37 % 5000) MINUTE FROM range(300) AS r(i);
CREATE TABLE u (k INTEGER, g INTEGER, y INTEGER);
INSERT INTO u SELECT i, i % 20, i % 11 FROM range(100) AS r(i);
CREATE TABLE e (a INTEGER, b INTEGER);
INSERT INTO e SELECT i, (i * 7 + 1) % 40 FROM range(40) AS r(i)
"""
VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(x) AS s, min(s) AS least, max(x) AS most "
    "FROM t GROUP BY g",
    "over": "SELECT g % 5 AS h, sum(n) AS n FROM sums GROUP BY h",
    "texts": "SELECT g, median(x) AS m, string_agg(s, ',' ORDER BY id) AS s, "
    "count(DISTINCT s) AS d FROM t GROUP BY g",
    "partners": "SELECT u.k, t.id FROM u LEFT JOIN t ON t.g = u.g AND t.x < u.y * 50",
    "lonely": "SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.x = u.k)",
    "windows": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY x, id) AS n, "
    "sum(x) OVER (PARTITION BY g ORDER BY ts, id ROWS 3 PRECEDING) AS s FROM t",
    "closure": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM e UNION "
    "SELECT r.a, e.b FROM r JOIN e ON e.a = r.b) SELECT a, count(*) AS n FROM r GROUP BY a",
    "anew": "SELECT s, mad(x) AS m FROM t GROUP BY s",
}
OTHER = "SELECT DISTINCT t.s, u.y FROM t JOIN u ON t.g = u.g AND t.x > u.k"
_LONGEST = (0.001, 0.004, 0.01, 0.03)
"""Seconds after which an interrupt comes, at most."""


class _Interrupts:
    """A thread that interrupts a connection some time after it is told."""

    def __init__(self, con: tidewheel.Connection) -> None:
        self._con = con
        self._delay: float | None = 0.0
        self._told = threading.Event()
        self.none_waits = threading.Event()
        self.none_waits.set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def after(self, seconds: float | None) -> None:
        self.none_waits.clear()
        self._delay = seconds
        self._told.set()

    def close(self) -> None:
        self.after(None)
        self._thread.join()

    def _run(self) -> None:
        while self._told.wait() and self._delay is not None:
            self._told.clear()
            time.sleep(self._delay)
            self._con.interrupt()
            self.none_waits.set()


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute(TABLES)
        for name, query in VIEWS.items():
            opened.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield opened


def _write(rng: random.Random) -> str:
    new, some = rng.randrange(1000, 10**9), rng.randrange(40)
    when = f"TIMESTAMP '2020-01-02' + INTERVAL {some} MINUTE"
    return rng.choice(
        [
            f"INSERT INTO t VALUES ({new}, {some % 20}, {some}, 's{some}', {when})",
            f"INSERT INTO t SELECT {new} + i, i % 20, i, 's' || i, {when} FROM range(200) AS r(i)",
            f"UPDATE t SET x = x + 1, g = (g + 1) % 20 WHERE id % {some % 9 + 1} = 0",
            f"DELETE FROM t WHERE id % 40 = {some}",
            f"INSERT INTO u VALUES ({new % 400}, {some % 20}, {some % 11})",
            f"DELETE FROM u WHERE k % 40 = {some}",
            f"INSERT INTO e VALUES ({some}, {new % 40})",
            f"DELETE FROM e WHERE a = {some}",
            f"INSERT OR REPLACE INTO t SELECT id, g, x + 1, s, ts FROM t WHERE id % 9 = {some % 9}",
            f"CREATE OR REPLACE MATERIALIZED VIEW other AS {OTHER} AND u.k <> {some}",
        ]
    )


def _state(con: tidewheel.Connection) -> list[object]:
    found: list[object] = [
        con.execute(f"SELECT count(*), sum(hash({table})) FROM {table}").fetchall()
        for table in ("t", "u", "e")
    ]
    views = con.execute("SELECT view_name, sql FROM tidewheel_views() ORDER BY ALL").fetchall()
    return [*found, views]


def _verify(con: tidewheel.Connection) -> None:
    for (name,) in con.execute("SELECT view_name FROM tidewheel_views()").fetchall():
        assert con.execute(f"VERIFY VIEW {name}").fetchall() == [], name


@pytest.mark.parametrize(
    ("seed", "many"),
    [(1, 12), *(pytest.param(s, 200, marks=pytest.mark.long) for s in range(2, 8))],
)
def test_a_statement_has_happened_or_not(con: tidewheel.Connection, seed: int, many: int) -> None:
    rng = random.Random(seed)
    interrupts, told = _Interrupts(con), set[str]()

    def interrupted(sql: str) -> bool:
        if rng.random() < 0.6:
            interrupts.after(rng.choice(_LONGEST) * rng.random())
        try:
            con.execute(sql)
        except tidewheel.OperationalError as error:
            told.add(str(error).partition("\n")[0])
            return True
        finally:
            interrupts.none_waits.wait()
        return False

    try:
        for _ in range(many):
            before = _state(con)
            if rng.random() < 0.7:
                failed = interrupted(_write(rng))
            else:
                failed = interrupted("BEGIN")
                for _ in range(0 if failed else rng.randrange(1, 4)):
                    failed |= interrupted(_write(rng))
                if not failed:
                    failed = interrupted("COMMIT")
                if con._session.in_transaction:
                    con.execute("ROLLBACK")
            if failed:
                assert _state(con) == before
            if failed:
                _verify(con)
    finally:
        interrupts.close()
    _verify(con)
    assert all("interrupted" in text or "transaction is aborted" in text for text in told)
