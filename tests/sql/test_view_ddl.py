"""DDL on tables and views that maintained views read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(
            "CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (1, 10), (2, 20);"
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a > 0;"
            "CREATE MATERIALIZED VIEW w AS SELECT sum(b)::BIGINT AS s FROM v"
        )
        yield connection


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN b SET DEFAULT 5",
        "CREATE INDEX i ON t (a)",
        "CREATE VIEW x AS FROM v",
        "CREATE OR REPLACE TABLE t AS SELECT 3 AS b, 2 AS a",
        "COMMENT ON TABLE t IS 'hello'",
    ],
)
def test_views_go_on(con: tidewheel.Connection, ddl: str, begin: bool) -> None:
    con.execute("FROM w")
    if begin:
        con.begin()
    con.execute(ddl)
    con.execute("INSERT INTO t (a, b) VALUES (4, 40)")
    assert con.execute("FROM w").fetchall() == [((43 if "REPLACE" in ddl else 70),)]
    con.commit()
    con.execute("INSERT INTO t (a, b) VALUES (5, 50)")
    assert con.execute("FROM w").fetchall() == [((93 if "REPLACE" in ddl else 120),)]
    assert con.execute("FROM v LIMIT 0").description is not None
    assert [c[0] for c in con.execute("FROM v").description or ()] == ["a", "b"]
    for view in ("v", "w"):
        assert con.execute(f"VERIFY VIEW {view}").fetchall() == []


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("DROP TABLE t", "main.v, main.w\n"),
        ("ALTER TABLE t DROP COLUMN b", r"main.v \(it would lose column b\)"),
        ("ALTER TABLE t ALTER COLUMN b TYPE VARCHAR", "column b would have another type"),
        ("ALTER TABLE t RENAME COLUMN b TO bb", "lose column b"),
        ("ALTER TABLE t RENAME TO tt", "main.v, main.w"),
        ("CREATE OR REPLACE TABLE t (z INTEGER)", "main.v, main.w"),
        ("DROP VIEW v", "v is a maintained view"),
        ("ALTER VIEW v RENAME TO vv", "read by maintained views: main.w"),
        ("ALTER TABLE v RENAME TO vv", "read by maintained views: main.w"),
        ("ALTER MATERIALIZED VIEW v RENAME TO vv", "read by maintained views: main.w"),
        ("ALTER MATERIALIZED VIEW w RENAME TO t", "t"),
        ("ALTER MATERIALIZED VIEW w RENAME TO s.ww", "by RENAME TO only"),
        ("ALTER MATERIALIZED VIEW w SET SCHEMA s", "by RENAME TO only"),
        ("DROP MATERIALIZED VIEW v", "read by maintained views: main.w"),
    ],
)
def test_what_views_stand_against(
    con: tidewheel.Connection, ddl: str, message: str, begin: bool
) -> None:
    if begin:
        con.begin()
    with pytest.raises(tidewheel.Error, match=message):
        con.execute(ddl)
    if begin and "VIEW" not in ddl:
        with pytest.raises(tidewheel.Error):
            con.execute("INSERT INTO t VALUES (3, 30)")
    con.rollback()
    con.execute("INSERT INTO t VALUES (3, 30)")
    assert con.execute("FROM w").fetchall() == [(60,)]
    assert con.execute("VERIFY VIEW w").fetchall() == []


def test_renamed(con: tidewheel.Connection) -> None:
    filled = con._session.views.registry.views["memory.main.w"].plan
    assert filled is not None
    with con.subscribe("w") as changes:
        changes.read(0)
        con.execute("BEGIN; ALTER MATERIALIZED VIEW w RENAME TO ww; INSERT INTO t VALUES (7, 7)")
        assert con.execute("FROM ww").fetchall() == [(37,)]
        con.execute("ROLLBACK")
        assert con.execute("FROM w").fetchall() == [(30,)]
        con.execute('ALTER MATERIALIZED VIEW w RENAME TO "W w"')
        with pytest.raises(tidewheel.OperationalError, match="dropped or made anew"):
            changes.read(0)
    con.execute("INSERT INTO t VALUES (7, 7)")
    assert con.execute('FROM "w W"').fetchall() == [(37,)]
    assert con._session.views.registry.views["memory.main.w w"].plan is filled
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT 1 AS one FROM t")
    con.execute("ALTER VIEW w RENAME TO one")
    assert con.execute("FROM one").fetchall() == [(1,)] * 3
    with pytest.raises(tidewheel.ProgrammingError):
        con.execute("FROM w")


def test_renamed_for_other_connections_and_later_ones(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        assert other.execute("FROM v").fetchall() == [(1,)]
        con.execute("ALTER MATERIALIZED VIEW v RENAME TO w")
        other.execute("INSERT INTO t VALUES (2)")
        assert other.execute("FROM w").fetchall() == con.execute("FROM w").fetchall() == [(3,)]
        step = "SELECT b.x + 1 FROM a, a b WHERE b.x < 4"
        con.execute(f"CREATE VIEW r AS WITH RECURSIVE a(x) AS (SELECT 1 UNION {step}) FROM a")
        con.execute("ALTER VIEW r RENAME TO q")
    with tidewheel.connect(path) as con:
        con.execute("INSERT INTO t VALUES (3)")
        assert con.execute("FROM w").fetchall() == [(6,)]
        assert len(con.execute("FROM q").fetchall()) == 4
        con.execute("DROP MATERIALIZED VIEW w")


def test_subscribers_get_the_difference(con: tidewheel.Connection) -> None:
    with con.subscribe("w") as changes:
        changes.read(0)
        con.execute("ALTER TABLE t ADD COLUMN c INTEGER")
        update = changes.read(0)
        assert update is not None
        assert update.rows() == []
        con.execute("BEGIN; CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 5 AS b; COMMIT")
        update = changes.read(0)
        assert update is not None
        assert sorted(r[1:] for r in update.rows()) == [(-1, 30), (1, 5)]
        con.execute("INSERT INTO t VALUES (1, 2)")
        update = changes.read(0)
        assert update is not None
        assert sorted(r[1:] for r in update.rows()) == [(-1, 5), (1, 7)]


def test_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW s.v AS FROM s.t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s.v")
    with tidewheel.connect(path) as con:
        con.execute("ALTER TABLE s.t ADD COLUMN b INTEGER")
        con.execute("INSERT INTO s.t VALUES (1, 2)")
    with tidewheel.connect(path) as con:
        assert con.execute("FROM s.v").fetchall() == [(1,)]
        assert con.execute("FROM w").fetchall() == [(1,)]
        with pytest.raises(tidewheel.Error):
            con.execute("DROP SCHEMA s")
        con.execute("DROP SCHEMA s CASCADE")
        assert con.execute("FROM tidewheel_views()").fetchall() == []


def test_a_view_is_filled_when_it_is_read_again_after_a_change(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT s + 1 AS s FROM v")
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:

        def read(reader: tidewheel.Connection) -> tuple[list[object], bool]:
            rows = [row[0] for row in reader.execute("FROM w").fetchall()]
            return rows, con._session.views.registry.views["a.main.w"].hot

        assert read(con) == read(other) == ([2], False)
        con.execute("BEGIN; INSERT INTO t VALUES (2)")
        assert (read(con), read(other)) == (([4], False), ([2], False))
        con.execute("ROLLBACK")
        assert read(other) == ([2], False)
        con.execute("INSERT INTO t VALUES (3)")
        assert read(con) == read(other) == ([5], True)
    with tidewheel.connect(path) as con:
        assert con.execute("FROM w").fetchall() == [(5,)]
        con.execute("INSERT INTO t VALUES (3)")
        con.execute("INSERT INTO t VALUES (3)")
        assert con.execute("FROM w").fetchall() == [(11,)]
        con.execute("CREATE OR REPLACE TABLE t AS SELECT 7 AS x")
        assert con.execute("FROM w").fetchall() == [(8,)]


@pytest.mark.parametrize(
    ("made", "drop"),
    [
        (
            "CREATE SEQUENCE q; CREATE TABLE t (i INTEGER); ALTER SEQUENCE q OWNED BY t",
            "DROP SEQUENCE q CASCADE",
        ),
        (
            "CREATE SCHEMA z; CREATE SEQUENCE z.q;"
            " CREATE TABLE t (i INTEGER, j INTEGER DEFAULT nextval('z.q'))",
            "DROP SCHEMA z CASCADE",
        ),
        (
            "CREATE SEQUENCE q; CREATE VIEW t AS SELECT 1 AS i; ALTER SEQUENCE q OWNED BY t",
            "DROP SEQUENCE q CASCADE",
        ),
    ],
)
def test_cascade_takes_along_the_views_of_what_depends_on_it(made: str, drop: str) -> None:
    with tidewheel.connect() as con:
        con.execute(made)
        con.execute("CREATE TABLE other (i INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT i FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS FROM v")
        con.execute("CREATE MATERIALIZED VIEW kept AS FROM other")
        con.execute(f"BEGIN; {drop}; ROLLBACK")
        con.execute("FROM w").fetchall()
        con.execute(drop)
        names = con.execute("SELECT view_name FROM tidewheel_views()").fetchall()
        assert names == [("kept",)]
        con.execute("CREATE TABLE t (i INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT i + 1 AS i FROM t")
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(2,)]


def test_a_macro_takes_along_a_table_and_its_views() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE MACRO m(x) AS x + 1")
        con.execute("CREATE TABLE t (i INTEGER, g INTEGER GENERATED ALWAYS AS (m(i)))")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(g) AS g FROM t")
        con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(tidewheel.Error, match="entries that depend on it"):
            con.execute("DROP MACRO m")
        assert con.execute("FROM v").fetchall() == [(2,)]
        con.execute("DROP MACRO m CASCADE")
        assert con.execute("SELECT view_name FROM tidewheel_views()").fetchall() == []
        assert con.execute("SHOW TABLES").fetchall() == []


BEHIND = {
    "DROP VIEW p": ("CREATE VIEW p AS SELECT i + 1 AS x FROM t", "SELECT x FROM p"),
    "DROP MACRO z.m": ("CREATE MACRO z.m(a) AS a + 1", "SELECT z.m(i) AS x FROM t"),
    "DROP MACRO TABLE s": (
        "CREATE MACRO s() AS TABLE SELECT i + 1 AS x FROM t",
        "SELECT x FROM s()",
    ),
    "DROP TYPE z.e": (
        "CREATE TYPE z.e AS ENUM ('2', '3')",
        "SELECT (i + 1)::VARCHAR::z.e AS x FROM t",
    ),
    "DROP SCHEMA z": ("CREATE MACRO z.m(a) AS a + 1", "SELECT z.m(i) AS x FROM t"),
}


@pytest.mark.parametrize("drop", BEHIND)
def test_what_is_behind_a_view_takes_it_along(drop: str) -> None:
    made, query = BEHIND[drop]
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA z; CREATE TABLE t (i INTEGER); CREATE TABLE z.u (i INTEGER)")
        con.execute(made)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("CREATE MATERIALIZED VIEW twice AS SELECT count(*) AS n FROM v")
        con.execute(f"CREATE MATERIALIZED VIEW again AS SELECT DISTINCT * FROM ({query})")
        con.execute("CREATE MATERIALIZED VIEW other AS SELECT i FROM t")
        con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(tidewheel.Error):
            con.execute(drop)
        con.execute("BEGIN")
        if drop == "DROP VIEW p":
            con.execute(f"{drop} CASCADE")
        else:  # to see that it can't be read ends the transaction
            with pytest.raises(tidewheel.Error, match=r"main\.v") as caught:
                con.execute(f"{drop} CASCADE")
            assert caught.value.hint == "drop those views first, or end the transaction"
        con.execute("ROLLBACK")
        con.execute("INSERT INTO t VALUES (2)")
        assert sorted(con.execute("SELECT x::VARCHAR FROM v").fetchall()) == [("2",), ("3",)]
        con.execute(f"{drop} CASCADE")
        assert con.execute("SELECT view_name FROM tidewheel_views()").fetchall() == [("other",)]
        con.execute("INSERT INTO t VALUES (9)")
        assert sorted(con.execute("FROM other").fetchall()) == [(1,), (2,), (9,)]


def test_a_recursive_view_is_replaced_below_a_view(con: tidewheel.Connection) -> None:
    query = "VALUES (1) UNION ALL SELECT n + 1 FROM nums WHERE n"
    made = f"CREATE {{}}RECURSIVE VIEW nums (n) AS {query} < {{}}"
    con.execute(made.format("", 5))
    con.execute("CREATE MATERIALIZED VIEW twice AS SELECT n * 2 AS d FROM nums")
    con.execute(made.format("OR REPLACE ", 7))
    assert con.execute("SELECT max(d) FROM twice").fetchall() == [(14,)]
    with pytest.raises(tidewheel.ProgrammingError, match="hides from this connection"):
        con.execute(made.format("TEMP ", 3))
    assert con.execute("SELECT max(d) FROM twice").fetchall() == [(14,)]


@pytest.mark.parametrize(
    "query",
    [
        "FROM w",
        "SELECT * FROM main.W WHERE b > 1",
        "FROM plain",
        "SELECT a FROM t WHERE a IN (FROM w)",
    ],
)
def test_a_view_is_not_replaced_by_what_reads_it(con: tidewheel.Connection, query: str) -> None:
    """The old view goes first: its name was said to be unknown, or meant for another one."""
    con.execute("CREATE VIEW plain AS FROM w")
    before = con.execute("FROM w").fetchall()
    with pytest.raises(tidewheel.ProgrammingError, match="can't read itself") as caught:
        con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW w AS {query}")
    assert "give the new view another name" in (caught.value.hint or "")
    assert con.execute("FROM w").fetchall() == before
    con.execute("CREATE OR REPLACE MATERIALIZED VIEW w AS WITH w AS (SELECT 5 AS b) FROM w")
    assert con.execute("FROM w").fetchall() == [(5,)]


@pytest.mark.parametrize("kind", ["VIEW", "TABLE", "MATERIALIZED VIEW", "TABLE IF EXISTS"])
def test_renamed_as_a_view_or_a_table(con: tidewheel.Connection, kind: str) -> None:
    """DuckDB's ALTER TABLE renames views as well; the registry did not hear of it."""
    con.execute(f"ALTER {kind} w RENAME TO x")
    con.execute("INSERT INTO t VALUES (3, 30)")
    assert con.execute("FROM x").fetchall() == [(60,)]
    con.execute("CREATE TABLE w (i INTEGER); ALTER TABLE w RENAME TO y; FROM y")
    assert con.execute("VERIFY VIEW x").fetchall() == []


