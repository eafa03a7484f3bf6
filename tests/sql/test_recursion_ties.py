"""First rows in WITH MUTUALLY RECURSIVE where rows tie: a way that goes round a circle for nothing.

Of the cheapest ways the one with the fewest hops is the least by all columns, and the only choice
with which the tables come to rest.
"""

from __future__ import annotations

import pytest

import tidewheel

WAYS = (
    "(SELECT 0 AS node, 0 AS cost, 0 AS hops UNION ALL "
    "SELECT e.b, p.cost + e.w, p.hops + 1 FROM p JOIN e ON e.a = p.node) AS way"
)
NEAREST = [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 1)]
FARTHER = [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 3)]  # without the short way to 3
FIRST = {
    "listed": f"SELECT DISTINCT ON (node) node, cost, hops FROM {WAYS} ORDER BY node, cost",
    "star": f"SELECT DISTINCT ON (node) * FROM {WAYS} ORDER BY node, cost",
    "limit": f"SELECT DISTINCT ON (node) * FROM {WAYS} ORDER BY node, cost LIMIT 9 OFFSET 0",
    "parentheses": f"(SELECT DISTINCT ON (node) * FROM {WAYS} ORDER BY node, cost)",
    "below": "SELECT node, cost, hops FROM (SELECT DISTINCT ON (node) node, greatest(cost, -1) "
    f"AS cost, hops FROM {WAYS} ORDER BY node, cost ASC NULLS LAST)",
    "all": f"SELECT DISTINCT ON (node) node, cost, hops FROM {WAYS} ORDER BY ALL",
    "branch": f"(SELECT DISTINCT ON (node) node, cost, hops FROM {WAYS} ORDER BY node, cost) "
    "UNION ALL SELECT 0, 0, 0 WHERE false ORDER BY 1",
}


def graph(fusion: str = "on") -> tidewheel.Connection:
    """A circle of 1 and 2 that costs nothing."""
    con = tidewheel.connect(threads=1, fusion=fusion, max_iterations=50)
    con.execute("CREATE TABLE e (a INT, b INT, w INT)")
    con.execute("INSERT INTO e VALUES (0, 1, 0), (1, 2, 0), (2, 1, 0), (2, 3, 1), (0, 3, 1)")
    return con


def recursive(body: str) -> str:
    return f"WITH MUTUALLY RECURSIVE p (node INT, cost INT, hops INT) AS ({body}) FROM p"


@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("body", FIRST.values(), ids=FIRST)
def test_rows_that_tie_are_settled_by_what_is_selected(body: str, fusion: str) -> None:
    with graph(fusion) as con:
        assert sorted(con.execute(recursive(body)).fetchall()) == NEAREST


NUMBERED = (
    "SELECT node, cost, hops FROM (SELECT *, row_number() OVER "
    f"(PARTITION BY node ORDER BY cost) AS n FROM {WAYS}) WHERE n = 1"
)


@pytest.mark.parametrize("body", [*FIRST.values(), NUMBERED], ids=[*FIRST, "numbered"])
def test_in_a_view_too(body: str) -> None:
    with graph() as con:
        con.execute(f"CREATE MATERIALIZED VIEW v AS {recursive(body)}")
        assert con.execute("FROM v ORDER BY node").fetchall() == NEAREST
        con.execute("DELETE FROM e WHERE a = 0 AND b = 3")
        assert con.execute("FROM v ORDER BY node").fetchall() == FARTHER
        con.execute("INSERT INTO e VALUES (0, 3, 1)")
        assert con.execute("FROM v ORDER BY node").fetchall() == NEAREST
        if body != NUMBERED:
            assert con.execute("VERIFY VIEW v").fetchall() == []
