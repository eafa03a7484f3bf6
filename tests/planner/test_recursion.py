# ruff: noqa: E501
"""How recursions are lowered: as loop contexts, without SQL, or as DuckDB's own recursion."""

from __future__ import annotations

import duckdb
import pytest

from tidewheel.planner.context import Settings
from tidewheel.planner.execute import physical
from tidewheel.planner.logical import LetRec
from tidewheel.sql import recursion


@pytest.fixture(scope="module")
def con():
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE e(a INTEGER, b INTEGER, w INTEGER); CREATE TABLE s(a VARCHAR, b VARCHAR)"
    )
    yield con
    con.close()


def operators(con, sql, fusion=True):
    plan = recursion.plan(sql, recursion.Describer(con))
    assert plan is not None
    flow = physical(plan.node, Settings(fusion=fusion)).flow
    return [o.name if o.kind in ("sql", "vertex") else o.kind for o in flow.operators], flow


REACH = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT b FROM t JOIN e ON x = a) SELECT * FROM t"
NAMES = "WITH RECURSIVE t(x) AS (SELECT 'a' UNION SELECT b FROM t JOIN s ON x = a) SELECT * FROM t"
WALKS = "WITH RECURSIVE t(x, p) AS (SELECT 'a', 'a' UNION ALL SELECT b, p || b FROM t JOIN s ON x = a) SELECT * FROM t"
BAG = "WITH RECURSIVE t(x, n) AS (SELECT 1, 0 UNION ALL SELECT b, n + w FROM t JOIN e ON x = a) SELECT * FROM t"
MIXED = "WITH RECURSIVE t(x, n) AS (SELECT 1, 0::BIGINT UNION ALL SELECT b, n + w FROM t JOIN e ON x = a) SELECT * FROM t"
PAIRS = "WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION SELECT p.a, q.b FROM t p JOIN t q ON p.b = q.a) SELECT * FROM t"
TWICE = "WITH RECURSIVE t(a, b) AS (SELECT a, b FROM e UNION SELECT q.b, p.a FROM t p JOIN t q ON p.b = q.a) SELECT * FROM t"
BEST = "WITH RECURSIVE d(n, v) AS (SELECT 1, 0 UNION SELECT b, min(v + w) FROM d JOIN e ON n = a GROUP BY b) SELECT * FROM d"
ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 'a' UNION SELECT x || 'b' FROM t) SELECT * FROM t"


@pytest.mark.parametrize(
    ("sql", "vertex"),
    [
        (REACH, "Traverse"),
        (BEST, "Traverse"),
        (NAMES, "NativeLoop"),
        (WALKS, "NativeLoop"),
        (BAG, "Traverse"),
        (MIXED, "NativeLoop"),  # DuckDB has errors for sums beyond the types of their parts
        (PAIRS, "Traverse"),  # as a linear recursion
        (TWICE, "Iterate"),
        (ENDLESS, "Iterate"),  # it may not end, and DuckDB could not be stopped in time
    ],
)
def test_how_a_loop_is_run(con, sql, vertex):
    names, _ = operators(con, sql)
    assert vertex in names
    assert ("feedback" in names) == (vertex == "Iterate")


@pytest.mark.parametrize("sql", [REACH, NAMES, WALKS, PAIRS, TWICE, BEST])
def test_without_fusion_it_is_a_loop_context(con, sql):
    names, flow = operators(con, sql, fusion=False)
    for kind in ("ingress", "feedback", "egress"):
        assert kind in names
    assert {o.loop.depth for o in flow.operators if o.name == "Iterate"} == {1}


def test_a_loop_in_a_loop_has_two_counters(con):
    _, flow = operators(
        con,
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL (WITH RECURSIVE s(y) AS (SELECT x FROM t "
        "UNION ALL SELECT y + 1 FROM s WHERE y < 3) SELECT max(y) + 1 FROM s HAVING max(y) < 9)) FROM t",
        fusion=False,
    )
    assert sorted(o.loop.depth for o in flow.operators if o.name == "Iterate") == [1, 2]


def test_a_loop_that_does_not_depend_on_the_one_around_it_is_run_once(con):
    _, flow = operators(
        con,
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < (WITH RECURSIVE "
        "s(y) AS (SELECT 1 UNION ALL SELECT y + 1 FROM s WHERE y < 3) SELECT max(y) FROM s)) FROM t",
        fusion=False,
    )
    assert [o.loop.depth for o in flow.operators if o.name == "Iterate"] == [1, 1]


def test_the_parts_are_as_they_were_written(con):
    sql = (
        "WITH RECURSIVE k AS (SELECT  1 /* one */ z), t(x) AS (SELECT z FROM k UNION ALL\n"
        "  SELECT x+ z FROM t ,k WHERE x<9 -- end\n) SELECT   x FROM t"
    )
    plan = recursion.plan(sql, recursion.Describer(con))
    assert plan is not None
    assert isinstance(plan.node, LetRec)
    binding = plan.node.bindings[0]
    assert "\n  SELECT x+ z FROM t ,k WHERE x<9 -- end\n" in binding.steps[0].sql
    assert "SELECT z FROM k " in binding.anchor.sql
    assert "k AS (SELECT  1 /* one */ z)" in binding.anchor.sql
    assert plan.node.body.sql.endswith(" SELECT   x FROM t")
