"""Outer joins in a subquery whose ON reads the row around: by operators, as maintained views."""

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
QUERIES = """
SELECT a, (SELECT count(*) FROM r LEFT JOIN l k ON k.a = r.c AND k.b > l.b) n FROM l
SELECT a, (SELECT count(k.a) FROM r LEFT JOIN l k ON k.a = r.c AND k.b > l.b WHERE r.d = l.a) n FROM l
SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r LEFT JOIN l k ON k.a = r.c AND k.b = l.b WHERE k.a IS NULL)
SELECT a FROM l WHERE NOT EXISTS (SELECT 1 FROM r LEFT JOIN l k ON k.a = r.c AND k.b = l.b WHERE k.a IS NULL)
SELECT a, q.* FROM l, LATERAL (SELECT r.c, k.b FROM r LEFT JOIN l k ON k.a = r.c AND k.b > l.b) q
SELECT a, q.* FROM l, LATERAL (SELECT r.c, k.b FROM r LEFT JOIN l k ON k.a = l.a) q
SELECT a, q.* FROM l LEFT JOIN LATERAL (SELECT r.c, k.b FROM r LEFT JOIN l k ON k.a = l.a) q ON q.c = l.a
SELECT a, (SELECT list(k.b ORDER BY k.b) FROM r LEFT JOIN l k ON k.a = l.a AND r.d = k.b) FROM l
SELECT a, (SELECT count(k.b) FROM r LEFT JOIN l k ON k.a = r.c AND k.b > l.b WHERE r.d > l.a) n FROM l
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_outer_join(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
