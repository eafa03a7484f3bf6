"""Correlated subqueries with HAVING over their one group: by operators, and as maintained views."""

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
SELECT *, (SELECT count(*) FROM r WHERE l.a = r.c HAVING count(*) <= 1) FROM l
SELECT *, (SELECT max(d) FROM r WHERE l.a = r.c HAVING min(d) > l.b) FROM l
SELECT *, (SELECT 7 FROM r WHERE l.a = r.c HAVING count(d) = 0) FROM l
SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE l.a = r.c HAVING max(d) > 2)
SELECT * FROM l WHERE EXISTS (SELECT count(*) FROM r WHERE l.a = r.c HAVING count(*) = 0)
SELECT *, EXISTS (SELECT sum(d) FROM r WHERE r.d > l.b HAVING sum(d) > 3) FROM l
SELECT * FROM l WHERE b > (SELECT avg(d) FROM r WHERE r.c = l.a HAVING count(*) < 2)
SELECT *, (SELECT count(*) FROM r HAVING count(*) > 6) FROM l
SELECT a, (SELECT sum(x.d) FROM r x LEFT JOIN r y ON x.d = y.c WHERE x.c = l.a HAVING count(y.c) > 0) FROM l
SELECT a, count(*) FROM l GROUP BY a HAVING EXISTS (SELECT 1 FROM r WHERE r.c = l.a HAVING max(d) > 1)
SELECT (WITH z AS (SELECT * FROM r) SELECT count(*) FROM z WHERE z.c = l.a HAVING count(*) > 1) FROM l
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_one_group_or_none(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
