"""ARRAY over first rows, or groups, in another order than that of its values: as views."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 4), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
)
QUERIES = {
    "correlated": "SELECT a, ARRAY(SELECT d * 2 FROM r WHERE c = a ORDER BY d % 3 DESC, d LIMIT 2) "
    "FROM l",
    "later": "SELECT a, ARRAY(SELECT c FROM r WHERE c <= a ORDER BY abs(c - a), c, d "
    "LIMIT 2 OFFSET 1) FROM l",
    "alone": "SELECT ARRAY(SELECT d FROM r ORDER BY c NULLS FIRST, d LIMIT 3)",
    "an alias": "SELECT a, ARRAY(SELECT -d AS q FROM r WHERE c = a ORDER BY q, c LIMIT 2) FROM l",
    "all columns": "SELECT a, ARRAY(SELECT * FROM r WHERE c >= a ORDER BY d, c LIMIT 2) FROM l",
    "all columns of all": "SELECT ARRAY(FROM r), ARRAY(SELECT * FROM l ORDER BY b, a)",
    "all of one column": "SELECT a, ARRAY(FROM (SELECT d + a FROM r WHERE c = b) ORDER BY ALL) "
    "FROM l",
    "groups by count": "SELECT a, ARRAY(SELECT d % 2 FROM r WHERE c <= a GROUP BY d % 2 "
    "ORDER BY count(*) DESC, d % 2 LIMIT 1) FROM l",
    "aggregates by key": "SELECT a, ARRAY(SELECT sum(d) FROM r WHERE c >= a GROUP BY c "
    "HAVING count(*) < 3 ORDER BY c DESC) FROM l",
    "groups of all": "SELECT ARRAY(SELECT c FROM r GROUP BY c ORDER BY max(d) DESC, c LIMIT 3)",
    "counts": "SELECT a, ARRAY(SELECT count(*) AS n FROM r WHERE d > a GROUP BY c "
    "ORDER BY n, min(d), c) FROM l",
    "two keys": "SELECT a, ARRAY(SELECT d FROM r WHERE c = a ORDER BY 1 DESC, c LIMIT 2) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_first_rows_of_an_array(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


def test_a_name_of_both_an_item_and_a_column() -> None:
    query = "SELECT a, ARRAY(SELECT -d AS c FROM r WHERE r.c >= a ORDER BY c, d LIMIT 2) FROM l"
    follow(query, SETUP, random.Random(1), incremental=False)
