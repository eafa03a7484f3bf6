"""Maintained views over DuckDB's plain views: of other schemas, and with recursions."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

import tidewheel

SETUP = """
CREATE SCHEMA s; CREATE SCHEMA o;
CREATE TABLE e(a INT, b INT); CREATE TABLE s.e(a INT, b INT); CREATE TABLE n(a INT, k VARCHAR);
INSERT INTO e VALUES (1, 2), (2, 3), (3, 1), (4, 5);
INSERT INTO s.e VALUES (1, 4), (4, 1), (5, 5);
INSERT INTO n VALUES (1, 'x'), (3, 'y');
CREATE MACRO many() AS (SELECT count(*) FROM e);
CREATE MACRO rows_of(k) AS TABLE SELECT * FROM e WHERE a >= k;
CREATE VIEW own AS FROM e;
CREATE VIEW s.own AS FROM e;
CREATE VIEW s.joined AS SELECT e.a, n.k FROM e JOIN n USING (a);
CREATE VIEW s.through AS FROM own WHERE a < 5;
CREATE VIEW s.called AS SELECT a, many() AS m FROM rows_of(2);
CREATE VIEW o.outer_one AS SELECT a FROM s.through UNION ALL SELECT b FROM e;
CREATE VIEW s.part AS SELECT a, (SELECT count(*) FROM e x WHERE x.b = y.a) AS c FROM e y;
CREATE VIEW s.kept AS SELECT * FROM (SELECT a FROM e) POSITIONAL JOIN (SELECT b FROM e ORDER BY b);
CREATE VIEW reach AS WITH RECURSIVE r(a, b) AS (
    FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) FROM r;
CREATE VIEW s.reach AS WITH RECURSIVE r(a, b) AS (
    FROM e UNION SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) FROM r;
CREATE VIEW counted(a, c) AS SELECT a, count(*) FROM reach GROUP BY a;
CREATE VIEW levels AS WITH RECURSIVE r(a, l) AS (
    SELECT 1, 0 UNION ALL SELECT e.b, l + 1 FROM r JOIN e USING (a) WHERE l < 4) FROM r;
CREATE VIEW farther AS WITH RECURSIVE r(a, b) AS (
    SELECT a, a + 3 FROM n UNION SELECT r.a, x.b FROM r JOIN reach x ON r.b = x.a) FROM r;
