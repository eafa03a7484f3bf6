"""LIMIT and OFFSET by an expression over constants: the number that it is."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (3, 2), (4, 1), (2, NULL)",
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b FROM l ORDER BY ALL LIMIT 1 + 2",
        "SELECT a, b FROM l ORDER BY ALL LIMIT 2 * 2 OFFSET length('a')",
        "SELECT a, b FROM l ORDER BY ALL LIMIT 2.5::DOUBLE OFFSET NULL",
        "SELECT a, b FROM l ORDER BY ALL LIMIT NULL",
        "SELECT a FROM l UNION ALL SELECT c FROM r ORDER BY 1 LIMIT 10 / 2",
        "SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE a = c LIMIT 2 - 1)",
        "SELECT a, (SELECT d FROM r WHERE a = c ORDER BY d LIMIT 3 - 2) AS d FROM l",
    ],
)
def test_kept_by_changes(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
