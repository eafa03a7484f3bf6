"""A view for a table, a table for a view, and words of other systems: what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("CREATE TABLE t (a INT, b INT); CREATE VIEW pv AS SELECT 1 AS one")
        opened.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        opened.execute("CREATE MATERIALIZED VIEW over_v AS SELECT max(n) AS n FROM v")
        yield opened


@pytest.mark.parametrize(
    ("sql", "column", "hint"),
    [
        ("DROP TABLE v", 12, "DROP MATERIALIZED VIEW v"),
        ("DROP TABLE main.v", 17, "DROP MATERIALIZED VIEW v"),
        ("DROP TABLE pv", 12, "DROP VIEW pv"),
        ("DROP VIEW t", 11, "DROP TABLE t"),
        ("CREATE OR REPLACE TABLE v (a INT)", 25, "DROP MATERIALIZED VIEW v"),
        ("DROP MATERIALIZED VIEW pv", 24, "DROP VIEW pv"),
        ("DROP MATERIALIZED VIEW t", 24, "DROP TABLE t"),
        ("CREATE MATERIALIZED VIEW t AS SELECT 1", 26, "DROP TABLE t first"),
        ("CREATE OR REPLACE MATERIALIZED VIEW pv AS SELECT 1", 37, "DROP VIEW pv first"),
        ("CREATE INDEX i ON v (a)", 19, "leave it out"),
        ("CREATE UNIQUE INDEX i ON main.v (a)", 31, "leave it out"),
        ("CREATE INDEX i ON pv (one)", 19, "the tables that the view reads"),
        ("CREATE INDEX ON t (a)", 14, "CREATE INDEX name"),
        ("DROP INDEX", 6, "DROP INDEX name"),
        ("COPY t TO 'x.xlsx'", 11, "LOAD excel"),
        ("COPY (FROM t) TO 'x.xlsx'", 18, "LOAD excel"),
        ("SHOW VIEWS", 6, "tidewheel_views()"),
        ("SHOW CREATE TABLE t", 6, "SELECT sql"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", 7, "leave it out"),
        ("START TRANSACTION ISOLATION LEVEL READ COMMITTED", 19, "leave it out"),
        ("CREATE INCREMENTAL MATERIALIZED VIEW w AS FROM t", 8, "CREATE MATERIALIZED VIEW name"),
        ("CREATE OR REPLACE DYNAMIC TABLE w AS FROM t", 19, "CREATE MATERIALIZED VIEW name"),
        ("CREATE TEMP MATERIALIZED VIEW w AS FROM t", 8, "leave TEMP out"),
        ("CREATE RECURSIVE MATERIALIZED VIEW w (n) AS FROM t", 8, "AS WITH RECURSIVE"),
        (
            "CREATE MATERIALIZED VIEW w IN CLUSTER c AS FROM t",
            28,
            "leave out what stands before AS",
        ),
        (
            "CREATE MATERIALIZED VIEW w WITH (x = 1) AS FROM t",
            28,
            "leave out what stands before AS",
        ),
        ("CREATE MATERIALIZED VIEW w IN CLUSTER c", 28, "MATERIALIZED VIEW [IF NOT EXISTS]"),
        ("CREATE MATERIALIZED VIEW w (a INT) AS SELECT a FROM t", 31, "the types of its query"),
        ("CREATE MATERIALIZED VIEW w AS FROM t EMIT ON WINDOW CLOSE", 43, "leave EMIT … out"),
        ("CREATE TABLE w (a DATE, WATERMARK FOR a AS a)", 35, "leave WATERMARK … out"),
        ("CREATE TABLE w (a DATE) APPEND ONLY", 25, "leave it out"),
        ("DECLARE RECURSIVE VIEW w (a INT)", 1, "AS WITH RECURSIVE"),
        ("UPSERT INTO t VALUES (1, 2)", 1, "INSERT OR REPLACE"),
        ("REPLACE INTO t VALUES (1, 2)", 1, "INSERT OR REPLACE"),
        ("INSERT IGNORE INTO t VALUES (1, 2)", 8, "INSERT OR IGNORE"),
        ("INSERT INTO t VALUES (1, 2) ON DUPLICATE KEY UPDATE b = 2", 32, "ON CONFLICT DO UPDATE"),
        ("DELETE FROM t ORDER BY a LIMIT 1", 15, "WHERE rowid IN"),
        ("UPDATE t SET b = 1 LIMIT 1", 20, "WHERE rowid IN"),
        ("SELECT a FROM t GROUP BY a WITH ROLLUP", 28, "GROUP BY ROLLUP"),
        ("FROM t ORDER BY a FETCH FIRST 1 ROWS WITH TIES", 38, "QUALIFY rank()"),
        ("FROM pg_matviews", 6, "tidewheel_views()"),
        ("DESCRIBE MATERIALIZED VIEW v", 23, "DESCRIBE name"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS FROM t", 37, "VIEW main.v CASCADE takes"),
        ("CREATE MATERIALIZED VIEW w AS SELECT proctime() FROM t", 38, "keep the time in a table"),
        ("SELECT tumble_end(a, INTERVAL 1 HOUR) FROM t", 8, "time_bucket"),
        ("CALL refresh_continuous_aggregate('v')", 6, "leave it out"),
        ("CREATE MATERIALIZED VIEW w AS FROM tumble(t, a, INTERVAL 1 HOUR)", 36, "time_bucket"),
        ("DROP MATERIALIZED VIEW v, w", 25, "DROP MATERIALIZED VIEW [IF EXISTS] name"),
        ("SUBSCRIBE TO v WITH (PROGRESS)", 16, "SUBSCRIBE TO view [AS OF EPOCH n]"),
        ("SUBSCRIBE TO (FROM t)", 14, "CREATE MATERIALIZED VIEW name AS query"),
        (
            "WITH MUTUALLY RECURSIVE r(a INT) AS (SELECT a FROM t) SELECT t.a, a FROM r, t",
            67,
            "",
        ),
        (
            "WITH RECURSIVE r(a) AS (SELECT a FROM t UNION SELECT a FROM r) SELECT a FROM r, t",
            71,
            "",
        ),
        (
            "WITH MUTUALLY RECURSIVE r(a INT) AS (SELECT a, b FROM t) FROM r",
            38,
            "a name and a type",
        ),
        ("VERIFY v", 8, "VERIFY VIEW view"),
        ("EXPLAIN ROW v", 9, "EXPLAIN ROW (view"),
        ("SELECT * FROM t FOR UPDATE", 17, "leave it out"),
        ("FLUSH", 1, "leave it out"),
        ("VACUUM v", 8, "leave it out"),
        ("SUBSCRIBE TO t", 14, "CREATE MATERIALIZED VIEW … AS FROM t"),
        ("SUBSCRIBE TO v AS OF EPOCH 99999", 28, "begins with a snapshot"),
        ("EXPLAIN (foo)", 10, "EXPLAIN (ANALYZE) SELECT"),
        ("EXPLAIN (VERBOSE) SELECT 1", 10, "EXPLAIN (ANALYZE) SELECT"),
        ("EXPLAIN", 1, "EXPLAIN VIEW name"),
        ("SELECT", 1, "* for all"),
        ("SELECT 1 UNION SELECT DISTINCT FROM t", 16, "* for all"),
        ("SAVEPOINT a", 1, "BEGIN … COMMIT"),
        ("GRANT SELECT ON t TO me", 1, "no users"),
        ("\\d v", 1, "the shell's"),
        ("SELECT st_point(1, 2)", 8, "INSTALL spatial; LOAD spatial"),
    ],
)
def test_place_and_cure(con: tidewheel.Connection, sql: str, column: int | None, hint: str) -> None:
    with pytest.raises(tidewheel.DatabaseError) as caught:
        con.execute(f"SELECT 1;\n{sql}")
    assert caught.value.column == column
    assert caught.value.line == (None if column is None else 2)
    assert hint in (caught.value.hint or "")
    con.execute("FROM v").fetchall()


def test_no_table_of_ours_is_proposed(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        con.execute("SHOW views")
    assert "__tidewheel" not in str(caught.value)


def test_a_query_in_parentheses_is_explained(con: tidewheel.Connection) -> None:
    for query in ("(SELECT 1)", "(FROM t)", "((VALUES (1)))", "(WITH x AS (FROM t) FROM x)"):
        assert con.execute(f"EXPLAIN {query}").fetchall()


def test_formats_are_listed(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="needs a format: text, svg"):
        con.execute("EXPLAIN (FORMAT) SELECT 1")
    with pytest.raises(tidewheel.ProgrammingError, match="json, graphviz"):
        con.execute("EXPLAIN (FORMAT xml) SELECT 1")


def test_one_row_is_singular(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO t VALUES (1, 1)")
    shown = con.execute("EXPLAIN VIEW v").fetchall()[0][1]
    assert "holds 1 row," in shown
    assert "1 rows" not in shown


def test_views_with_the_names_of_such_words_can_be_shown(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE views (a INT)")
    assert con.execute("SHOW views").fetchall()[0][0] == "a"


def test_schemas_of_ours_are_not_shown(con: tidewheel.Connection) -> None:
    assert [row[1] for row in con.execute("SHOW SCHEMAS").fetchall()] == ["main"]
    assert {row[1] for row in con.execute("SHOW ALL").fetchall()} == {"main"}
