"""Rows among the rows of a subquery, its columns or its one column: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 1), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
)
QUERIES = {
    "in a column": "SELECT a, b, (a, b) IN (SELECT (c, d) FROM r) FROM l",
    "not in a column": "SELECT a, b FROM l WHERE (a, b) NOT IN (SELECT (c, d) FROM r)",
    "correlated": "SELECT a, b, (b, a) IN (SELECT (c, d) FROM r WHERE c = b) FROM l",
    "any and all": "SELECT a, (a, b) = ANY (SELECT (c, d) FROM r), "
    "(a, b) <> ALL (SELECT (c, d) FROM r) FROM l",
    "in columns": "SELECT a, b, ROW(a, b) IN (SELECT c, d FROM r) FROM l",
    "any of columns": "SELECT a, ROW(a, b) = ANY (SELECT c, d FROM r), "
    "ROW(a, b) <> ALL (SELECT c, d FROM r) FROM l",
    "one value": "SELECT a, ROW(a) IN (SELECT c FROM r), ROW(b) NOT IN (SELECT d FROM r) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_row_among_rows(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


def test_a_row_in_a_row_is_unknown_beside_a_null() -> None:
    """In DuckDB, where it is not so alone."""
    query = "SELECT a, ((a, b), b) IN (SELECT (c, d), d FROM r) FROM l"
    follow(query, SETUP, random.Random(1), incremental=False)