def test_with_data_as_postgresql_has_it() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE data (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM data\nWITH DATA;")
        con.execute("CREATE MATERIALIZED VIEW w AS WITH data AS (SELECT 1 AS y) FROM data")
        con.execute("INSERT INTO data VALUES (3)")
        assert con.execute("SELECT s, y FROM v, w").fetchall() == [(3, 1)]
        with pytest.raises(tidewheel.NotSupportedError, match="always has its rows") as failed:
            con.execute("CREATE MATERIALIZED VIEW u AS FROM data WITH NO DATA")
        assert "WITH NO DATA" in str(failed.value)


def test_alter_names_the_view_that_cannot_go_on() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT, b INT, s INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT b + 1 AS c FROM t")
        with pytest.raises(
            tidewheel.ProgrammingError, match=r'main\.w \(.*"b" not found'
        ) as caught:
            con.execute("ALTER TABLE t DROP COLUMN b")
        assert "main.v" not in str(caught.value)
        with pytest.raises(tidewheel.ProgrammingError, match=r"main\.w \("):
            con.execute("ALTER TABLE t RENAME COLUMN b TO bb")
        con.execute("ALTER TABLE t RENAME COLUMN s TO ss")


def test_a_view_of_a_detached_database_is_named() -> None:
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS d; CREATE TABLE d.x (a INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM d.x; DETACH d")
        with pytest.raises(tidewheel.ProgrammingError) as caught:
            con.execute("FROM v")
        assert caught.value.hint == "so fails the query of maintained view main.v"


def test_a_renamed_view_says_so_to_its_subscribers() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS FROM t")
        subscription = con.subscribe("v")
        subscription.read()
        con.execute("ALTER MATERIALIZED VIEW v RENAME TO w")
        with pytest.raises(tidewheel.OperationalError, match="renamed") as caught:
            subscription.read()
        assert "subscribe again" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("followed", "x"), "an epoch is a whole number, not 'x'"),
        (("followed", 1.5), "an epoch is a whole number, not 1.5"),
        (("followed", -1), "an epoch is a whole number, not -1"),
        ((5,), "the view is named by a text, not by 5"),
        ((None,), "the view is named by a text, not by None"),
        (("followed; drop table t",), "a view's name alone is expected"),
        (("followed as of epoch 3",), "a view's name alone is expected"),
    ],
)
def test_what_no_subscription_begins_with(
    con: tidewheel.Connection, arguments: tuple[Any, ...], message: str
) -> None:
    con.execute("CREATE MATERIALIZED VIEW followed AS SELECT 1 AS one")
    with pytest.raises(tidewheel.ProgrammingError, match=message):
        con.subscribe(*arguments)


