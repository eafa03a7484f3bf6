"""Maintained views over databases that are attached and detached while they stand."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import duckdb
import pytest

import tidewheel
from tidewheel.sql.capture import Capture


def test_detached_and_changed_by_others(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    attach = f"ATTACH '{file}' AS q"
    with tidewheel.connect() as con:
        con.execute(attach)
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE TABLE own AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM q.t")
        con.execute("CREATE MATERIALIZED VIEW over_v AS SELECT * FROM v, own")
        con.execute("INSERT INTO q.t VALUES (2)")
        con.execute("DETACH q")
        with pytest.raises(tidewheel.Error, match=r"q\.t"):
            con.execute("FROM v")
        con.execute("INSERT INTO own VALUES (2)")
        with duckdb.connect(str(file)) as other:
            other.execute("INSERT INTO t VALUES (5), (6)")
        con.execute(attach)
        assert con.execute("FROM v").fetchall() == [(4,)]
        assert sorted(con.execute("FROM over_v").fetchall()) == [(4, 1), (4, 2)]
        con.execute("INSERT INTO q.t VALUES (7)")
        assert sorted(con.execute("FROM over_v").fetchall()) == [(5, 1), (5, 2)]


def test_attached_after_the_file_was_opened(tmp_path: Path) -> None:
    """What a view reads is known once its database is there."""
    attach = f"ATTACH '{tmp_path / 'other.db'}' AS q"
    with tidewheel.connect(tmp_path / "main.db") as con:
        con.execute(attach)
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM q.t")
    with tidewheel.connect(tmp_path / "main.db") as con:
        with pytest.raises(tidewheel.Error, match=r"q\.t"):
            con.execute("FROM v")
        con.execute(attach)
        changes = con.subscribe("v")
        con.execute("INSERT INTO q.t VALUES (9)")
        rows = []
        while (update := changes.read(timeout=0)) is not None:
            rows += [(weight, value) for _, weight, value in update.rows()]
        assert sorted(rows) == [(-1, 1), (1, 1), (1, 2)]
        with pytest.raises(tidewheel.Error, match=r"main\.v"):
            con.execute("DROP TABLE q.t")


def test_made_in_the_database_in_use() -> None:
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS q")
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        with pytest.raises(tidewheel.NotSupportedError, match="the database in use, memory"):
            con.execute("CREATE MATERIALIZED VIEW q.v AS FROM q.t")
        con.execute("USE q")
        con.execute("CREATE MATERIALIZED VIEW q.v AS FROM t")
        con.execute("USE memory")
        assert con.execute("FROM q.v").fetchall() == [(1,)]
        with pytest.raises(tidewheel.NotSupportedError, match="USE q"):
            con.execute("DROP MATERIALIZED VIEW q.v")


def test_views_of_a_database_go_with_it() -> None:
    """They were left, and made DDL after DETACH fail where it asked for their place."""
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS q")
        con.execute("USE q")
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        con.execute("USE memory")
        con.execute("CREATE TABLE own AS SELECT 2 AS x")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT * FROM q.v UNION ALL FROM own")
        con.execute("CREATE MATERIALIZED VIEW kept AS FROM own")
        con.execute("DETACH q")
        listed = con.execute("SELECT view_name FROM tidewheel_views() ORDER BY ALL").fetchall()
        assert listed == [("kept",), ("w",)]
        with pytest.raises(tidewheel.ProgrammingError, match=r"q\.v"):
            con.execute("FROM w")
        con.execute("CREATE SCHEMA s")
        con.execute("SET schema = 's'")
        con.execute("CREATE MACRO one() AS TABLE FROM main.own")
        con.execute("INSERT INTO main.own VALUES (3)")
        assert sorted(con.execute("FROM main.kept").fetchall()) == [(2,), (3,)]
        con.execute("DROP MATERIALIZED VIEW main.kept")
        with pytest.raises(tidewheel.ProgrammingError, match=r"maintained views.*: main\.w"):
            con.execute("DROP TABLE main.own")
        con.execute("DROP MATERIALIZED VIEW main.w")


def test_ddl_of_a_database_that_is_not_in_use() -> None:
    """The catalog of views was looked for in the database in use."""
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS q")
        con.execute("USE q")
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE s.t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM s.t")
        con.execute("USE memory")
        con.execute("ALTER TABLE q.s.t ADD COLUMN y INTEGER")
        con.execute("INSERT INTO q.s.t VALUES (2, 3)")
        assert sorted(con.execute("FROM q.v").fetchall()) == [(1,), (2,)]
        con.execute("DROP SCHEMA q.s CASCADE")
        with pytest.raises(tidewheel.ProgrammingError, match="v does not exist"):
            con.execute("FROM q.v")


@pytest.mark.parametrize("ddl", ["DROP TABLE q.t CASCADE", "ALTER TABLE q.t ADD COLUMN y INTEGER"])
@pytest.mark.parametrize("begun", [False, True])
def test_ddl_across_databases_says_what_stands_against_it(ddl: str, begun: bool) -> None:
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS q")
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM q.t")
        if begun:
            con.execute("BEGIN")
        with pytest.raises(tidewheel.NotSupportedError, match=r"of another database.*main\.v"):
            con.execute(ddl)
        if begun:
            con.execute("ROLLBACK")
        con.execute("INSERT INTO q.t VALUES (2)")
        assert sorted(con.execute("FROM v").fetchall()) == [(1,), (2,)]


def test_attach_or_replace(tmp_path: Path) -> None:
    """Views went on with the rows of the file that was there before."""
    with tidewheel.connect() as con:
        for name, rows in (("a", "(1)"), ("b", "(10), (20)")):
            con.execute(f"ATTACH '{tmp_path / name}.db' AS q")
            con.execute(f"CREATE TABLE q.t (i INTEGER); INSERT INTO q.t VALUES {rows}; DETACH q")
        con.execute(f"ATTACH '{tmp_path / 'a'}.db' AS q")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS s FROM q.t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT s + 1 AS s FROM v")
        assert con.execute("FROM w").fetchall() == [(2,)]
        con.execute(f"ATTACH OR REPLACE '{tmp_path / 'b'}.db' AS q")
        assert con.execute("FROM w").fetchall() == [(31,)]
        con.execute("INSERT INTO q.t VALUES (5)")
        assert con.execute("FROM v, w").fetchall() == [(35, 36)]
        con.execute(f"ATTACH OR REPLACE '{tmp_path / 'a'}.db' AS q")
        assert con.execute("FROM w").fetchall() == [(2,)]


def test_the_views_of_a_database_that_is_replaced(tmp_path: Path) -> None:
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path}/a.db' AS q; USE q")
        con.execute("CREATE TABLE t (i INTEGER); CREATE MATERIALIZED VIEW v AS FROM t; USE memory")
        con.execute(f"ATTACH OR REPLACE '{tmp_path}/b.db' AS q")
        assert con.execute("FROM tidewheel_views()").fetchall() == []


def test_the_way_out_of_a_database_that_is_gone() -> None:
    """Where there are views, no USE was understood any more."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
        con.execute("BEGIN; ATTACH ':memory:' AS q; USE q; ROLLBACK")
        with pytest.raises(tidewheel.Error, match='"q" does not exist'):
            con.execute("FROM memory.v")
        con.execute("USE memory")
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(1,)]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", ""])
def test_rows_copied_from_a_database(end: str) -> None:
    with tidewheel.connect() as con:
        con.execute(
            "ATTACH ':memory:' AS old; CREATE TABLE old.t AS SELECT range AS a FROM range(3)"
        )
        con.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (7)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS s FROM t")
        assert con.execute("FROM v").fetchall() == [(1, 7)]
        con.execute("BEGIN" if end else "")
        con.execute("COPY FROM DATABASE old TO memory (DATA)")
        assert con.execute("FROM v").fetchall() == [(4, 10)]
        con.execute(end)
        assert con.execute("FROM v").fetchall() == [(1, 7) if end == "ROLLBACK" else (4, 10)]


