# ruff: noqa: E501
"""Change capture against the difference of the table before and after, for every kind of DML."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.sql.capture import WEIGHT, Capture, TableInfo

STATEMENTS: list[tuple[str, str, Any]] = [
    ("insert", "INSERT INTO t VALUES (100, 1, 'x'), (101, 2, NULL)", None),
    ("insert", "INSERT INTO t (b, a) VALUES (?, ?);", [7, 200]),
    ("insert", "INSERT INTO t BY NAME SELECT 5 AS b, 300 AS a -- a comment", None),
    ("insert", "WITH s AS (SELECT 400 AS x) INSERT INTO t SELECT x, x, 'RETURNING' FROM s", None),
    ("insert", "INSERT INTO t VALUES (500, 1, 'q') RETURNING a + b AS s, c", None),
    ("insert", "INSERT OR IGNORE INTO t VALUES (1, 99, 'no'), (501, 1, 'yes')", None),
    ("insert", "INSERT INTO t VALUES (1, 99, 'no') ON CONFLICT DO NOTHING", None),
    (
        "upsert",
        "INSERT INTO t VALUES (1, 99, 'up'), (601, 1, 'in') ON CONFLICT (a) DO UPDATE SET b = excluded.b, c = t.c || '!'",
        None,
    ),
    (
        "upsert",
        "INSERT INTO t VALUES (1, 99, 'up') ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE t.b > 10",
        None,
    ),
    ("upsert", "INSERT OR REPLACE INTO t VALUES (2, 98, 'r'), (602, 1, 'in') RETURNING a", None),
    ("delete", "DELETE FROM t WHERE a < 3", None),
    ("delete", "DELETE FROM t WHERE a < 3RETURNING*", None),
    ("update", "UPDATE t SET b=1WHERE a IN (1,2)OR a=3RETURNING b", None),
    ("update", "UPDATE t SET b=1e1FROM u WHERE t.a = u.k", None),
    ("delete", "DELETE FROM t USING u WHERE t.a = u.k", None),
    ("delete", "DELETE FROM t WHERE a = $x RETURNING *", {"x": 2}),
    ("delete", "DELETE FROM t", None),
    ("truncate", "TRUNCATE t", None),
    ("update", "UPDATE t SET b = b + 1 WHERE a % 2 = 0", None),
    ("update", "UPDATE t AS z SET b = z.b * ?, c = 'FROM' WHERE z.a > ? RETURNING z.a, b", [10, 4]),
    ("update", "UPDATE t SET b = $1, c = $1::VARCHAR WHERE a = $2", [3, 5]),
    ("update", "UPDATE t SET b = u.w FROM u WHERE t.a = u.k AND u.w > 0", None),
    ("update", "WITH s AS (SELECT 3 AS x) UPDATE t SET b = -1 WHERE a IN (SELECT x FROM s)", None),
    ("update", "UPDATE t SET b = CASE WHEN c IS DISTINCT FROM 'c1' THEN 1 ELSE 2 END", None),
    ("update", "UPDATE t SET b = 1 + (c IS DISTINCT FROM 'c1')::INT", None),
    ("update", "UPDATE t SET a = a + 1000", None),
    ("update", "UPDATE t SET b = 5 WHERE random() < 0.5", None),
    (
        "merge",
        "MERGE INTO t USING u ON t.a = u.k WHEN MATCHED AND u.w > 1 THEN UPDATE SET b = u.w WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.k, u.w)",
        None,
    ),
    (
        "merge",
        "MERGE INTO t USING (SELECT 1001 AS a, 5 AS b, 'm' AS c) s ON t.a IN (s.a - 1000, s.a) WHEN MATCHED AND t.b IS NULL THEN UPDATE SET b = 1 WHEN MATCHED THEN UPDATE",
        None,
    ),
    (
        "merge",
        "MERGE INTO t USING (SELECT 1002 AS a, 5 AS b, 'm' AS c) s ON t.a = s.a - 1000 WHEN MATCHED THEN UPDATE SET *",
        None,
    ),
    (
        "merge",
        "MERGE INTO t USING u ON t.a = u.k WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action, a",
        None,
    ),
    (
        "merge",
        "MERGE INTO t USING u ON t.a = u.k WHEN MATCHED THEN UPDATE SET a = t.a + 5000",
        None,
    ),
    ("other", "INSERT INTO t SELECT a + 10000, b, c FROM t", None),
]


def database(key: bool) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t (a INTEGER {'PRIMARY KEY' if key else ''}, b INTEGER, c VARCHAR)")
    con.execute("INSERT INTO t SELECT i, i * 2, 'c' || i FROM range(8) r(i)")
    con.execute("CREATE TABLE u (k INTEGER, w INTEGER)")
    con.execute("INSERT INTO u VALUES (1, 1), (2, 2), (9, 3)")
    return con


def rows(con: duckdb.DuckDBPyConnection) -> Counter[tuple[Any, ...]]:
    return Counter(con.execute("FROM t").fetchall())


def check(con: duckdb.DuckDBPyConnection, kind: str, text: str, params: Any, key: bool) -> None:
    info = TableInfo('"t"', ("a", "b", "c"), ("a",) if key else ())
    capture = Capture(con, {"t": info}, con.cursor)
    before = rows(con)
    con.begin()
    outcome = capture.run(kind, text, params, "t", frozenset())
    con.commit()
    want = rows(con)
    want.subtract(before)
    got: Counter[tuple[Any, ...]] = Counter()
    for row in outcome.changes["t"].to_pylist():
        got[tuple(row.values())[:-1]] += row[WEIGHT]
    assert {k: v for k, v in got.items() if v} == {k: v for k, v in want.items() if v}


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize(("kind", "text", "params"), STATEMENTS, ids=lambda v: str(v)[:40])
def test_each_statement(kind: str, text: str, params: Any, key: bool) -> None:
    if not key and kind in ("upsert",):
        pytest.skip("needs a key")
    if (not key and "CONFLICT" in text) or (not key and "OR IGNORE" in text):
        pytest.skip("needs a key")
    check(database(key), kind, text, params, key)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6))
def test_sequences(statements: list[tuple[str, str, Any]]) -> None:
    con = database(True)
    for kind, text, params in statements:
        try:
            check(con, kind, text, params, True)
        except duckdb.ConstraintException:
            with contextlib.suppress(duckdb.TransactionException):
                con.rollback()


def test_returning_keeps_the_users_columns() -> None:
    con = database(True)
    capture = Capture(con, {"t": TableInfo('"t"', ("a", "b", "c"), ("a",))}, con.cursor)
    got = capture.run(
        "insert", "INSERT INTO t VALUES (50, 1, 'q') RETURNING a + b AS s", None, "t", frozenset()
    )
    assert got.rows is not None
    assert got.rows.to_pylist() == [{"s": 51}]
    assert got.count == 1


def test_copy_appends(tmp_path: Path) -> None:
    con = database(True)
    (tmp_path / "x.csv").write_text("a,b,c\n70,1,x\n71,2,y\n")
    check(con, "copy", f"COPY t FROM '{tmp_path / 'x.csv'}'", None, True)


def test_a_failed_statement_raises_duckdbs_error() -> None:
    con = database(True)
    capture = Capture(con, {"t": TableInfo('"t"', ("a", "b", "c"), ("a",))}, con.cursor)
    con.begin()
    with pytest.raises(duckdb.ConstraintException):
        capture.run("insert", "INSERT INTO t VALUES (1, 1, 'dup')", None, "t", frozenset())
    con.rollback()
    assert sum(rows(con).values()) == 8


def watching(*tables: str) -> tidewheel.Connection:
    con = tidewheel.connect()
    for table in tables:
        con.execute(f"CREATE TABLE {table} (a INTEGER PRIMARY KEY, b VARCHAR)")
        con.execute(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
        con.execute(f"CREATE MATERIALIZED VIEW {table}_view AS FROM {table}")
    return con


@pytest.mark.parametrize("text", ["TRUNCATE TABLE t, u", "TRUNCATE t CASCADE"])
def test_truncate_means_what_duckdb_says(text: str) -> None:
    with watching("t", "u") as con:
        with pytest.raises(tidewheel.Error):
            con.execute(text)
        assert con.execute("SELECT (FROM t SELECT count(*)), count(*) FROM u").fetchall() == [
            (2, 2)
        ]
        con.execute("TRUNCATE TABLE t")
        assert con.execute("FROM t_view").fetchall() == con.execute("FROM t").fetchall() == []


def test_a_table_with_the_name_that_returning_does_not_take() -> None:
    """DuckDB refuses RETURNING of a table that is called excluded."""
    with watching("excluded") as con:
        for i in (3, 4, 5):
            con.execute(f"INSERT INTO excluded VALUES ({i}, 'z')")
        for there in (20, 1):  # DuckDB can't tell the two, whether the row is there or not
            with pytest.raises(tidewheel.ProgrammingError, match="Ambiguous reference"):
                con.execute(
                    f"INSERT INTO excluded VALUES ({there}, 'z')"
                    " ON CONFLICT (a) DO UPDATE SET b = excluded.b"
                )
        con.execute("UPDATE excluded SET b = 'v' WHERE a = 3")
        con.execute("DELETE FROM excluded WHERE a = 4")
        assert not con.execute("VERIFY VIEW excluded_view").fetchall()
        assert con.execute("SELECT b FROM excluded_view ORDER BY a").fetchall() == [
            ("x",), ("y",), ("v",), ("z",)
        ]  # fmt: skip


KEYWORDS = (
    """UPDATE k SET "set" = k.set + 1, "where" = k.where WHERE k.from > 1 RETURNING k.where""",
    """UPDATE k AS set SET "values" = set.values + set.from""",
    """UPDATE k SET "from" = k.where * 10 + k.set RETURNING "from" AS where""",
    """DELETE FROM k USING (VALUES (3)) AS f ("where") WHERE k.where = f.where AND k.set > 1""",
    """INSERT INTO k SELECT k.from + 10, k.where, k.set, k.values FROM k RETURNING k.from AS set""",
    """INSERT INTO k VALUES (23, 1, 1, 1) ON CONFLICT DO UPDATE SET "set" = k.where, "from" = 7""",
    """MERGE INTO k USING (SELECT 7 AS i) AS s ON k.from = s.i
       WHEN MATCHED THEN UPDATE SET "set" = k.where, "from" = k.set + 40""",
)


def test_columns_that_are_called_like_clauses() -> None:
    table = 'CREATE TABLE k ("from" INT PRIMARY KEY, "where" INT, "set" INT, "values" INT)'
    with duckdb.connect() as plain, tidewheel.connect() as con:
        for one in (plain, con):
            one.execute(table)
            one.execute("INSERT INTO k VALUES (1, 2, 3, 4), (2, 3, 4, 5), (3, 3, 1, 1)")
        con.execute("CREATE MATERIALIZED VIEW v AS FROM k")
        for statement in KEYWORDS:
            expected = plain.execute(statement).fetchall()
            got = con.execute(statement)
            if "RETURNING" in statement:
                assert sorted(got.fetchall()) == sorted(expected), statement
            rows = sorted(plain.execute("FROM k").fetchall())
            assert sorted(con.execute("FROM v").fetchall()) == rows, statement
