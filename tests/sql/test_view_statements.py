"""Statements that read maintained views otherwise than a query does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidewheel


@pytest.mark.parametrize("rows", [3, 5000])
def test_prepared_statements_read_views_as_they_are(rows: int) -> None:
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT range AS a FROM range({rows})")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        con.execute("CREATE TABLE log (n BIGINT)")
        con.execute('PREPARE "Q" AS SELECT count(*), sum(n) FROM v WHERE a >= ?')
        con.execute("PREPARE w AS INSERT INTO log SELECT count(*) FROM v")
        asked = "EXECUTE q(0)"
        assert con.execute(asked).fetchall() == [(rows, rows)]
        con.execute("INSERT INTO t VALUES (0), (9000)")
        assert con.execute(asked).fetchall() == [(rows + 1, rows + 2)]
        con.execute("BEGIN; INSERT INTO t VALUES (9001)")
        assert con.execute(asked).fetchall() == [(rows + 2, rows + 3)]
        con.execute("EXECUTE w; COMMIT; DELETE FROM t WHERE a > 0; EXECUTE w")
        assert con.execute(asked).fetchall() == [(1, 2)]
        assert con.execute("FROM log").fetchall() == [(rows + 2,), (1,)]
        con.execute("DEALLOCATE q")
        with pytest.raises(tidewheel.ProgrammingError, match="does not exist"):
            con.execute(asked)


def test_a_change_that_was_prepared_before_there_were_views() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); PREPARE i AS INSERT INTO t VALUES (?)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
        con.execute("EXECUTE i(5)")
        assert con.execute("FROM v").fetchall() == [(5,)]
        con.execute("BEGIN; EXECUTE i(2)")
        assert con.execute("FROM v").fetchall() == [(7,)]
        con.execute("COMMIT; EXPLAIN EXECUTE i(1); EXPLAIN ANALYZE EXECUTE i(3)")
        con.execute("EXPLAIN (ANALYZE) EXECUTE i(4)")
        assert con.execute("FROM v").fetchall() == [(14,)]
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "prepared",
    [
        "PREPARE {0} AS -- at last\n{1}",
        "PREPARE {0}/* as select */AS/**/{1}",
        "PREPARE {0} AS WITH x AS (FROM t) {1}",
    ],
)
@pytest.mark.parametrize("name", ["p", '"as select"', "straße", '"a""b"'])
def test_prepared_statements_in_every_spelling(name: str, prepared: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute(prepared.format(name, "INSERT INTO t VALUES (5)"))
        for count in (1, 2):
            con.execute(f"EXECUTE {name}")
            assert con.execute("FROM v").fetchall() == [(count,)]
        con.execute(f"DEALLOCATE {name}; {prepared.format(name, 'SELECT * FROM v')}")
        assert con.execute(f"EXECUTE {name}").fetchall() == [(2,)]
        con.execute("INSERT INTO t VALUES (6)")
        assert con.execute(f"EXECUTE {name}").fetchall() == [(3,)]


def test_prepared_statements_whose_names_differ_in_case() -> None:
    """Of letters outside ASCII both cases are names, for DuckDB."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute('PREPARE "pÉ" AS INSERT INTO t VALUES (1)')
        con.execute('PREPARE "pé" AS SELECT * FROM v; EXECUTE "PÉ"')
        assert con.execute('EXECUTE "Pé"').fetchall() == [(1,)]
        con.execute('DEALLOCATE "pé"; EXECUTE "pÉ"')
        assert con.execute("FROM v").fetchall() == [(2,)]


@pytest.mark.parametrize("view", ["", "CREATE MATERIALIZED VIEW v AS FROM t"])
def test_what_a_prepared_change_says(view: str) -> None:
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (a INTEGER); {view}")
        con.execute("PREPARE i AS INSERT INTO t SELECT range FROM range($1)")
        con.execute("PREPARE r AS DELETE FROM t WHERE a > 0 RETURNING a")
        cursor = con.execute("EXECUTE i(3)")
        assert (cursor.rowcount, cursor.fetchall()) == (3, [(3,)])
        cursor.execute("EXECUTE r")
        assert (cursor.rowcount, sorted(cursor.fetchall())) == (2, [(1,), (2,)])


def test_a_prepared_query_waits_for_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        other.execute("PREPARE q AS SELECT *, (SELECT count(*) FROM t) FROM v WHERE n < $1")
        con.execute("BEGIN; INSERT INTO t VALUES (1)")
        # (a writer of this thread would be refused)
        assert other.execute("EXECUTE q(5)").fetchall() == [(0, 0)]
        con.execute("COMMIT")
        assert other.execute("EXECUTE q(5)").fetchall() == [(1, 1)]
        other.execute("BEGIN; EXECUTE q(5)")
        con.execute("INSERT INTO t VALUES (2)")
        assert other.execute("EXECUTE q(5)").fetchall() == [(1, 1)]
        other.execute("COMMIT")
        assert other.execute("EXECUTE q(5)").fetchall() == [(2, 2)]