def test_a_copied_database_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables stay as they are: of what views read only the target's may change."""

    def compare(*_: object) -> NoReturn:
        raise AssertionError

    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a; ATTACH ':memory:' AS new")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) FROM t; FROM v")
        with monkeypatch.context() as patched:
            patched.setattr(Capture, "_difference", compare)
            con.execute("COPY FROM DATABASE memory TO new")
        assert con.execute("FROM new.t").fetchall() == [(1,)]
        con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("FROM v").fetchall() == [(3,)]


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_file_keeps_its_views_by_any_name(tmp_path: Path, first: str) -> None:
    """Whichever database got the first view, and under which name it was attached."""
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS b")
        for name in sorted("ab", reverse=first == "b"):
            con.execute(f"USE {name}; CREATE TABLE t AS SELECT 1 AS x")
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
            con.execute("CREATE MATERIALIZED VIEW w AS SELECT x + 1 AS x FROM v")
    (tmp_path / "a.db").rename(tmp_path / "moved.db")
    for file in ("moved.db", "other.db"):
        with tidewheel.connect(tmp_path / file) as con:
            con.execute("INSERT INTO t VALUES (5)")
            assert con.execute("FROM w").fetchall() == [(7,)]
            assert con.execute("VERIFY VIEW w").fetchall() == []
            con.execute("DROP MATERIALIZED VIEW w; DROP MATERIALIZED VIEW v")
            assert con.execute("FROM __tidewheel.views").fetchall() == []


