"""Views whose large tables meet what no table is behind, what recurs, or groups: DuckDB joins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.planner import view_answers, view_fill, view_filling

QUERIES = {
    "series": "SELECT d, count(id) AS n, sum(p) AS s FROM range(40) AS r(d) LEFT JOIN t ON t.k = d "
    "GROUP BY d",
    "values": "SELECT name, id, p FROM (VALUES (1, 'one'), (2, 'two')) AS v(k, name) "
    "JOIN t USING (k)",
    "tree": "WITH RECURSIVE r(k) AS (SELECT 0 UNION SELECT k * 2 + 1 FROM r WHERE k < 10) "
    "SELECT r.k, count(*) AS n, sum(p) AS s FROM r JOIN t ON t.k = r.k GROUP BY r.k",
    "paths": "WITH RECURSIVE r(k, n) AS (SELECT 0, 1 UNION ALL SELECT (r.k + e.b) % 7, n + 1 "
    "FROM r JOIN e ON e.a = r.k WHERE n < 4) SELECT r.k, n, id FROM r "
    "JOIN t ON t.k = r.k WHERE p > 40",
    "reach": "WITH RECURSIVE r(k) AS (SELECT 0 UNION SELECT b FROM r JOIN e ON e.a = r.k) "
    "SELECT id, p FROM t WHERE k IN (SELECT k FROM r)",
    "means": "SELECT id, k, p FROM t WHERE p > (SELECT avg(p) FROM t AS u WHERE u.k = t.k)",
    "shares": "SELECT id, p / s AS share FROM t JOIN (SELECT k, sum(p) AS s FROM t GROUP BY k) "
    "AS g USING (k)",
    "latest": "SELECT t.* FROM t JOIN (SELECT k, max(id) AS id FROM t GROUP BY k) USING (k, id)",
    "medians": "SELECT id, m FROM t JOIN (SELECT k, median(p) AS m FROM t GROUP BY k) USING (k) "
    "WHERE p > m",
    "ends": "SELECT id, (p - a) / (z - a) AS r, n FROM t JOIN (SELECT k, min(p) AS a, max(p) AS z, "
    "count(*) AS n, count(DISTINCT p) AS d FROM t GROUP BY k) USING (k) WHERE z > a AND d > 1",
    "first": "SELECT e.b, x.id FROM e JOIN (SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, p, id) "
    "AS x ON x.k = e.a",
    "all": "SELECT k, count(*) AS n, sum(p) AS s, max(p) AS m, count(DISTINCT id) AS d FROM "
    "(SELECT id, k, p FROM t UNION ALL SELECT a, b, a + b FROM e WHERE a < 6) GROUP BY k",
    "last of all": "SELECT * FROM (SELECT id, k FROM t UNION ALL (SELECT a, b FROM e UNION ALL "
    "SELECT p, 7 FROM t WHERE p < 9)) ORDER BY id DESC, k LIMIT 7",
    "union": "SELECT id, p FROM t WHERE k IN (SELECT a FROM e UNION SELECT k FROM t WHERE p > 90)",
    "different": "SELECT id FROM t UNION SELECT a FROM e UNION SELECT k FROM t",
    "all joined": "SELECT t.id, x.v FROM t JOIN (SELECT a AS v FROM e UNION ALL SELECT p FROM t) "
    "AS x ON x.v = t.k WHERE t.p < 50",
    "except": "SELECT k, p % 9 AS r FROM t EXCEPT SELECT a, b FROM e",
    "except all": "SELECT k FROM t EXCEPT ALL SELECT a FROM e EXCEPT ALL SELECT b FROM e",
    "in both": "SELECT k, 1 AS one FROM t INTERSECT SELECT a, b FROM e",
    "in both, all": "SELECT p % 5 AS r FROM t WHERE p > 7 INTERSECT ALL SELECT k % 5 FROM t",
    "whole": "SELECT id, p - max(p) OVER () AS d, p / sum(p) OVER () AS s FROM t",
    "two of groups": "SELECT id, a, b FROM t JOIN (SELECT k, sum(p) AS a FROM t GROUP BY k) AS g "
    "USING (k) LEFT JOIN (SELECT a AS k, count(*) AS b FROM e GROUP BY a) AS h USING (k)",
}
CHANGES = [
    "INSERT INTO t VALUES (1000, 1, 50), (1001, NULL, 3), (1002, 39, NULL), (1003, 3, 7)",
    "UPDATE t SET k = 3 WHERE id % 7 = 0",
    "BEGIN; DELETE FROM t WHERE k = 1; INSERT INTO e VALUES (0, 4); ROLLBACK",
    "INSERT INTO e VALUES (0, 5), (5, 6), (6, 0)",
    "BEGIN; DELETE FROM t WHERE k = 2; INSERT INTO e VALUES (3, 2); COMMIT",
    "DELETE FROM e WHERE a = 0",
    "DELETE FROM t WHERE p < 60",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, 1, 1)",
]


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(view_fill, "MANY", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER, k INTEGER, p INTEGER)")
        con.execute("INSERT INTO t SELECT i, i % 12, hash(i) % 100 FROM range(300) AS r(i)")
        con.execute("CREATE TABLE e AS SELECT * FROM (VALUES (0, 1), (1, 2), (2, 3)) AS v(a, b)")
        yield con


@pytest.mark.parametrize("groups", [0, 10_000])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_right_after_every_change(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, query: str, groups: int
) -> None:
    monkeypatch.setattr(view_filling, "GROUPS", groups)
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    for change in ("SELECT 1", *CHANGES):
        con.execute(change)
        got = con.execute("FROM v ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
        assert not con.execute("VERIFY VIEW v").fetchall()
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    assert not [name for (name,) in tables if name.startswith("__tw_fill")]


@pytest.mark.parametrize(("rows", "crowded"), [("t", True), ("(FROM t WHERE id < 24)", False)])
def test_many_rows_of_a_key(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, rows: str, crowded: bool
) -> None:
    """A price holds until the next one: DuckDB joins them, and leaves few of the pairs."""
    monkeypatch.setattr(view_filling, "GROUPS", 0)
    monkeypatch.setattr(view_answers, "MANY", 1)
    since = f"SELECT k, p, id AS a, lead(id) OVER (PARTITION BY k ORDER BY id) AS b FROM {rows}"
    query = f"SELECT t.id, h.p FROM t JOIN ({since}) AS h ON h.k = t.k AND t.id >= a AND t.id < b"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    plan = con._session.database.maintainer.views["memory.main.v"].plan
    assert plan is not None
    assert plan.circuit is not None
    nodes = [n for n in plan.circuit.nodes if n is not None]
    assert {n.rows_out == 0 for n in nodes if isinstance(n.op, Join)} == {crowded}
    for change in ("SELECT 1", *CHANGES):
        con.execute(change)
        got = con.execute("FROM v ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
        assert not con.execute("VERIFY VIEW v").fetchall()


@pytest.mark.parametrize("name", ["series", "values", "tree", "means"])
def test_large_sides_are_not_kept(con: tidewheel.Connection, name: str) -> None:
    """A change that only they have finds its partners among the few rows."""
    con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
    con.execute("INSERT INTO t SELECT i, i % 12, hash(i) % 100 FROM range(150000) AS r(i)")
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
    plan = con._session.database.maintainer.views["memory.main.v"].plan
    assert plan is not None
    assert plan.circuit is not None
    nodes = [n for n in plan.circuit.nodes if n is not None]
    assert any(isinstance(n.op, Join) for n in nodes)
    kept = [len(n.op.arrangement) for n in nodes if isinstance(n.op, Arrange)]
    assert max(kept) < 1000
    assert not con.execute("VERIFY VIEW v").fetchall()


def test_days_of_a_series_are_found_by_dates(con: tidewheel.Connection) -> None:
    """generate_series gives timestamps; a date is compared with one as DuckDB does."""
    days = "SELECT i, DATE '2024-01-01' + (i % 9)::INTEGER AS d FROM range(30) AS r(i)"
    con.execute(f"CREATE TABLE s AS {days}")
    series = "generate_series(DATE '2023-12-30', DATE '2024-01-12', INTERVAL 1 DAY) AS g(d)"
    query = f"SELECT g.d, count(i) AS n, max(i) AS m FROM {series} LEFT JOIN s ON s.d = g.d"
    query = f"{query} GROUP BY ALL"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    explained = con.execute("EXPLAIN VIEW v").fetchall()[0][1]
    keys = [line for line in explained.split("\n") if "arrange by" in line]
    assert keys
    assert not any("arrange by  [" in line for line in keys)
    for change in (
        "SELECT 1",
        "INSERT INTO s VALUES (50, '2024-01-11'), (51, 'infinity'), (52, NULL)",
        "UPDATE s SET d = d + 1 WHERE i % 4 = 0 AND i < 50",
        "DELETE FROM s WHERE d = '2024-01-11'",
    ):
        con.execute(change)
        got = con.execute("FROM v ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
