"""Names of the SELECT list that its subqueries read: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import NULLS_AND_SEVERAL as SETUP
from two_tables import follow

QUERIES = {
    "a value": "SELECT a + b AS t, (SELECT count(*) FROM r WHERE c = t) FROM l",
    "a column first": "SELECT a + b AS c, a AS b, (SELECT max(d) FROM r WHERE c = b) FROM l",
    "EXISTS": "SELECT a + 1 AS t, b FROM l WHERE EXISTS (SELECT 1 FROM r WHERE d = t)",
    "two SELECTs in": "SELECT a AS t, (SELECT max(c) FROM r WHERE d = t AND EXISTS "
    "(SELECT 1 FROM r AS q WHERE q.c = t)) FROM l",
    "a key": "SELECT a AS t, (SELECT max(c) FROM r WHERE d = t) FROM l GROUP BY t",
    "an aggregate": "SELECT a, sum(b) AS t, (SELECT max(c) FROM r WHERE d <= t) FROM l GROUP BY a",
    "of no column": "SELECT a, count(*) AS n, (SELECT max(c) + n FROM r WHERE d = a) FROM l "
    "GROUP BY a",
    "both counts": "SELECT count(*) AS n, (SELECT count(*) + n FROM r WHERE d < n) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_an_alias_in_a_subquery(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


def test_an_alias_and_a_column_further_out() -> None:
    query = (
        "SELECT (SELECT count(*) FROM (SELECT c AS b, (SELECT max(q.d) FROM r AS q WHERE q.d = b) "
        "AS m FROM r) AS y WHERE y.m = z.a) FROM l AS z"
    )
    follow(query, SETUP, random.Random(1), incremental=False)
