"""A process that commits to a database file until it is killed; see tests/crash/test_kill.py.

Transaction number n does `statements(n)`; after its commit n is written to standard output. What
the tables hold after n commits, and which views there are, is a function of n: `Model`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

SETUP = [
    "CREATE TABLE log (n INTEGER PRIMARY KEY)",
    "CREATE TABLE account (id INTEGER PRIMARY KEY, cents BIGINT NOT NULL)",
    "CREATE TABLE edge (a INTEGER, b INTEGER)",
    "INSERT INTO account SELECT i, 100 FROM range(10) t(i)",
    "CREATE MATERIALIZED VIEW money AS SELECT sum(cents) AS cents, count(*) AS n FROM account",
    "CREATE MATERIALIZED VIEW moved AS SELECT n % 10 AS id, count(*) AS n FROM log GROUP BY 1",
    "CREATE MATERIALIZED VIEW reach AS WITH RECURSIVE r (n) AS "
    "(SELECT 0 UNION SELECT b FROM r JOIN edge ON n = a) FROM r",
    "CREATE MATERIALIZED VIEW rich AS SELECT a.id, m.n FROM account a JOIN moved m USING (id) "
    "WHERE a.cents > 100",
]
VIEWS = {"money", "moved", "reach", "rich"}
EXTRA = "CREATE MATERIALIZED VIEW extra AS SELECT id, cents FROM account WHERE cents > 90"


def statements(n: int) -> list[str]:
    """What transaction `n` does, from 1."""
    if n % 7 == 3:  # DDL by itself, an epoch that changes no row but the log's
        return [f"INSERT INTO log VALUES ({n})", EXTRA]
    if n % 7 == 6:
        return [f"INSERT INTO log VALUES ({n})", "DROP MATERIALIZED VIEW extra"]
    pay, take = n % 10, (n * 3 + 1) % 10
    return [
        f"UPDATE account SET cents = cents - 7 WHERE id = {pay}",
        f"INSERT INTO edge VALUES ({n % 13}, {n * 5 % 13})",
        f"INSERT INTO account VALUES ({take}, 0) ON CONFLICT DO UPDATE SET cents = cents + 7",
        f"DELETE FROM edge WHERE a = {n * 2 % 13}",
        f"INSERT INTO log VALUES ({n})",
    ]


class Model:
    """The tables after transactions 1 … n."""

    def __init__(self, n: int) -> None:
        self.accounts = dict.fromkeys(range(10), 100)
        self.edges: list[tuple[int, int]] = []
        self.views = set(VIEWS)
        for i in range(1, n + 1):
            if i % 7 == 3:
                self.views.add("extra")
            elif i % 7 == 6:
                self.views.discard("extra")
            else:
                self.accounts[i % 10] -= 7
                self.edges.append((i % 13, i * 5 % 13))
                self.accounts[(i * 3 + 1) % 10] += 7
                self.edges = [e for e in self.edges if e[0] != i * 2 % 13]


def run(path: str) -> Iterator[int]:
    """Sets the database up where it is new, then commits on and on; yields each number."""
    import tidewheel

    con = tidewheel.connect(path, checkpoint_threshold="32KB", threads=1)
    tables = {row[0] for row in con.execute("SHOW TABLES").fetchall()}
    if "log" not in tables:
        con.execute("BEGIN")
        for sql in SETUP:
            con.execute(sql)
        con.execute("COMMIT")
    row = con.execute("SELECT coalesce(max(n), 0) FROM log").fetchone()
    assert row is not None
    n = row[0]
    for view in VIEWS:
        con.execute(f"FROM {view}").fetchall()
    yield n
    while True:
        n += 1
        con.execute("BEGIN")
        for sql in statements(n):
            con.execute(sql)
        con.execute("COMMIT")
        yield n


if __name__ == "__main__":
    for number in run(sys.argv[1]):
        os.write(1, b"%d\n" % number)
