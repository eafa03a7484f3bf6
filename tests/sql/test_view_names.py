"""What the names in a view's query mean: where it was made, in files that move, in schemas."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

import tidewheel


def test_tables_of_one_name_in_several_schemas() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t (a INTEGER); CREATE TABLE t (a INTEGER)")
        con.execute("CREATE SCHEMA q; CREATE VIEW q.u AS SELECT 1 AS a; CREATE TABLE u (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM u JOIN s.t USING (a)")
        con.execute("CREATE MATERIALIZED VIEW x AS SELECT count(*) AS n FROM main.t, q.u")
        con.execute("INSERT INTO t VALUES (2), (3); INSERT INTO s.t VALUES (3), (4)")
        con.execute("INSERT INTO u VALUES (3)")
        assert con.execute("SELECT v.n, w.n, x.n FROM v, w, x").fetchall() == [(2, 1, 2)]
        con.execute("SET fusion = 'off'")
        assert con.execute("SELECT count(*) FROM t, s.t AS o, u").fetchall() == [(4,)]


def test_names_mean_what_they_meant_where_the_view_was_made(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    check = "SELECT v.n, w.m FROM s.v, s.w"
    with tidewheel.connect(path) as con:
        con.execute("CREATE SCHEMA s; USE s; CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT n + 1 AS m FROM v")
        con.execute("USE main; CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2), (3), (4)")
        assert con.execute(check).fetchall() == [(1, 2)]
        con.execute("INSERT INTO s.t VALUES (2)")
        assert con.execute(check).fetchall() == [(2, 3)]
        con.execute("BEGIN; INSERT INTO s.t VALUES (3)")
        assert con.execute(check).fetchall() == [(3, 4)]
        with pytest.raises(tidewheel.Error):
            con.execute("SELECT * FROM nowhere")
        con.execute("ROLLBACK")
        assert con.execute("SELECT current_schema()").fetchall() == [("main",)]
        assert con.execute("VERIFY VIEW s.w").fetchall() == []
        con.execute("ALTER TABLE s.t ADD COLUMN b INTEGER")
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(4,)]
    with tidewheel.connect(path) as con:
        con.execute("SET search_path = 'main,s'")
        con.execute("INSERT INTO s.t VALUES (4, 4)")
        assert con.execute(check).fetchall() == [(3, 4)]
        assert con.execute("SELECT current_schemas(false)").fetchall() == [(["main", "s"],)]
        reads = con.execute("SELECT reads FROM tidewheel_views() ORDER BY view_name").fetchall()
        assert reads == [(["a.s.t"],), (["a.s.v"],)]


def test_a_file_that_was_copied(tmp_path: Path) -> None:
    with tidewheel.connect(str(tmp_path / "a.db")) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT n + 1 AS m FROM v")
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with tidewheel.connect(str(tmp_path / "b.db")) as con:
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("SELECT n, m FROM v, w").fetchall() == [(1, 2)]
        con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("SELECT n, m FROM v, w").fetchall() == [(2, 3)]
        con.execute("DROP MATERIALIZED VIEW w")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT n + 2 AS m FROM v")
        names = con.execute("SELECT database_name, view_name FROM tidewheel_views()").fetchall()
        assert sorted(names) == [("b", "v"), ("b", "w")]
    with tidewheel.connect(str(tmp_path / "c.db")) as con:
        # another file's views are not taken for ours
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT 7 AS n; ATTACH '{tmp_path}/a.db' AS a")
        assert con.execute("FROM v").fetchall() == [(7,)]
        with pytest.raises(tidewheel.Error):
            con.execute("FROM a.main.v").fetchall()
    with tidewheel.connect(str(tmp_path / "b.db")) as con:
        assert con.execute("SELECT n, m FROM v, w").fetchall() == [(2, 4)]


def test_a_plan_outlives_the_connection_that_made_it() -> None:
    with tidewheel.connect(":memory:outlives") as a:
        with tidewheel.connect(":memory:outlives") as b:
            b.execute("CREATE TABLE t (a INTEGER)")
            b.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t LIMIT 100%")
            b.execute("INSERT INTO t VALUES (1)")
        a.execute("INSERT INTO t VALUES (2)")
        assert sorted(a.execute("FROM v").fetchall()) == [(1,), (2,)]


def test_a_cte_hides_a_table_or_view_of_its_name() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE TABLE r (n INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        con.execute("CREATE MATERIALIZED VIEW x AS WITH v AS (SELECT 5 AS q) FROM v, t")
        con.execute(
            "CREATE MATERIALIZED VIEW y AS WITH RECURSIVE r (n) AS "
            "(SELECT 1 UNION SELECT a FROM t JOIN r ON a = n + 1) FROM r"
        )
        # in the first CTE its name is the table's, and so is that of a later one
        con.execute("CREATE MATERIALIZED VIEW z AS WITH t AS (SELECT a + 1 AS a FROM t) FROM t")
        con.execute(
            "CREATE MATERIALIZED VIEW w AS WITH k AS (FROM r), r AS (SELECT 1 AS m) FROM k, r"
        )
        query = "SELECT view_name, reads FROM tidewheel_views() ORDER BY view_name"
        assert [
            (name, [r[12:] for r in reads]) for name, reads in con.execute(query).fetchall()
        ] == [
            ("v", ["t"]),
            ("w", ["r"]),
            ("x", ["t"]),
            ("y", ["t"]),
            ("z", ["t"]),
        ]
        con.execute("INSERT INTO t VALUES (2); INSERT INTO r VALUES (8)")
        for view, rows in [("x", [(5, 2)]), ("y", [(1,), (2,)]), ("z", [(3,)]), ("w", [(8, 1)])]:
            assert sorted(con.execute(f"FROM {view}").fetchall()) == rows
        con.execute("DROP MATERIALIZED VIEW v")


def test_a_copied_database_beside_its_original(tmp_path: Path) -> None:
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    with tidewheel.connect(first) as con:
        con.execute("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        con.execute("CREATE VIEW p AS SELECT s + 1 AS s FROM v")
    shutil.copy(first, second)
    with tidewheel.connect(first) as con:
        con.execute(f"ATTACH '{second}' AS b")
        con.execute("INSERT INTO b.t VALUES (100)")
        con.execute("INSERT INTO t VALUES (2)")
        for text in ("FROM b.v", "SELECT (SELECT s FROM b.v)", "FROM b.main.v, v"):
            with pytest.raises(tidewheel.NotSupportedError, match=r"b\.main\.v is maintained by"):
                con.execute(text).fetchall()
        assert con.execute("SELECT sum(x) FROM b.t").fetchall() == [(101,)]
        assert con.execute("FROM v, p").fetchall() == [(3, 4)]
        con.execute("DETACH b")
        assert con.execute("FROM p").fetchall() == [(4,)]
    with tidewheel.connect(second) as con:
        assert con.execute("FROM v").fetchall() == [(101,)]


def test_what_is_temporary_hides_nothing_from_a_view() -> None:
    """DuckDB takes a temporary table, macro or type before any other of its name."""
    name = ":memory:hidden"
    hides = "a temporary {} of this connection hides {}, which the maintained view main.{} reads"
    with tidewheel.connect(name) as a, tidewheel.connect(name) as b:
        a.execute(
            "CREATE TABLE t (n INTEGER); CREATE MACRO f(x, y := 1) AS x + y; CREATE TABLE u (m INT)"
        )
        b.execute("CREATE TEMP TABLE t (n INTEGER); CREATE TEMP MACRO f(x, y := 9) AS x + y")
        a.execute("CREATE MATERIALIZED VIEW kept AS SELECT sum(n) AS n FROM t")
        a.execute("CREATE MATERIALIZED VIEW run AS SELECT n FROM t LIMIT 100%")
        b.execute("INSERT INTO t VALUES (7)")
        with pytest.raises(tidewheel.ProgrammingError, match=hides.format("table", "t", "run")):
            b.execute("INSERT INTO memory.main.t VALUES (1)")
        a.execute("INSERT INTO t VALUES (2)")
        assert a.execute("FROM kept, run").fetchall() == [(2, 2)]
        b.execute("BEGIN; INSERT INTO memory.main.t VALUES (1)")
        with pytest.raises(tidewheel.ProgrammingError, match="drop the temporary table"):
            b.execute("FROM kept")
        b.execute("ROLLBACK; DROP TABLE temp.t; INSERT INTO t VALUES (3)")
        assert sorted(b.execute("FROM kept, run").fetchall()) == [(5, 2), (5, 3)]
        a.execute("CREATE MATERIALIZED VIEW called AS SELECT f(m) AS m FROM u")
        with pytest.raises(tidewheel.ProgrammingError, match=hides.format("macro", "f", "called")):
            b.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(tidewheel.ProgrammingError, match="hides f"):
            a.execute("CREATE TEMP MACRO f(x, y := 5) AS x + y")
        with pytest.raises(tidewheel.ProgrammingError, match=r"hides .*: main\.kept") as caught:
            a.execute("CREATE TEMPORARY TABLE t (n INTEGER)")
        assert caught.value.hint == "give it another name"
        a.execute("INSERT INTO u VALUES (1)")
        assert a.execute("FROM called").fetchall() == [(2,)]
        assert a.execute(
            "SELECT reason FROM tidewheel_views() WHERE view_name = 'called'"
        ).fetchall() == [("it calls the macro f",)]
        b.execute("DROP MACRO f; INSERT INTO u VALUES (2)")
        assert sorted(b.execute("FROM called").fetchall()) == [(2,), (3,)]


def test_tables_that_a_copied_database_brings() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE z AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM z")
        con.execute("ATTACH ':memory:' AS old; ATTACH ':memory:' AS new")
        con.execute("CREATE TABLE old.a AS SELECT 1 AS x")
        con.execute("INSERT INTO z VALUES (2)")  # the catalog is known
        con.execute("COPY FROM DATABASE old TO new")
        con.execute("INSERT INTO new.a VALUES (5)")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(x) AS s FROM new.a")
        con.execute("INSERT INTO new.a VALUES (7)")
        assert con.execute("FROM w").fetchall() == [(13,)]


@pytest.mark.parametrize("columns", ["", "(x)", "(x, X)"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, a_1, a FROM t",
        "SELECT a, A, a_1, a_1 FROM t",
        "SELECT t.a, u.a, count(*), count(*) FROM t JOIN t u ON t.a = u.a_1 GROUP BY ALL",
        "FROM t x, t y",
        "SELECT a, a FROM t POSITIONAL JOIN (SELECT 1) AS o",
        "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT n + 1 FROM r WHERE n < 3) "
        "SELECT n, n FROM r",
    ],
)
def test_columns_of_one_name_are_numbered_as_in_duckdb(query: str, columns: str) -> None:
    with tidewheel.connect() as con, duckdb.connect() as plain:
        for each in (con, plain):
            each.execute("CREATE TABLE t (a INTEGER, a_1 INTEGER)")
        plain.execute(f"CREATE VIEW v {columns} AS {query}")
        con.execute(f"CREATE MATERIALIZED VIEW v {columns} AS {query}")
        for each in (con, plain):
            each.execute("INSERT INTO t VALUES (1, 2), (2, 2)")
        for asked in ("SELECT column_name FROM (DESCRIBE v)", "FROM v ORDER BY ALL"):
            assert con.execute(asked).fetchall() == plain.execute(asked).fetchall()
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO 'sp ace' VALUES (7, 'x')",
        "INSERT INTO 'sp ace' VALUES (1, 'x') ON CONFLICT DO UPDATE SET b = excluded.b",
        "WITH q AS (SELECT 7 AS a) INSERT INTO 'sp ace' BY NAME SELECT a FROM q",
        "UPDATE 'sp ace' SET b = 'y' WHERE a = 1 RETURNING b",
        "DELETE FROM 'sp ace' WHERE a = 2",
        "MERGE INTO 'sp ace' USING (SELECT 1 AS a) AS s USING (a) WHEN MATCHED THEN DELETE",
        "TRUNCATE 'sp ace'",
    ],
)
def test_names_in_single_quotes_are_names(change: str) -> None:
    """DuckDB takes them where a table is named by one word."""
    with tidewheel.connect() as con, duckdb.connect() as plain:
        for each in (con, plain):
            each.execute("CREATE TABLE 'sp ace' (a INTEGER PRIMARY KEY, b VARCHAR)")
            each.execute("INSERT INTO \"sp ace\" VALUES (1, 'a'), (2, 'b')")
        con.execute("CREATE MATERIALIZED VIEW 'v v' AS SELECT b, a FROM 'sp ace'")
        con.execute("FROM 'v v'").fetchall()
        for each in (con, plain):
            each.execute(change)
        for asked in ("SELECT a, b FROM 'v v' ORDER BY a", "SELECT a, b FROM 'sp ace' ORDER BY a"):
            expected = plain.execute("SELECT a, b FROM 'sp ace' ORDER BY a").fetchall()
            assert con.execute(asked).fetchall() == expected
        for refused in ("DROP TABLE 'sp ace'", "ALTER TABLE 'sp ace' DROP b", "DROP VIEW 'v v'"):
            with pytest.raises(tidewheel.Error, match="maintained view"):
                con.execute(refused)
        con.execute("DROP MATERIALIZED VIEW 'v v'")
        con.execute("CREATE VIEW 'p p' AS SELECT 1; DROP VIEW 'p p'; DROP TABLE 'sp ace'")


def test_names_with_a_quote_in_them() -> None:
    with tidewheel.connect() as con:
        con.execute('CREATE TABLE "q""u" (a INTEGER)')
        con.execute('CREATE MATERIALIZED VIEW "v""w" AS SELECT sum(a) AS s FROM "q""u"')
        for a in (1, 2, 3):
            con.execute(f'INSERT INTO "q""u" VALUES ({a})')
            con.execute('UPDATE "q""u" SET a = a + 1')
            assert (
                con.execute('FROM "v""w"').fetchall()
                == con.execute('SELECT sum(a) FROM "q""u"').fetchall()
            )
        with pytest.raises(tidewheel.Error, match="maintained view"):
            con.execute('DROP TABLE "q""u"')


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("name", ["weight", "rowid", "merge_action", "excluded", 'a"b'])
def test_columns_of_names_that_the_engine_has_too(name: str, key: bool) -> None:
    """Under incremental and recomputed views: one called `weight` couldn't be changed at all."""
    c = '"' + name.replace('"', '""') + '"'
    views = [
        f"SELECT {c}, count(*) AS n FROM t GROUP BY {c}",
        f"SELECT x.{c}, y.o AS p FROM t AS x LEFT JOIN t AS y ON x.{c} = y.o",
        f"SELECT *, row_number() OVER (ORDER BY o, {c}) AS r FROM t",
        f"SELECT {c}, count(*) AS n, max(hash(COLUMNS(*))) FROM t GROUP BY {c}",
    ]
    changes = [
        "INSERT INTO t VALUES (20, 1)",
        "INSERT INTO t SELECT o + 10, 3 FROM t LIMIT 2",
        f"INSERT INTO t BY NAME SELECT 5 AS {c}, 33 AS o",
        f"UPDATE t SET {c} = {c} + 1 WHERE {c} = 2 RETURNING *",
        f"UPDATE t SET {c} = {c} + 1",
        f"MERGE INTO t USING (SELECT 33 AS z) ON o = z WHEN MATCHED THEN UPDATE SET {c} = 9",
        f"DELETE FROM t WHERE {c} = 3",
    ]
    if key:
        changes += [
            f"INSERT INTO t VALUES (20, 4) ON CONFLICT (o) DO UPDATE SET {c} = excluded.{c} + 1",
            "INSERT OR REPLACE INTO t VALUES (20, 5)",
        ]
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (o INTEGER{' PRIMARY KEY' if key else ''}, {c} INTEGER)")
        con.execute("INSERT INTO t SELECT i, i % 3 FROM range(6) r(i)")
        for i, query in enumerate(views):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        follow = con.subscribe("v0")
        follow.read(0)
        for change in [*changes, "BEGIN", *changes[3:5], "COMMIT"]:
            con.execute(change)
            assert [con.execute(f"VERIFY VIEW v{i}").fetchall() for i in range(4)] == [[]] * 4
        n = follow.read(0)
        assert n is not None
        assert n.delta.schema.names == [name, "n", "weight"]
        reader = con.cursor().execute("SUBSCRIBE v0")
        labels = [d[0] for d in reader.description or ()]
        assert labels == ["epoch", "weight", "progress", name, "n"]
        assert sum(row[4] * row[1] for row in reader.fetchmany(3) if not row[2]) > 0


