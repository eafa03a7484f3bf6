"""Hashes of three bits: nearly all groups share theirs with others, and views are right."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from oracle.shape_checks import FEW, check_shapes
from oracle.shapes import EDITS, SHAPES
from tidewheel.engine.state import hashing
from tidewheel.planner import view_answers, view_fill, view_heads


@pytest.fixture(autouse=True, scope="module")
def few_hashes() -> Iterator[None]:
    combine = hashing.combine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(7))
        yield


@settings(FEW, max_examples=1)
@given(
    before=st.lists(EDITS, min_size=8, max_size=20), edits=st.lists(EDITS, min_size=6, max_size=10)
)
def test_all_shapes(before: list[str], edits: list[str]) -> None:
    check_shapes(edits, list(SHAPES), 1, 2, before)


OF_TEXTS = {
    "ends": "SELECT h, min(x) AS a, max(x) AS b FROM t GROUP BY h",
    "first": "SELECT id, h FROM t QUALIFY row_number() OVER (PARTITION BY h ORDER BY x, id) <= 2",
    "ranks": "SELECT id, row_number() OVER (PARTITION BY h ORDER BY x, id) AS n FROM t",
    "median": "SELECT h, median(x) AS m FROM t GROUP BY h",
    "mixed": "SELECT h, count(*) AS n, sum(x / 4) AS s, max(x) AS b, count(DISTINCT x) AS d FROM t "
    "GROUP BY h",
    "latest": "SELECT h, arg_max(x, id) AS l FROM t GROUP BY h",
}
CHANGES = [
    "INSERT INTO t SELECT 900 + i, 'z' || i, i FROM range(20) AS r(i)",
    "INSERT INTO t VALUES (2000, 'new', 5000)",
    "INSERT INTO t VALUES (2001, 'new', -5000), (2002, 'h3', 3), (2003, NULL, 7)",
    "DELETE FROM t WHERE h = 'h1'",
    "UPDATE t SET h = 'h' || id % 31 WHERE id % 5 = 0",
    "DELETE FROM t WHERE x = (SELECT min(x) FROM t)",
    "DELETE FROM t WHERE id % 3 > 0",
]


@pytest.mark.parametrize("many", [1, 1 << 40])
@pytest.mark.parametrize("rows", [0, 5, 900])
@pytest.mark.parametrize("query", OF_TEXTS.values(), ids=OF_TEXTS)
def test_groups_of_texts(query: str, rows: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of large groups, rows that wait, groups that come later."""
    monkeypatch.setattr(view_answers, "MANY", many)
    monkeypatch.setattr(view_fill, "MANY", 10)
    monkeypatch.setattr(view_heads, "PART", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, h VARCHAR, x INTEGER)")
        con.execute(
            f"INSERT INTO t SELECT i, 'h' || i % 17, (i * 7919) % 1009 FROM range({rows}) AS r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in ("SELECT 1", *CHANGES):
            con.execute(change)
            got = con.execute("FROM v ORDER BY ALL").fetchall()
            assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change


OF_GRAPHS = {
    "reach": "WITH RECURSIVE r(n) AS (SELECT 'n0' UNION SELECT b FROM r JOIN e ON a = n) FROM r",
    "closure": "WITH RECURSIVE r(f, t) AS (SELECT a, b FROM e UNION SELECT r.f, e.b FROM r "
    "JOIN e ON e.a = r.t) FROM r",
    "labels": "WITH RECURSIVE r(n, l) AS (SELECT a, a FROM e UNION SELECT e.b, r.l FROM r "
    "JOIN e ON e.a = r.n) SELECT n, min(l) AS l FROM r GROUP BY n",
}


@pytest.mark.parametrize("seed", range(4))
def test_recursions_over_texts(seed: int) -> None:
    """Also where a row reaches the views before DuckDB has it (a statement seen before)."""
    rng = random.Random(seed)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (a VARCHAR, b VARCHAR)")
        for name, query in OF_GRAPHS.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(12):
            if rng.random() < 0.7:
                edge = [f"n{rng.randrange(10)}", f"n{rng.randrange(10)}"]
                con.execute("INSERT INTO e VALUES (?, ?)", edge)
            else:
                con.execute(f"DELETE FROM e WHERE a = 'n{rng.randrange(10)}'")
            for name, query in OF_GRAPHS.items():
                got = con.execute(f"FROM {name} ORDER BY ALL").fetchall()
                assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), name


def test_two_groups_of_one_hash_are_computed_anew() -> None:
    """And EXPLAIN says so; groups by one integer have no hash."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i, 'h' || i AS h FROM range(9) AS r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT h, min(i) AS a FROM t GROUP BY h")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT i, min(h) AS a FROM t GROUP BY i")
        con.execute("UPDATE t SET i = i - 1")
        for name, hashed in (("v", True), ("w", False)):
            text = str(con.execute(f"EXPLAIN VIEW {name}").fetchall())
            assert ("two of its keys have the same hash" in text) is hashed
