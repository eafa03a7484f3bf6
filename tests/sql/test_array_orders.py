"""ARRAY(SELECT … ORDER BY …) by an alias, a number, or all columns: as DuckDB, kept by changes."""

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
ORDERS = """
SELECT a, ARRAY(SELECT -d AS z FROM r WHERE c >= a ORDER BY z)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS z FROM r WHERE c >= a ORDER BY Z DESC NULLS FIRST, c)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS z FROM r ORDER BY -z, z + 1)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS d FROM r ORDER BY d)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS d FROM r ORDER BY d + 1 DESC)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS c FROM r ORDER BY c, d)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS a FROM r WHERE r.c = l.a ORDER BY a)::VARCHAR FROM l
SELECT a, ARRAY(SELECT c FROM r ORDER BY ALL)::VARCHAR FROM l
SELECT a, ARRAY(SELECT c AS z FROM r WHERE d <> a ORDER BY ALL DESC NULLS FIRST)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -c AS z FROM r ORDER BY 1, z)::VARCHAR FROM l
SELECT a, ARRAY(SELECT DISTINCT d FROM r WHERE c <= a ORDER BY d NULLS FIRST)::VARCHAR FROM l
SELECT a, ARRAY(SELECT -d AS z FROM r WHERE c >= a ORDER BY z DESC LIMIT 2)::VARCHAR FROM l
SELECT a, ARRAY(SELECT d FROM r WHERE c <> a ORDER BY 1 LIMIT 2 OFFSET 1)::VARCHAR FROM l
SELECT a, ARRAY(SELECT max(d) AS m FROM r GROUP BY c ORDER BY m DESC)::VARCHAR FROM l
SELECT a, ARRAY(SELECT d FROM r WHERE r.c = l.a UNION SELECT l.b ORDER BY d)::VARCHAR FROM l
SELECT a, ARRAY(SELECT sum(d) OVER (PARTITION BY c) AS w FROM r ORDER BY w, c)::VARCHAR FROM l
SELECT a, ARRAY(SELECT x.c + y.d AS z FROM r x JOIN r y ON x.c = y.d ORDER BY z)::VARCHAR FROM l
""".strip().splitlines()


@pytest.mark.parametrize("query", ORDERS)
def test_orders(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


def test_all_columns() -> None:
    """The order of what is not FROM's first column is DuckDB's own."""
    query = "SELECT a, ARRAY(SELECT d FROM r ORDER BY ALL)::VARCHAR FROM l"
    follow(query, SETUP, random.Random(1), incremental=False)


GROUPS = """
SELECT q.j, count(*) FROM (SELECT a AS i, b AS j FROM l) AS q GROUP BY ROLLUP (q.j) HAVING count(q.i) >= (SELECT min(i) FROM (VALUES (1, 2), (2, 3)) AS w(i, j))
SELECT max(q.i) FROM (SELECT a AS i, b AS j FROM l) AS q HAVING max(q.i) IN (SELECT w.i FROM (VALUES (1, 'a'), (6, 'b')) AS w(i, j) WHERE i > 1)
SELECT q.j, max(q.i) FROM (SELECT a AS i, b AS j FROM l) AS q GROUP BY q.j HAVING EXISTS (SELECT 1 FROM (VALUES (1), (3)) AS w(i) WHERE w.i < q.j)
SELECT a, (SELECT max(a) FROM (VALUES (1), (3)) AS w(a)) FROM l
SELECT a, (SELECT max(w.a) FROM (VALUES (1), (3)) AS w(a) WHERE w.a <> l.a) FROM l
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", GROUPS)
def test_names_of_values_that_columns_have(query: str) -> None:
    """In a subquery over VALUES a name is its own first; above GROUP BY there is no other."""
    follow(query, SETUP, random.Random(len(query)))


MACROS = """
SELECT upto(upto(d)) FROM r
SELECT upto(upto(upto(1)) + d) FROM r
SELECT upto((SELECT max(b) FROM l WHERE l.a = r.c)) FROM r
SELECT c FROM r WHERE upto(twice(upto(d))) > 2
SELECT c, upto((SELECT count(*) FROM r AS s WHERE s.c = r.c)) FROM r GROUP BY c
SELECT (SELECT max(upto(upto(s.d))) FROM r AS s WHERE s.c = l.a) FROM l
SELECT upto((SELECT count(*) FROM l AS n WHERE n.a <= upto(r.d))) FROM r
""".strip().splitlines()


@pytest.mark.parametrize("query", MACROS)
def test_macros_over_subqueries(query: str) -> None:
    macros = (
        "CREATE MACRO upto(n) AS (SELECT count(*) FROM l AS m WHERE m.a <= n)",
        "CREATE MACRO twice(n) AS n + n",
    )
    follow(query, (*SETUP, *macros), random.Random(len(query)))
