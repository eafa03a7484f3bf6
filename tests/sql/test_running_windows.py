"""Windows that go on from the row before: one change, several and all at once, beside DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.engine.operators import following
from tidewheel.planner import view_kernels, window_arrays
from tidewheel.sql.compare import compare

ROWS = "ROWS UNBOUNDED PRECEDING"
VIEWS = {
    "running": "SELECT id, sum(n) OVER w AS a, min(n) OVER w AS b, max(m) OVER w AS c, count(n) "
    "OVER w AS d, sum(m) OVER w AS e, sum(x) OVER w AS f, avg(x) OVER w AS g FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d, id)",
    "peers": "SELECT id, rank() OVER w AS a, dense_rank() OVER w AS b, sum(n) OVER w AS c, "
    "min(d) OVER w AS d FROM t WINDOW w AS (PARTITION BY p ORDER BY d DESC NULLS FIRST)",
    "firsts": f"SELECT id, row_number() OVER w AS a, first_value(n) OVER (w {ROWS}) AS b, "
    f"first_value(s) OVER (w {ROWS}) AS c, lag(n, 2) OVER w AS d, sum(big) OVER w AS e "
    "FROM t WINDOW w AS (PARTITION BY p ORDER BY d, id)",
    "onward": "SELECT id, sum(n) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a, "
    "avg(x) OVER (w RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b, last_value(s) OVER (w "
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS c, row_number() OVER w AS d FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d DESC, id)",
    "groups": "SELECT id, sum(n) OVER (w GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, "
    "avg(x) OVER (w GROUPS 1 PRECEDING) AS b, count(*) OVER (w GROUPS BETWEEN 1 FOLLOWING AND "
    "3 FOLLOWING) AS c, max(d) OVER (w GROUPS UNBOUNDED PRECEDING) AS d FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d)",
    "texts": "SELECT id, sum(n) OVER (ORDER BY s, d GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW) "
    "AS a FROM t",
    "without": "SELECT id, sum(n) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT "
    "ROW) AS a, max(s) OVER (w ROWS 2 PRECEDING EXCLUDE NO OTHERS) AS b FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d, id)",
    "ties": "SELECT id, sum(n) OVER (w RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) AS "
    "a, count(n) OVER (w GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) AS b FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d)",
    "means": "SELECT id, avg(n) OVER w AS a, avg(m) OVER w AS b, avg(big) FILTER (n > 0) OVER w AS "
    "c, avg(n) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS d FROM t "
    "WINDOW w AS (PARTITION BY p ORDER BY d, id)",
    "spread": "SELECT id, stddev(x) OVER (w ROWS 3 PRECEDING) AS a, var_pop(m) OVER w AS b, "
    "stddev_pop(n) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c, var_samp(n) FILTER "
    "(n > 0) OVER w AS d FROM t WHERE isfinite(x) OR x IS NULL "
    "WINDOW w AS (PARTITION BY p ORDER BY d, id)",
    "spreads": "SELECT id, stddev(n) OVER (w RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, "
    "variance(n) OVER (w GROUPS 1 PRECEDING) AS b FROM t WINDOW w AS (PARTITION BY p ORDER BY d)",
}
TABLE = (
    "CREATE TABLE t (id INT, p INT, d INT, n INT, m DECIMAL(9, 2), x DOUBLE, big BIGINT, s VARCHAR)"
)

small = st.integers(-3, 9)
row = st.tuples(
    st.one_of(st.none(), st.integers(0, 1)),
    st.one_of(st.none(), st.integers(0, 12)),
    st.one_of(st.none(), small),
    st.one_of(st.none(), small.map(lambda v: f"{v}.25")),
    st.one_of(st.none(), st.sampled_from([0.1, 0.7, 1e9, -2.5, 3.0, float("inf"), float("nan")])),
    st.one_of(st.none(), st.sampled_from([1, 2**62, -(2**62), 2**53])),
    st.one_of(st.none(), st.sampled_from(["a", "b"])),
)
change = st.one_of(
    st.tuples(st.just("insert"), row),
    st.tuples(st.just("insert"), row),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("update"), st.integers(0, 30), row),
)


class Sides:
    """A connection with views, and DuckDB with their queries."""

    def __init__(self) -> None:
        self.con, self.duck = tidewheel.connect(threads=1), duckdb.connect()
        self.ids = 0
        self.both(TABLE)
        for name, query in VIEWS.items():
            self.con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def both(self, sql: str, values: Any = None) -> None:
        self.con.execute(sql, values)
        self.duck.execute(sql, values)

    def make(self, what: Any) -> None:
        if what[0] == "insert":
            self.both("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [self.ids, *what[1]])
            self.ids += 1
        elif what[0] == "delete":
            self.both("DELETE FROM t WHERE id = ?", [what[1]])
        else:
            names = "p = ?, d = ?, n = ?, m = ?, x = ?, big = ?, s = ?"
            self.both(f"UPDATE t SET {names} WHERE id = ?", [*what[2], what[1]])

    def check(self) -> None:
        kinds = self.con.execute("SELECT DISTINCT kind FROM tidewheel_vertices()").fetchall()
        assert sorted(kinds) == [(kind,) for kind in ("following", "map", "sink", "source")]
        for name, query in VIEWS.items():
            got = self.con.execute(f"FROM {name}").to_arrow_table()
            found = compare(got, self.duck.sql(query).to_arrow_table())
            assert found.same, (name, found.problem, found.only_left[:3], found.only_right[:3])

    def close(self) -> None:
        self.con.close()
        self.duck.close()


def run(changes: list[Any], at_once: int) -> None:
    sides = Sides()
    try:
        for begin in range(0, len(changes), at_once):
            sides.con.execute("BEGIN")
            for what in changes[begin : begin + at_once]:
                sides.make(what)
            sides.con.execute("COMMIT")
            sides.check()
    finally:
        sides.close()


@settings(max_examples=8, deadline=None)
@given(
    st.lists(change, min_size=1, max_size=16),
    st.sampled_from([1, 3, 100]),
    st.booleans(),
    st.booleans(),
)
def test_views_stay_right(changes: list[Any], at_once: int, arrays: bool, many: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "SMALL", 0)
        patch.setattr(following, "MANY", 0 if many else 4096)
        patch.setattr(window_arrays, "MANY", 20_000 if arrays else 0)
        run(changes, at_once)


@pytest.mark.parametrize(
    "call",
    [
        "sum(n)",
        "sum(m)",
        "sum(x)",
        "avg(x)",
        "avg(m)",
        "avg(n)",
        "stddev(x)",
        "count(n)",
        "max(n)",
        "first_value(s)",
        "row_number()",
        "rank()",
        "dense_rank()",
    ],
)
def test_an_appended_row_takes_no_statement(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over = "PARTITION BY p ORDER BY id" + (f" {ROWS}" if "first" in call else "")
    with tidewheel.connect() as con:
        con.execute(TABLE)
        con.execute("INSERT INTO t SELECT i, i % 2, i, i % 7, i % 5, i / 8, i, 'a' FROM "
                    "range(4000) r(i)")  # fmt: skip
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} OVER ({over}) AS r FROM t")
        values = "(5000, 0, 1, 2, 3, 4.5, 6, 'b'), (5001, 1, NULL, NULL, NULL, NULL, NULL, NULL)"
        con.execute(f"INSERT INTO t VALUES {values}")
        statements: list[object] = []
        known = view_kernels.Prepared.__call__
        monkeypatch.setattr(
            view_kernels.Prepared,
            "__call__",
            lambda *given: statements.append(given) or known(*given),
        )
        con.execute(f"INSERT INTO t VALUES {values.replace('500', '600')}")
        assert not statements
        assert con.execute("VERIFY VIEW v").fetchall() == []
