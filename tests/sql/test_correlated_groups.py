"""Correlated subqueries of one group with HAVING, subqueries beside aggregates, keys of outside."""

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
SELECT * FROM l, LATERAL (SELECT sum(d) s FROM r WHERE r.c = l.a HAVING sum(d) > 2) q
SELECT * FROM l, LATERAL (SELECT sum(d) s, count(*) FROM r WHERE r.c = l.a HAVING s > 2) q
SELECT * FROM l, LATERAL (SELECT sum(d) s FROM r WHERE r.c = l.a HAVING count(*) = 0) q
SELECT * FROM l, LATERAL (SELECT 7 s FROM r WHERE r.c = l.a HAVING count(*) < 2) q
SELECT * FROM l LEFT JOIN LATERAL (SELECT sum(d) s, max(d) m FROM r WHERE r.c = l.a HAVING sum(d) > 2) q ON true
SELECT * FROM l LEFT JOIN LATERAL (SELECT sum(d) s, max(d) m FROM r WHERE r.d > l.b HAVING count(*) > 2) q ON q.s > l.a
SELECT * FROM l, LATERAL (SELECT max(d) AS d FROM r WHERE r.c = l.a HAVING max(d) > 2) q
SELECT * FROM l, LATERAL (SELECT count(*) AS n FROM r WHERE r.c = l.a HAVING n > l.b) q
SELECT * FROM l, LATERAL (SELECT count(*) AS n FROM r WHERE r.c = l.a HAVING count(*) > (SELECT min(c) FROM r)) q
SELECT * FROM l, LATERAL (SELECT max(d), min(d) FROM r WHERE r.c = l.a HAVING count(*) > 1 LIMIT 1) q
SELECT * FROM l WHERE b IN (SELECT max(d) FROM r WHERE r.c = l.a HAVING count(*) > 1)
SELECT * FROM l WHERE b NOT IN (SELECT max(d) FROM r WHERE r.c = l.a HAVING count(*) < 2)
SELECT *, b IN (SELECT max(d) FROM r WHERE r.c = l.a HAVING count(*) < 2) FROM l
SELECT *, b > ALL (SELECT max(d) FROM r WHERE r.c = l.a HAVING count(*) < 2) FROM l
SELECT * FROM l, LATERAL (SELECT max(d) m FROM r WHERE r.c = l.a HAVING count(*) > 1 UNION ALL SELECT min(d) FROM r WHERE r.c = l.a) q
SELECT * FROM l, LATERAL (SELECT * FROM (SELECT max(d) m FROM r WHERE r.c = l.a HAVING count(*) > 0) k WHERE m > 1) q
SELECT a, (SELECT count(*) FROM (SELECT max(d) m FROM r WHERE r.c = l.a HAVING count(*) > 0) k) q FROM l
SELECT * FROM l, LATERAL (SELECT sum(d) s FROM r WHERE r.c = l.a HAVING s > 2 ORDER BY s) q
SELECT a, (SELECT count(*) + (SELECT max(k.d) FROM r k WHERE k.c = l.b) FROM r WHERE r.c = l.a) q FROM l
SELECT a, (SELECT count(*) + (SELECT max(d) FROM r) FROM r WHERE r.c = l.a) q FROM l
SELECT a, (SELECT sum(d) * 100.0 / (SELECT sum(d) FROM r) FROM r WHERE r.c = l.a) q FROM l
WITH w AS (SELECT c, max(d) m FROM r GROUP BY c) SELECT a, (SELECT sum(m) - (SELECT max(m) FROM w WHERE w.c > l.a) FROM w WHERE w.c = l.a) FROM l
SELECT a, (WITH w AS (SELECT d FROM r WHERE r.c = l.a) SELECT (SELECT max(d) FROM w) - (SELECT min(d) FROM w)) FROM l
SELECT a, (WITH w AS (SELECT d FROM r WHERE r.c = l.a) SELECT count(*) - (SELECT min(d) FROM w) FROM w) FROM l
SELECT a, (WITH w AS (SELECT d FROM r WHERE r.c = l.a) SELECT count(*) FROM w WHERE d > (SELECT avg(d) FROM w)) FROM l
SELECT a, (SELECT max(d) IN (SELECT d FROM r k WHERE k.c = l.b) FROM r WHERE r.c = l.a) q FROM l
SELECT a, (SELECT count(*) > 0 AND EXISTS (SELECT 1 FROM r k WHERE k.c = l.b) FROM r WHERE r.c = l.a) q FROM l
SELECT * FROM l, LATERAL (SELECT count(*) n, max(d) - (SELECT min(d) FROM r) AS m, l.a + 1 AS k FROM r WHERE r.c = l.a) q
SELECT * FROM l, LATERAL (SELECT count(*) FILTER (d > 2), (SELECT min(d) FROM r), max(d) FROM r WHERE r.c = l.a) q
SELECT a, (SELECT count_if(v IS NULL) FROM (SELECT max(d) v FROM r WHERE r.c > l.a)) FROM l
SELECT a, (SELECT bool_and(v IS NULL) FROM (SELECT max(d) v FROM r WHERE r.c = l.a)) FROM l
SELECT a, (SELECT histogram(v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a)) FROM l
SELECT a, (SELECT count(*) FROM (SELECT max(d) v FROM r WHERE r.c = l.a) s LEFT JOIN r ON r.d = v) FROM l
SELECT a, (SELECT arg_max(v, w) FROM (SELECT max(d) v, min(d) w FROM r WHERE r.c = l.a)) FROM l
""".strip().splitlines()  # noqa: E501
BY_THE_ROW_AROUND = """
SELECT a, (SELECT sum(d) FROM r WHERE c = a GROUP BY l.a) FROM l
SELECT a, (SELECT count(*) FROM r WHERE c = a GROUP BY l.a) FROM l
SELECT a, b, (SELECT count(*) + l.b FROM r WHERE c = a GROUP BY l.a, l.b, c) FROM l
SELECT * FROM l, LATERAL (SELECT l.a AS x, d % 2 AS p, count(*) AS n FROM r WHERE c = l.b GROUP BY l.a, p) q
SELECT * FROM l, LATERAL (SELECT l.a AS x, count(*) AS n FROM r WHERE c = l.b GROUP BY ALL) q
SELECT * FROM l LEFT JOIN LATERAL (SELECT l.a AS x, sum(d) AS n FROM r WHERE c = l.b GROUP BY 1) q ON true
SELECT a, (SELECT l.a FROM r WHERE c = a GROUP BY l.a HAVING sum(d) > l.b) FROM l
SELECT a, EXISTS (SELECT 1 FROM r WHERE c = a GROUP BY l.a HAVING count(*) > 1) FROM l
SELECT a, ARRAY(SELECT max(d) FROM r WHERE c = a GROUP BY l.a + 1, c % 2 ORDER BY 1) FROM l
SELECT a, (SELECT sum(d) FROM r WHERE c >= a GROUP BY l.a) FROM l
SELECT a, (SELECT l.b * 2 + max(d) FROM r WHERE c = a GROUP BY l.b * 2) FROM l
""".strip().splitlines()  # noqa: E501
FOLLOWS_ROWS = """
SELECT a, (SELECT list(v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a)) FROM l
SELECT a, (SELECT first(v) FROM (SELECT max(d) v FROM r WHERE r.c > l.a)) FROM l
SELECT a, (SELECT list(v) FROM (SELECT count(*) v FROM r WHERE r.c = l.a) WHERE v = 0) FROM l
SELECT a, (SELECT any_value(v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a)) FROM l
SELECT a, (SELECT list(v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a) GROUP BY v) FROM l
SELECT a, (SELECT list(v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a) s JOIN r ON r.d = v) FROM l
SELECT a, (SELECT list(v ORDER BY v) FROM (SELECT max(d) v FROM r WHERE r.c = l.a) s RIGHT JOIN r ON r.d = v) FROM l
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_one_group_or_none(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize("query", BY_THE_ROW_AROUND)
def test_groups_by_the_row_around(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize("query", FOLLOWS_ROWS)
def test_over_one_row_of_nulls(query: str) -> None:
    """These have DuckDB's rows, though it takes them anew: its reason is another one."""
    follow(query, SETUP, random.Random(len(query)), incremental=False)
