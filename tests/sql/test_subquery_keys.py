"""GROUP BY a subquery that other clauses write once more: by operators, and as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
)
N = "(SELECT count(*) FROM r WHERE r.c = l.a)"
M = "(SELECT max(d) FROM r WHERE r.c = l.a)"
E = "EXISTS (FROM r WHERE r.c = l.a)"
QUERIES = {
    "item": f"SELECT {N}, count(*) FROM l GROUP BY {N}",
    "part": f"SELECT {N} + 1, sum(b) FROM l GROUP BY {N} HAVING {N} >= 0",
    "several": f"SELECT {E}, {M}, {N}, count(*) FROM l GROUP BY {N}, {E}, {M}",
    "operands": "SELECT a IN (SELECT c FROM r), b IN (SELECT c FROM r), count(*) FROM l "
    "GROUP BY a IN (SELECT c FROM r), b IN (SELECT c FROM r)",
    "inside": f"SELECT {N}, max({N}), {N} = max({N}) FROM l GROUP BY {N}",
    "window": f"SELECT {N}, rank() OVER (ORDER BY {N}), sum(count(*)) OVER () FROM l GROUP BY {N}",
    "alias": f"SELECT {N} AS a, count(*) FROM l GROUP BY {N}, a",
    "within": f"SELECT a + {N}, count(*) FROM l GROUP BY a + {N}",
}
SETS = f"SELECT {N}, b, count(*) FROM l GROUP BY GROUPING SETS (({N}, b), (({N})), ())"


@pytest.mark.parametrize("name", [*QUERIES, "sets"])
def test_a_subquery_is_a_key(name: str) -> None:
    follow(QUERIES.get(name, SETS), SETUP, random.Random(name), name in QUERIES)
