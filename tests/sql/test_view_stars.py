"""Stars with qualified columns, COLUMNS as a star, GROUPING of a plain GROUP BY: maintained."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = (
    "SELECT * EXCLUDE (a.i) FROM a, b",
    "SELECT * EXCLUDE (a.i, j) FROM a, b",
    "SELECT * RENAME (a.i AS x, b.j AS y) FROM a, b",
    "SELECT * RENAME (a.j AS x) FROM a FULL JOIN b USING (i)",
    "SELECT x.* EXCLUDE (X.I) FROM a AS x, b",
    "SELECT COLUMNS(* EXCLUDE (a.i)) FROM a, b",
    "SELECT COLUMNS(* REPLACE (i + 1 AS i)) FROM a NATURAL JOIN b",
    "SELECT COLUMNS(* REPLACE (a.i + 1 AS i)) FROM a, b",
    "SELECT * REPLACE (a.i + 1 AS i) FROM a, b",
    "SELECT grouping(i), grouping(i, j), i, count(*) FROM a GROUP BY i, j HAVING grouping(i) = 0",
    "SELECT id, n FROM reached",
)
REACHED = """
CREATE VIEW reached AS SELECT v.i AS id, r.n FROM (SELECT DISTINCT i FROM a) AS v
CROSS JOIN LATERAL (
    WITH RECURSIVE r(n) AS (SELECT v.i UNION SELECT a.j FROM r JOIN a ON a.i = r.n) SELECT n FROM r
) AS r JOIN a ON a.i = v.i
"""


@pytest.mark.parametrize("query", QUERIES)
def test_maintained(query: str) -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE a (i INTEGER, j INTEGER)")
        con.execute("CREATE TABLE b (i INTEGER, j INTEGER)")
        con.execute(REACHED)
        width = len(con.execute(query).description or ())
        names = ", ".join(f"c{n}" for n in range(width))
        con.execute(f"CREATE MATERIALIZED VIEW v({names}) AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for change in (
            "INSERT INTO a VALUES (1, 2), (2, 5), (5, NULL)",
            "INSERT INTO b VALUES (1, 3), (7, 8)",
            "UPDATE a SET j = 1 WHERE i = 2",
            "DELETE FROM a WHERE i = 1",
        ):
            con.execute(change)
            rows = sorted(map(repr, con.execute(query).fetchall()))
            assert sorted(map(repr, con.execute("FROM v").fetchall())) == rows
