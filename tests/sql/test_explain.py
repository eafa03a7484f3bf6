"""EXPLAIN shows each stage, and says where a mistake is."""

from __future__ import annotations

import pytest

import tidewheel

REACH = (
    "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT d FROM r JOIN e ON r.n = e.s) SELECT * FROM r"
)


@pytest.fixture
def con() -> tidewheel.Connection:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE e (s INT, d INT)")
    return con


def plan(con: tidewheel.Connection, sql: str) -> str:
    rows = con.execute(sql).fetchall()
    assert len(rows) == 1
    return str(rows[0][1])


def test_logical_takes_the_query_apart(con: tidewheel.Connection) -> None:
    text = plan(con, "EXPLAIN (LOGICAL) SELECT a, sum(b) FROM t WHERE a > 1 GROUP BY a")
    for node in ("Aggregate", "Filter", "Scan"):
        assert node in text


def test_logical_shows_anchor_and_step(con: tidewheel.Connection) -> None:
    text = plan(con, f"EXPLAIN (LOGICAL) {REACH}")
    assert "anchor" in text
    assert "step" in text


def test_kernels_hold_the_text_as_written(con: tidewheel.Connection) -> None:
    query = "SELECT  a  FROM t -- as I wrote it"
    assert "SELECT  a  FROM t" in plan(con, f"EXPLAIN (KERNELS) {query}")


def test_dataflow_differs_with_fusion_off(con: tidewheel.Connection) -> None:
    query = "EXPLAIN (DATAFLOW) SELECT a, sum(b) FROM t GROUP BY a"
    fused = plan(con, query)
    con.execute("SET fusion = 'off'")
    assert len(plan(con, query).splitlines()) > len(fused.splitlines())


def test_a_stage_is_for_queries(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match=r"EXPLAIN .LOGICAL. is for queries"):
        con.execute("EXPLAIN (LOGICAL) INSERT INTO t VALUES (1, 1)")
