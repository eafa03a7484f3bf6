"""EXPORT DATABASE and IMPORT DATABASE keep maintained views, and the views over them."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import tidewheel

MADE = """
CREATE SCHEMA s;
CREATE TABLE e (a INTEGER, b INTEGER);
INSERT INTO e VALUES (1, 2), (2, 3), (7, 2);
CREATE TABLE s.e (a INTEGER);
INSERT INTO s.e VALUES (41);
CREATE MACRO twice(x) AS 2 * x;
CREATE VIEW first AS SELECT min(a) AS a FROM e;
CREATE MATERIALIZED VIEW v AS WITH RECURSIVE t(x) AS (
    SELECT 1 UNION SELECT b FROM t JOIN e ON a = x) SELECT x FROM t;
CREATE VIEW over AS SELECT twice(x) AS "as", ';' AS y FROM v;
CREATE MATERIALIZED VIEW "Up; on"("My x", z) AS SELECT "as", count(*) AS n FROM over GROUP BY 1;
CREATE VIEW far AS WITH RECURSIVE t(x) AS (
    SELECT 1 AS x UNION SELECT e.b FROM t JOIN e ON e.a = t.x JOIN t AS u ON true)
    SELECT max(x) AS x FROM t;
USE s;
SET integer_division = true;
CREATE MATERIALIZED VIEW v AS SELECT a / 2 AS half FROM e;
RESET integer_division;
USE memory.main;
"""
VIEWS = ("main.v", 'main."Up; on"', "s.v")
READ = (*VIEWS, "main.over", "main.far", "main.first")


def rows(con: tidewheel.Connection) -> list[list[tuple[object, ...]]]:
    return [con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in READ]


@pytest.fixture
def made() -> tidewheel.Connection:
    con = tidewheel.connect()
    for _ in con.script(MADE):
        pass
    return con


@pytest.mark.parametrize("form", ["", " (FORMAT parquet)"])
def test_views_come_back(made: tidewheel.Connection, tmp_path: Path, form: str) -> None:
    # made again, so that in the catalog it stands behind the views that read it
    made.execute("CREATE OR REPLACE VIEW first AS SELECT min(a) AS a FROM e")
    made.execute(f"EXPORT DATABASE memory TO '{tmp_path}'{form}")
    before = rows(made)
    assert before[2] == [(20,)]  # by integers, as where it was made
    with tidewheel.connect() as con:
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert rows(con) == before
        for database in (made, con):
            database.execute("INSERT INTO e VALUES (3, 4), (0, 9)")
            database.execute("INSERT INTO s.e VALUES (5)")
        assert rows(con) == rows(made)
        assert rows(con) != before
        for name in VIEWS:
            assert con.execute(f"VERIFY VIEW {name}").fetchall() == []
        described = [c[0] for c in con.execute('FROM "Up; on"').description or ()]
        assert described == ["My x", "z"]
        assert con.execute("SELECT current_setting('integer_division')").fetchall() == [(False,)]
        con.execute("CREATE MATERIALIZED VIEW more AS SELECT count(*) AS n FROM v")
        assert con.execute("FROM more").fetchall() == [(4,)]
    with duckdb.connect() as other:  # it has the rest
        other.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert other.execute("SELECT count(*) FROM e").fetchall() == [(3,)]
        assert other.execute("FROM first").fetchall() == [(1,)]


def test_into_a_database_that_has_views(made: tidewheel.Connection, tmp_path: Path) -> None:
    made.execute(f"EXPORT DATABASE '{tmp_path}'")
    with tidewheel.connect(tmp_path / "own.db") as con:
        con.execute("CREATE TABLE own (i INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM own")
        con.execute("BEGIN")
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        con.execute("ROLLBACK")
        assert con.execute("SHOW TABLES").fetchall() == [("counted",), ("own",)]
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        con.execute("INSERT INTO own VALUES (1)")
        assert con.execute("FROM counted").fetchall() == [(1,)]
    with tidewheel.connect(tmp_path / "own.db") as con:
        assert rows(con) == rows(made)


def test_a_view_that_can_not_be_made(made: tidewheel.Connection, tmp_path: Path) -> None:
    made.execute(f"EXPORT DATABASE '{tmp_path}'")
    file = tmp_path / "maintained_views.json"
    views = json.loads(file.read_text())
    views.append({"statement": "CREATE MATERIALIZED VIEW w AS SELECT nothing FROM e"})
    file.write_text(json.dumps(views))
    with tidewheel.connect() as con:
        with pytest.raises(tidewheel.ProgrammingError, match="nothing"):
            con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert con.execute("SHOW TABLES").fetchall() == []
        con.execute("CREATE TABLE e (x INTEGER)")


def test_without_views(made: tidewheel.Connection, tmp_path: Path) -> None:
    made.execute(f"EXPORT DATABASE '{tmp_path}'")
    made.execute('DROP MATERIALIZED VIEW "Up; on"; DROP VIEW over')
    for name in VIEWS:
        made.execute(f"DROP MATERIALIZED VIEW IF EXISTS {name} CASCADE")
    made.execute(f"EXPORT DATABASE '{tmp_path}'")
    with tidewheel.connect() as con:
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert con.execute("FROM far").fetchall() == made.execute("FROM far").fetchall()
        assert con.execute("SELECT * FROM tidewheel_views()").fetchall() == []
    made.execute("DROP VIEW far; DROP SCHEMA __tidewheel CASCADE")
    made.execute(f"EXPORT DATABASE '{tmp_path}'")
    assert not (tmp_path / "maintained_views.json").exists()
    with tidewheel.connect() as con:
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert con.execute("SELECT count(*) FROM e").fetchall() == [(3,)]
    made.close()


def test_a_copied_database(made: tidewheel.Connection, tmp_path: Path) -> None:
    made.execute(f"ATTACH '{tmp_path / 'copy.db'}' AS copy")
    made.execute("SELECT * FROM v")
    made.execute("COPY FROM DATABASE memory TO copy")
    made.execute("INSERT INTO copy.e VALUES (3, 4)")
    with pytest.raises(tidewheel.NotSupportedError, match="opens copy as a database of its own"):
        made.execute("FROM copy.v")
    before = rows(made)
    made.execute("DETACH copy")
    with tidewheel.connect(tmp_path / "copy.db") as con:
        assert con.execute("FROM v ORDER BY x").fetchall() == [(1,), (2,), (3,), (4,)]
        con.execute("DELETE FROM e WHERE a = 3")
        con.execute("CREATE MACRO own(x) AS x")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        for name, known in zip(READ, before, strict=True):
            assert con.execute(f"FROM {name} ORDER BY ALL").fetchall() == known
    made.close()


def test_rows_imported_into_a_table_that_is_there(tmp_path: Path) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        con.execute(f"EXPORT DATABASE '{tmp_path}'")
    schema = tmp_path / "schema.sql"
    schema.write_text(schema.read_text().replace("TABLE", "TABLE IF NOT EXISTS"))
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t; FROM v")
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        assert con.execute("FROM v").fetchall() == [(10,)]


def test_macros_that_read_views_come_back(tmp_path: Path) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE MACRO twice(v) AS v * 2")
        con.execute("CREATE TABLE t (a INTEGER CHECK (twice(a) > 0))")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT max(a) AS a FROM t")
        con.execute("CREATE MACRO most(x) AS (SELECT a + x FROM v)")
        con.execute("CREATE MACRO rows() AS TABLE SELECT a FROM v")
        con.execute("CREATE VIEW over AS SELECT most(1) AS x, a FROM rows()")
        con.execute("INSERT INTO t VALUES (4)")
        con.execute(f"EXPORT DATABASE '{tmp_path}'")
    with tidewheel.connect() as con:
        con.execute(f"IMPORT DATABASE '{tmp_path}'")
        con.execute("INSERT INTO t VALUES (6)")
        assert con.execute("FROM over").fetchall() == [(7, 6)]
        assert con.execute("SELECT most(2), twice(3)").fetchall() == [(8, 6)]