"""
QUERIES = {
    "own": "SELECT * FROM own",
    "of another schema": "SELECT * FROM s.own",
    "both": "SELECT x.a, y.b FROM own x JOIN s.own y ON x.b = y.a",
    "a table of main": "SELECT * FROM s.joined",
    "a view over a view": "SELECT * FROM s.through",
    "two schemas deep": "SELECT a, count(*) FROM o.outer_one GROUP BY a",
    "macros": "SELECT * FROM s.called",
    "a correlated subquery": "SELECT * FROM s.part",
    "kept whole": "SELECT * FROM s.kept",
    "a recursion": "SELECT * FROM reach WHERE a = 1",
    "a recursion of another schema": "SELECT * FROM s.reach",
    "a recursion twice": "SELECT x.a, y.b FROM reach x JOIN reach y ON x.b = y.a",
    "grouped": "SELECT * FROM counted WHERE c > 1",
    "with duplicates": "SELECT l, count(*) FROM levels GROUP BY l",
    "in a step": "WITH RECURSIVE r(a) AS (SELECT 4 UNION SELECT x.b FROM r JOIN reach x "
    "ON r.a = x.a WHERE x.b IN (SELECT a FROM e)) "
    "SELECT a, (SELECT count(*) FROM reach y WHERE y.a = r.a) FROM r",
    "in an anchor": "WITH RECURSIVE r(a, b) AS (SELECT a, max(b) FROM reach GROUP BY a UNION "
    "SELECT r.a, e.b FROM r JOIN e ON e.a = r.b) FROM r",
    "beside a recursion": "SELECT * FROM (WITH RECURSIVE r(a) AS (SELECT 1 UNION SELECT b FROM r "
    "JOIN e USING (a)) FROM r) JOIN reach USING (a)",
    "a recursion over another's": "SELECT * FROM farther",
    "both of them": "SELECT x.a, y.b FROM farther x JOIN reach y ON x.b = y.a",
    "hidden by a CTE": "WITH reach AS (SELECT a FROM n) FROM reach",
}
RECOMPUTED = {"kept whole"}


def _pair() -> tuple[tidewheel.Connection, duckdb.DuckDBPyConnection]:
    con, plain = tidewheel.connect(), duckdb.connect()
    for statement in SETUP.split(";\n"):
        for each in statement.split("; "):
            if each.strip():
                con.execute(each)
                plain.execute(each)
    return con, plain


@pytest.mark.parametrize("home", ["main", "o"])
@pytest.mark.parametrize("name", QUERIES)
def test_maintained_over_plain_views(name: str, home: str) -> None:
    con, plain = _pair()
    query = QUERIES[name]
    if home == "o":
        for table in ("own", "reach", "counted", "levels"):
            query = re.sub(rf"(FROM|JOIN) {table}\b(?! AS|$)", rf"\1 main.{table}", query)
    drawn = random.Random(name)
    with con:
        for c in (con, plain):
            c.execute(f"USE {home}")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        if name not in RECOMPUTED and home == "main":
            ((how, why),) = con.execute(
                "SELECT maintenance, reason FROM tidewheel_views()"
            ).fetchall()
            assert how == "incremental", why
        for _ in range(25):
            table = drawn.choice(["main.e", "s.e", "main.n"])
            a, b = drawn.randint(1, 6), drawn.randint(1, 6)
            value = f"'{b}'" if table.endswith("n") else b
            change = drawn.choice(
                [
                    f"INSERT INTO {table} VALUES ({a}, {value})",
                    f"DELETE FROM {table} WHERE a = {a}",
                    f"UPDATE {table} SET a = {b} WHERE a = {a}",
                ]
            )
            for c in (con, plain):
                c.execute(change)
            wanted = sorted(plain.execute(query).fetchall(), key=repr)
            assert sorted(con.execute("FROM v").fetchall(), key=repr) == wanted, change
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("name", QUERIES)
def test_queries_by_operators_over_plain_views(name: str) -> None:
    con, plain = _pair()
    with con:
        con.execute("SET fusion = off")
        wanted = sorted(plain.execute(QUERIES[name]).fetchall(), key=repr)
        assert sorted(con.execute(QUERIES[name]).fetchall(), key=repr) == wanted


def test_over_an_attached_database() -> None:
    """A schema that two databases have is the view's own database's in the view."""
    con = tidewheel.connect()
    with con:
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE s.e AS SELECT 1 AS x")
        con.execute("ATTACH ':memory:' AS d")
        con.execute("CREATE SCHEMA d.s")
        con.execute("CREATE TABLE d.s.e AS SELECT 10 AS x")
        con.execute("CREATE VIEW d.main.q AS SELECT x FROM s.e")
        con.execute("SET fusion = off")
        assert con.execute("FROM d.q").fetchall() == [(10,)]


def test_dropping_what_a_view_of_another_schema_reads() -> None:
    con = tidewheel.connect()
    with con:
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE e AS SELECT 1 AS x")
        con.execute("CREATE TABLE s.e AS SELECT 2 AS x")
        con.execute("CREATE VIEW s.q AS FROM e")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM s.q")
        with pytest.raises(tidewheel.Error, match="v"):
            con.execute("DROP TABLE s.e")
        con.execute("DROP TABLE main.e")
        con.execute("INSERT INTO s.e VALUES (3)")
        assert sorted(con.execute("FROM v").fetchall()) == [(2,), (3,)]


def test_tables_of_main_seen_from_another_schema() -> None:
    """After USE o a name is looked for in main, too."""
    con = tidewheel.connect()
    with con:
        con.execute("CREATE SCHEMA o")
        con.execute("CREATE TABLE n AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW in_main AS SELECT count(*) FROM n")
        con.execute("USE o")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM n")
        con.execute("CREATE MATERIALIZED VIEW w AS FROM in_main")
        con.execute("INSERT INTO n VALUES (2)")
        assert sorted(con.execute("FROM v").fetchall()) == [(1,), (2,)]
        assert con.execute("FROM w").fetchall() == con.execute("FROM in_main").fetchall() == [(2,)]
        with pytest.raises(tidewheel.Error, match=r"hides, main\.n: o\.v"):
            con.execute("CREATE TABLE n AS SELECT 7 AS x")
        with pytest.raises(tidewheel.Error, match=r"o\.v"):
            con.execute("DROP TABLE n")


def test_a_search_path_over_two_databases() -> None:
    con = tidewheel.connect()
    with con:
        con.execute("CREATE SCHEMA o")
        con.execute("""ATTACH ':memory:' AS "d b" """)
        con.execute('CREATE SCHEMA "d b"."t,u"')
        con.execute('CREATE TABLE "d b"."t,u".n AS SELECT 1 AS x')
        con.execute("""SET search_path = 'o,"d b"."t,u"'""")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM n")
        con.execute("INSERT INTO n VALUES (2)")
        assert sorted(con.execute("FROM v").fetchall()) == [(1,), (2,)]
        assert con.execute("SELECT reads FROM tidewheel_views()").fetchall() == [(["d b.t,u.n"],)]


def test_a_recursion_that_duckdb_understands_in_another_way(tmp_path) -> None:
    """A view that DuckDB itself made: each step groups the rows of the last, and all are kept."""
    path = tmp_path / "of_duckdb.db"
    with duckdb.connect(str(path)) as plain:
        plain.execute("CREATE TABLE e(a INT, b INT, w INT)")
        plain.execute("INSERT INTO e VALUES (1, 2, 9), (1, 3, 1), (3, 2, 1)")
        plain.execute(
            "CREATE VIEW d AS WITH RECURSIVE d(a, v) AS (SELECT 1, 0 UNION "
            "SELECT b, min(v + w) FROM d JOIN e USING (a) GROUP BY b) FROM d"
        )
        wanted = sorted(plain.execute("FROM d").fetchall())
    with tidewheel.connect(path) as con:
        con.execute("CREATE MATERIALIZED VIEW v AS FROM d")
        assert (
            sorted(con.execute("FROM v").fetchall()) == wanted == [(1, 0), (2, 2), (2, 9), (3, 1)]
        )


def test_a_proof_through_a_view_of_another_schema() -> None:
    con, _ = _pair()
    with con:
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM s.reach WHERE b = 4")
        ((_, text),) = con.execute("EXPLAIN ROW (v, 4)").fetchall()
        assert "<- e (4, 1)" in text
        assert "<- e (1, 4)" in text


def test_plain_recursions_of_a_schema_that_is_not_in_use() -> None:
    """Their names are looked for in the view's own schema first, also when they are made."""
    con = tidewheel.connect()
    with con:
        con.execute("CREATE SCHEMA s")
        con.execute("CREATE TABLE s.own AS SELECT 1 AS a")
        con.execute("CREATE TABLE e AS SELECT 'x' AS a")
        con.execute("CREATE TABLE s.e AS SELECT 2 AS a")
        con.execute(
            "CREATE VIEW s.linear AS WITH RECURSIVE r(a) AS (SELECT a FROM own UNION "
            "SELECT r.a + e.a FROM r, e WHERE r.a < 5) FROM r"
        )
        con.execute(
            "CREATE VIEW s.mutual AS WITH RECURSIVE p(a) AS (SELECT a FROM own UNION "
            "SELECT q.a + e.a FROM q, e WHERE q.a < 5), q(a) AS (SELECT a FROM p) FROM q"
        )
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM s.linear JOIN s.mutual USING (a)")
        for view in ("s.linear", "s.mutual", "v"):
            assert sorted(con.execute(f"FROM {view}").fetchall()) == [(1,), (3,), (5,)]
        con.execute("INSERT INTO s.own VALUES (2)")
        for view in ("s.linear", "s.mutual", "v"):
            assert len(con.execute(f"FROM {view}").fetchall()) == 6
        con.execute("USE s")
        assert len(con.execute("FROM mutual").fetchall()) == 6


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ("VIEW p AS SELECT rowid AS i, 'a' AS n FROM t", "rowid"),
        ("VIEW p AS SELECT 1 AS i, table_name AS n FROM information_schema.tables", "tables"),
        ("MACRO m(x) AS x + (SELECT count(*) FROM pg_catalog.pg_tables)::INTEGER", "pg_tables"),
    ],
)
def test_a_plain_view_may_not_come_to_read_what_changes_by_itself(other: str, what: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER)")
        con.execute("CREATE VIEW p AS SELECT i::BIGINT AS i, 'a' AS n FROM t")
        con.execute("CREATE MACRO m(x) AS x + 1")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT m(i) AS i, n FROM p")
        with pytest.raises(tidewheel.Error, match=f"{what} changes while no table does"):
            con.execute(f"CREATE OR REPLACE {other}")
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(2, "a")]
