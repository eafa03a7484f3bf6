"""Correlated set operations: sides that are aggregates, or the same for all rows around."""

from __future__ import annotations

import random

import pytest

import tidewheel
from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (4, 1), (NULL, NULL), (NULL, 5), (6, NULL)",
)
QUERIES = """
SELECT * FROM l, LATERAL (SELECT max(d) s FROM r WHERE r.c = l.a UNION ALL SELECT min(d) FROM r) q
SELECT * FROM l, LATERAL (SELECT d FROM r WHERE r.c = l.a UNION ALL SELECT b FROM l k) q
SELECT * FROM l, LATERAL (SELECT b FROM l k UNION SELECT d FROM r WHERE r.c = l.a) q
SELECT a FROM l WHERE NOT EXISTS (SELECT b FROM l k EXCEPT SELECT d FROM r WHERE r.c = l.a)
SELECT a FROM l WHERE NOT EXISTS (SELECT d FROM r WHERE r.c = l.a EXCEPT SELECT b FROM l)
SELECT a FROM l WHERE EXISTS (SELECT d FROM r WHERE r.c = l.a INTERSECT SELECT b FROM l)
SELECT a FROM l WHERE EXISTS (SELECT b FROM l k INTERSECT ALL SELECT d FROM r WHERE r.c = l.a)
SELECT a, (SELECT sum(x) FROM (SELECT d AS x FROM r WHERE r.c = l.a UNION ALL SELECT b FROM l k)) q FROM l
SELECT a, (SELECT count(*) FROM (SELECT d AS x FROM r WHERE r.c = l.a UNION SELECT b FROM l k)) q FROM l
SELECT a, (SELECT list(x ORDER BY x) FROM (SELECT d AS x FROM r EXCEPT ALL SELECT d FROM r WHERE r.c = l.a)) q FROM l
SELECT a, ARRAY(SELECT d AS x FROM r WHERE r.c > l.a UNION SELECT b FROM l k ORDER BY 1) q FROM l
SELECT * FROM l LEFT JOIN LATERAL (SELECT d FROM r WHERE r.c = l.a UNION ALL SELECT d FROM r WHERE d > 3) q ON true
SELECT * FROM l, LATERAL (SELECT d FROM r WHERE r.c = l.a UNION ALL SELECT d FROM r WHERE d > 3 ORDER BY 1 DESC LIMIT 2) q
SELECT * FROM l, LATERAL (SELECT d FROM r WHERE r.c = l.a UNION ALL (SELECT d FROM r ORDER BY d DESC LIMIT 1)) q
SELECT * FROM l WHERE b IN (SELECT d FROM r WHERE r.c = l.a EXCEPT SELECT 3)
SELECT * FROM l WHERE b IN (SELECT b FROM l k EXCEPT SELECT d FROM r WHERE r.c = l.a)
SELECT * FROM l WHERE b NOT IN (SELECT b FROM l k EXCEPT SELECT d FROM r WHERE r.c = l.a)
SELECT * FROM l, LATERAL (WITH w AS (SELECT d FROM r) SELECT d FROM w UNION ALL SELECT d FROM r WHERE r.c = l.a) q
SELECT * FROM l, LATERAL (SELECT d FROM r WHERE r.c = l.a UNION ALL BY NAME SELECT 1 AS one, d FROM r) q
SELECT * FROM l, LATERAL (SELECT sum(d) s FROM r WHERE r.c = l.a UNION SELECT max(d) FROM r WHERE r.c = l.b) q
SELECT * FROM l, LATERAL (SELECT 'n' AS k, count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT 'm', max(d) FROM r WHERE r.d > l.b) q
SELECT * FROM l, LATERAL (SELECT count(*) s FROM r WHERE r.c = l.a EXCEPT SELECT count(*) FROM r WHERE r.c = l.b) q
SELECT a, (SELECT histogram(d) FROM r WHERE r.c = l.a) h FROM l
SELECT a, (SELECT entropy(d) FROM r WHERE r.c = l.a) h, (SELECT regr_count(c, d) FROM r WHERE r.d > l.a) n FROM l
SELECT a, (SELECT max(s) FROM (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT max(d) FROM r WHERE r.c = l.b)) q FROM l
SELECT a, (SELECT count(*) FROM (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT max(d) FROM r WHERE r.c = l.b)) q FROM l
SELECT a, (SELECT list(s ORDER BY s) FROM (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT max(d) FROM r WHERE r.c = l.b)) q FROM l
SELECT a, (SELECT count(*) FROM (SELECT max(d) s FROM r WHERE r.c = l.a)) q FROM l
SELECT a, (SELECT count(*) FROM (SELECT max(d) s FROM r WHERE r.c = l.a UNION SELECT max(d) FROM r WHERE r.c = l.a)) q FROM l
SELECT * FROM l WHERE a IN (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT max(d) FROM r WHERE r.c = l.b)
SELECT * FROM l WHERE EXISTS (SELECT count(*) s FROM r WHERE r.c = l.a EXCEPT SELECT max(d) FROM r WHERE r.c = l.b)
SELECT * FROM l WHERE NOT EXISTS (SELECT count(*) s FROM r WHERE r.c = l.a INTERSECT SELECT max(d) FROM r WHERE r.c = l.b)
SELECT * FROM l, LATERAL (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT d FROM r WHERE r.c = l.b) q
SELECT * FROM l LEFT JOIN LATERAL (SELECT max(d) s FROM r WHERE r.c = l.a UNION ALL SELECT d FROM r WHERE r.c = l.b) q ON true
SELECT * FROM l LEFT JOIN LATERAL (SELECT count(*) s FROM r WHERE r.c = l.a UNION ALL SELECT d FROM r WHERE r.c = l.b) q ON q.s > l.a
SELECT * FROM l, LATERAL (SELECT max(d) s FROM r WHERE r.c = l.a UNION ALL SELECT min(d) FROM r WHERE r.c = l.a ORDER BY 1 LIMIT 1) q
SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.c = l.a UNION ALL SELECT 1 FROM r WHERE d > 4)
SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.c = l.a UNION ALL SELECT 1 FROM r WHERE d > 4 UNION ALL SELECT 2 FROM r WHERE r.c = l.b)
SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r, LATERAL (SELECT 1 FROM l WHERE l.a = r.c UNION ALL SELECT 1 FROM l k WHERE k.b > 4) q)
SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.c = l.a UNION ALL SELECT 1 FROM r WHERE d > 4 LIMIT 1)
SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.c = l.a UNION ALL SELECT 1 FROM r WHERE d > 4 ORDER BY 1)
SELECT *, b <= ALL ((SELECT d FROM r WHERE c = l.a) UNION (SELECT d FROM r WHERE c > l.a)) FROM l
SELECT * FROM l WHERE b > ANY ((SELECT d FROM r WHERE c = l.a) EXCEPT SELECT 2)
SELECT * FROM l WHERE b = ANY ((SELECT d FROM r))
SELECT * FROM l WHERE b > SOME ((SELECT d FROM r))
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", QUERIES)
def test_sides(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ("d FROM r WHERE c = a LIMIT 1", "LIMIT without ORDER BY depends on the order of the rows"),
        ("row_number() OVER () FROM r WHERE c = a", "row_number over rows whose order is open"),
    ],
)
def test_an_open_order_is_told_as_written(select: str, told: str) -> None:
    with tidewheel.connect(threads=1) as con:
        for statement in (SETUP[0], SETUP[2]):
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT a, (SELECT {select}) AS x FROM l")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(told,)]
