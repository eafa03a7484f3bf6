"""GROUP BY ALL: what is a key, in HAVING (versions of DuckDB differ) and of the row around."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel

ROWS = "INSERT INTO e VALUES (1, 2, 1), (2, 1, 1), (2, 2, 5), (1, 3, 5), (3, 1, 6), (2, 1, 7)"
QUERIES = {
    "SELECT a + b AS k, count(*) FROM e GROUP BY ALL HAVING k > 1": "recompute",
    "SELECT a + b AS k, count(*) FROM e GROUP BY ALL HAVING a + b > 1": "recompute",
    "SELECT a % 2 AS a, count(*) FROM e GROUP BY ALL HAVING a >= 0": "recompute",
    "SELECT a + b AS k, count(*) FROM e GROUP BY ALL HAVING max(a + b) > 1": "incremental",
    "SELECT a + b AS k, count(*) FROM e GROUP BY ALL HAVING b + a > 1": "incremental",
    "SELECT a, count(*) FROM e GROUP BY ALL HAVING a > 1": "incremental",
    "SELECT a, count(*) FROM e GROUP BY ALL HAVING b > 1": "incremental",
    "SELECT b AS a, count(*) FROM e GROUP BY ALL HAVING a >= 2": "incremental",
    "SELECT 1 AS k, sum(c) FROM e GROUP BY ALL": "incremental",
    # what reads the row around alone is no key
    "SELECT o.a, q.* FROM e o, LATERAL (SELECT o.b AS k, sum(c) "
    "FROM e WHERE e.a = o.c GROUP BY ALL) q": "incremental",
    "SELECT o.a, q.* FROM e o, LATERAL (SELECT o.b AS k "
    "FROM e WHERE e.a = o.c GROUP BY ALL) q": "incremental",
    "SELECT o.a, q.* FROM e o, LATERAL (SELECT o.b + e.b AS k, sum(c) "
    "FROM e WHERE e.a = o.c GROUP BY ALL) q": "incremental",
    "SELECT a FROM e o WHERE EXISTS (SELECT o.b, count(*) "
    "FROM e WHERE e.a = o.c GROUP BY ALL)": "incremental",
    "SELECT a, (SELECT o.b + count(*) "
    "FROM e WHERE e.a = o.c GROUP BY ALL) AS n FROM e o": "incremental",
}


@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("query", QUERIES)
def test_as_the_duckdb_that_is_there(query: str, fusion: str) -> None:
    with tidewheel.connect(fusion=fusion) as con, duckdb.connect() as plain:
        for each in (con, plain):
            each.execute("CREATE TABLE e (a INTEGER, b INTEGER, c INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert kept == [(QUERIES[query],)]
        for change in (ROWS, "DELETE FROM e WHERE c = 5", "UPDATE e SET a = 2 WHERE c = 1"):
            for each in (con, plain):
                each.execute(change)
            wanted = sorted(plain.execute(query).fetchall(), key=repr)
            assert sorted(con.execute("FROM v").fetchall(), key=repr) == wanted
            assert sorted(con.execute(query).fetchall(), key=repr) == wanted
