"""Views of hundreds of conditions or branches: what walks their queries may not go too deep."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import tidewheel

EACH = [f"(a = {i} AND b = {i + 1})" for i in range(360)]
QUERIES = {
    "or": ("SELECT * FROM t WHERE " + " OR ".join(EACH), None),
    "and": ("SELECT * FROM t WHERE " + " AND ".join(f"a <> {i}" for i in range(1, 500)), None),
    "case": ("SELECT a, " + " OR ".join(EACH) + " AS x FROM t", None),
    "union": (
        " UNION ALL ".join(f"SELECT {i} AS i, b FROM t WHERE a = {i}" for i in range(160)),
        "its plan nests too deep",
    ),
    "nested": ("SELECT * FROM " + "(SELECT * FROM " * 200 + "t" + ")" * 200, "it nests too deep"),
}


@pytest.fixture(autouse=True)
def pythons_own_limit() -> Iterator[None]:
    """Other tests' libraries raise it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", QUERIES)
def test_a_long_query_is_a_view(name: str) -> None:
    query, reason = QUERIES[name]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        con.execute("INSERT INTO t VALUES (3, 4), (5, 5), (700, NULL), (NULL, 2)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(reason,)]
        con.execute("INSERT INTO t VALUES (0, 1), (159, 160), (700, 1)")
        con.execute("DELETE FROM t WHERE a = 3")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert con.execute("FROM v").fetchall() != []
