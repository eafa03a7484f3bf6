"""Series, and other table functions, whose arguments are subqueries: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import NULLS_AND_SEVERAL, follow, same_columns

QUERIES = {
    "a series": "FROM generate_series((SELECT min(a) FROM l), (SELECT max(d) FROM r))",
    "a range": "SELECT t, t + 1 AS u FROM range((SELECT max(a) FROM l) + 1) AS t WHERE t <> 2",
    "by its function": "SELECT range AS i FROM range(0, 9, (SELECT count(*) FROM r) + 1) AS t",
    "a calendar": "SELECT day::DATE AS day, count(c) AS n, sum(d) OVER (ORDER BY day) AS s "
    "FROM generate_series((SELECT DATE '2024-01-01' + min(a) FROM l), "
    "(SELECT DATE '2024-01-01' + max(a) FROM l), INTERVAL 1 DAY) AS t(day) "
    "LEFT JOIN r ON DATE '2024-01-01' + c = day GROUP BY day, d",
    "beside a table": "SELECT a, i FROM l, range((SELECT max(c) FROM r)) AS t(i) WHERE i < a",
    "outer": "SELECT a, i FROM l LEFT JOIN range((SELECT count(*) FROM r)) AS t(i) ON i = b",
    "around": "SELECT a, (SELECT sum(i) FROM range((SELECT max(d) FROM r)) AS t(i) WHERE i < a) "
    "AS s FROM l",
    "of the row": "SELECT a, (SELECT sum(i) FROM range((SELECT max(d) FROM r WHERE c = a)) t(i)) "
    "AS s FROM l",
    "from a column": "SELECT * FROM l, range(b, (SELECT max(c) FROM r)) AS t(i)",
    "up to its own": "SELECT a, i FROM l, range((SELECT count(*) FROM r WHERE c = a)) AS t(i)",
    "from a column, outer": "SELECT * FROM l "
    "LEFT JOIN range(a, (SELECT max(d) FROM r WHERE c >= b)) AS t(i) ON true",
    "two": "SELECT * FROM l, range(a, (SELECT max(d) FROM r)) AS t(i), "
    "LATERAL range(i, (SELECT count(*) FROM r WHERE c = i)) AS s(j)",
    "days of each": "SELECT a, day, count(c) FROM l, generate_series(DATE '2024-01-01' + a, "
    "(SELECT DATE '2024-01-01' + max(d) FROM r), INTERVAL 1 DAY) AS t(day) "
    "LEFT JOIN r ON DATE '2024-01-01' + c = day GROUP BY a, day",
    "a list of both": "SELECT a, x FROM l, unnest([a, (SELECT max(d) FROM r WHERE c = a)]) AS t(x)",
    "a list": "SELECT x, count(*) AS n FROM unnest((SELECT list(d ORDER BY d) FROM r)) AS t(x) "
    "GROUP BY x",
    "a list with places": "FROM unnest((SELECT list(d ORDER BY d) FROM r)) WITH ORDINALITY "
    "AS t(x, i)",
    "an object": "SELECT key, value FROM json_each((SELECT json_object('n', count(*)) FROM r))",
}


@pytest.mark.parametrize("name", QUERIES)
def test_series_of_subqueries(name: str) -> None:
    follow(QUERIES[name], NULLS_AND_SEVERAL, random.Random(name))


@pytest.mark.parametrize("name", QUERIES)
def test_their_columns(name: str) -> None:
    same_columns(QUERIES[name], NULLS_AND_SEVERAL)
