"""Window functions over small groups, which take no statement, beside DuckDB's."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.planner import view_kernels

# id tells rows apart; the others tie
VALUES = [
    "row_number() OVER (PARTITION BY g ORDER BY x DESC NULLS FIRST, id)",
    "rank() OVER (PARTITION BY g ORDER BY x), dense_rank() OVER (PARTITION BY g ORDER BY x)",
    "rank() OVER (PARTITION BY g ORDER BY f DESC NULLS LAST)",
    "dense_rank() OVER (PARTITION BY g, s ORDER BY d, x DESC)",
    "lag(s) OVER (PARTITION BY g ORDER BY id), lead(x, 2) OVER (PARTITION BY g ORDER BY id)",
    "lag(f, 0) OVER (PARTITION BY g ORDER BY id), lag(d) OVER (PARTITION BY g ORDER BY id)",
    "first_value(m) OVER (PARTITION BY s ORDER BY id), "
    "last_value(f) OVER (PARTITION BY s ORDER BY id)",
    "sum(x) OVER (PARTITION BY g ORDER BY d), sum(m) OVER (PARTITION BY g ORDER BY d)",
    "avg(x) OVER (PARTITION BY g ORDER BY f), avg(m) OVER (PARTITION BY g ORDER BY f)",
    "count(*) OVER (PARTITION BY g ORDER BY x), count(x) OVER (PARTITION BY g ORDER BY x)",
    "min(x) OVER (PARTITION BY g ORDER BY d), max(d) OVER (PARTITION BY g ORDER BY d)",
    "sum(x) OVER (PARTITION BY g), max(m) OVER (PARTITION BY g), count(*) OVER (PARTITION BY g)",
    "sum(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "avg(m) OVER (PARTITION BY g ORDER BY id ROWS 3 PRECEDING)",
    "sum(m) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
    "max(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)",
    "first_value(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
    "last_value(s) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)",
    "min(m) OVER (PARTITION BY g ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "count(m) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "sum(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 5 FOLLOWING), "
    "count(m) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 5 FOLLOWING)",
    "count(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 4 FOLLOWING AND UNBOUNDED FOLLOWING)",
    "sum(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 9223372036854775807 PRECEDING "
    "AND 9223372036854775807 FOLLOWING)",
    "last_value(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING "
    "AND UNBOUNDED FOLLOWING)",
    "rank() OVER (ORDER BY x), sum(x) OVER (ORDER BY x)",
]
# what only the statement can do
OTHERS = [
    "lag(f, 0) OVER (PARTITION BY g ORDER BY id), lag(d) OVER (PARTITION BY g ORDER BY id DESC)",
    "sum(big) OVER (PARTITION BY g ORDER BY id), avg(big) OVER (PARTITION BY g ORDER BY id)",
    "row_number() OVER (PARTITION BY g ORDER BY s, id), max(f) OVER (PARTITION BY g ORDER BY id)",
    "lag(x, 1, -1) OVER (PARTITION BY g ORDER BY id), ntile(2) OVER (PARTITION BY g ORDER BY id)",
    "sum(x) FILTER (WHERE x > 0) OVER (PARTITION BY g ORDER BY id), "
    "sum(DISTINCT x) OVER (PARTITION BY g)",
    "max(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "sum(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING "
    "EXCLUDE TIES)",
]
TABLE = (
    "CREATE TABLE t (id INTEGER, g INTEGER, s VARCHAR, x INTEGER, m DECIMAL(9, 2), d DATE, "
    "f DOUBLE, big BIGINT)"
)


def queries(values: list[str]) -> list[str]:
    return [f"SELECT id, g, {value} FROM t" for value in values]


class Sides:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.con, self.duck = tidewheel.connect(threads=1), duckdb.connect()
        self.ids = 0
        self.both(TABLE)

    def both(self, sql: str, given: Any = None) -> None:
        self.con.execute(sql, given)
        self.duck.execute(sql, given)

    def insert(self) -> None:
        pick = self.rng.choice
        self.ids += 1
        row = [
            self.ids,
            pick([None, 0, 1, 2]),
            pick([None, "a", "it's", ""]),
            pick([None, -3, 0, 1, 1, 2, 2**31 - 1]),
            pick([None, "-1.25", "0.10", "7.00"]),
            pick([None, "2026-01-01", "2025-12-31", "infinity"]),
            pick([None, -0.0, 0.0, 1.5, float("nan"), float("inf"), float("-inf")]),
            pick([None, 2**62, -(2**62), 2**53 + 1]),
        ]
        self.both("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def change(self) -> None:
        kind = self.rng.randrange(6)
        if kind < 3:
            self.insert()
        elif kind == 3:
            self.both("DELETE FROM t WHERE id = ?", [self.rng.randrange(self.ids + 1)])
        elif kind == 4:
            at = self.rng.randrange(self.ids + 1)
            self.both("UPDATE t SET g = ?, x = 1 WHERE id = ?", [self.rng.randrange(3), at])
        else:
            self.both("UPDATE t SET x = x - 1 WHERE g = ? AND x > 0", [self.rng.randrange(3)])

    def compare(self, views: list[str]) -> None:
        for i, query in enumerate(views):
            got = sorted(map(repr, self.con.execute(f"FROM v{i}").fetchall()))
            assert got == sorted(map(repr, self.duck.execute(query).fetchall())), query


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_duckdb(seed: int) -> None:
    sides, views = Sides(seed), queries([*VALUES, *OTHERS])
    for _ in range(4 * seed):
        sides.insert()
    for i, query in enumerate(views):
        sides.con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    reasons = sides.con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall()
    assert reasons == [(None,)]
    for _ in range(12):
        sides.con.execute("BEGIN")
        for _ in range(sides.rng.randrange(1, 4)):
            sides.change()
        sides.con.execute("COMMIT")
        sides.change()
        sides.compare(views)


@pytest.mark.parametrize("value", VALUES)
def test_they_take_no_statement(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[object] = []
    known = view_kernels.Prepared.__call__
    monkeypatch.setattr(
        view_kernels.Prepared, "__call__", lambda *given: run.append(given) or known(*given)
    )
    sides, views = Sides(7), queries([value])
    for _ in range(12):
        sides.insert()
    sides.con.execute(f"CREATE MATERIALIZED VIEW v0 AS {views[0]}")
    run.clear()
    for _ in range(6):
        sides.change()
        sides.compare(views)
    assert not run


@pytest.mark.parametrize("kind", ["DECIMAL(18, 18)", "DECIMAL(12, 9)", "DECIMAL(9, 6)", "INTEGER"])
def test_averages_have_all_digits(kind: str) -> None:
    """Of DECIMALs of large scales, and of so many rows that DuckDB's long doubles round twice."""
    con, duck = tidewheel.connect(threads=1), duckdb.connect()
    over = "avg(m) OVER (ORDER BY id), avg(m) OVER (PARTITION BY id % 40 ORDER BY id)"
    query = f"SELECT id, {over} FROM t"
    value = "(hash(range) % 100_000_000)::DECIMAL(18, 0)"
    by = {"DECIMAL(18, 18)": "/ 1e18", "DECIMAL(12, 9)": "/ 1e9", "DECIMAL(9, 6)": "/ 1e6"}
    value = f"{value} {by.get(kind, '')}"
    for each in (con, duck):
        each.execute(
            f"CREATE TABLE t AS SELECT range AS id, ({value})::{kind} AS m FROM range(4000)"
        )
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for each in (con, duck):
        each.execute("UPDATE t SET m = m * 2 WHERE id < 40")
    want = duck.execute(f"{query} ORDER BY id").fetchall()
    assert con.execute("FROM v ORDER BY id").fetchall() == want
