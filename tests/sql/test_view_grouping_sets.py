"""Maintained views with grouping sets that share or name keys, against DuckDB's run of them."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel

KEPT = [
    "SELECT v, w, count(*) AS n FROM u GROUP BY GROUPING SETS ((v, w), (v), ())",
    "SELECT v, w, sum(k) AS s, grouping(v, w) AS g FROM u GROUP BY GROUPING SETS ((v, w), v, (w))",
    "SELECT v + 1 AS x, max(k) AS m FROM u GROUP BY GROUPING SETS ((v + 1), ((v + 1), w), ())",
    "SELECT v, w, min(k) AS m FROM u GROUP BY (v), ROLLUP (w, (v)) HAVING count(*) > 1",
    "SELECT v % 2 AS odd, w AS y, grouping(odd, y) AS g, sum(k) AS s FROM u GROUP BY CUBE (odd, y)",
    "SELECT (v) AS x, sum(k) AS s FROM u GROUP BY ROLLUP (x) HAVING grouping(x) = 1 OR x = 2",
    "SELECT v + 1 AS x, rank() OVER (ORDER BY grouping(x), sum(k)) AS r FROM u GROUP BY CUBE (x)",
]


@pytest.mark.parametrize("query", KEPT)
def test_keys_are_known_by_all_their_names(query: str) -> None:
    rng = random.Random(query)
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for c in (con, duck):
            c.execute("CREATE TABLE u (k INT, v INT, w INT)")
        con.execute(f"CREATE MATERIALIZED VIEW x AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for _ in range(25):
            k, v, w = rng.randint(1, 9), rng.randint(1, 3), rng.choice(["NULL", "1", "2"])
            statement = rng.choice(
                [
                    f"INSERT INTO u VALUES ({k}, {v}, {w}), ({k}, NULL, {w})",
                    f"UPDATE u SET w = {w} WHERE v = {v}",
                    f"DELETE FROM u WHERE k = {k}",
                ]
            )
            for c in (con, duck):
                c.execute(statement)
            found = sorted(con.execute("FROM x").fetchall(), key=repr)
            assert found == sorted(duck.execute(query).fetchall(), key=repr)
