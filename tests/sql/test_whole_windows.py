"""Window functions of whole partitions: totals that are joined with the rows, if these are many."""

from __future__ import annotations

import pytest

import tidewheel
from tidewheel.planner.rewrites import whole_windows

QUERIES = {
    "greatest": "SELECT id, x - max(x) OVER () AS d FROM t WHERE id % 2 = 0",
    "shares": "SELECT id, x * 1.0 / sum(x) OVER (PARTITION BY k) AS s, count(*) OVER () AS n, "
    "row_number() OVER (PARTITION BY k ORDER BY id) AS i FROM t",
    "of a part": "SELECT id, min(x) OVER (PARTITION BY k % 2, f > 1) AS m, "
    "avg(x) OVER (PARTITION BY k % 2, f > 1) AS a FROM t",
    "chosen": "SELECT * FROM t QUALIFY x = max(x) OVER (PARTITION BY k)",
    "of groups": "SELECT k, sum(x) AS s, sum(sum(x)) OVER () AS total, max(count(*)) OVER () AS m "
    "FROM t GROUP BY k",
    "filtered": "SELECT id, stddev(x) FILTER (x > 10) OVER (PARTITION BY k) AS sd, "
    "count(DISTINCT x) OVER () AS c, bool_or(x > 990) OVER (PARTITION BY f) AS b FROM t",
    "of joins": "SELECT t.id, count(*) OVER (PARTITION BY u.k) AS n, max(u.x) OVER () AS m "
    "FROM t JOIN t AS u ON u.id = t.x",
    "twice": "WITH w AS (SELECT id, k, sum(x) OVER (PARTITION BY k) AS s FROM t) "
    "SELECT a.id, b.s FROM w AS a JOIN w AS b ON a.id = b.id + 1",
}
CHANGES = [
    "INSERT INTO t VALUES (-1, 1, 5000, 2.5)",
    "UPDATE t SET x = x + 1 WHERE id = 7",
    "DELETE FROM t WHERE x = 5000",
    "BEGIN; INSERT INTO t VALUES (-2, NULL, 1, 1), (-3, NULL, NULL, 1); "
    "DELETE FROM t WHERE id = 3; COMMIT",
    "UPDATE t SET k = 2 WHERE k = 0 AND id % 3 = 0",
    "DELETE FROM t WHERE k = 1",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, 1, 1, 1), (2, NULL, 1, 1)",
]


@pytest.mark.parametrize("rows", [0, 60, 1500])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_right_after_every_change(query: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_windows, "LARGE", 20)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER, k INTEGER, x INTEGER, f DOUBLE)")
        con.execute(
            "INSERT INTO t SELECT i, i % 3, CASE WHEN i % 11 > 0 THEN hash(i) % 1000 END, "
            f"(i % 7) / 3 FROM range({rows}) AS r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for change in CHANGES:
            con.execute(change)
            assert con.execute("VERIFY VIEW v").fetchall() == [], change


def given(con: tidewheel.Connection) -> int:
    """Rows that the sink of `v` got so far."""
    query = "SELECT rows_in FROM tidewheel_vertices() WHERE view_name = 'v' AND kind = 'sink'"
    return int(con.execute(query).fetchall()[0][0])


@pytest.mark.parametrize("by", ["", "PARTITION BY k", "PARTITION BY id % 3"])
def test_a_row_that_is_not_the_greatest_changes_nothing_else(by: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k FROM range(20_000) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id, max(id) OVER ({by}) AS m FROM t")
        before = given(con)
        con.execute("INSERT INTO t VALUES (-3, 0)")
        assert given(con) == before + 1
        vertices = con.execute("SELECT kind, steps FROM tidewheel_vertices()").fetchall()
        assert not [kind for kind, _ in vertices if kind in ("regroup", "following")]
        con.execute("DELETE FROM t WHERE id = 19_999; INSERT INTO t VALUES (30_000, 1)")
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_small_partitions_are_evaluated_as_they_are() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 100 AS k FROM range(20_000) AS r(i)")
        query = "SELECT id, max(id) OVER (PARTITION BY k) AS m FROM t"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kinds = con.execute("SELECT kind FROM tidewheel_vertices()").fetchall()
        assert ("regroup",) in kinds
