"""EXISTS and outer joins with a residual predicate: what is kept of a row to know its partners."""

from __future__ import annotations

import pytest

import tidewheel

QUERIES = {
    "exists": "SELECT k, note FROM t WHERE EXISTS (FROM u WHERE u.k = t.k AND u.n <> t.n)",
    "not exists": "SELECT k, note FROM t WHERE NOT EXISTS (FROM u WHERE u.k = t.k AND u.n <> t.n)",
    "left join": "SELECT t.k, note, u.n FROM t LEFT JOIN u ON u.k = t.k AND u.n > t.n",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_columns_that_the_condition_does_not_look_at_are_not_counted(query: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INT, n INT, note VARCHAR); CREATE TABLE u (k INT, n INT)")
        con.execute("INSERT INTO u SELECT i % 40, i % 3 FROM range(60) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute(
            "INSERT INTO t SELECT i % 50, i % 4, repeat('long', 1000) || i FROM range(99) AS r(i)"
        )
        con.execute("INSERT INTO t SELECT k, n, 'another' FROM t LIMIT 20")
        counted = con.execute(
            "SELECT state_bytes FROM tidewheel_vertices() WHERE vertex LIKE '%matched distinct%'"
        ).fetchall()
        assert len(counted) == 1
        assert counted[0][0] < 99 * 100
        for change in (
            "DELETE FROM u WHERE n = 1",
            "UPDATE u SET n = n + 1 WHERE k < 20",
            "DELETE FROM t WHERE note = 'another' AND k < 9",
            "INSERT INTO u SELECT k, n + 1 FROM t WHERE k > 30",
            "DELETE FROM u",
        ):
            con.execute(change)
            found = con.execute("FROM v ORDER BY ALL").fetchall()
            assert found == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("DOUBLE", "0.0", "'-0.0'"),
        ("INTERVAL", "INTERVAL 1 MONTH", "INTERVAL 30 DAY"),
        ("DOUBLE[]", "[0.0]", "['-0.0'::DOUBLE]"),
        ("INTERVAL[]", "[INTERVAL 1 MONTH]", "[INTERVAL 30 DAY]"),
    ],
)
def test_a_condition_may_tell_equal_values_apart(kind: str, one: str, other: str) -> None:
    """By their texts, in spite of -0.0 = 0.0, and of a month that is 30 days."""
    on = "ON u.k = t.k AND t.x::VARCHAR <> u.s"
    queries = [
        *(f"SELECT t.k, t.x::VARCHAR FROM t {how} JOIN u {on}" for how in ("SEMI", "ANTI")),
        *(f"SELECT t.k, x::VARCHAR, s FROM t {how} JOIN u {on}" for how in ("LEFT", "FULL")),
    ]
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (k INT, x {kind}); CREATE TABLE u (k INT, s VARCHAR)")
        con.execute(f"INSERT INTO t VALUES (1, {one}), (1, {other}), (1, {other})")
        con.execute("INSERT INTO u SELECT k, x::VARCHAR FROM t LIMIT 1")
        for i, query in enumerate(queries):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for change in (
            "SELECT 1",
            f"INSERT INTO t VALUES (1, {one}), (2, {other})",
            "INSERT INTO u SELECT k, x::VARCHAR FROM t WHERE k = 2",
            "DELETE FROM u WHERE k = 1",
            f"INSERT INTO u VALUES (1, ({other}::{kind})::VARCHAR)",
        ):
            con.execute(change)
            for i, query in enumerate(queries):
                found = con.execute(f"FROM v{i} ORDER BY ALL").fetchall()
                assert found == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change
