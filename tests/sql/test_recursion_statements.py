"""Recursions that DuckDB does not run, or gives another meaning, in statements of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tidewheel
from tidewheel.sql.reserved import RESERVED

PAIRS = (
    "WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION "
    "SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a) SELECT * FROM t"
)
"""Non-linear: DuckDB finds 11 of the 15 pairs of a chain of 6."""

EVEN = (
    "WITH RECURSIVE ev(n) AS (SELECT 0 UNION SELECT n + 1 FROM od WHERE n < 9), "
    "od(n) AS (SELECT 1 UNION SELECT n + 1 FROM ev WHERE n < 9) SELECT n FROM ev"
)
"""Mutual: DuckDB refuses it."""


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e(a INTEGER, b INTEGER)")
    con.execute("INSERT INTO e SELECT i, i + 1 FROM range(5) r(i)")
    yield con
    con.close()


@pytest.mark.parametrize("temporary", ["", "TEMP ", "OR REPLACE ", "OR REPLACE TEMP "])
def test_create_table_as(con: tidewheel.Connection, temporary: str) -> None:
    con.execute(f"CREATE {temporary}TABLE k AS {PAIRS}")
    assert con.execute("SELECT count(*) FROM k").fetchall() == [(15,)]
    con.execute(f"CREATE TABLE IF NOT EXISTS k2 AS {EVEN}")
    assert con.execute("SELECT list(n ORDER BY n) FROM k2").fetchall() == [([0, 2, 4, 6, 8],)]


def test_create_table_as_in_a_transaction_and_beside_maintained_views(
    con: tidewheel.Connection,
) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {PAIRS}")
    con.execute("BEGIN")
    con.execute("INSERT INTO e VALUES (5, 6)")
    con.execute(f"CREATE TABLE k AS {PAIRS}")
    con.execute("COMMIT")
    assert con.execute("SELECT count(*) FROM k").fetchall() == [(21,)]
    assert con.execute("SELECT count(*) FROM v").fetchall() == [(21,)]


def test_insert_select_and_update_from(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE k(a INTEGER, b INTEGER)")
    con.execute(f"INSERT INTO k {PAIRS}")
    assert con.execute("SELECT count(*) FROM k").fetchall() == [(15,)]
    con.execute(f"UPDATE k SET b = q.top FROM (SELECT max(n) AS top FROM ({EVEN})) q WHERE k.a = 0")
    assert con.execute("SELECT DISTINCT b FROM k WHERE a = 0").fetchall() == [(8,)]
    con.execute(f"DELETE FROM k WHERE a IN ({EVEN})")
    assert con.execute("SELECT list(DISTINCT a ORDER BY a) FROM k").fetchall() == [([1, 3],)]


def test_copy_to_a_file(con: tidewheel.Connection, tmp_path: object) -> None:
    con.execute(f"COPY ({PAIRS}) TO '{tmp_path}/pairs.csv'")
    assert con.execute(f"SELECT count(*) FROM '{tmp_path}/pairs.csv'").fetchall() == [(15,)]


# -- views


def count(con: tidewheel.Connection, what: str) -> int:
    return int(con.execute(f"SELECT count(*) FROM {what}").fetchall()[0][0])


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (PAIRS, 15),
        (EVEN, 5),
        (
            "WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 0 UNION SELECT b FROM r, e WHERE a = x) "
            "FROM r",
            6,
        ),
        (
            "WITH RECURSIVE d(n, v) AS (SELECT 0, 0 UNION SELECT b, min(v + 1) FROM d, e "
            "WHERE a = n GROUP BY b) FROM d",
            6,
        ),
        ("WITH RECURSIVE t(x) AS (SELECT 0 UNION SELECT b FROM t, e WHERE a = x) FROM t", 6),
        (
            "WITH RECURSIVE t(x) AS (SELECT 0 UNION ALL SELECT b FROM t, e WHERE a = x) "
            "SEARCH DEPTH FIRST BY x SET o SELECT x FROM t ORDER BY o",
            6,
        ),
    ],
)
def test_plain_views_mean_what_their_query_means(
    con: tidewheel.Connection, query: str, rows: int
) -> None:
    con.execute(f"CREATE VIEW v AS {query}")
    assert count(con, "v") == rows
    con.execute("INSERT INTO e VALUES (5, 6)")
    wanted = con.execute(query).fetchall()
    assert sorted(con.execute("FROM v").fetchall()) == sorted(wanted)
    con.execute("BEGIN; DELETE FROM e")
    assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute(query).fetchall())
    con.execute("ROLLBACK")
    assert sorted(con.execute("FROM v").fetchall()) == sorted(wanted)
    con.execute("DROP VIEW v")
    with pytest.raises(tidewheel.ProgrammingError):
        con.execute("FROM v")


def test_views_over_a_plain_recursive_view(con: tidewheel.Connection) -> None:
    con.execute(f"CREATE VIEW p (von, bis) AS {PAIRS}")
    con.execute("CREATE VIEW q AS SELECT von, count(*) AS n FROM p GROUP BY von")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT bis, count(*) AS n FROM p GROUP BY bis")
    assert con.execute("SELECT sum(n) FROM q").fetchall() == [(15,)]
    con.execute("INSERT INTO e VALUES (5, 6)")
    assert con.execute("SELECT sum(n) FROM q").fetchall() == [(21,)]
    assert con.execute("SELECT sum(n) FROM m").fetchall() == [(21,)]
    assert con.execute("VERIFY VIEW m").fetchall() == []
    with pytest.raises(tidewheel.ProgrammingError, match="read by maintained views"):
        con.execute("DROP VIEW p")
    with pytest.raises(tidewheel.ProgrammingError, match="p is a view, not a maintained view"):
        con.execute("VERIFY VIEW p")
    assert count(con, "p") == 21


def test_a_plain_view_may_take_another_ones_place(con: tidewheel.Connection) -> None:
    con.execute("CREATE VIEW v AS SELECT 1 AS one")
    con.execute(f"CREATE OR REPLACE VIEW v AS {PAIRS}")
    assert count(con, "v") == 15
    con.execute(f"CREATE VIEW IF NOT EXISTS v AS {EVEN}")
    assert count(con, "v") == 15
    with pytest.raises(tidewheel.ProgrammingError, match="exists already"):
        con.execute(f"CREATE VIEW v AS {EVEN}")
    with pytest.raises(tidewheel.Error):
        con.execute("CREATE OR REPLACE VIEW v AS SELECT nothing")
    assert count(con, "v") == 15
    con.execute("CREATE OR REPLACE VIEW v AS SELECT 7 AS seven")
    assert con.execute("FROM v").fetchall() == [(7,)]
    con.execute("DROP VIEW v")


def test_a_maintained_view_is_no_plain_one(con: tidewheel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT a FROM e")
    for sql in ("DROP VIEW m", "CREATE OR REPLACE VIEW m AS SELECT 1", f"CREATE VIEW m AS {PAIRS}"):
        with pytest.raises(tidewheel.ProgrammingError, match="m is a maintained view") as caught:
            con.execute(sql)
        assert "DROP MATERIALIZED VIEW m" in str(caught.value)
    con.execute("ALTER VIEW m RENAME TO k")
    assert count(con, "k") == 5


def test_mistakes_in_a_plain_view_have_their_place(con: tidewheel.Connection) -> None:
    query = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT max(x) + 1 FROM t GROUP BY x) FROM t"
    sql = f"CREATE VIEW v AS {query}"
    with pytest.raises(tidewheel.ProgrammingError, match="not monotone") as caught:
        con.execute(sql)
    assert caught.value.column is not None
    assert sql[caught.value.column - 1 :].startswith("x) + 1")
    with pytest.raises(tidewheel.NotSupportedError, match="temporary view"):
        con.execute(f"CREATE TEMP VIEW v AS {PAIRS}")


def test_a_plain_recursive_view_is_there_after_reopening(tmp_path: object) -> None:
    path = f"{tmp_path}/a.db"
    con = tidewheel.connect(path)
    con.execute("CREATE TABLE e AS SELECT i AS a, i + 1 AS b FROM range(5) r(i)")
    con.execute(f"CREATE VIEW v AS {PAIRS}")
    con.close()
    con = tidewheel.connect(path)
    assert count(con, "v") == 15
    con.execute("INSERT INTO e VALUES (5, 6)")
    assert count(con, "v") == 21
    con.close()


# -- bindings of WITH MUTUALLY RECURSIVE that are not recursive


@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("WITH MUTUALLY RECURSIVE r(x TEXT) AS (SELECT 1) SELECT * FROM r", [("1",)]),
        ("WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 1 WHERE false) SELECT * FROM r", []),
        (
            "WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 1), s(y INT) AS (SELECT x + 1 FROM r) "
            "SELECT y FROM s",
            [(2,)],
        ),
        (
            "WITH MUTUALLY RECURSIVE s(y INT) AS (SELECT x + 1 FROM r), r(x INT) AS (SELECT 1) "
            "SELECT y FROM s",
            [(2,)],
        ),
        (
            "WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 0 UNION SELECT b FROM r, e WHERE a = x), "
            "s(y INT) AS (SELECT 7) SELECT max(x), max(y) FROM r, s",
            [(5, 7)],
        ),
        (
            "WITH MUTUALLY RECURSIVE s(y INT) AS (VALUES (1), (2), (9)), "
            "t(y INT) AS (SELECT y FROM s WHERE y > 1), "
            "r(x INT) AS (SELECT 1 UNION SELECT x + 1 FROM r WHERE x < 5), "
            "n(a INT, b INT) AS (SELECT count(*), sum(y) FROM t, r WHERE x = y) FROM n",
            [(1, 2)],
        ),
    ],
)
def test_bindings_that_are_not_recursive(
    con: tidewheel.Connection, query: str, rows: object, fusion: str
) -> None:
    con.execute(f"SET fusion = '{fusion}'")
    assert con.execute(query).fetchall() == rows
    con.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
    assert con.execute("FROM m").fetchall() == rows


TWICE = (
    "WITH RECURSIVE t(a, b) AS (SELECT 1, 2 UNION SELECT b, b + 1 FROM u WHERE b < 3), "
    "u AS (SELECT a, b FROM t) SELECT t.a, u.* FROM t, u"
)


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_a_name_may_stand_twice_in_an_answer(fusion: str) -> None:
    con = tidewheel.connect()
    con.execute(f"SET fusion = '{fusion}'")
    assert [d[0] for d in con.execute(TWICE).description] == ["a", "a", "b"]
    con.execute(f"CREATE VIEW v AS {TWICE}")
    assert [d[0] for d in con.execute("FROM v").description] == ["a", "a_1", "b"]


def test_a_mutual_recursion_can_be_described() -> None:
    con = tidewheel.connect()
    query = TWICE.replace("t.a, u.*", "t.*")
    described = con.execute(f"DESCRIBE {query}").fetchall()
    assert [row[:2] for row in described] == [("a", "INTEGER"), ("b", "INTEGER")]
    assert [row[0] for row in con.execute(f"SUMMARIZE {query}").fetchall()] == ["a", "b"]


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_names_of_expressions_show_the_recursion_as_it_is_written(fusion: str) -> None:
    """Not what stands for it in the plan."""
    linear = (
        "SELECT 1 + (WITH RECURSIVE t (n) AS (SELECT 1 UNION SELECT n + 1 FROM t WHERE n < 5) "
        "SELECT max(n) FROM t)"
    )
    mutual = (
        "SELECT (WITH RECURSIVE o (a) AS (SELECT 1 UNION SELECT a + 1 FROM p WHERE a < 9), "
        "p (a) AS (SELECT a + 1 FROM o) SELECT max(a) FROM p)"
    )
    with tidewheel.connect(fusion=fusion) as con, duckdb.connect() as plain:
        assert con.execute(linear).description[0][0] == plain.execute(linear).description[0][0]
        name = con.execute(mutual).description[0][0]
        assert name == "(WITH o AS (…), p AS (…) SELECT max(a) FROM p)"


def test_what_is_prepared_has_its_tables_put_in_order(con: tidewheel.Connection) -> None:
    late = "WITH RECURSIVE a AS (SELECT n + ?::INT AS n FROM b), b AS (SELECT ?::INT AS n) FROM a"
    con.execute(f"PREPARE q AS {late}")
    assert con.execute("EXECUTE q(10, 3)").fetchall() == [(13,)]
    con.execute(
        "CREATE MACRO m(k) AS TABLE WITH RECURSIVE a AS (SELECT n + k AS n FROM b), "
        "b AS (SELECT 1 AS n) FROM a"
    )
    assert con.execute("FROM m(4)").fetchall() == [(5,)]
    # DuckDB takes tables of the catalog where there are any
    con.execute(
        "PREPARE r AS WITH RECURSIVE raw AS (FROM e), e AS (FROM raw) SELECT count(*) FROM e"
    )
    assert con.execute("EXECUTE r").fetchall() == [(5,)]


def test_a_step_that_composes_its_table_with_itself_is_prepared_as_a_linear_one(
    con: tidewheel.Connection,
) -> None:
    con.execute("CREATE OR REPLACE TABLE e AS SELECT i AS a, i + 1 AS b FROM range(9) r(i)")
    query = (
        "WITH RECURSIVE t AS (SELECT a, b FROM e UNION "
        "SELECT t.a, u.b FROM t JOIN t u ON t.b = u.a) SELECT count(*) FROM t"
    )
    con.execute(f"PREPARE q AS {query}")
    assert con.execute("EXECUTE q").fetchall() == con.execute(query).fetchall() == [(45,)]


def test_a_keyword_is_a_name_in_quotes_only(con: tidewheel.Connection) -> None:
    for wrong in ("t(k, select)", "t(k, Full)", "left(k)"):
        query = f"WITH RECURSIVE {wrong} AS (SELECT 1, 2 UNION SELECT 2, 3 FROM e, t) SELECT 1"
        with pytest.raises(
            tidewheel.ProgrammingError, match="is a keyword; as a name it is"
        ) as caught:
            con.execute(query)
        assert caught.value.place is not None
    query = 'WITH RECURSIVE t(k, "select") AS (SELECT 1, 2 UNION SELECT 3, 4 FROM t) FROM t'
    assert sorted(con.execute(query).fetchall()) == [(1, 2), (3, 4)]


def test_the_words_that_are_no_names_are_duckdb_s() -> None:
    with duckdb.connect() as con:
        found = set()
        for (word,) in con.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall():
            try:
                con.execute(f"WITH RECURSIVE t({word}) AS (SELECT 1) FROM t")
            except duckdb.ParserException:
                found.add(word)
    assert found == RESERVED


@pytest.mark.parametrize("start", ["PREPARE q AS", "CREATE OR REPLACE MACRO m() AS TABLE"])
@pytest.mark.parametrize(
    ("query", "what"),
    [
        (EVEN, 'tables that read each other ("od")'),
        ("WITH MUTUALLY RECURSIVE t(n int) AS (SELECT 1) FROM t", "WITH MUTUALLY RECURSIVE"),
        (
            "WITH RECURSIVE t(n, d) AS (SELECT 1, 0 UNION "
            "SELECT e.b, min(d + 1) FROM t JOIN e ON e.a = n GROUP BY e.b) FROM t",
            'least fixpoint, as that of "t" is',
        ),
        (
            "WITH RECURSIVE t AS (FROM e UNION "
            "SELECT t.a, u.b FROM t JOIN t u ON t.b < u.a) FROM t",
            'least fixpoint, as that of "t" is',
        ),
    ],
)
def test_what_only_tidewheel_runs_is_not_prepared(
    con: tidewheel.Connection, start: str, query: str, what: str
) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match="which knows no") as caught:
        con.execute(f"{start} {query}")
    assert what in str(caught.value)
    assert caught.value.place is not None


COUNTED = "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c WHERE x < 9)"


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize(
    ("statement", "message", "place"),
    [
        (f"{COUNTED} INSERT INTO e(a, z) SELECT x, x FROM c", '"z"', "a, z)"),
        (f"CREATE TABLE k AS {COUNTED} SELECT nope FROM c", '"nope"', "nope FROM"),
        (f"INSERT INTO e(a) {COUNTED} SELECT x, 1, 2 FROM c", "3", "e(a)"),
        (f"DELETE FROM nope WHERE a IN ({COUNTED} SELECT x FROM c)", "nope", "nope WHERE"),
        (f"INSERT INTO e(a, b) {COUNTED} SELECT x, x FROM c WHERE 'x'::INT > x", "'x'", "::INT"),
    ],
)
def test_what_fails_around_a_recursion_is_told_in_its_own_words(
    con: tidewheel.Connection, transaction: bool, statement: str, message: str, place: str
) -> None:
    if transaction:  # which takes no statement after the failure, ours that tidy up included
        con.execute("BEGIN")
    with pytest.raises(tidewheel.Error) as caught:
        con.execute(f"SELECT 1;\n{statement}")
    assert message in caught.value.message
    assert caught.value.source_line == statement
    assert caught.value.column == statement.index(place) + 1
    if transaction:
        con.execute("ROLLBACK")
    con.execute(f"{COUNTED} INSERT INTO e(a) SELECT x FROM c")
    assert con.execute("SELECT count(*) FROM e").fetchall() == [(14,)]


@pytest.mark.parametrize("begin", ["", "BEGIN"])
@pytest.mark.parametrize(
    ("column", "kind"), [("m", "ENUM('low', 'high')"), ("{'m': m}", None), ("(n, m)", None)]
)
def test_enums_keep_their_order_in_a_statement(column: str, kind: str | None, begin: str) -> None:
    query = (
        "WITH RECURSIVE r(m, n) AS (SELECT m, 1 FROM t UNION SELECT a.m, b.n + 1 FROM r a JOIN r b"
        f" ON a.m = b.m AND a.n = b.n WHERE a.n < 3) SELECT max({column}) AS top FROM r"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE t (m mood)")
        con.execute("INSERT INTO t VALUES ('low'), ('high')")
        con.execute(f"{begin}; CREATE TABLE x AS {query}")
        assert con.execute("FROM x").fetchall() == con.execute(query).fetchall()
        described = con.execute("DESCRIBE x").fetchall()
        assert described == con.execute(f"DESCRIBE {query}").fetchall()
        if kind:
            assert described[0][1] == kind
            con.execute(f"UPDATE t SET m = ({query})")
            assert con.execute("SELECT DISTINCT m FROM t").fetchall() == [("high",)]
