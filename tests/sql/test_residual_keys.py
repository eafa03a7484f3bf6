"""EXISTS and outer joins with a residual predicate: what is kept of a row to know its partners."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = {
    "exists": "SELECT k, note FROM t WHERE EXISTS (FROM u WHERE u.k = t.k AND u.n <> t.n)",
    "not exists": "SELECT k, note FROM t WHERE NOT EXISTS (FROM u WHERE u.k = t.k AND u.n <> t.n)",
    "left join": "SELECT t.k, note, u.n FROM t LEFT JOIN u ON u.k = t.k AND u.n > t.n",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_columns_that_the_condition_does_not_look_at_are_not_counted(query: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INT, n INT, note VARCHAR); CREATE TABLE u (k INT, n INT)")
        con.execute("INSERT INTO u SELECT i % 40, i % 3 FROM range(60) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute(
            "INSERT INTO t SELECT i % 50, i % 4, repeat('long', 1000) || i FROM range(99) AS r(i)"
        )
        con.execute("INSERT INTO t SELECT k, n, 'another' FROM t LIMIT 20")
        counted = con.execute(
            "SELECT state_bytes FROM tidewheel_vertices() WHERE vertex LIKE '%matched distinct%'"
        ).fetchall()
        assert len(counted) == 1
        assert counted[0][0] < 99 * 100
        for change in (
            "DELETE FROM u WHERE n = 1",
            "UPDATE u SET n = n + 1 WHERE k < 20",
            "DELETE FROM t WHERE note = 'another' AND k < 9",
            "INSERT INTO u SELECT k, n + 1 FROM t WHERE k > 30",
            "DELETE FROM u",
        ):
            con.execute(change)
            found = con.execute("FROM v ORDER BY ALL").fetchall()
            assert found == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
