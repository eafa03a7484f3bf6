"""PIVOT on listed values of any type in maintained views: DuckDB compares their texts."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel

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
