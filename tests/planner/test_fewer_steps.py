"""Projections that follow each other are one, unless something would be computed twice."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = {
    "SELECT c AS d FROM (SELECT b AS c FROM (SELECT a + 1 AS b FROM t))": "project",
    "SELECT b + b AS d FROM (SELECT a + 1 AS b FROM t)": "project project",
    "SELECT b - 1 AS d FROM (SELECT a * 2 AS b FROM t) WHERE b > 2": "project filter project",
    "SELECT list_transform([b], lambda x: x + b) AS d FROM (SELECT a + 1 AS b FROM t)": "kernel",
}


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_rows_with_fewer_steps(query: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (1), (2), (NULL)")
        assert f" {QUERIES[query]} [" in str(con.execute("EXPLAIN VIEW v").fetchall())
        found = con.execute("SELECT * FROM v ORDER BY ALL").fetchall()
        assert found == con.execute(f"SELECT * FROM ({query}) ORDER BY ALL").fetchall()
        assert con.execute("VERIFY VIEW v").fetchall() == []
