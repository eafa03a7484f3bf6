"""Operators whose first output is one statement's: what they keep, and what changes make of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel
from tidewheel.engine.operators import regroup, topk
from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.topk import Ordered
from tidewheel.planner import view_answers, view_doubles, view_fill, view_heads
from tidewheel.planner.view_reuse import Reusing

QUERIES = {
    "median": "SELECT g, median(x) AS m, mad(x) AS o FROM t WHERE i >= 0 GROUP BY g",
    "all": "SELECT quantile_cont(x, 0.25) AS q FROM t",
    "deviation": "SELECT mad(x) AS o FROM t",
    "quantiles": "SELECT g, median(x) AS m, quantile_disc(x, [0.1, 0.9]) AS l, max(i) AS i FROM t "
    "GROUP BY g",
    "text": "SELECT g, string_agg(s, ',' ORDER BY i) AS s FROM t GROUP BY g",
    "window": "SELECT i, g, sum(x) OVER (PARTITION BY g ORDER BY i) AS s FROM t",
    "joined": "SELECT n, median(x) AS m FROM t JOIN d USING (g) GROUP BY n",
    "ends": "SELECT g, min(x) AS a, max(x) AS b, max(s) AS c FROM t GROUP BY g",
    "sums and ends": "SELECT g, sum(x / 4) AS s, min(x) AS a, count(x) FILTER (i > 5) AS n, "
    "avg(i) AS m, max(s) AS b, arg_max(i, i) AS c FROM t GROUP BY g",
    "sum and ends of all": "SELECT max(s) AS a, sum(x) AS s, min(-x) AS b FROM t",
    "distinct and ends": "SELECT s, count(DISTINCT x) AS n, min(i) AS a, sum(i) AS c FROM t "
    "GROUP BY s",
}
CHANGES = [
    "INSERT INTO t VALUES (100, 1, 50, 'n'), (101, NULL, 3, 'm'), (102, 9, NULL, NULL)",
    "UPDATE t SET g = 2 WHERE i % 7 = 0",
    "BEGIN; DELETE FROM t WHERE g = 0; INSERT INTO t VALUES (103, 0, 1, 'z'); ROLLBACK",
    "BEGIN; DELETE FROM t WHERE g = 0; INSERT INTO t VALUES (103, 0, 1, 'z'); COMMIT",
    "INSERT INTO d VALUES (2, 'two')",
    "DELETE FROM t WHERE x = (SELECT max(x) FROM t)",
    "DELETE FROM t WHERE g IS NULL",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, 1, 1, 'a')",
]


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(view_fill, "MANY", 1)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER, g INTEGER, x INTEGER, s VARCHAR)")
        con.execute("CREATE TABLE d AS SELECT 0 AS g, 'none' AS n UNION ALL SELECT 1, 'one'")
        con.execute(
            "INSERT INTO t SELECT i, nullif(i % 4, 3), hash(i) % 20, 's' || i % 5 "
            "FROM range(60) AS r(i)"
        )
        yield con


def keyed(con: tidewheel.Connection) -> list[Keyed]:
    plan = con._session.database.maintainer.views["memory.main.v"].plan
    assert plan is not None
    assert plan.circuit is not None
    return [n.op for n in plan.circuit.nodes if n is not None and isinstance(n.op, Keyed)]


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_right_after_every_change(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, query: str, few: int
) -> None:
    monkeypatch.setattr(regroup, "FEW", few)
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert all(op.input.waiting or op.looks for op in keyed(con))
    assert not any(len(op.input) for op in keyed(con))
    got = con.execute("FROM v ORDER BY ALL").fetchall()
    assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall()
    for change in ("SELECT 1", *CHANGES):
        con.execute(change)
        got = con.execute("FROM v ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
        assert not con.execute("VERIFY VIEW v").fetchall()


@pytest.mark.parametrize("query", [QUERIES["deviation"], QUERIES["median"]])
def test_groups_that_grow_are_asked_for(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """Their rows are let go."""
    monkeypatch.setattr(view_answers, "MANY", 1 << 60)
    monkeypatch.setattr(regroup, "LARGE", 80)
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    (op,) = keyed(con)
    assert len(op.input) == 60
    con.execute("INSERT INTO t SELECT i, 1, hash(i) % 20, 's' FROM range(200, 240) AS r(i)")
    con.execute("UPDATE t SET x = x + 1 WHERE i % 3 = 0")
    assert op.looks
    assert not len(op.input)
    for change in CHANGES:
        con.execute(change)
        got = con.execute("FROM v ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change


@pytest.mark.parametrize("factor", [1, 1e22])
def test_sums_and_ends_are_one_statement(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """Also where a guess at the doubles was wrong, and it is run again."""
    con.execute("INSERT INTO t VALUES (1000, 1, 19, NULL); UPDATE t SET x = 20 WHERE i = 50")
    monkeypatch.setattr(view_doubles, "_SOME", 3)
    ran: list[str] = []
    called = Reusing.__call__
    monkeypatch.setattr(Reusing, "__call__", lambda run, sql: ran.append(sql) or called(run, sql))
    scaled = f"(abs(CASE WHEN x = 20 THEN {factor} ELSE 1 END) * x)"
    query = f"SELECT g, count(*) AS n, sum({scaled}) AS s, min({scaled}) AS a, max(i) AS b FROM t"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query} GROUP BY g")
    ends = [sql for sql in ran if "max(" in sql]
    assert len(ends) == len([sql for sql in ran if "count(*)" in sql]) == (1 if factor == 1 else 2)
    assert not con.execute("VERIFY VIEW v").fetchall()


def test_nothing_is_read_for_what_only_comes(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES['ends']}")
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT i, x FROM t ORDER BY x DESC, i LIMIT 3")
    for i in range(20):
        con.execute(f"INSERT INTO t VALUES ({200 + i}, {i % 5}, {i * 7 % 40}, 'a{i}')")
    assert all(op.input.waiting for op in keyed(con))
    for name, query in (
        ("v", QUERIES["ends"]),
        ("w", "SELECT i, x FROM t ORDER BY x DESC, i LIMIT 3"),
    ):
        got = con.execute(f"FROM {name} ORDER BY ALL").fetchall()
        assert got == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall()
    con.execute("DELETE FROM t WHERE x = (SELECT max(x) FROM t)")
    assert not con.execute("VERIFY VIEW v").fetchall()
    assert not con.execute("VERIFY VIEW w").fetchall()


@pytest.mark.parametrize("heads", [True, False])
def test_what_a_table_refuses(monkeypatch: pytest.MonkeyPatch, heads: bool) -> None:
    """The row was in the views before the table had it; heads are read as it goes again."""
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(view_heads, "PART", 0 if heads else 1 << 40)
    monkeypatch.setattr(topk, "_SOUGHT", -1)
    query = "SELECT g, max(x) AS b, min(x) AS a FROM p GROUP BY g"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE p (i INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
        con.execute("INSERT INTO p SELECT i, i % 2, i FROM range(100) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert all(op.input.waiting for op in keyed(con))
        for i, x in ((7, 1000), (8, -1000), (7, 50)):
            with pytest.raises(tidewheel.IntegrityError):
                con.execute("INSERT INTO p VALUES (?, 1, ?)", [i, x])
            assert con.execute("FROM v ORDER BY g").fetchall() == [(0, 98, 0), (1, 99, 1)]
        con.execute("INSERT INTO p VALUES (1000, 1, 1000)")
        con.execute("DELETE FROM p WHERE i IN (1, 98)")
        got = con.execute("FROM v ORDER BY g").fetchall()
        assert got == con.execute(f"{query} ORDER BY g").fetchall() == [(0, 96, 0), (1, 1000, 3)]
        for op in keyed(con):
            assert isinstance(op, Ordered)
            assert op.whole != heads
