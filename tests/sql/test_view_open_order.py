"""Views whose answer follows an order of rows that the query leaves open: they are DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tidewheel
from tidewheel.sql.ties import cut

_ROWS = "CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (3, 1), (7, 1), (1, 1), (5, 0)"
_CHANGES = (
    "INSERT INTO t VALUES (2, 1), (9, 0), (0, 2)",
    "DELETE FROM t WHERE a IN (3, 5)",
    "UPDATE t SET b = b + 1 WHERE a = 1",
    "BEGIN; DELETE FROM t WHERE a = 7; INSERT INTO t VALUES (7, 2), (-1, 1); COMMIT",
    "DELETE FROM t",
)
_OPEN = (
    "SELECT a FROM t WHERE b = 1 LIMIT 1",
    "SELECT * FROM t OFFSET 2",
    "SELECT count(*), sum(a) FROM (SELECT a FROM t LIMIT 3)",
    "SELECT * FROM (SELECT a FROM t UNION ALL SELECT b FROM t) LIMIT 3",
    "SELECT a, (SELECT u.a FROM t u WHERE u.b = t.b LIMIT 1) AS f FROM t",
    "SELECT a, row_number() OVER () AS n FROM t",
    "SELECT a, row_number() OVER w AS n, lag(a) OVER w AS l FROM t WINDOW w AS (PARTITION BY b)",
    "SELECT a, sum(a) OVER (ROWS UNBOUNDED PRECEDING) AS s FROM t",
    "SELECT a, first_value(a) OVER (PARTITION BY b) AS f FROM t",
    "SELECT a FROM t QUALIFY row_number() OVER () <= 2",
    "SELECT a, json_group_array(a) OVER (PARTITION BY b) AS j FROM t",
    "SELECT a, json_group_object(a, b) OVER () AS j FROM t",
)
_WITHIN = (
    "SELECT a FROM t UNION ALL SELECT b FROM t ORDER BY abs(a - 3) DESC, a LIMIT 3",
    "WITH c AS (FROM t) SELECT a FROM c EXCEPT SELECT 5 ORDER BY -a LIMIT 2 OFFSET 1",
    "(SELECT a, b FROM t ORDER BY a DESC LIMIT 3) ORDER BY b, a",
    "(SELECT a, b FROM t ORDER BY a DESC LIMIT 3) LIMIT 1",
    "((SELECT a FROM t) UNION (SELECT b FROM t)) ORDER BY a + 1 LIMIT 2",
    "SELECT a FROM t WHERE a IN ((SELECT a FROM t ORDER BY a LIMIT 2) ORDER BY a DESC LIMIT 1)",
)
"""Set operations ordered by expressions, and queries in parentheses with clauses behind them."""
_COUNTED = (
    "SELECT a, EXISTS (FROM t u WHERE u.a > 6) AS e FROM t",
    "SELECT a FROM t WHERE a = 1 OR NOT EXISTS (FROM t u WHERE u.b > 2 LIMIT 3 OFFSET 1)",
    "SELECT count(*) AS n, count(*) AS m FROM (SELECT a + b FROM t LIMIT 3)",
    "SELECT count(*) AS n FROM (SELECT a FROM (FROM t ORDER BY a LIMIT 4) OFFSET 2)",
    "SELECT count(*) AS n FROM (FROM t LIMIT 0)",
    "SELECT a, (SELECT max(u.a) FROM t u WHERE u.b = t.b LIMIT 1) AS m FROM t",
)
"""Of limited rows nothing but their number is asked, and an aggregate has no more than one."""
_SETTLED = (
    *_WITHIN,
    "SELECT a FROM t ORDER BY a LIMIT 1",
    "SELECT * FROM (SELECT * FROM t ORDER BY a DESC) LIMIT 2",
    "SELECT count(*) AS n FROM t LIMIT 10",
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.b = t.b AND u.a > t.a LIMIT 1)",
    "SELECT a, rank() OVER (PARTITION BY b) AS r, sum(a) OVER (PARTITION BY b) AS s FROM t",
    "SELECT a, sum(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM t",
    "SELECT a, list(a ORDER BY a) OVER (PARTITION BY b) AS l FROM t",
    "SELECT a, row_number() OVER (ORDER BY a) AS n FROM t",
    *_COUNTED,
)


@pytest.fixture
def pair() -> Iterator[tuple[tidewheel.Connection, duckdb.DuckDBPyConnection]]:
    with tidewheel.connect(threads=1) as con, duckdb.connect(config={"threads": 1}) as plain:
        con.execute(_ROWS)
        plain.execute(_ROWS)
        yield con, plain


def after_each_change(con: tidewheel.Connection, query: str) -> Iterator[str]:
    """Make `query` a view; before the first change and after each one it must be right."""
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change in ("SELECT 1", *_CHANGES):
        con.execute(change)
        assert con.execute("VERIFY VIEW v").fetchall() == []
        yield change


@pytest.mark.parametrize("query", [*_OPEN, *_SETTLED])
def test_the_rows_are_duckdbs(
    pair: tuple[tidewheel.Connection, duckdb.DuckDBPyConnection], query: str
) -> None:
    con, plain = pair
    for change in after_each_change(con, query):
        plain.execute(change)
        found = con.execute("FROM v").fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, plain.execute(query).fetchall()))
    ((how, why),) = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
    assert how == ("incremental" if query in _SETTLED else "recompute"), why


@pytest.mark.parametrize("query", _WITHIN)
def test_their_order_is_duckdbs_where_they_are_taken_apart(
    pair: tuple[tidewheel.Connection, duckdb.DuckDBPyConnection], query: str
) -> None:
    con, plain = pair
    con.execute("SET fusion = 'off'")
    assert con.execute(query).fetchall() == plain.execute(query).fetchall()


def test_a_limit_of_no_rows_makes_exists_false(
    pair: tuple[tidewheel.Connection, duckdb.DuckDBPyConnection],
) -> None:
    con, _ = pair
    con.execute("SET fusion = 'off'")
    for limit in ("LIMIT 0", "LIMIT 00", "LIMIT 1 OFFSET 3"):
        query = f"SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.b = t.b {limit})"
        assert con.execute(query).fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t ORDER BY b LIMIT 2",
        "SELECT a + 1, b FROM t ORDER BY b DESC LIMIT 3 OFFSET 1",
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC OFFSET 1",
        "WITH q AS (FROM t) SELECT a FROM q WHERE b > 0 ORDER BY b LIMIT 1",
    ],
)
def test_rows_that_tie_are_an_answer(
    pair: tuple[tidewheel.Connection, duckdb.DuckDBPyConnection], query: str
) -> None:
    """Which of them come is open: VERIFY accepts those that the view has, and no others."""
    con, _ = pair
    assert len(list(after_each_change(con, query))) == 1 + len(_CHANGES)


def test_ties_hide_nothing() -> None:
    assert cut("SELECT a FROM t ORDER BY b LIMIT 2", 1) == "SELECT a FROM t ORDER BY b, 1 LIMIT 2"
    assert cut("SELECT a FROM t ORDER BY b", 1) is None
    assert cut("SELECT a FROM t LIMIT 2", 1) is None
