"""IN and EXISTS over several tables that nothing else brings together: not all pairs are made."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = [
    "SELECT a.id, b.id AS other FROM a, b WHERE (a.id, b.id) IN (SELECT a, b FROM ab)",
    "SELECT count(*) AS n, sum(a.id) FROM a, b "
    "WHERE EXISTS (SELECT 1 FROM ab WHERE ab.a = a.id AND ab.b = b.id)",
    "SELECT a.id, b.id AS other FROM a, b, a AS c "
    "WHERE c.g = a.g AND c.id < 3 AND (a.id, b.id) IN (SELECT a, b FROM ab)",
    "SELECT a.id, b.id AS other FROM a CROSS JOIN b "
    "WHERE (a.id + 1, b.id) IN (SELECT a, b FROM ab WHERE a < 900)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_pairs_come_of_the_subquery(query: str) -> None:
    n = 6000
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE a AS SELECT i AS id, i % 700 AS g FROM range({n}) t(i)")
        con.execute(f"CREATE TABLE b AS SELECT i AS id FROM range({n}) t(i)")
        con.execute(
            f"CREATE TABLE ab AS SELECT i * 7 % {n} AS a, i % 900 AS b FROM range({n}) t(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("FROM v")
        (most,) = con.execute("SELECT max(rows_out) FROM tidewheel_vertices()").fetchone() or ()
        assert most < 40 * n  # not n * n
        for change in (
            "INSERT INTO ab VALUES (1, 2), (1, 2), (NULL, 3), (5, NULL)",
            "DELETE FROM ab WHERE a = 14",
            "UPDATE a SET g = 1 WHERE id = 21",
            "INSERT INTO b VALUES (2), (77), (NULL)",
            "DELETE FROM ab WHERE a = 1",
        ):
            con.execute(change)
            difference = f"(FROM v EXCEPT ALL {query}) UNION ALL ({query} EXCEPT ALL FROM v)"
            assert con.execute(difference).fetchall() == []
