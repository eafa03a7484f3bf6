"""Maintained views of WITH MUTUALLY RECURSIVE that sets a limit on its iterations."""

from __future__ import annotations

import random

import pytest

import tidewheel

PROGRAMS = {
    "distances": """
        WITH MUTUALLY RECURSIVE {limit} d(n INT, h INT) AS (SELECT n, min(h) FROM (
        SELECT 1 AS n, 0 AS h UNION ALL SELECT b, h + 1 FROM d JOIN e ON a = n) GROUP BY n)
        SELECT * FROM d
    """,
    "rows that come and go": """
        WITH MUTUALLY RECURSIVE {limit} win(n INT) AS (SELECT DISTINCT a FROM e WHERE NOT EXISTS (
        SELECT 1 FROM win WHERE n = b)), lost(n INT) AS (SELECT a FROM e EXCEPT SELECT n FROM win)
        SELECT 'won', n FROM win UNION ALL SELECT 'lost', n FROM lost
    """,
    "counts that grow": """
        WITH MUTUALLY RECURSIVE {limit} p(n INT, k BIGINT) AS (SELECT n, sum(k)::BIGINT FROM (
        SELECT 1 AS n, 1 AS k UNION ALL SELECT b, k FROM p JOIN e ON a = n) GROUP BY n)
        SELECT * FROM p
    """,
    "a loop inside": """
        WITH MUTUALLY RECURSIVE {limit} o(x INT, y INT) AS (SELECT a, b FROM e UNION SELECT n, y
        FROM (WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 2) i(n INT, y INT) AS (
        SELECT y, x FROM o UNION ALL SELECT b, y FROM i JOIN e ON a = n) SELECT n, y FROM i))
        SELECT * FROM o
    """,
}


@pytest.mark.parametrize("iterations", [1, 2, 3, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_there_after_so_many_iterations(name: str, iterations: int) -> None:
    rng = random.Random(f"{name}{iterations}")
    query = PROGRAMS[name].format(limit=f"(RETURN AT RECURSION LIMIT {iterations})")
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a INT, b INT); INSERT INTO e VALUES (1, 2), (2, 3), (3, 1)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        found = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert found == [("incremental",)]
        con.execute("SET fusion = 'off'")  # evaluated table by table, as it is written
        for _ in range(12):
            a, b, end = rng.randint(1, 5), rng.randint(1, 5), rng.choice(["COMMIT", "ROLLBACK"])
            for statement in rng.choice(
                [
                    [f"INSERT INTO e VALUES ({a}, {b})"],
                    [f"DELETE FROM e WHERE a = {a}"],
                    [f"UPDATE e SET b = {b} WHERE a = {a}"],
                    ["BEGIN", "DELETE FROM e WHERE b = 2", f"INSERT INTO e VALUES ({b}, {a})", end],
                ]
            ):
                con.execute(statement)
            wanted = sorted(con.execute(query).fetchall())
            assert sorted(con.execute("FROM v").fetchall()) == wanted


def test_a_change_that_would_pass_the_limit_is_refused() -> None:
    query = PROGRAMS["distances"].format(limit="(ERROR AT RECURSION LIMIT 4)")
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a INT, b INT); INSERT INTO e VALUES (1, 2), (2, 3)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()[0][0] == (
            "incremental"
        )
        rows = sorted(con.execute("FROM v").fetchall())
        for _ in range(2):
            with pytest.raises(tidewheel.OperationalError, match='"d" still changes after 4 iter'):
                con.execute("INSERT INTO e VALUES (3, 4)")
            assert sorted(con.execute("FROM v").fetchall()) == rows
        con.execute("BEGIN; INSERT INTO e VALUES (3, 4); DELETE FROM e WHERE a = 2; COMMIT")
        assert sorted(con.execute("FROM v").fetchall()) == [(1, 0), (2, 1)]
        con.execute("INSERT INTO e VALUES (1, 3)")  # 4 is two steps away now
        assert sorted(con.execute("FROM v").fetchall()) == [(1, 0), (2, 1), (3, 1), (4, 2)]
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_ranks_are_computed_anew() -> None:
    """Every row of every iteration moves with each change."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a INT, b INT); INSERT INTO e VALUES (1, 2), (2, 1)")
        con.execute("""
            CREATE MATERIALIZED VIEW v AS WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 5)
            rank(n INT, r DOUBLE) AS (SELECT n, 0.1 + sum(r) FROM (SELECT a AS n, 0.5 AS r FROM e
            UNION ALL SELECT b, r * 0.9 FROM rank JOIN e ON a = n) GROUP BY n) SELECT * FROM rank
        """)
        reason = con.execute("SELECT reason FROM tidewheel_views()").fetchall()[0][0]
        assert "floating-point" in reason
