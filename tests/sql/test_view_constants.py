"""Texts, truth values and NULL in a view's SELECT list take no statement of DuckDB's."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel

QUERIES = [
    "SELECT i, 5 AS z, 'it''s' AS b, '' AS e, true AS c, false AS d FROM t",
    "SELECT i, NULL AS a, NULL::VARCHAR AS b, NULL::DATE AS c, NULL::DOUBLE AS d, NULL::BOOLEAN AS "
    "e, NULL::INTEGER[] AS f, NULL::STRUCT(a INT) AS g, NULL::DECIMAL(10, 2) AS h, NULL::HUGEINT "
    "AS k, NULL::TIMESTAMPTZ AS l, NULL::BLOB AS m FROM t",
    "SELECT 'x' AS a, true AS b, NULL AS c, count(*) FROM t GROUP BY ALL",
    "SELECT 't' AS source, i FROM t UNION ALL SELECT 'u', i + 1 FROM t UNION SELECT NULL, 3 FROM t",
    "SELECT DISTINCT 'x', NULL::INT, true FROM t",
    "SELECT a.i, a.z, b.z FROM (SELECT i, 'a' AS z FROM t) AS a "
    "LEFT JOIN (SELECT i + 1 AS i, true AS z FROM t) AS b USING (i)",
    "SELECT max(z), min(w), count(q) FROM (SELECT 'a' AS z, true AS w, NULL AS q FROM t)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_constants(query: str) -> None:
    rng = random.Random(query)
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for c in (con, duck):
            c.execute("CREATE TABLE t (i INTEGER, s VARCHAR)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "[kernel]" not in con.execute("EXPLAIN VIEW v").fetchall()[0][1]
        for _ in range(40):
            i, j = rng.randrange(8), rng.randrange(8)
            change = rng.choice(
                [
                    f"INSERT INTO t VALUES ({i}, 's')",
                    f"INSERT INTO t SELECT range, 'x' FROM range({i * 6})",
                    f"DELETE FROM t WHERE i = {i}",
                    f"UPDATE t SET i = {i} WHERE i = {j}",
                ]
            )
            for c in (con, duck):
                c.execute(change)
            found, expected = con.execute("FROM v"), duck.execute(query)
            types = [str(column[1]).strip('"') for column in expected.description or ()]
            assert [str(column[1]) for column in found.description or ()] == types
            assert sorted(map(repr, found.fetchall())) == sorted(map(repr, expected.fetchall()))
