"""Statements that change rows without being a DML statement themselves, under maintained views."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.sql.statements import Kind, split


@pytest.fixture(scope="module")
def shared() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")
        for name in "tu":
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT count(*), sum(a) FROM {name}")
            con.execute(f"FROM v_{name}").fetchall()
        yield con


@pytest.fixture
def con(shared: tidewheel.Connection) -> tidewheel.Connection:
    """t with 1 and 2, u empty, each under a view that is filled."""
    shared.execute("DELETE FROM t; DELETE FROM u; INSERT INTO t VALUES (1), (2)")
    shared.execute("DROP TABLE IF EXISTS w")
    return shared


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (INSERT INTO t VALUES (3) RETURNING *) SELECT * FROM x a, x b",
        "WITH x AS (INSERT INTO t VALUES (3) RETURNING *) SELECT 1",
        "WITH x AS (DELETE FROM t WHERE a = 1 RETURNING *) INSERT INTO u SELECT a FROM x",
        "WITH x AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT a FROM x RETURNING a",
        "WITH x AS (UPDATE t SET a = 9 WHERE a = 2 RETURNING *), "
        "y AS (INSERT INTO u SELECT a FROM x RETURNING a) SELECT sum(a) FROM y",
        "CREATE TABLE w AS WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "COPY (WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x) TO '{file}'",
        "PREPARE p AS WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x; EXECUTE p",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (4)",
        "EXPLAIN (ANALYZE) DELETE FROM t WHERE a = 2",
        "EXPLAIN ANALYZE WITH x AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT a FROM x",
        "EXPLAIN WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "EXPLAIN ANALYZE CREATE TABLE w AS WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (WITH k AS (SELECT 1 AS a) DELETE FROM t USING k WHERE k.a = t.a RETURNING t.a) "
        "SELECT * FROM x",
        "WITH x AS (WITH k AS (SELECT 1), l AS (FROM k) INSERT INTO t FROM l RETURNING a) "
        "INSERT INTO u FROM x",
    ],
)
@pytest.mark.parametrize("transaction", [False, True])
def test_views_follow(
    con: tidewheel.Connection, statement: str, transaction: bool, tmp_path: object
) -> None:
    before = con.execute("FROM t").fetchall()
    if transaction:
        con.execute("BEGIN")
    for one in statement.replace("{file}", f"{tmp_path}/x.csv").split("; "):
        con.execute(one)
    if transaction:
        con.execute("COMMIT")
    for name in "tu":
        assert con.execute(f"VERIFY VIEW v_{name}").fetchall() == []
    changes = not statement.startswith("EXPLAIN WITH")
    assert (con.execute("FROM t").fetchall() != before) == changes


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_it_runs_once_where_nothing_watches(fusion: str) -> None:
    with tidewheel.connect(fusion=fusion) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        sql = "WITH x AS (INSERT INTO t VALUES (3) RETURNING *) SELECT * FROM x a, x b"
        assert con.execute(sql).fetchall() == [(3, 3)]
        assert con.execute("FROM t").fetchall() == [(3,)]


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_no_view_writes(con: tidewheel.Connection, kind: str) -> None:
    with pytest.raises(tidewheel.Error, match="INSERT"):
        con.execute(f"CREATE {kind} v AS WITH x AS (INSERT INTO t VALUES (3) RETURNING *) FROM x")
    assert con.execute("FROM t").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("text", "kind", "rows"),
    [
        ("WITH x AS (INSERT INTO t VALUES (1) RETURNING a) FROM x", Kind.CHANGE, True),
        ("WITH x(a) AS NOT MATERIALIZED (DELETE FROM t RETURNING a) FROM x", Kind.CHANGE, True),
        ("WITH x AS (COPY t TO 'f') SELECT 1", Kind.CHANGE, True),
        ("WITH x AS (SELECT 1) INSERT INTO t FROM x", Kind.CHANGE, False),
        ("WITH x(insert) AS (SELECT insert FROM update) FROM x", Kind.QUERY, False),
        ("SELECT CAST(a AS insert) FROM t", Kind.QUERY, False),
        ("EXPLAIN DELETE FROM t", Kind.EXPLAIN, True),
        ("EXPLAIN (FORMAT json) DELETE FROM t", Kind.EXPLAIN, True),
        ("EXPLAIN ANALYZE SELECT 1", Kind.EXPLAIN, True),
        ("EXPLAIN ANALYZE (SELECT 1)", Kind.EXPLAIN, True),
        ("EXPLAIN ANALYZE DELETE FROM t", Kind.CHANGE, True),
        ("EXPLAIN (ANALYZE, FORMAT json) DELETE FROM t", Kind.CHANGE, True),
    ],
)
def test_classification(text: str, kind: Kind, rows: bool) -> None:
    (statement,) = split(text)
    assert (statement.kind, statement.rows) == (kind, rows)


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE t", "DROP VIEW v_t", "ALTER TABLE t ADD COLUMN b INTEGER", "BEGIN", "CHECKPOINT"],
)
def test_explain_analyze_of_what_has_no_plan(con: tidewheel.Connection, statement: str) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match="EXPLAIN ANALYZE would run") as told:
        con.execute(f"EXPLAIN ANALYZE {statement}")
    assert told.value.column == len("EXPLAIN ANALYZE ") + 1
    assert con.execute("FROM v_t").fetchall() == [(2, 3)]
    assert not con.in_transaction


def test_explain_analyze_of_a_table_in_place_of_another(con: tidewheel.Connection) -> None:
    con.execute("EXPLAIN ANALYZE CREATE OR REPLACE TABLE t AS SELECT 7 AS a")
    assert con.execute("FROM v_t").fetchall() == [(1, 7)]
    con.execute("EXPLAIN ANALYZE CREATE OR REPLACE TEMP TABLE kept AS SELECT a + 1 AS b FROM t")
    assert con.execute("FROM kept").fetchall() == [(8,)]


def test_ctes_that_are_called_like_verbs(con: tidewheel.Connection) -> None:
    ctes = "WITH a AS (SELECT 1 AS x), delete AS (SELECT 9 AS y)"
    assert con.execute(f"{ctes} SELECT * FROM delete, a").fetchall() == [(9, 1)]
    assert con.execute(f"{ctes} INSERT INTO t SELECT y FROM delete RETURNING a").fetchall() == [
        (9,)
    ]
    assert con.execute("FROM v_t").fetchall() == [(3, 12)]
