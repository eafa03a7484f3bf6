"""Loops in which each row is derived by one row alone, and ones that only look like that."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import tidewheel
from tidewheel.engine.operators import seen, traverse
from tidewheel.planner import choice

LOOPS = {
    "closure": "SELECT a, b FROM s UNION SELECT t.x, e.b FROM t JOIN e ON e.a = t.y",
    "backwards": "SELECT a, b FROM s UNION SELECT e.a, t.y FROM t JOIN e ON e.b = t.x",
    "generation": "SELECT a, b FROM s UNION "
    "SELECT p.b, q.b FROM t JOIN e p ON p.a = t.x JOIN e q ON q.a = t.y",
    "only one side told": "SELECT a, b FROM s UNION "
    "SELECT p.b, q.c FROM t JOIN e p ON p.a = t.x JOIN e q ON q.a = t.y",
    "two edges": "SELECT a, b FROM s UNION "
    "SELECT t.x, q.b FROM t JOIN e p ON p.a = t.y JOIN e q ON q.a = p.b",
    "some": "SELECT a, b FROM s UNION SELECT t.x, e.b FROM t JOIN e ON e.a = t.y WHERE e.b > t.x",
    "y is not told": "SELECT a, b FROM s UNION SELECT t.x, e.c FROM t JOIN e ON e.a = t.y",
    "x is not told": "SELECT a, b FROM s UNION SELECT e.b, e.c FROM t JOIN e ON e.a = t.y",
}


@pytest.fixture(params=["arrays", "small"])
def con(request, monkeypatch):
    monkeypatch.setattr(choice, "FIRST", 0)  # the loop runs
    if request.param == "arrays":
        monkeypatch.setattr(seen, "FEW", -1)
        monkeypatch.setattr(traverse, "FEW", -1)
    with tidewheel.connect() as found:
        yield found


def edges(rng: np.random.Generator, kind: str, spread: int) -> list[tuple[int | None, ...]]:
    """(a, b, c): c is mostly not different in each row; b is, unless `kind` is "graph"."""
    n = 30
    b = rng.permutation(n)
    if kind == "graph":
        b = rng.integers(0, n, n)
    a = rng.integers(0, n, n)
    if kind == "tree":
        b = np.arange(1, n + 1)
        a = rng.integers(0, b)
    elif kind == "rings":
        a = rng.permutation(n)
    found: list[tuple[int | None, ...]] = [
        tuple(int(v) * spread for v in row) for row in zip(a, b, rng.integers(0, n, n), strict=True)
    ]
    if kind == "nulls":
        found[3:5] = [(None, None, 0), (0, None, None)]
    return found


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("spread", [1, 200, 1 << 20])
@pytest.mark.parametrize("kind", ["tree", "forest", "rings", "nulls", "graph"])
def test_rows_are_those_of_duckdb(
    con: tidewheel.Connection, loop: str, spread: int, kind: str
) -> None:
    rng = np.random.default_rng([len(loop), spread, len(kind)])
    plain = duckdb.connect()
    rows = edges(rng, kind, spread)
    starts = [rows[i] for i in rng.integers(0, len(rows), rng.integers(1, 40))]
    for each in (con, plain):
        for table, values in (("e", rows), ("s", starts)):
            given = str(values)[1:-1].replace("None", "NULL")
            each.execute(f"CREATE TABLE {table} (a BIGINT, b BIGINT, c BIGINT)")
            each.execute(f"INSERT INTO {table} VALUES {given}")
    query = f"WITH RECURSIVE t(x, y) AS ({LOOPS[loop]}) FROM t ORDER BY ALL"
    assert "Traverse" in con.execute(f"EXPLAIN (DATAFLOW) {query}").fetchall()[0][1]
    assert con.execute(query).fetchall() == plain.execute(query).fetchall()


def test_a_value_that_does_not_fit_its_type_is_an_error(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE e AS SELECT i a, i + 1 b FROM range(4) r(i)")
    query = "WITH RECURSIVE t(x) AS (SELECT 0::{} UNION SELECT b FROM t JOIN e ON a = x) FROM t"
    assert len(con.execute(query.format("SMALLINT")).fetchall()) == 5
    con.execute("INSERT INTO e VALUES (4, 40000)")
    assert len(con.execute(query.format("INTEGER")).fetchall()) == 6
    with pytest.raises(tidewheel.DataError):
        con.execute(query.format("SMALLINT")).fetchall()
