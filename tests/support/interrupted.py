"""A process that gets Ctrl-C at random moments of statements; see tests/crash/test_ctrl_c.py.

Called with a seed and a number of statements. After each, tables are as before it or as after it,
as DuckDB says, and views hold what their queries give.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import duckdb

import tidewheel

SETUP = """
CREATE TABLE t (id INTEGER, g INTEGER, x INTEGER);
CREATE TABLE e (a INTEGER, b INTEGER);
INSERT INTO t SELECT i, i % 5, i % 11 FROM range(3000) r(i);
INSERT INTO e SELECT i % 50, i * 7 % 50 FROM range(80) r(i);
"""
VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(x) AS s, max(x) AS m FROM t GROUP BY g",
    "pairs": "SELECT t.id, e.b FROM t JOIN e ON t.x = e.a WHERE t.g < 2",
    "reach": "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT b FROM r JOIN e ON n = a) FROM r",
    "more": "SELECT s.g, count(*) AS n FROM sums s JOIN t ON t.g = s.g AND t.x < s.m GROUP BY s.g",
}


def statement(rng: random.Random) -> str:
    """A change: of one row, of many, of both tables in a transaction."""
    low, g = rng.randrange(3000), rng.randrange(50)
    found = [
        f"INSERT INTO t VALUES ({low}, {g % 5}, {g % 11})",
        f"INSERT INTO e VALUES ({g}, {low % 50})",
        f"INSERT INTO t SELECT {low} + i, i % 5, i % 13 FROM range({rng.choice([20, 2000])}) r(i)",
        f"DELETE FROM t WHERE id BETWEEN {low} AND {low + rng.choice([1, 900])}",
        f"UPDATE t SET x = (x + 1) % 11 WHERE id % 7 = {g % 7}",
        f"DELETE FROM e WHERE a = {g}",
    ]
    if rng.random() < 0.2:
        return f"BEGIN; {found[0]}; {found[3]}; {found[5]}; COMMIT"
    return rng.choice(found)


def _tables(con: Any) -> list[Counter[tuple[Any, ...]]]:
    return [Counter(con.execute(f"FROM {name}").fetchall()) for name in ("t", "e")]


class Run:
    """The statements of one seed, here and in DuckDB alone."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.con = tidewheel.connect()
        self.duck = duckdb.connect(config={"threads": 1})
        self.hits = 0
        for con in (self.con, self.duck):
            con.execute(SETUP)
        for name, query in VIEWS.items():
            self.con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.duck.execute(f"CREATE VIEW {name} AS {query}")

    def step(self) -> None:
        """One statement, and a Ctrl-C some time after its beginning."""
        text = statement(self.rng)
        delay = self.rng.choice([0.0003, 0.003, 0.03]) * self.rng.random()
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        interrupted = True
        with suppress(KeyboardInterrupt):
            timer.start()
            self.con.execute(text)
            interrupted = False
            timer.join()
        timer.join()
        self.hits += interrupted
        if self.con.in_transaction:
            self.con.rollback()
        self._check(text, interrupted)

    def _check(self, text: str, interrupted: bool) -> None:
        found = _tables(self.con)
        if not interrupted or found != _tables(self.duck):
            self.duck.execute(text)
        assert found == _tables(self.duck), (text, interrupted)
        for name in VIEWS:
            wanted = Counter(self.duck.execute(f"FROM {name}").fetchall())
            assert Counter(self.con.execute(f"FROM {name}").fetchall()) == wanted, (text, name)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = Run(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        run.step()
    print(run.hits)
