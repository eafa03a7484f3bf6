"""Recursions that DuckDB does not run, or gives another meaning, in statements of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel

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
