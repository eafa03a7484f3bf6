"""Subqueries over an expression that the SELECT around groups by: as DuckDB, kept by changes."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
)
QUERIES = """
SELECT a + 1 AS k, (SELECT max(d) FROM r WHERE r.c = l.a + 1) FROM l GROUP BY a + 1
SELECT a % 2, sum(b) FROM l GROUP BY a % 2 HAVING EXISTS (SELECT 1 FROM r WHERE r.c % 2 = l.a % 2)
SELECT a % 2, sum(b) FROM l GROUP BY 1 HAVING NOT EXISTS (SELECT 1 FROM r WHERE r.d = l.a % 2)
SELECT a % 3, (a % 3) IN (SELECT d FROM r WHERE r.c > l.a % 3) FROM l GROUP BY 1
SELECT a % 2, max((SELECT max(d) FROM r WHERE r.c = l.a % 2)) FROM l GROUP BY a % 2
SELECT b, a % 3, (SELECT count(*) FROM r WHERE r.c = l.a % 3 AND r.d = l.b) FROM l GROUP BY 1, 2
SELECT coalesce(a, 0), (SELECT max(d) FROM r WHERE c = coalesce(l.a, 0)) FROM l GROUP BY ROLLUP (coalesce(a, 0))
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_like_duckdb(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


WHOLE = """
SELECT a + 1 AS k, (SELECT count(*) FROM r WHERE r.c = l.a + 1 AND r.d < l.a + 1) FROM l GROUP BY 1
SELECT a % 2, (SELECT sum(d + (l.a % 2)) FROM r) FROM l GROUP BY l.a % 2
SELECT a % 3, max(b) > ALL (SELECT d FROM r WHERE r.c <> l.a % 3) FROM l GROUP BY 1
""".strip().splitlines()


@pytest.mark.parametrize("query", WHOLE)
def test_by_more_than_equality(query: str) -> None:
    """The distinct values of columns are joined into these, before anything is grouped."""
    follow(query, SETUP, random.Random(len(query)), incremental=False)


WINDOWS = """
SELECT a, sum(b) FROM l GROUP BY a QUALIFY dense_rank() OVER (ORDER BY sum(b)) < 3
SELECT a % 2, a, sum(b) FROM l GROUP BY 1, 2 QUALIFY dense_rank() OVER (PARTITION BY a % 2 ORDER BY sum(b)) = 1
SELECT a % 3, count(*) FROM l GROUP BY a % 3 QUALIFY dense_rank() OVER (ORDER BY a % 3) <= 2
SELECT a, b, sum(a) FROM l GROUP BY CUBE (a, b) QUALIFY dense_rank() OVER (PARTITION BY b ORDER BY sum(a), a) < 3
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", WINDOWS)
def test_windows_ordered_by_what_the_list_has(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