def test_names_in_forms_of_recursion_that_are_ours_alone() -> None:
    """sqlglot can't parse these: columns, aliases and the view's own name were taken for tables."""
    mutually = """
        CREATE MATERIALIZED VIEW reach AS
        WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 100)
            far (x INTEGER, y INTEGER) AS (
                SELECT a, b FROM e UNION SELECT f.x, reach.y FROM far f JOIN reach ON reach.x = f.y
            ), reach (x INTEGER, y INTEGER) AS (FROM far)
        FROM reach"""
    searched = """
        CREATE MATERIALIZED VIEW walk AS
        WITH RECURSIVE walk (a, b) AS (
            SELECT a, b FROM e UNION ALL SELECT walk.a, e.b FROM walk JOIN e ON walk.b = e.a
        ) SEARCH DEPTH FIRST BY a, b SET place CYCLE b SET again USING way
        SELECT a, b FROM walk"""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (a INTEGER, b INTEGER); CREATE TABLE x (i INTEGER)")
        con.execute(mutually)
        con.execute(searched)
        con.execute("CREATE TABLE far (i INTEGER); CREATE TABLE way (i INTEGER)")
        reads = con.execute(
            "SELECT view_name, reads FROM tidewheel_views() ORDER BY ALL"
        ).fetchall()
        assert reads == [("reach", ["memory.main.e"]), ("walk", ["memory.main.e"])]
        con.execute("DROP TABLE x; DROP TABLE far; DROP TABLE way")
        con.execute("INSERT INTO e VALUES (1, 2), (2, 3)")
        assert sorted(con.execute("FROM reach").fetchall()) == [(1, 2), (1, 3), (2, 3)]
        assert sorted(con.execute("FROM walk").fetchall()) == [(1, 2), (1, 3), (2, 3)]
        with pytest.raises(tidewheel.Error, match="read what this statement changes"):
            con.execute("DROP TABLE e")


