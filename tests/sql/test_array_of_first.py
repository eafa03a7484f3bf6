"""ARRAY over the first rows in another order than that of its values: as maintained views."""

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
    "two keys": "SELECT a, ARRAY(SELECT d FROM r WHERE c = a ORDER BY 1 DESC, c LIMIT 2) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_first_rows_of_an_array(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


def test_a_name_of_both_an_item_and_a_column() -> None:
    query = "SELECT a, ARRAY(SELECT -d AS c FROM r WHERE r.c >= a ORDER BY c, d LIMIT 2) FROM l"
    follow(query, SETUP, random.Random(1), incremental=False)