@pytest.mark.parametrize("statement", ["FROM b.v", "CREATE MATERIALIZED VIEW w AS FROM b.over"])
@pytest.mark.parametrize("own", ["", "CREATE MATERIALIZED VIEW x AS SELECT 1 AS a"])
def test_views_of_an_attached_file_are_not_kept_here(
    tmp_path: Path, statement: str, own: str
) -> None:
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x; CREATE SCHEMA s")
        con.execute('CREATE MATERIALIZED VIEW s."The v" AS FROM t')
        con.execute('CREATE VIEW over AS FROM s."The v"; CREATE VIEW v AS FROM over')
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.db'}' AS b; BEGIN; {own}")
        with pytest.raises(tidewheel.NotSupportedError, match=r"b\.s\.the v is maintained by who"):
            con.execute(statement)


@pytest.mark.parametrize("used", ["memory", "b"])
@pytest.mark.parametrize("own", ["", "CREATE MATERIALIZED VIEW x AS SELECT 1 AS a"])
def test_statements_about_a_view_of_an_attached_file(tmp_path: Path, own: str, used: str) -> None:
    with tidewheel.connect(tmp_path / "b.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x; CREATE MATERIALIZED VIEW v AS FROM t")
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'b.db'}' AS b; USE {used}; {own}")
        for statement in (
            "VERIFY VIEW b.v",
            "SUBSCRIBE TO b.v",
            "DROP MATERIALIZED VIEW b.v",
            "ALTER VIEW b.v RENAME TO w",
            "ALTER MATERIALIZED VIEW b.v RENAME TO w",
            "COMMENT ON MATERIALIZED VIEW b.v IS 'x'",
        ):
            with pytest.raises(tidewheel.NotSupportedError) as caught:
                con.execute(statement)
            assert caught.value.message.startswith("b.main.v is maintained by whoever opens b")
            assert caught.value.column == statement.index("b.v") + 1
    with tidewheel.connect(tmp_path / "b.db") as con:
        assert con.execute("VERIFY VIEW v").fetchall() == []
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'b.db'}' AS b; {own}; USE {used}; DROP VIEW b.v")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", ""])
def test_views_copied_from_a_database(tmp_path: Path, end: str) -> None:
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
    with tidewheel.connect(tmp_path / "b.db") as con:
        con.execute(f"ATTACH '{tmp_path / 'a.db'}' AS old")
        con.execute("BEGIN" if end else "")
        con.execute("COPY FROM DATABASE old TO b")
        assert con.execute("FROM v").fetchall() == [(1,)]
        con.execute(end)
        if end == "ROLLBACK":
            assert con.execute("FROM tidewheel_views()").fetchall() == []
            return
        con.execute("INSERT INTO t VALUES (4)")
        assert con.execute("FROM v").fetchall() == [(5,)]
        assert con.execute("VERIFY VIEW v").fetchall() == []
        with pytest.raises(tidewheel.NotSupportedError, match=r"old\.main\.v is maintained by who"):
            con.execute("FROM old.v")
        con.execute("DROP MATERIALIZED VIEW v")


