"""ASOF joins in a subquery that reads the row around, as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (4, 1), (NULL, NULL), (NULL, 5), (6, NULL)",
)
LEFT = """
SELECT a, (SELECT sum(k.c) FROM (FROM r WHERE r.d >= l.a) r ASOF JOIN r k ON r.c > k.c) FROM l
SELECT a, q.* FROM l, LATERAL (SELECT r.d, k.a AS f FROM r ASOF LEFT JOIN l k ON r.c > k.a WHERE r.d = l.a) q
""".strip().splitlines()  # noqa: E501
RIGHT = """
SELECT a, (SELECT sum(r.d) FROM r ASOF JOIN (SELECT l.b) k(b) ON r.c >= k.b) FROM l
SELECT a, (SELECT sum(k.a) FROM r ASOF JOIN (FROM l k WHERE k.b <= l.b) k ON r.c >= k.a) FROM l
SELECT a, q.* FROM l, LATERAL (SELECT r.c, k.a AS f FROM r ASOF JOIN (FROM l k WHERE k.b <> l.b) k ON r.c < k.a) q
""".strip().splitlines()  # noqa: E501
EQUAL = """
SELECT a FROM l WHERE a IN (SELECT k.a FROM r ASOF JOIN (FROM l k WHERE k.b = l.b) k ON r.c > k.a)
SELECT a, (SELECT sum(k.c) FROM (SELECT l.b) q(b) ASOF JOIN (FROM r WHERE r.d = l.a) k ON q.b >= k.c) FROM l
SELECT a, (SELECT list(k.c ORDER BY k.c) FROM r ASOF LEFT JOIN (FROM r k WHERE k.d = l.a) k ON r.c > k.c) FROM l
SELECT a, q.* FROM l LEFT JOIN LATERAL (SELECT k.c AS f FROM r ASOF JOIN (FROM r k WHERE k.d IS NOT DISTINCT FROM l.a) k USING (c)) q ON true
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", [*LEFT, *EQUAL])
def test_rows_by_the_row_around(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize("query", RIGHT)
def test_partners_by_the_row_around(query: str) -> None:
    """The nearest of those that are there for one row is not the nearest of all."""
    follow(query, SETUP, random.Random(len(query)), incremental=False)
