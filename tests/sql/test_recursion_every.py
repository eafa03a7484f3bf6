# ruff: noqa: E501
"""UNION ALL in a loop without SQL: DuckDB's rows, its errors, and the bounds."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel
from tidewheel.planner import choice

STEP = "WITH RECURSIVE t(x, n) AS (SELECT 0, {0} UNION ALL SELECT b, {1} FROM t JOIN g ON a = x {2}) SELECT * FROM t"
ROUND = "WITH RECURSIVE t(x{0}) AS (SELECT 1{1} UNION ALL SELECT b{2} FROM t JOIN h ON a = x) SELECT count(*) FROM t"


@pytest.fixture
def con(monkeypatch):
    monkeypatch.setattr(choice, "FIRST", 0)  # the loop, not DuckDB
    with tidewheel.connect() as con:
        load(con)
        yield con


@pytest.fixture(scope="module")
def duck():
    con = duckdb.connect()
    load(con)
    yield con
    con.close()


def load(con) -> None:
    con.execute("CREATE TABLE g (a INT, b INT, w INT, big BIGINT, s SMALLINT)")
    con.execute(
        "INSERT INTO g VALUES (0, 1, 50000, 3000000000, 300), (1, 2, 40000, 4000000000, 300), "
        "(2, 3, NULL, 5, 7), (NULL, 4, 1, 1, 1), (0, NULL, 2, 2, 2), (0, 2, 2, 2, 2), (9, 9, 9, 9, 9)"
    )
    con.execute("CREATE TABLE h (a INT, b INT)")
    con.execute("INSERT INTO h VALUES (0, 1), (1, 2), (2, 0), (5, 6)")


def outcome(con, sql: str):
    try:
        return sorted(con.execute(sql).fetchall(), key=repr)
    except (duckdb.Error, tidewheel.Error) as error:
        return str(error).split("\n")[0].removeprefix("Out of Range Error: ")


@pytest.mark.parametrize(
    ("first", "then", "where"),
    [
        ("1", "n + 1", ""),
        ("1", "n * w", ""),  # beyond INTEGER
        ("1", "n * w", "WHERE x < 1"),
        ("1", "n + s", ""),
        ("1::BIGINT", "n * big", ""),  # beyond BIGINT
        ("1::BIGINT", "n + big", "WHERE n < big"),
        ("1::BIGINT", "n * w", ""),
        ("1::SMALLINT", "n * s", ""),
        ("1", "least(n * 2, w)", "WHERE n < 100"),
        ("1", "greatest(n, w) - x", ""),
        ("2147483647", "n - 2147483647 - x", ""),
        ("2147483647", "n + 1", ""),
        ("2147483646", "n + 1", "WHERE x < 1"),
        ("1500000000", "n - (n + n)", ""),  # beyond INTEGER on the way
        ("NULL::INT", "n + 1", ""),
        ("1", "0", ""),
    ],
)
def test_rows_and_errors_are_those_of_duckdb(con, duck, first, then, where) -> None:
    sql = STEP.format(first, then, where)
    assert outcome(con, sql) == outcome(duck, sql)


@pytest.mark.parametrize("n", [("", "", ""), (", n", ", 0", ", n + 1")], ids=["same", "counted"])
@pytest.mark.parametrize(
    ("bound", "rows"),
    [("max_iterations = 60", 61), ("max_recursive_rows = 47", 47), ("max_iterations = 3", 4)],
)
def test_a_cycle_ends_at_its_bound(con, n, bound, rows) -> None:
    """Before it is proved to have no end, for which 64 iterations are too few."""
    sql = ROUND.format(*n)
    con.execute(f"SET {bound}")
    with pytest.raises(tidewheel.OperationalError, match=bound.split(" ")[0]) as error:
        con.execute(sql)
    assert ("gave only rows that were there before" in str(error.value)) == (n[0] == "")
    con.execute("SET on_limit = 'return'")
    assert con.execute(sql).fetchall() == [(rows,)]


def test_a_limit_ends_a_cycle(con) -> None:
    sql = ROUND.format("", "", "").replace("count(*)", "x")
    assert con.execute(f"{sql} LIMIT 7").fetchall() == [(1,), (2,), (0,), (1,), (2,), (0,), (1,)]
    assert len(con.execute(f"{sql} LIMIT 12345").fetchall()) == 12345


def test_a_step_of_too_many_rows_is_left_to_duckdb(con, duck, monkeypatch) -> None:
    from tidewheel.engine.operators import lookup

    monkeypatch.setattr(lookup, "MOST", 100)
    for c in (con, duck):
        c.execute(
            "CREATE OR REPLACE TABLE wide AS SELECT i % 3 AS a, i % 3 + 1 AS b FROM range(300) t(i)"
        )
    sql = "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT b, n + 1 FROM t JOIN wide ON a = x WHERE n < 2) SELECT x, n, count(*) FROM t GROUP BY ALL"
    found = outcome(con, sql)
    assert found == outcome(duck, sql)
    assert found == [(0, 0, 1), (1, 1, 100), (2, 2, 10000)]


def test_few_rows_a_step_among_many(con, duck) -> None:
    """Narrow, wide and narrow again."""
    for c in (con, duck):
        c.execute(
            "CREATE OR REPLACE TABLE p AS SELECT i AS a, i + 1 AS b FROM range(300) t(i) UNION ALL SELECT 150, 1000 + i FROM range(20) t(i) UNION ALL SELECT 1000 + i, 2000 FROM range(5) t(i) UNION ALL SELECT 2000 + i, 2001 + i FROM range(200) t(i)"
        )
    sql = "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT b, n + 1 FROM t JOIN p ON a = x) SELECT * FROM t"
    assert outcome(con, sql) == outcome(duck, sql)


def test_a_sum_beyond_64_bits_in_a_grouped_step(con) -> None:
    con.execute(
        "CREATE TABLE far AS SELECT i::INT AS a, i::INT + 1 AS b, 2000000000000000000 AS w FROM range(6) t(i)"
    )
    sql = "WITH RECURSIVE d(n, v) AS (SELECT 0, 0::BIGINT UNION SELECT b, min(v + w) FROM d JOIN far ON n = a WHERE n < {0} GROUP BY b) SELECT max(v) FROM d"
    assert con.execute(sql.format(4)).fetchall() == [(8 * 10**18,)]
    with pytest.raises(tidewheel.DataError, match="Overflow in addition of INT64"):
        con.execute(sql.format(9))
    view = f"CREATE MATERIALIZED VIEW v AS {sql}"
    with pytest.raises(tidewheel.DataError, match="Overflow in addition of INT64"):
        con.execute(view.format(9))
    con.execute("DELETE FROM far WHERE a > 2")
    con.execute(view.format(9))
    assert con.execute("FROM v").fetchall() == [(6 * 10**18,)]
    con.execute("INSERT INTO far VALUES (3, 4, 2000000000000000000)")
    assert con.execute("FROM v").fetchall() == [(8 * 10**18,)]
    with pytest.raises(tidewheel.DataError, match="Overflow in addition of INT64"):
        con.execute("INSERT INTO far VALUES (4, 5, 2000000000000000000)")
    assert con.execute("SELECT (FROM v), count(*) FROM far").fetchall() == [(8 * 10**18, 4)]


def test_errors_are_of_rows_that_are_joined(con, duck) -> None:
    for c in (con, duck):
        c.execute(
            "CREATE OR REPLACE TABLE once AS SELECT * FROM (VALUES (0, 5), (7, 2147483647)) t(a, w)"
        )
    sql = "WITH RECURSIVE t(x, n) AS (SELECT 0, 0 UNION ALL SELECT x + 1, w * 2 FROM t JOIN once ON a = x) SELECT * FROM t"
    assert outcome(con, sql) == outcome(duck, sql) == [(0, 0), (1, 10)]


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
def test_a_condition_does_not_go_round(con, union) -> None:
    con.execute("CREATE TABLE far AS SELECT 0::BIGINT AS a, 1::BIGINT AS b, 4294967296 AS w")
    sql = f"WITH RECURSIVE t(x, n) AS (SELECT 0::BIGINT, 4294967296 {union} SELECT b, n FROM t JOIN far ON a = x WHERE n * w < 5) SELECT * FROM t"
    with pytest.raises(tidewheel.DataError, match="Overflow in multiplication of INT64"):
        con.execute(sql)