def test_a_recursion_that_is_ours_alone_over_the_catalog() -> None:
    query = "t (n BIGINT) AS (SELECT count(*) FROM duckdb_schemas) FROM t"
    with (
        tidewheel.connect() as con,
        pytest.raises(tidewheel.Error, match="can't read duckdb_schem"),
    ):
        con.execute(f"CREATE MATERIALIZED VIEW v AS WITH MUTUALLY RECURSIVE {query}")


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_a_plain_view_means_the_types_of_its_schema(fusion: str) -> None:
    with tidewheel.connect(fusion=fusion) as con:
        con.execute("CREATE SCHEMA s; CREATE TYPE s.mood AS ENUM ('a', 'b', 'c')")
        con.execute("CREATE TYPE mood AS ENUM ('c', 'b', 'a'); CREATE TABLE s.t (m VARCHAR)")
        con.execute("USE s; CREATE VIEW p AS SELECT m, m::mood > 'b'::mood AS late FROM t")
        con.execute("USE main; CREATE MATERIALIZED VIEW v AS FROM s.p")
        con.execute("INSERT INTO s.t VALUES ('a'), ('c')")
        for name in ("s.p", "v"):
            assert sorted(con.execute(f"FROM {name}").fetchall()) == [("a", False), ("c", True)]


