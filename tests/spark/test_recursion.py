"""Loops on the driver against brute force, for the forms that Spark refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import sqlglot

from tidewheel.engine.kernels.spark import Spark, SparkError
from tidewheel.planner.spark_recursion import SparkQueries

Edges = set[tuple[int, int]]

GRAPHS: dict[str, Edges] = {
    "cycle": {(i, (i + 1) % 7) for i in range(7)},
    "random": {(r.randrange(12), r.randrange(12)) for r in [random.Random(5)] for _ in range(20)},
}
LINEAR = """
WITH RECURSIVE c(x, y) AS (
    SELECT a, b FROM edge UNION SELECT c.x, e.b FROM c JOIN edge e ON c.y = e.a
) SELECT x, y FROM c"""
NON_LINEAR = """
WITH RECURSIVE c(x, y) AS (
    SELECT a, b FROM edge UNION SELECT p.x, q.y FROM c p JOIN c q ON p.y = q.x
) SELECT x, y FROM c"""
MUTUAL = """
WITH RECURSIVE odd(x, y) AS (
    SELECT a, b FROM edge UNION SELECT even.x, b FROM even JOIN edge ON y = a
),
even(x, y) AS (
    SELECT a, a FROM edge UNION SELECT odd.x, b FROM odd JOIN edge ON y = a
) SELECT x, y FROM odd"""


def closure(edges: Edges) -> Edges:
    found = set(edges)
    while True:
        grown = found | {(x, b) for x, y in found for a, b in edges if a == y}
        if grown == found:
            return found
        found = grown


def odd_walks(edges: Edges) -> Edges:
    """Pairs joined by a walk of odd length."""
    odd, even = set(edges), {(a, a) for a, _ in edges}
    while True:
        more_odd = odd | {(x, b) for x, y in even for a, b in edges if a == y}
        more_even = even | {(x, b) for x, y in odd for a, b in edges if a == y}
        if (more_odd, more_even) == (odd, even):
            return odd
        odd, even = more_odd, more_even


@pytest.fixture(params=list(GRAPHS))
def graph(request: pytest.FixtureRequest, spark: Spark) -> Iterator[tuple[Edges, SparkQueries]]:
    edges = GRAPHS[request.param]
    queries = SparkQueries(spark, max_iterations=50)
    frame = spark.session.createDataFrame(sorted(edges), "a int, b int")
    queries.add_table("edge", frame)
    yield edges, queries
    queries.close()


@pytest.mark.parametrize(
    ("sql", "expected"), [(LINEAR, closure), (NON_LINEAR, closure), (MUTUAL, odd_walks)]
)
def test_fixpoints(graph: tuple[Edges, SparkQueries], sql: str, expected: object) -> None:
    edges, queries = graph
    rows = queries.spark.arrow(queries.evaluate(sqlglot.parse_one(sql, dialect="duckdb")))
    found = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected(edges)  # type: ignore[operator]
    assert queries.iterations > 0


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) SELECT * FROM c",
            "end within",
        ),
        ("WITH RECURSIVE c(n) AS (SELECT n FROM c) SELECT * FROM c", "no union"),
        (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n FROM d), "
            "d(n) AS (SELECT n FROM c) SELECT * FROM c",
            "mutual recursion with UNION ALL",
        ),
        (
            "WITH RECURSIVE c(n, m) USING KEY (n) AS (SELECT 1, 1 UNION SELECT n, m FROM c) "
            "SELECT * FROM c",
            "USING KEY",
        ),
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n, n FROM c) SELECT * FROM c", "2"),
    ],
)
def test_refused(spark: Spark, sql: str, reason: str) -> None:
    queries = SparkQueries(spark, max_iterations=3)
    with pytest.raises(SparkError, match=reason):
        spark.arrow(queries.evaluate(sqlglot.parse_one(sql, dialect="duckdb")))
    queries.close()
