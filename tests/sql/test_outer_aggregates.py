"""Subqueries that read aggregates of the SELECT around them: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import NULLS_AND_SEVERAL as SETUP
from two_tables import follow

QUERIES = {
    "a condition": "SELECT a, sum(b), (SELECT count(*) FROM r WHERE c = sum(b)) FROM l GROUP BY a",
    "in HAVING": "SELECT a FROM l GROUP BY a HAVING EXISTS (SELECT 1 FROM r WHERE sum(l.b) = c)",
    "by more": "SELECT a FROM l GROUP BY a HAVING NOT EXISTS (SELECT 1 FROM r WHERE c > max(l.b))",
    "alone": "SELECT a, (SELECT sum(l.b)) FROM l GROUP BY a",
    "no groups": "SELECT (SELECT sum(l.b)), (SELECT max(d) FROM r WHERE c < avg(l.b)) FROM l",
    "a key, too": "SELECT a, (SELECT max(d) FROM r WHERE c <= count(l.b) AND d <> a) "
    "FROM l GROUP BY a",
    "filtered": "SELECT a, (SELECT min(d) FROM r WHERE c = sum(l.b) FILTER (WHERE l.a > 1)) "
    "FROM l GROUP BY a",
    "inside another": "SELECT a, (SELECT sum(d + max(l.b)) FROM r) FROM l GROUP BY a",
    "the value": "SELECT a, (SELECT sum(d) + max(l.b) FROM r WHERE c = a) FROM l GROUP BY a",
    "IN": "SELECT a, max(b) IN (SELECT c FROM r WHERE d = min(l.b)) FROM l GROUP BY a",
    "sets": "SELECT a, b, (SELECT count(*) FROM r WHERE c = sum(l.b)) FROM l GROUP BY ROLLUP(a, b)",
    "the first": "SELECT a, (SELECT d FROM r WHERE c >= min(l.b) ORDER BY d, c LIMIT 1) "
    "FROM l GROUP BY a",
}


@pytest.mark.parametrize("name", QUERIES)
def test_aggregates_of_the_select_around(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


def test_an_aggregate_two_selects_out() -> None:
    query = (
        "SELECT a, (SELECT count(*) FROM r WHERE EXISTS (SELECT 1 FROM r AS s WHERE s.d = r.c "
        "AND s.c = max(l.b))) FROM l GROUP BY a"
    )
    follow(query, SETUP, random.Random(1), incremental=False)


NOTHING = {
    "a value": "SELECT a, (SELECT d FROM r WHERE c = a LIMIT 0) FROM l",
    "EXISTS": "SELECT a FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE c = a LIMIT 0)",
    "IN": "SELECT a, b NOT IN (SELECT c FROM r LIMIT 0 OFFSET 1) FROM l",
    "the whole": "SELECT a, b FROM l LIMIT 0",
}


@pytest.mark.parametrize("name", NOTHING)
def test_no_rows(name: str) -> None:
    follow(NOTHING[name], SETUP, random.Random(name))


ROWS = {
    "rollup": "SELECT q, count(*) FROM (SELECT row(a, row(b, 'x')) AS q FROM l) GROUP BY ROLLUP(q)",
    "no partner": "SELECT q, p, a FROM l LEFT JOIN (SELECT c, row(c, d) AS q, [row(d)] AS p "
    "FROM r) AS s ON s.c = a WHERE s.c IS NULL",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_not_there(name: str) -> None:
    follow(ROWS[name], SETUP, random.Random(name))