def test_a_table_made_of_a_view_and_a_table_is_of_one_epoch(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        ended = threading.Event()

        def write() -> None:
            with tidewheel.connect(path) as other:
                while not ended.is_set():
                    other.execute("INSERT INTO t VALUES (1)")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for i in range(40):
                con.execute(f"CREATE TABLE x{i} AS SELECT n, (SELECT count(*) FROM t) AS m FROM v")
                assert con.execute(f"SELECT n - m FROM x{i}").fetchall() == [(0,)]
        finally:
            ended.set()
            writer.join()


def test_prepared_statements_in_parentheses() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("PREPARE q AS (FROM v); INSERT INTO t VALUES (1), (2)")
        assert con.execute("EXECUTE q").fetchall() == [(2,)]
        con.execute("PREPARE d AS (WITH x AS (DELETE FROM t WHERE a = 1 RETURNING *) FROM x)")
        assert con.execute("EXECUTE d").fetchall() == [(1,)]
        assert con.execute("FROM v").fetchall() == [(1,)]


def test_what_describes_a_view_that_another_one_reads(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 0")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM v")
        for _ in range(2):
            for asked in ("SUMMARIZE v", "SUMMARIZE FROM v", "FROM (SUMMARIZE v)"):
                assert con.execute(f"SELECT count FROM ({asked})").fetchall() == [(4,)]
                assert con.execute(asked).fetchall()[0][:4] == ("a", "BIGINT", "1", "4")
            con.execute("DESCRIBE v; SHOW v; COMMENT ON VIEW v IS 'x'; PREPARE p AS FROM v")
            assert con.execute("SELECT epochs FROM tidewheel_views()").fetchall() == [(0,), (0,)]
            for copied in ("v", "main.v", "v(a)"):
                con.execute(f"COPY {copied} TO '{path}'")
                assert path.read_text().split() == ["a", "1", "2", "3", "4"]
        with pytest.raises(tidewheel.ProgrammingError, match="v is a maintained view"):
            con.execute(f"COPY v(a) FROM '{path}'")


def test_altering_a_view_that_is_not_there() -> None:
    with tidewheel.connect() as con:
        for _ in range(2):
            con.execute("ALTER MATERIALIZED VIEW IF EXISTS v RENAME TO w")
            with pytest.raises(tidewheel.ProgrammingError, match="no maintained view v") as caught:
                con.execute("ALTER MATERIALIZED VIEW v RENAME TO w")
            assert caught.value.column == 25
            con.execute("CREATE MATERIALIZED VIEW other AS SELECT 1 AS a")
            with pytest.raises(tidewheel.ProgrammingError) as caught:
                con.execute("SHOW VIEWS")  # a table by this name is behind maintained views
            assert "__tidewheel" not in str(caught.value)
            con.execute("DROP MATERIALIZED VIEW other")


def test_a_view_that_another_connection_makes_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as one, tidewheel.connect(path) as two:
        one.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        made = "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a"
        one.execute(made)
        two.execute("PREPARE q AS SELECT a FROM v ORDER BY a")
        for value in (2, 3):
            one.execute("FROM v").fetchall()
            two.execute(f"DROP MATERIALIZED VIEW v; {made}")
            assert one.execute("SELECT max(a) FROM v").fetchall() == [(value - 1,)]
            one.execute(f"INSERT INTO t VALUES ({value})")
            for con in (one, two):
                assert con.execute("SELECT max(a) FROM v").fetchall() == [(value,)]
            assert two.execute("EXECUTE q").fetchall()[-1] == (value,)


LOOP = "WITH RECURSIVE r (x) AS (SELECT a FROM v UNION SELECT x + 1 FROM r WHERE x < 4)"


@pytest.mark.parametrize(
    "change",
    [
        f"INSERT INTO o {LOOP} FROM r",
        f"{LOOP} INSERT INTO o FROM r",
        f"MERGE INTO o USING ({LOOP} FROM r) USING (x) WHEN NOT MATCHED THEN INSERT",
        f"INSERT INTO o SELECT x FROM range(9) s(x) WHERE x IN ({LOOP} FROM r)",
        f"CREATE OR REPLACE TABLE o AS {LOOP} FROM r",
    ],
)
@pytest.mark.parametrize("begin", [True, False])
def test_a_recursion_over_a_view_within_a_change(change: str, begin: bool) -> None:
    """It runs before the change, and reads the view as it is, read before or not."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE TABLE o (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        for a in (3, 1):
            if begin:
                con.execute("BEGIN")
            con.execute("INSERT INTO t VALUES (?)", [a])
            con.execute("DELETE FROM o")
            con.execute(change)
            expected = [(x,) for x in range(a, 5)]
            assert con.execute("FROM o ORDER BY x").fetchall() == expected
            if begin:
                con.execute("COMMIT")


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize(
    "source",
    [
        "query('FROM v')",
        "query($$FROM v$$)",
        "query('FROM query(''from V'')')",
        "query('FROM ' || getvariable('name'))",
        "query_table(getvariable('name'))",
        "query_table(['v', 'v'], false)",
        "asked()",
        "asks",
    ],
)
def test_texts_that_are_run_read_views_as_they_are(source: str, begin: bool) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE TABLE o (a INTEGER, n BIGINT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        con.execute("CREATE MACRO asked() AS TABLE FROM query('FROM v')")
        con.execute("SET VARIABLE name = 'v'; CREATE VIEW asks AS FROM query('FROM v')")
        for n in (1, 2):
            if begin:
                con.execute("BEGIN")
            con.execute("INSERT INTO t VALUES (7)")
            assert set(con.execute(f"FROM {source}").fetchall()) == {(7, n)}
            con.execute("TRUNCATE o")
            con.execute(f"INSERT INTO o FROM {source}")
            assert set(con.execute("FROM o").fetchall()) == {(7, n)}
            if begin:
                con.execute("COMMIT")