@pytest.mark.parametrize("word", ["map", "grant", "lock", "xor", "regexp", "force", "drop"])
def test_words_of_other_dialects_are_names(word: str) -> None:
    query = f"""SELECT {word}.{word}, count(*) AS n, max({word}.m) AS m
        FROM (SELECT b AS {word}, max(a) OVER (PARTITION BY b) AS m FROM t) {word}
        JOIN t u ON u.b = {word}.{word} GROUP BY ALL"""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (1, 1), (2, 1)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert kept == [("incremental",)]
        con.execute("INSERT INTO t VALUES (3, 1), (3, 2), (NULL, NULL)")
        con.execute("UPDATE t SET b = 2 WHERE a = 2")
        assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())


@pytest.mark.parametrize("word", ["between", "insert", "values", "cube", "rollup", "if"])
def test_words_of_the_grammar_are_names(word: str) -> None:
    query = f"""SELECT {word}, count(*) AS n, max({word} + 1) AS m FROM {word} AS q
        WHERE {word} BETWEEN 0 AND 5 GROUP BY {word} HAVING {word} > 0"""
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute(f'CREATE TABLE "{word}" ("{word}" INTEGER)')
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        kept = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert kept == [("incremental",)]
        for change in (
            "INSERT INTO {} VALUES (1), (1), (2), (NULL)",
            "DELETE FROM {0} WHERE {0} = 2",
        ):
            for each in (con, duck):
                each.execute(change.format(f'"{word}"'))
            assert sorted(con.execute("FROM v").fetchall()) == sorted(
                duck.execute(query).fetchall()
            )


@pytest.mark.parametrize("word", ["current_date", "localtime", "current_timestamp"])
def test_a_column_may_be_given_the_name_of_a_value(word: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT a AS {word} FROM t")
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(1,)]
        with pytest.raises(tidewheel.Error, match="its value changes while no table does"):
            con.execute(f"CREATE MATERIALIZED VIEW w AS SELECT {word} AS a FROM t")
