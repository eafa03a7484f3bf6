"""Grouped steps of maintained recursions: the table itself keeps the best row of each key."""

from __future__ import annotations

import random

import pytest

import tidewheel

STEPS = {
    "min": "SELECT e.b, min(e.w + 3) FROM d JOIN e ON e.a = d.x AND e.w >= d.v GROUP BY e.b",
    "filter": "SELECT e.b, min(e.w + 3) FILTER (e.b > 2) FROM d JOIN e ON e.a = d.x AND e.w >= d.v"
    " GROUP BY e.b",
    "more keys": "SELECT e.b, min(e.w) FROM d JOIN e ON e.a = d.x AND e.w >= d.v GROUP BY e.b, e.a",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_grouped_step_keeps_no_groups_of_its_own(step: str) -> None:
    rng = random.Random(step)
    edges = [(rng.randrange(12), rng.randrange(12), rng.randrange(30)) for _ in range(60)]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (a INT, b INT, w INT)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE d(x, v) AS"
            f" (SELECT 0, 0 UNION {STEPS[step]}) FROM d"
        )
        con.executemany("INSERT INTO e VALUES (?, ?, ?)", edges)
        con.execute("FROM v").fetchall()
        for _ in range(10):
            con.execute("DELETE FROM e WHERE a = ? OR b = ?", [rng.randrange(12)] * 2)
            con.executemany("INSERT INTO e VALUES (?, ?, ?)", rng.sample(edges, 10))
            assert con.execute("VERIFY VIEW v").fetchall() == []
        vertices = "\n".join(str(row[-1]) for row in con.execute("EXPLAIN VIEW v").fetchall())
        assert " best [" in vertices
        assert " min [" not in vertices
