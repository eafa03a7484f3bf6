"""Joins that meet more rows than fit, or than it takes to fill a view anew."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tidewheel
from tidewheel.engine.state import memory
from tidewheel.planner import view_choice

VIEWS = {
    "pairs": "SELECT a.i, b.j FROM a, b",
    "equal": "SELECT a.i, b.j, a.x FROM a JOIN b ON a.x = b.y",
    "grouped": "SELECT a.x, count(*) AS n, sum(b.j) AS s FROM a JOIN b ON a.x = b.y GROUP BY a.x",
    "over": "SELECT count(*) AS n, sum(n) AS m FROM grouped",
    "joined": "SELECT g.x, a.i, g.n FROM grouped g JOIN a ON a.x = g.x",
    "outward": "SELECT a.i, b.j FROM a LEFT JOIN b ON a.x = b.y AND b.j > 2",
    "ranged": "SELECT a.i, b.j FROM a JOIN b ON a.i < b.j",
    "asked": "SELECT i FROM a WHERE EXISTS (FROM b WHERE b.y = a.x AND b.j > a.i)",
    "reach": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT b.j FROM r JOIN a ON a.i = r.n "
    "JOIN b ON b.y = a.x) SELECT n FROM r",
    "paths": "WITH RECURSIVE r(n, d) AS (SELECT 1, 0 UNION SELECT a.x, d + 1 FROM r "
    "JOIN a ON a.i = r.n WHERE d < 3) SELECT n, min(d) AS d FROM r GROUP BY n",
    "own": "SELECT x, count(*) AS n FROM a GROUP BY x",
}
CHANGES = [
    "INSERT INTO a VALUES ({0}, {1})",
    "INSERT INTO b VALUES ({0}, {1})",
    "INSERT INTO a SELECT i + {0}, {1} FROM a WHERE i < 4",
    "UPDATE a SET x = {1} WHERE i % 3 = {1}",
    "UPDATE b SET y = y + 1, j = {0} WHERE j > {1}",
    "DELETE FROM a WHERE i = {0}",
    "DELETE FROM b WHERE y = {1}",
]


def rows(connection: tidewheel.Connection, sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(sql).fetchall())


@pytest.mark.parametrize("most", [0, 2, 7])
def test_views_computed_anew_by_some_changes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOOK", 0)
    monkeypatch.setattr(view_choice, "most", lambda _: most)
    draw = random.Random(most)
    with tidewheel.connect() as con, tidewheel.connect() as plain:
        for each in (con, plain):
            each.execute(
                "CREATE TABLE a (i INTEGER, x INTEGER); CREATE TABLE b (j INTEGER, y INTEGER)"
            )
            each.execute("INSERT INTO a SELECT i, i % 3 FROM range(6) t(i)")
            each.execute("INSERT INTO b SELECT i, i % 3 FROM range(5) t(i)")
        for name, query in VIEWS.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            plain.execute(f"CREATE VIEW {name} AS {query}")
        followed = {name: con.subscribe(name) for name in VIEWS}
        anew = 0
        for _ in range(16):
            for _ in range(draw.choice((1, 1, 3))):
                change = draw.choice(CHANGES).format(draw.randint(0, 7), draw.randint(0, 2))
                together = draw.random() < 0.3
                for each in (con, plain):
                    if together:
                        each.execute("BEGIN")
                    each.execute(change)
                    if together:
                        each.execute("INSERT INTO a VALUES (3, 1)")
                        each.execute("COMMIT")
            for name in VIEWS:
                assert rows(con, f"FROM {name}") == rows(plain, f"FROM {name}"), (name, change)
                text = str(con.execute(f"EXPLAIN VIEW {name}").fetchall())
                anew += "in the last epoch: " in text and "rows in a join" in text
        for name, changes in followed.items():
            told: Counter[tuple[Any, ...]] = Counter()
            while (update := changes.read(timeout=0)) is not None:
                for _, weight, *row in update.rows():
                    told[tuple(row)] += weight
            assert +told == rows(con, f"FROM {name}"), name
        assert con.execute("SELECT DISTINCT maintenance FROM tidewheel_views()").fetchall() == [
            ("incremental",)
        ]
        assert anew > 25


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> tidewheel.Connection:
    """A thousand rows each, and memory for some hundred thousand pairs."""
    monkeypatch.setattr(memory, "LOOK", 1000)
    monkeypatch.setattr(memory, "free", lambda: 20_000_000)
    con = tidewheel.connect()
    con.execute("CREATE TABLE a AS SELECT i, i AS k FROM range(1000) t(i)")
    con.execute("CREATE TABLE b AS SELECT i AS j, i AS l FROM range(1000) t(i)")
    return con


def test_a_view_that_does_not_fit_is_refused(little: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.OperationalError, match="1,000,000 rows of a view need some"):
        little.execute("CREATE MATERIALIZED VIEW v AS FROM a, b")
    assert little.execute("SELECT count(*) FROM a").fetchall() == [(1000,)]
    assert little.execute("FROM tidewheel_views()").fetchall() == []


def test_a_view_whose_pairs_do_not_fit_is_recomputed(little: tidewheel.Connection) -> None:
    little.execute("CREATE MATERIALIZED VIEW v AS SELECT i * j AS r FROM a, b WHERE i * j = 900")
    told = little.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
    assert told[0][0] == "recompute"
    assert "1,000,000 pairs of rows in a join need some 0.1 GiB" in told[0][1]
    little.execute("DELETE FROM a WHERE i = 90")
    little.execute("INSERT INTO b VALUES (2000, 0)")
    assert little.execute("VERIFY VIEW v").fetchall() == []


def test_a_change_that_makes_a_view_too_large_is_refused(little: tidewheel.Connection) -> None:
    little.execute("CREATE MATERIALIZED VIEW v AS SELECT k, l FROM a JOIN b ON i = j")
    little.execute("UPDATE a SET i = 7")
    with pytest.raises(tidewheel.OperationalError, match="rows of a view need some"):
        little.execute("UPDATE b SET j = 7")
    assert little.execute("SELECT max(i), max(j) FROM a, b").fetchall() == [(7, 999)]
    little.execute("INSERT INTO b VALUES (7, -1)")
    assert little.execute("SELECT count(*) FROM v").fetchall() == [(2000,)]
    assert little.execute("VERIFY VIEW v").fetchall() == []
    with pytest.raises(tidewheel.OperationalError, match="out of memory: 1,000,000 rows"):
        little.execute("CREATE MATERIALIZED VIEW w AS SELECT a.i, b.i AS j FROM a, a AS b")