def test_a_table_made_from_the_recursion_of_a_view() -> None:
    """The view, which is looked at again, has the names that the statement's rows go by."""
    below = (
        "WITH RECURSIVE r (top, id) AS (SELECT id, id FROM e UNION ALL SELECT r.top, e.id "
        "FROM r JOIN e ON e.boss = r.id) SELECT top, sum(pay) AS s FROM r JOIN e USING (id) "
        "GROUP BY top"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e AS SELECT i AS id, i // 2 AS boss, 1 AS pay FROM range(9) q(i)")
        con.execute("DELETE FROM e WHERE id = 0")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {below}")
        con.execute(f"CREATE TABLE made AS {below}")
        assert con.execute("FROM v EXCEPT FROM made").fetchall() == []
        con.execute("INSERT INTO e VALUES (20, 5, 7)")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("FROM v EXCEPT FROM made ORDER BY 1").fetchall() == [
            (1, 15), (2, 11), (5, 8), (20, 7),
        ]  # fmt: skip


@pytest.mark.parametrize("name", ["TABLE made", "TEMP TABLE made", "OR REPLACE TABLE made"])
@pytest.mark.parametrize("begin", [False, True])
def test_a_table_made_of_a_view_that_views_read(name: str, begin: bool) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (1), (2)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(n) AS s FROM v")
        if begin:
            con.execute("BEGIN; INSERT INTO t VALUES (2)")
        con.execute(f"CREATE {name} AS SELECT a, n, s FROM v, w")
        expected = con.execute("SELECT a, n, s FROM v, w ORDER BY a").fetchall()
        assert con.execute("FROM made ORDER BY a").fetchall() == expected
        assert expected == ([(1, 2, 4), (2, 2, 4)] if begin else [(1, 2, 3), (2, 1, 3)])


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other AS FROM kept",
        "CREATE TABLE other (kept INTEGER)",
        "CREATE TEMP TABLE other AS FROM totals",
        "CREATE VIEW other AS SELECT n FROM kept",
        "CREATE OR REPLACE MACRO other(x) AS TABLE SELECT * FROM kept WHERE n = x",
        "CREATE UNIQUE INDEX by_n ON kept (n)",
    ],
)
def test_what_only_reads_a_table_leaves_its_views_as_they_are(statement: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE kept AS SELECT 1 AS n")
        con.execute("CREATE MATERIALIZED VIEW totals AS SELECT sum(n) AS s FROM kept")
        con.execute("CREATE MATERIALIZED VIEW doubled AS SELECT 2 * s AS d FROM totals")
        con.execute("INSERT INTO kept VALUES (2)")
        before = con.execute("EXPLAIN VIEW doubled").fetchall()
        con.execute(statement)
        assert con.execute("EXPLAIN VIEW doubled").fetchall() == before
        con.execute("INSERT INTO kept VALUES (4)")
        assert con.execute("FROM doubled").fetchall() == [(14,)]


def test_views_that_are_called_as_columns_of_what_they_read() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS total FROM t")
        con.execute("CREATE MATERIALIZED VIEW total AS SELECT total + 1 AS more FROM v")
        con.execute("CREATE VIEW plain AS SELECT total FROM v; ALTER TABLE t ADD COLUMN b INTEGER")
        con.execute("INSERT INTO t VALUES (3, 4)")
        assert con.execute("FROM plain, total").fetchall() == [(3, 4)]
