"""EXISTS and IN over a UNION of which one side reads the row around: one over either side."""

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
QUERIES = (
    "FROM l WHERE EXISTS (SELECT 1 FROM r WHERE c = a UNION ALL SELECT 2 FROM r WHERE c = 5)",
    "FROM l WHERE NOT EXISTS (SELECT c FROM r WHERE c = a UNION SELECT 1 FROM r WHERE c = 5)",
    "SELECT * FROM l WHERE b IN (SELECT d FROM r WHERE c = a UNION ALL SELECT c FROM r)",
    "FROM l WHERE b NOT IN (SELECT d FROM r WHERE c = a UNION SELECT 3 FROM r WHERE d = 1)",
    "SELECT a, b IN (SELECT d FROM r WHERE c = a UNION SELECT c FROM r WHERE d = 3) AS x FROM l",
    "SELECT a, b NOT IN (SELECT d FROM r WHERE c = a UNION ALL SELECT c FROM r UNION SELECT 7) AS x"
    " FROM l",
    "SELECT * FROM l WHERE b IN (SELECT d::BIGINT FROM r WHERE c = a UNION SELECT c FROM r)",
    "SELECT a, EXISTS (FROM r WHERE c = a UNION FROM r WHERE d = 4) AS x, sum(b) FROM l GROUP BY a",
)


@pytest.mark.parametrize("query", QUERIES)
def test_kept_by_changes(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


def test_sides_of_other_types_are_one_union() -> None:
    """`2.0` among texts is '2.0' for the UNION, which is no '2'."""
    follow(
        "SELECT * FROM l WHERE b::VARCHAR IN (SELECT d::VARCHAR FROM r WHERE c = a UNION ALL"
        " SELECT c::DECIMAL(4, 1) FROM r)",
        SETUP,
        random.Random(1),
        incremental=False,
    )
