"""`unnest` of a STRUCT that an aggregate gives, a column for each field: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import NULLS_AND_SEVERAL, follow, same_columns

QUERIES = {
    "the last row": "SELECT unnest(arg_max(r, d)) FROM r GROUP BY c",
    "beside a key": "SELECT c, unnest(max({'d': d, 'a': a})), count(*) AS n "
    "FROM r LEFT JOIN l ON b = c GROUP BY c",
    "of all": "SELECT unnest(min({'x': d, 'y': c})), sum(d) FROM r",
    "filtered": "SELECT c, unnest(max({'x': d}) FILTER (d > 2)) FROM r GROUP BY c "
    "HAVING count(*) > 1",
    "in an expression": "SELECT unnest(coalesce(max({'x': d}), {'x': 0})) FROM r GROUP BY c",
    "ROLLUP": "SELECT c, unnest(max({'x': d})) FROM r GROUP BY ROLLUP (c)",
    "LATERAL": "SELECT a, q.* FROM l, "
    "LATERAL (SELECT unnest(max({'x': d})) FROM r WHERE c = a) AS q",
}


@pytest.mark.parametrize("name", QUERIES)
def test_fields(name: str) -> None:
    follow(QUERIES[name], NULLS_AND_SEVERAL, random.Random(name))


@pytest.mark.parametrize("name", QUERIES)
def test_columns(name: str) -> None:
    same_columns(QUERIES[name], NULLS_AND_SEVERAL)
