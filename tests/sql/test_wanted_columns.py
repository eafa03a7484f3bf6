"""Joins make the columns that their reader wants, and names alone take no operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel

JOINED = "SELECT t.k, t.n, u.s, u.m, t.n + u.m AS total FROM t JOIN u ON u.k = t.k"
QUERIES = {
    "one column": "SELECT s FROM t JOIN u USING (k)",
    "a column twice": "SELECT t.n AS a, t.n AS b, s FROM t JOIN u USING (k)",
    "in another order": "SELECT m, s, n FROM t JOIN u USING (k)",
    "none": "SELECT 1 AS one FROM t JOIN u USING (k)",
    "counted": "SELECT count(*) FROM t p JOIN t q ON p.n = q.k",
    "product": "SELECT count(*), sum(t.n) FROM t, u",
    "filtered": f"SELECT total FROM ({JOINED}) WHERE m > 1 AND n < 4",
    "grouped": f"SELECT s, sum(total), count(DISTINCT n), max(m) FROM ({JOINED}) GROUP BY s",
    "grouping sets": f"SELECT s, n, sum(m) FROM ({JOINED}) GROUP BY GROUPING SETS ((s), (n), ())",
    "read twice": f"WITH j AS ({JOINED}) SELECT a.s, b.total FROM j a JOIN j b ON a.n = b.m",
    "both sides": f"WITH j AS ({JOINED}) SELECT s, n FROM j UNION SELECT s, m FROM j",
    "minus": f"WITH j AS ({JOINED}) SELECT n FROM j EXCEPT ALL SELECT m FROM j WHERE s <> 'b'",
    "outer": "SELECT s FROM t LEFT JOIN u USING (k)",
    "residual": "SELECT s FROM t JOIN u ON t.k = u.k AND t.n < u.m",
    "either": "SELECT t.n FROM t JOIN u ON t.k = u.k OR t.n = u.m",
    "three": "SELECT w.s FROM t JOIN u USING (k) JOIN u w ON w.m = t.n",
    "windowed": f"SELECT s, rank() OVER (PARTITION BY s ORDER BY total) FROM ({JOINED})",
    "first rows": f"SELECT total FROM ({JOINED}) ORDER BY total, s LIMIT 3",
    "exists": "SELECT s FROM u WHERE EXISTS (FROM t JOIN u w USING (k) WHERE w.s = u.s AND n > m)",
    "recursive": "WITH RECURSIVE r(k) AS (SELECT 1 UNION SELECT j.m FROM r JOIN "
    f"({JOINED}) j ON j.n = r.k JOIN u w ON w.m = j.m) SELECT k FROM r",
}


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INT, n INT); CREATE TABLE u (k INT, m INT, s VARCHAR)")
        con.execute("INSERT INTO t SELECT i % 7, i % 5 FROM range(20) AS r(i)")
        con.execute(
            "INSERT INTO u SELECT i % 9, i % 4, chr((97 + i % 3)::INT) FROM range(25) AS r(i)"
        )
        yield con


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_changes_are_those_of_the_query(con: tidewheel.Connection, query: str) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change in (
        "SELECT 1",
        "INSERT INTO t VALUES (1, 2), (NULL, 3), (2, NULL)",
        "DELETE FROM u WHERE m = 2 AND k < 5",
        "UPDATE u SET s = 'z', m = m + 1 WHERE k = 1",
        "BEGIN; INSERT INTO u SELECT k, n, 'new' FROM t; DELETE FROM t WHERE n = 0; COMMIT",
        "DELETE FROM t",
    ):
        con.execute(change)
        found = con.execute("FROM v ORDER BY ALL").fetchall()
        assert found == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change


@pytest.mark.parametrize("query", [QUERIES["counted"], QUERIES["one column"]])
def test_no_operator_picks_columns(con: tidewheel.Connection, query: str) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    kinds = [k for (k,) in con.execute("SELECT kind FROM tidewheel_vertices()").fetchall()]
    assert "map" not in kinds[kinds.index("join") :]
