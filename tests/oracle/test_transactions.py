"""Random transactions, with statements that fail in them, beside DuckDB: tables, views and errors.

After every statement the tables are the same, every view has the rows that its query has in DuckDB,
and both agree whether the transaction goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidewheel

SETUP = [
    "CREATE TABLE t (a INT PRIMARY KEY, b INT CHECK (b IS NULL OR b < 1000))",
    "CREATE TABLE u (a INT, c INT)",
]
VIEWS = {
    "counts": "SELECT count(*) AS n, sum(a) AS s, max(b) AS m FROM t",
    "groups": "SELECT b, count(*) AS n FROM t GROUP BY b",
    "joined": "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a",
    "ranked": "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS r FROM t",
    "reached": "WITH RECURSIVE r(x) AS (SELECT a FROM u UNION "
    "SELECT t.b FROM t JOIN r ON t.a = r.x) SELECT x FROM r",
}
CONTROL = ["BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK"]
FAILING = [
    "nonsense",
    "SELECT nope FROM t",
    "SELECT * FROM nope",
    "SELECT nope(1)",
    "SELECT * FROM groups, nope",
    "DESCRIBE nope",
    "SELECT error('x')",
    "SELECT 'a'::INT",
    "INSERT INTO nope VALUES (1)",
    "INSERT INTO t VALUES (1)",
    "CREATE TABLE t (a INT)",
    "UPDATE t SET b = 2000",
    "UPDATE t SET b = error('x')",
    "INSERT INTO t SELECT a, c FROM u",
]
CHANGES = [
    "INSERT INTO t VALUES ({0}, {1})",
    "INSERT INTO t VALUES ({0}, {1})",
    "INSERT INTO t (b, a) VALUES ({1}, {0}), ({0}, {1} + 20)",
    "INSERT OR REPLACE INTO t VALUES ({0}, {1})",
    "INSERT INTO t VALUES ({0}, {1}) ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1",
    "INSERT OR IGNORE INTO t SELECT a + {0}, c FROM u",
    "INSERT INTO u VALUES ({0}, {1})",
    "INSERT INTO u SELECT a, b FROM t",
    "UPDATE t SET b = {0} WHERE a = {1}",
    "UPDATE t SET b = b + 1",
    "UPDATE t SET a = a + 100 WHERE a = {0}",
    "DELETE FROM t WHERE b = {0}",
    "DELETE FROM u WHERE a = {0}",
    "DELETE FROM u",
    "TRUNCATE u",
    "MERGE INTO t USING (SELECT {0} AS a, {1} AS c) s ON t.a = s.a "
    "WHEN MATCHED THEN UPDATE SET b = s.c WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.c)",
    "MERGE INTO t USING (SELECT {0} AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "WITH d AS (DELETE FROM t WHERE a = {0} RETURNING *) INSERT INTO u SELECT * FROM d",
]
OTHERS = ["SELECT sum(a) FROM t", "make", "make", "drop", "reopen", "CHECKPOINT"]


class Both:
    """The same database in Tidewheel and in DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history: list[str] = []
        self.ours: Any = None
        self.open()

    def open(self) -> None:
        """Open both, again if they were open."""
        if self.ours is not None:
            self.ours.close()
            self.theirs.close()
        self.ours = tidewheel.connect(self.folder / "ours.db")
        self.theirs = duckdb.connect(str(self.folder / "theirs.db"))

    def alive(self) -> bool:
        """Does the transaction, if there is one, take statements? Both say the same."""
        ours, theirs = run(self.ours, "SELECT 1"), run(self.theirs, "SELECT 1")
        assert ours == theirs, self.history
        return theirs is not None

    def do(self, statement: str) -> None:
        """Run a statement in both: it fails in both, or has the same rows in both."""
        theirs, ours = run(self.theirs, statement), run(self.ours, statement)
        self.history.append(f"{statement} {'fails' if theirs is None else ''}")
        assert (theirs is None) == (ours is None), self.history
        if statement.startswith("SELECT"):
            assert ours == theirs, self.history
        self.alive()

    def check(self) -> None:
        """All tables and views are the same."""
        if not self.alive():
            return
        for table in ("t", "u"):
            assert run(self.ours, f"FROM {table}") == run(self.theirs, f"FROM {table}"), (
                self.history
            )
        for name in self.views():
            want = run(self.theirs, VIEWS[name])
            assert run(self.ours, f"FROM {name}") == want, (name, self.history)

    def views(self) -> list[str]:
        """The views that there are."""
        return [name for (name,) in run(self.ours, "SELECT view_name FROM tidewheel_views()") or ()]

    def make(self, name: str) -> None:
        """Make a view, or fail in an aborted transaction."""
        self.history.append(f"make {name}")
        made = run(self.ours, f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {VIEWS[name]}")
        assert made is not None, self.history

    def drop(self, name: str) -> None:
        """Drop a view."""
        self.history.append(f"drop {name}")
        assert run(self.ours, f"DROP MATERIALIZED VIEW IF EXISTS {name}") is not None, self.history


def run(con: Any, statement: str) -> list[Any] | None:
    """The rows, sorted; None for an error."""
    try:
        found = con.execute(statement)
        return sorted(found.fetchall(), key=str) if found.description else []
    except (tidewheel.Error, duckdb.Error):
        return None


def play(folder: Path, seed: int, steps: int) -> None:
    """One random history."""
    rng = random.Random(seed)
    both = Both(folder)
    for statement in SETUP:
        both.do(statement)
    names = list(VIEWS)
    both.make(rng.choice(names))
    kinds = ([CONTROL, FAILING, CHANGES, OTHERS], [4, 2, 8, 2])
    begun = False
    for _ in range(steps):
        statement = rng.choice(rng.choices(*kinds)[0])
        own: dict[str, Callable[[], None]] = {
            "make": lambda: both.make(rng.choice(names)),
            "drop": lambda: both.drop(rng.choice(names)),
            "reopen": both.open,
        }
        if statement not in own:
            both.do(statement.format(rng.randrange(12), rng.randrange(12)))
        elif both.alive() and not (begun and statement == "reopen"):
            own[statement]()
        if statement in ("BEGIN", "COMMIT", "ROLLBACK"):
            begun = statement == "BEGIN"
        both.check()
    run(both.ours, "COMMIT")
    for name in both.views():
        assert run(both.ours, f"VERIFY VIEW {name}") == [], (name, both.history)


@pytest.mark.parametrize("seed", range(16))
def test_transactions(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16, 60))
def test_transactions_long(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 400)
