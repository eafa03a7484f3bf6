"""VALUES with subqueries over tables in them: by operators, and as maintained views."""

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
VALUES (1), ((SELECT max(a) FROM l))
VALUES ('rows of l', (SELECT count(*) FROM l)), ('rows of r', (SELECT count(*) FROM r))
VALUES (1), ((SELECT max(a) FROM l)), (NULL) ORDER BY 1 NULLS LAST LIMIT 2
(VALUES ((SELECT sum(a) FROM l), 1.5), (2, 7))
SELECT v.k, v.n + 1 FROM (VALUES ('l', (SELECT count(*) FROM l)), ('r', 0)) v(k, n)
SELECT * FROM l, (VALUES ((SELECT min(c) FROM r)), (7)) v(x) WHERE l.a < v.x
WITH w AS (SELECT max(d) AS m FROM r) SELECT * FROM (VALUES ((SELECT m FROM w)), (3)) v(x)
SELECT * FROM l WHERE a IN (VALUES (1), ((SELECT max(c) FROM r)))
SELECT (VALUES ((SELECT max(a) FROM l))) AS m FROM r
VALUES (1) UNION ALL VALUES ((SELECT max(a) FROM l))
VALUES (1), (2)
SELECT * FROM l, (VALUES (1, l.b), ((SELECT max(c) FROM r), 2)) k(c, d)
SELECT a, (SELECT sum(k.d) FROM (VALUES (1, l.b), ((SELECT max(c) FROM r), 2)) k(c, d) WHERE k.c >= l.a) FROM l
SELECT a FROM l WHERE EXISTS (SELECT 1 FROM (VALUES (1, l.b), ((SELECT max(c) FROM r WHERE d = l.b), 2)) k(c, d) WHERE k.c >= l.a)
SELECT * FROM l LEFT JOIN (VALUES (1, l.b), ((SELECT max(c) FROM r), 2)) k(c, d) ON k.c > l.a
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_rows_of_values(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
