"""Sums over large tables whose columns are known to lie between two values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp, parse_one

import tidewheel
from tidewheel.planner import view_fill, view_sums
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.view_bounds import known

LIMIT = 1 << 32
QUERY = """
SELECT g, sum(d), avg(d), sum(d * (1 - e)), sum(d * (1 - e) * (1 + e)), sum(b), sum(b + i), sum(h),
    sum(-d), sum(w), count(d), sum(d) FILTER (b > 3), sum(CASE WHEN i > 5 THEN b ELSE i END)
    FROM t WHERE i <> 3 GROUP BY g
"""
VALUES = {
    "small": ("i % 100", "i", "i"),
    "at the limit": (f"{LIMIT // 100} - i", f"{LIMIT} - i", f"{LIMIT} - i"),
    "above the limit": (f"{LIMIT // 100} + i", f"{LIMIT} + i", f"{LIMIT}::HUGEINT * {LIMIT} + i"),
    "of both signs": ("i - 10", "i - 10", f"(i - 10)::HUGEINT * {LIMIT} * 1000"),
    "NULLs": ("CASE WHEN i % 2 = 0 THEN i END", "CASE WHEN i % 3 = 0 THEN i END", "NULL"),
}


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidewheel.Connection]:
    monkeypatch.setattr(view_fill, "MANY", 2)
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t (i INT, g INT, d DECIMAL(12, 2), e DECIMAL(12, 2), b BIGINT, "
            "h HUGEINT, w DECIMAL(30, 4))"
        )
        yield con


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_sums_are_right_and_come_back_to_nothing(
    con: tidewheel.Connection, values: tuple[str, str, str]
) -> None:
    d, b, h = values
    fill = f"SELECT i, i % 3, {d}, (i % 10) / 100, {b}, {h}, {b} FROM range(30) AS r(i)"
    con.execute(f"INSERT INTO t {fill}")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    for change in (
        "SELECT 1",
        "UPDATE t SET d = d + 50000000, b = b + 6000000000 WHERE i % 5 = 0",
        "DELETE FROM t WHERE g = 1",
        "INSERT INTO t SELECT -i, g, -d, e, -b, h, w FROM t",
        "DELETE FROM t WHERE i >= 0",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1, 1, 0.25, 0, -1, 0, 2), (1, 2, NULL, NULL, NULL, NULL, NULL)",
    ):
        con.execute(change)
        found = con.execute("FROM v ORDER BY ALL").fetchall()
        assert found == con.execute(f"FROM ({QUERY}) ORDER BY ALL").fetchall(), change
    assert len(found) == 2


def test_what_cannot_be_is_not_looked_for(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    high = view_sums._high

    def noted(*args: object) -> str:
        written.append(high(*args))  # type: ignore[arg-type]
        return written[-1]

    monkeypatch.setattr(view_sums, "_high", noted)
    con.execute("INSERT INTO t SELECT i, 1, i, 0.5, i, i, i FROM range(9) AS r(i)")
    con.execute("CREATE MATERIALIZED VIEW small AS SELECT g, sum(d * (1 - e)) FROM t GROUP BY g")
    assert written == []
    con.execute("INSERT INTO t VALUES (10, 1, -1, 0, 0, 0, 0)")
    con.execute(
        "CREATE MATERIALIZED VIEW more AS SELECT g, sum(d), sum(d * (1 - e)) FROM t GROUP BY g"
    )
    assert [" CASE " in f" {text}" for text in written] == [False, False]
    con.execute("UPDATE t SET d = 9999999999.99, e = 0.99 WHERE i = 1")
    con.execute("CREATE MATERIALIZED VIEW large AS SELECT g, sum(d * (1 - e)) FROM t GROUP BY g")
    assert " CASE " in f" {written[-1]}"


def test_what_is_nowhere_null_is_counted_once(con: tidewheel.Connection) -> None:
    """And again where there is a NULL by now."""
    query = (
        "SELECT g, count(*) AS n, count(d) AS c, count(i) AS i, sum(d), avg(b) FROM t GROUP BY g"
    )
    for at, value in enumerate(("i", "CASE WHEN i % 4 > 0 THEN i END", "NULL")):
        con.execute("DELETE FROM t")
        con.execute(
            f"INSERT INTO t SELECT i, i % 3, {value}, 0.5, {value}, i, i FROM range(30) r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v{at} AS {query}")
        for change in (
            "SELECT 1",
            "INSERT INTO t VALUES (NULL, 1, NULL, 0, NULL, 0, 0), (3, 7, NULL, 0, 1, 0, 0)",
            "UPDATE t SET d = NULL WHERE i % 2 = 1",
            "UPDATE t SET d = 1, i = NULL WHERE g = 2",
            "DELETE FROM t WHERE g = 1",
        ):
            con.execute(change)
            for view in range(at + 1):
                found = con.execute(f"FROM v{view} ORDER BY ALL").fetchall()
                assert found == con.execute(f"FROM ({query}) ORDER BY ALL").fetchall(), change


def test_terms_of_columns(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO t VALUES (-2, 1, 1.5, 0, NULL, 7, 1), (5, 2, 2.5, 1, NULL, 7, 1)")

    class Run:
        def rows(self, sql: str) -> list[tuple[object, ...]]:
            return con.execute(sql).fetchall()

    terms = {
        "i": ((-2, 5), True),
        "i * 3": ((-6, 15), True),
        "i * -i": (None, False),  # a sign is not looked into
        "i * i": ((-10, 25), True),
        "i - d": ((-4.5, 3.5), True),
        "(i + 1) * (d - 2)": ((-3, 3), True),
        "2": ((2, 2), True),
        "b": (None, False),
        "i + b": (None, False),
        "i / 2": (None, False),
        "i::DOUBLE": ((-2, 5), True),
        "i::SMALLINT": (None, False),
        "abs(i)": (None, False),
        "d || '1'": (None, False),
        "CASE WHEN b > 1 THEN i ELSE d END": ((-2, 5), True),
        "CASE WHEN b > 1 THEN d WHEN i = 0 THEN 9 END": ((1.5, 9), False),
        "CASE WHEN b > 1 THEN NULL ELSE i END": ((-2, 5), False),
        "CASE WHEN b > 1 THEN b ELSE i END": (None, False),
        "CASE WHEN b > 1 THEN NULL END": (None, False),
        "CASE i WHEN 1 THEN d END": (None, False),
    }
    columns: dict[str, exp.Expr] = {t: parse_one(t, dialect="duckdb") for t in terms}
    found = known(Text("t", (), columns), list(terms), Run())  # type: ignore[arg-type]
    assert {name: (of.ends, of.filled) for name, of in found.items()} == terms
    assert (found["i"].different, found["b"].different) == (2, None)
    con.execute("INSERT INTO t VALUES (NULL, 1, 1.5, 0, 3, 7, 1)")
    found = known(Text("t", (), columns), ["i", "i - d", "b"], Run())  # type: ignore[arg-type]
    assert [found[name].filled for name in ("i", "i - d", "b")] == [False] * 3
    con.execute("DELETE FROM t")
    con.execute("CREATE TABLE none (i INT)")
    assert known(Text("none", (), {"i": columns["i"]}), ["i"], Run()) == {}  # type: ignore[arg-type]
