"""Correlated aggregates of the rows with another value, which are those below and above it."""

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
SELECT a FROM l WHERE b > ALL (SELECT d FROM r WHERE r.c <> l.a)
SELECT a, b >= ANY (SELECT d FROM r WHERE r.c <> l.a) FROM l
SELECT a, (SELECT max(d) FROM r WHERE r.c <> l.a), (SELECT min(d) FROM r WHERE l.a != r.c + 1) FROM l
SELECT a, (SELECT count(*) FROM r WHERE r.c <> l.a), (SELECT sum(d) FROM r WHERE l.a != r.c) FROM l
SELECT a, (SELECT avg(d) FROM r WHERE r.c <> l.a), (SELECT sum(d * 0.5::double) FROM r WHERE l.a != r.c) FROM l
SELECT a, (SELECT sum(d::decimal(10,2)) / count(d) FROM r WHERE r.c <> l.a), (SELECT bool_or(d > 2) FROM r WHERE l.a != r.c) FROM l
SELECT a, (SELECT sum(d) FILTER (d > 1) FROM r WHERE r.c <> l.a), (SELECT count(*) FILTER (d > 2) FROM r WHERE l.a != r.c) FROM l
SELECT a, (SELECT max(d) FROM r WHERE r.c <> l.a AND r.d < 3), (SELECT max(d) FROM r WHERE r.c <> l.a AND r.d <> l.b) FROM l
SELECT * FROM l, LATERAL (SELECT max(d) m, count(*) n, bool_and(c > 1) FROM r WHERE r.c <> l.a) q
SELECT a FROM l WHERE b > ALL (SELECT d FROM r WHERE r.c <> l.a AND r.c <> l.b)
SELECT a, (SELECT max(k.a) FROM l k WHERE k.b <> l.b) FROM l
SELECT a, (SELECT max(d) FROM r WHERE r.c::varchar <> l.a::varchar) FROM l
SELECT a, (SELECT max(d) FROM r WHERE r.c <> l.a + l.b) FROM l
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_other_rows(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
