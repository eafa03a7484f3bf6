"""PIVOT and UNPIVOT in maintained views: values of any type, expressions, orders."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from two_tables import follow, same_columns

ROWS = """
(1, true, '2026-01-01', '2026-01-01 10:00:00', 1.5, 1, 'x', 7),
(1, false, '2026-01-02', '2026-01-01', 2, 0.1, 'y', 8), (2, NULL, NULL, NULL, NULL, NULL, NULL, 9)
"""
VALUES = {
    "b": "true, 'false', NULL",
    "d": "DATE '2026-01-01', '2026-01-02', '2026-1-2'",
    "ts": "TIMESTAMP '2026-01-01 10:00:00', '2026-01-01'",
    "m": "1.5, 1.50, 2, 2::DECIMAL(8, 2)",
    "f": "1, 1.0, 0.1, 1::DOUBLE",
    "e": "'x', 'z', 'y'::mood",
    "n": "-7, 7, '8', 9::HUGEINT",
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_any_type(name: str) -> None:
    query = f"PIVOT p ON {name} IN ({VALUES[name]}) USING sum(n) AS s, count(*) AS c GROUP BY k"
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for c in (con, duck):
            c.execute("CREATE TYPE mood AS ENUM ('x', 'y')")
            c.execute(
                "CREATE TABLE p (k INT, b BOOLEAN, d DATE, ts TIMESTAMP, m DECIMAL(8, 2), f DOUBLE,"
                " e mood, n INT)"
            )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for change in (f"INSERT INTO p VALUES {ROWS}", "UPDATE p SET k = 2", "DELETE FROM p"):
            for c in (con, duck):
                c.execute(change)
            found, wanted = con.execute("FROM v"), duck.execute(query)
            assert [c[0] for c in found.description or ()] == [c[0] for c in wanted.description]
            assert sorted(found.fetchall()) == sorted(wanted.fetchall())


SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "CREATE TYPE size AS ENUM ('1', '2', '4')",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (3, 2), (4, 1), (2, NULL)",
)
FORMS = (
    "PIVOT l ON (a % 2 = 0) IN (true, false) USING sum(b)",
    "PIVOT l ON abs(a) IN (1, '2', NULL) USING sum(b), count(*) AS n",
    "FROM l PIVOT (sum(b) FOR abs(a) IN (1, 2)) ORDER BY ALL LIMIT 2",
    "PIVOT l ON a IN (1, 2) USING sum(b) FILTER (b > 1), max(b) FILTER (a < 2) AS m",
    "PIVOT (SELECT a::VARCHAR::size AS s, b FROM l WHERE a IN (1, 2, 4)) ON s IN size USING sum(b)",
    "FROM l PIVOT (count(*) FOR a IN size GROUP BY b)",
    "PIVOT l ON a IN (1, 2) USING count(*) GROUP BY b ORDER BY b",
    "PIVOT l ON a IN (1, 2) USING first(b ORDER BY b) GROUP BY b ORDER BY b DESC LIMIT 2 OFFSET 1",
    "WITH q AS (SELECT * FROM l JOIN r ON a = c) PIVOT q ON d IN (1, 2, 3) USING max(b) GROUP BY a",
    "WITH q AS (FROM l) UNPIVOT q ON a, b INTO NAME n VALUE v ORDER BY v, n LIMIT 3;",
    "UNPIVOT l ON a + 1 AS p, b",
    "UNPIVOT l ON a::VARCHAR, (b * 2)::VARCHAR",
    "UNPIVOT l ON COLUMNS('[ab]') + 1",
    "UNPIVOT l ON COLUMNS('a.*'), b AS other",
    "FROM l UNPIVOT (v FOR n IN (-b AS minus)) AS p(x, y, z) WHERE z > -3",
    "UNPIVOT (SELECT a, sum(b), count(*) FROM l GROUP BY a) ON * EXCLUDE a",
    "WITH q AS (SELECT a, sum(b) FROM l GROUP BY a), z AS (FROM q) UNPIVOT z ON * EXCLUDE a",
    'SELECT "count_star()" + 1 AS n FROM (SELECT a, count(*) FROM l GROUP BY a)',
)


@pytest.mark.parametrize("query", FORMS)
def test_forms_kept_by_changes(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize("query", FORMS)
def test_names_and_types(query: str) -> None:
    same_columns(query, SETUP)