def test_views_copied_without_their_queries(tmp_path: Path) -> None:
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
        con.execute(f"ATTACH '{tmp_path / 'b.db'}' AS b; COPY FROM DATABASE a TO b (SCHEMA)")
    with tidewheel.connect(tmp_path / "b.db") as con:
        with pytest.raises(tidewheel.NotSupportedError, match=r"v was copied without its query"):
            con.execute("FROM v")
        con.execute("DROP VIEW v; CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
        assert con.execute("FROM v").fetchall() == [(None,)]
    with tidewheel.connect(tmp_path / "c.db") as con:  # in two steps
        con.execute(f"ATTACH '{tmp_path / 'a.db'}' AS a")
        con.execute("COPY FROM DATABASE a TO c (SCHEMA); COPY FROM DATABASE a TO c (DATA)")
        con.execute("INSERT INTO t VALUES (5)")
        assert con.execute("FROM v").fetchall() == [(6,)]


@pytest.mark.parametrize("used", ["a", "b", "memory"])
@pytest.mark.parametrize("kind", ["(DATA)", "(SCHEMA)", ""])
def test_a_copy_to_where_views_are(tmp_path: Path, kind: str, used: str) -> None:
    """The table of views is one that both have."""
    same = kind == "(DATA)"
    for name in "ab":
        suffix = "" if same else name
        with tidewheel.connect(tmp_path / f"{name}.db") as con:
            con.execute(f"CREATE TABLE t{suffix} AS SELECT '{name}' AS x")
            con.execute(f"CREATE MATERIALIZED VIEW v{suffix} AS SELECT max(x) AS x FROM t{suffix}")
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.db'}' AS a; ATTACH '{tmp_path / 'b.db'}' AS b")
        con.execute(f"USE {used}")
        con.execute(f"BEGIN; COPY FROM DATABASE a TO b {kind}; ROLLBACK")
        con.execute(f"COPY FROM DATABASE a TO b {kind}")
        if not kind:
            with pytest.raises(tidewheel.Error, match="already exists"):
                con.execute("COPY FROM DATABASE a TO b")
    with tidewheel.connect(tmp_path / "b.db") as con:
        if same:
            assert sorted(con.execute("FROM t").fetchall()) == [("a",), ("b",)]
            con.execute("INSERT INTO t VALUES ('c')")
            assert con.execute("FROM v").fetchall() == [("c",)]
            return
        assert con.execute("FROM vb").fetchall() == [("b",)]
        con.execute("INSERT INTO tb VALUES ('c')")
        assert con.execute("FROM vb").fetchall() == [("c",)]
        if not kind:
            con.execute("INSERT INTO ta VALUES ('c')")
            assert con.execute("FROM va").fetchall() == [("c",)]


def test_rows_copied_to_where_no_views_are(tmp_path: Path) -> None:
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
        con.execute(f"ATTACH '{tmp_path / 'b.db'}' AS b; CREATE TABLE b.t AS SELECT 2 AS x")
        con.execute("COPY FROM DATABASE a TO b (DATA)")
        assert sorted(con.execute("FROM b.t").fetchall()) == [(1,), (2,)]
    with tidewheel.connect(tmp_path / "b.db") as con:
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*)::INT AS n FROM t")
        con.execute("INSERT INTO t VALUES (3)")
        assert con.execute("FROM v").fetchall() == [(3,)]


@pytest.mark.parametrize("behind", ["", "INSERT INTO own VALUES (2)"])
def test_who_follows_a_view_hears_of_a_detach_at_once(tmp_path: Path, behind: str) -> None:
    """It may be attached again with other rows, which no epoch has brought."""
    attach = f"ATTACH '{tmp_path / 'other.db'}' AS q"
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE own (x INTEGER); {attach}; CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM q.t")
        con.execute("CREATE MATERIALIZED VIEW untouched AS FROM own")
        con.execute("USE q; CREATE MATERIALIZED VIEW its AS FROM t; USE memory")
        followed = [con.subscribe(name) for name in ("v", "q.its")]
        for subscription in followed:
            assert subscription.read(0) is not None
        others = con.subscribe("untouched")
        assert others.read(0) is not None
        con.execute("DETACH q")
        con.execute(behind)
        for subscription in followed:
            with pytest.raises(tidewheel.OperationalError, match="dropped or made anew"):
                subscription.read()
        with duckdb.connect(str(tmp_path / "other.db")) as other:
            other.execute("INSERT INTO t VALUES (77)")
        con.execute(attach)
        with pytest.raises(tidewheel.OperationalError, match="dropped or made anew"):
            followed[0].read()
        anew = con.subscribe("v")
        update = anew.read(0)
        assert update is not None
        assert sorted(x for _, _, x in update.rows()) == [1, 77]
        con.execute("INSERT INTO q.t VALUES (3); INSERT INTO own VALUES (5)")
        rows = []
        while (update := others.read(0)) is not None:
            rows += [x for _, _, x in update.rows()]
        assert rows == ([2, 5] if behind else [5])
