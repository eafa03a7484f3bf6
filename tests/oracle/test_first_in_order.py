"""What aggregates take of the first rows in an order, under random edits, against DuckDB."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

import tidewheel
from tidewheel.engine.operators import shared
from tidewheel.planner import view_answers, view_fill, view_filling

ORDERS = (
    "x", "x DESC", "x NULLS FIRST", "x DESC NULLS FIRST", "y", "y DESC", "x / 2", "s", "d",
    "s DESC NULLS FIRST", "x::HUGEINT", "(y, s) DESC NULLS LAST", "{'s': s, 'i': i}", "[x, i]",
)  # fmt: skip
VALUES = {
    "x": ["NULL", "-2147483648", "1", "2", "2147483647"],
    "y": ["NULL", "0.5", "'nan'", "'-inf'", "-0.0", "0.0", "2"],
    "f": ["NULL", "0.5", "-0.0"],
    "s": ["NULL", "'a'", "'b'"],
    "d": ["NULL", "'2024-01-01'", "'infinity'"],
}
QUERIES = [
    query
    for function, order in itertools.product(("first", "last"), ORDERS)
    for query in (
        f"SELECT g, {function}(s ORDER BY {order}) AS v, {function}(f ORDER BY {order}) AS w, "
        "count(*) AS n FROM t GROUP BY g",
        f"SELECT {function}(y ORDER BY {order}) AS v, {function}(d ORDER BY {order}) AS w FROM t",
    )
]
QUERIES += [
    "SELECT g, first(y ORDER BY i) AS o, max(y) AS h, min(y) AS l, last(y ORDER BY i) AS c, "
    "arg_max(i, x) AS a, sum(x) AS v FROM t GROUP BY g",
    "SELECT n, first(y ORDER BY i) AS o, last(x ORDER BY i) AS c FROM t JOIN d USING (g) "
    "GROUP BY n",
    "SELECT g, max(x, 2) AS a, min(s, 3) AS b, max(y, 2) AS c, arg_max(i, x, 2) AS d, "
    "arg_min(s, i, 3) AS e FROM t GROUP BY g",
    "SELECT max(x, 3) AS a, arg_min(i, s, 2) AS b, max(x, 2) FILTER (i % 2 = 0) AS c FROM t",
    "SELECT g, arg_max(i, s) AS a, arg_min(f, s) AS b, arg_max(y, (y, x)) AS c, "
    "arg_min(s, [x]) AS d, arg_max(x, CASE WHEN s < 'b' THEN (s, d) END) FILTER (i % 2 = 0) AS e "
    "FROM t GROUP BY g",
    "SELECT arg_max(f, x::HUGEINT) AS a, arg_min(i, s || '') AS b, max((y, x), 2) AS c FROM t",
    "SELECT g, first(x ORDER BY y, i) AS v, last(i ORDER BY x) FILTER (i % 2 = 0) AS w FROM t "
    "GROUP BY g",
]


def check(seed: str, start: int, edits: int) -> None:
    """Of rows that tie the first of the table is it, so the same database says what is right."""
    rng = random.Random(seed)
    ids = itertools.count()

    def some(n: int) -> str:
        rows = (
            f"({next(ids)}, {rng.choice(['NULL', '1', '2', '3'])}, "
            f"{', '.join(rng.choice(values) for values in VALUES.values())})"
            for _ in range(n)
        )
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    def edit() -> str:
        where = f"i % {rng.randint(2, 6)} = 1"
        return rng.choice(
            [
                some(1),
                some(3),
                f"DELETE FROM t WHERE {where}",
                f"UPDATE t SET x = x % 3 WHERE {where} AND x BETWEEN -5 AND 5",
                f"UPDATE t SET y = 7, g = 2 WHERE {where}",
                f"DELETE FROM t WHERE x = (SELECT {rng.choice(['min', 'max'])}(x) FROM t)",
                "DELETE FROM t WHERE g = 1",
            ]
        )

    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INT, g INT, x INT, y DOUBLE, f FLOAT, s VARCHAR, d DATE)")
        con.execute("CREATE TABLE d AS SELECT i AS g, 'n' || i AS n FROM range(4) AS r(i)")
        con.execute(some(start))
        for i, query in enumerate(QUERIES):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for _ in range(edits):
            batch = [edit() for _ in range(rng.choice([1, 1, 3]))]
            for statement in batch if len(batch) == 1 else ["BEGIN", *batch, "COMMIT"]:
                con.execute(statement)
            for i, query in enumerate(QUERIES):
                got = Counter(map(repr, con.execute(f"FROM v{i}").fetchall()))
                right = Counter(map(repr, con.execute(query).fetchall()))
                assert got == right, (query, batch)
        kinds = con.execute("SELECT kind, count(*) FROM tidewheel_vertices() GROUP BY 1").fetchall()
        assert dict(kinds)["ordered"] > 60
        assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]


@pytest.mark.parametrize("start", [1, 30])
def test_random_edits(start: int) -> None:
    check(f"{start}", start, 12)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_filled_by_statements(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", 1)
    monkeypatch.setattr(view_answers, "MANY", 1)
    monkeypatch.setattr(shared, "FEWER", 1)
    monkeypatch.setattr(shared, "ROW", 1)
    monkeypatch.setattr(shared, "TIMES", times)
    check(f"filled {times}", 30, 8)


def test_many_groups_of_a_rule_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map has no place; the counts beside it were left without readers."""
    monkeypatch.setattr(view_fill, "MANY", 2)
    monkeypatch.setattr(view_answers, "MANY", 2)
    monkeypatch.setattr(view_filling, "GROUPS", 2)
    query = (
        "SELECT g, first(s ORDER BY MAP {s: s}) AS v, last(f ORDER BY MAP {s: s}) AS w, "
        "count(*) AS n FROM t GROUP BY g"
    )
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 20 AS g, 'a' || i % 3 AS s, i AS f FROM range(60) r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (3, 'a', 7), (30, 'b', 8)")
        assert Counter(con.execute("FROM v").fetchall()) == Counter(con.execute(query).fetchall())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_many_random_edits(seed: int) -> None:
    check(f"long {seed}", 1 + seed * 5, 40)
