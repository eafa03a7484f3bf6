"""Joins without keys, whose rows all meet or none: filled by statements, then under edits."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidewheel
from tidewheel.engine.operators import shared
from tidewheel.planner import view_answers, view_fill

QUERIES = (
    "SELECT DISTINCT a.k, b.c FROM a LEFT JOIN b ON true",
    "SELECT a.k, count(b.id) AS n FROM a LEFT JOIN b ON true GROUP BY a.k",
    "SELECT a.id, b.id AS other FROM a RIGHT JOIN b ON true",
    "SELECT a.id, b.id AS other FROM a FULL JOIN b ON true",
    "SELECT a.id FROM a SEMI JOIN b ON true",
    "SELECT a.id FROM a ANTI JOIN b ON true",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE c)",
    "SELECT max(a.id + b.id) AS m FROM a LEFT JOIN b ON b.c",
    "SELECT a.k, sum(b.id) AS s FROM a LEFT JOIN b ON a.k > 1 GROUP BY a.k",
    "SELECT a.id, x.m FROM a LEFT JOIN (SELECT max(id) AS m FROM b HAVING count(*) > 1) x ON true",
)


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (5, 0), (0, 4), (30, 20)])
def test_random_edits(
    left: int, right: int, waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if waiting:
        monkeypatch.setattr(view_fill, "MANY", 1)
        monkeypatch.setattr(view_answers, "MANY", 1)
        monkeypatch.setattr(shared, "FEWER", 1)
        monkeypatch.setattr(shared, "ROW", 1)
    rng = random.Random(f"{left} {right}")
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE a AS SELECT i AS id, i % 3 AS k FROM range({left}) AS r(i)")
        con.execute(f"CREATE TABLE b AS SELECT i AS id, i % 4 = 0 AS c FROM range({right}) AS r(i)")
        for i, query in enumerate(QUERIES):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for _ in range(15):
            edit = rng.choice(
                [
                    f"INSERT INTO a VALUES ({rng.randrange(50)}, {rng.randrange(3)})",
                    f"INSERT INTO b VALUES ({rng.randrange(50)}, {rng.choice(['true', 'NULL'])})",
                    "DELETE FROM a WHERE id % 3 = 1",
                    "DELETE FROM b WHERE id % 3 = 1",
                    "DELETE FROM b",
                    "DELETE FROM a",
                    "UPDATE b SET c = NOT c",
                    "UPDATE a SET k = k + 1 WHERE id % 2 = 0",
                ]
            )
            con.execute(edit)
            for i, query in enumerate(QUERIES):
                got = Counter(con.execute(f"FROM v{i}").fetchall())
                assert got == Counter(con.execute(query).fetchall()), (query, edit)
        assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]


def test_pairs_are_not_kept_while_they_are_counted() -> None:
    """A hundred million of them took two gigabytes."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a AS SELECT i AS id, i % 17 AS k FROM range(100000) AS r(i)")
        con.execute("CREATE TABLE b AS SELECT i AS id, i % 5 = 0 AS c FROM range(1000) AS r(i)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT CASE WHEN c THEN k END AS x "
            "FROM a LEFT JOIN b ON true"
        )
        (most,) = con.execute("SELECT max(rows_out) FROM tidewheel_vertices()").fetchone() or ()
        assert most < 1_000_000
        con.execute("DELETE FROM b WHERE id = 5")
        assert con.execute("SELECT count(x), count(*) FROM v").fetchone() == (17, 18)
        con.execute("DELETE FROM b")
        assert con.execute("FROM v").fetchall() == [(None,)]
