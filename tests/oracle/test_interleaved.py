"""Transactions of several connections that overlap at random: what each sees, and what they leave.

A view has in every transaction the rows of its query there, and the changes that a subscriber is
told add up to the view. One connection writes at a time: the others would wait for it.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tidewheel

SETUP = """
CREATE TABLE t (a INTEGER PRIMARY KEY, g INTEGER NOT NULL);
CREATE TABLE u (a INTEGER, c INTEGER);
INSERT INTO t SELECT range, range % 3 FROM range(6);
INSERT INTO u SELECT range % 4, range FROM range(6);
"""
VIEWS = {
    "counts": "SELECT count(*) AS n, sum(a) AS s FROM t",
    "joined": "SELECT t.a, t.g, u.c FROM t LEFT JOIN u ON t.a = u.a",
    "over": "SELECT g, count(c) AS n FROM joined GROUP BY g",
    "listed": "SELECT g, list(a) AS l FROM t GROUP BY g",
    "anew": "SELECT t.g, list(u.c ORDER BY u.c) AS l, list(t.g) AS h FROM t JOIN u ON t.a = u.a "
    "GROUP BY t.g",
    "over_anew": "SELECT count(*) AS n FROM anew, t WHERE anew.g = t.g",
    "reached": "WITH RECURSIVE r (x) AS (SELECT a FROM t WHERE g = 1 UNION "
    "SELECT u.c FROM u JOIN r ON u.a = r.x) SELECT x FROM r",
}
CHANGES = [
    "INSERT INTO t VALUES ({0}, {1})",
    "INSERT INTO t VALUES ({0}, {1}) ON CONFLICT DO UPDATE SET g = excluded.g + 1",
    "INSERT OR IGNORE INTO t SELECT c, {1} FROM u",
    "INSERT INTO u VALUES ({0}, {1})",
    "INSERT INTO u SELECT a, g FROM t WHERE g = {1}",
    "UPDATE t SET g = {1} WHERE a = {0}",
    "UPDATE u SET c = c + 1 WHERE a = {0}",
    "UPDATE t SET a = a + 20 WHERE a = {0}",
    "DELETE FROM t WHERE a = {0}",
    "DELETE FROM u WHERE c > {0}",
    "TRUNCATE u",
    "INSERT INTO u SELECT range % 5, range FROM range(1500)",
    "DELETE FROM u WHERE c > 12",
    "ALTER TABLE u ADD COLUMN IF NOT EXISTS d INTEGER",
    "ALTER TABLE u DROP COLUMN IF EXISTS d",
    "CREATE INDEX IF NOT EXISTS i ON u (c)",
    "DROP INDEX IF EXISTS i",
    "CREATE OR REPLACE TABLE copy AS FROM joined",
    "nonsense",
]


class Program:
    """Some connections to one database, and what was done with them."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = random.Random(seed)
        self.history: list[str] = []
        self.connections = [tidewheel.connect(name) for _ in range(3)]
        self.writer: int | None = None
        self.connections[0].execute(SETUP)
        for view, query in VIEWS.items():
            self.connections[0].execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        self.told = {view: self.connections[0].subscribe(view) for view in VIEWS}
        self.sums: dict[str, Counter[Any]] = {view: Counter() for view in VIEWS}

    def run(self, number: int, statement: str) -> bool:
        """Run a statement on a connection; did it succeed?"""
        try:
            self.connections[number].execute(statement)
        except tidewheel.Error as error:
            self.history.append(f"{number}: {statement} fails: {error.message}")
            return False
        self.history.append(f"{number}: {statement}")
        return True

    def step(self) -> None:
        """Something at random."""
        number = self.rng.randrange(3)
        con = self.connections[number]
        kind = self.rng.random()
        if kind < 0.25:
            end = self.rng.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
            if not self.run(number, end if con.in_transaction else "BEGIN"):
                assert not con.in_transaction
            if self.writer == number and not con.in_transaction:
                self.writer = None
        elif kind < 0.5 or self.writer not in (None, number):
            self.look(number)
        else:
            change = self.rng.choice(CHANGES)
            change = change.format(self.rng.randrange(12), self.rng.randrange(4))
            done = self.run(number, change)
            if con.in_transaction:
                self.writer = number
                if not done:
                    self.run(number, "ROLLBACK")
                    self.writer = None

    def look(self, number: int) -> None:
        """Some views, as a connection sees them."""
        for view in self.rng.sample([*VIEWS], 2):
            self.history.append(f"{number}: looks at {view}")
            con = self.connections[number]
            query = VIEWS[view]
            if not con.in_transaction:
                con.execute("BEGIN")
                seen = rows(con, f"FROM {view}"), rows(con, query)
                con.execute("ROLLBACK")
            else:
                seen = rows(con, f"FROM {view}"), rows(con, query)
            assert seen[0] == seen[1], self.history

    def follow(self) -> None:
        """What subscribers were told adds up."""
        for view, told in self.told.items():
            found = self.sums[view]
            while (update := told.read(0)) is not None:
                for _, weight, *row in update.rows():
                    found[repr(row)] += weight
            want = Counter(repr([*row]) for row in self.connections[0].execute(f"FROM {view}"))
            assert {k: n for k, n in found.items() if n} == want, (view, self.history)

    def end(self) -> None:
        """All transactions end; the views are right, for everybody."""
        for number, con in enumerate(self.connections):
            if con.in_transaction:
                self.run(number, "COMMIT")
        for view in VIEWS:
            for con in self.connections:
                assert con.execute(f"VERIFY VIEW {view}").fetchall() == [], (view, self.history)
        self.follow()
        for con in self.connections:
            con.close()


def rows(con: tidewheel.Connection, query: str) -> list[Any]:
    return sorted(con.execute(query).fetchall(), key=repr)


def run(seed: int, name: str, steps: int) -> None:
    program = Program(seed, name)
    for _ in range(steps):
        program.step()
        if not any(con.in_transaction for con in program.connections):
            program.follow()
    program.end()


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_transactions(seed: int) -> None:
    run(seed, f":memory:interleaved{seed}", 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_overlapping_transactions_for_long(seed: int) -> None:
    run(seed, f":memory:interleaved{seed}", 120)
