"""Columns that a pattern chooses, COLUMNS(…) in WHERE and ORDER BY, as arguments: maintained."""

from __future__ import annotations

import random

import pytest

from two_tables import follow, same_columns

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (3, 2), (4, 1), (2, NULL)",
)
QUERIES = (
    "SELECT * LIKE 'a%' FROM l",
    "SELECT * NOT LIKE 'a%' FROM l JOIN r ON b = c",
    "SELECT * ILIKE '%A%' FROM l JOIN r ON a = d",
    "SELECT r.* GLOB '[a-c]' FROM l JOIN r ON b = c",
    "SELECT r.* NOT SIMILAR TO '[a-c]', a FROM l JOIN r ON b = c",
    "SELECT * EXCLUDE (a) SIMILAR TO '[a-c]' FROM l, r",
    "SELECT * LIKE 'a' FROM l x, l y",
    "SELECT -COLUMNS('[ab]') FROM l ORDER BY a, b LIMIT 2",
    "SELECT a + b AS s FROM (SELECT COLUMNS('[ab]') * 2 FROM l)",
    "SELECT xa FROM (SELECT COLUMNS('([ab])') AS 'x\\1' FROM l)",
    "WITH q AS (SELECT c, sum(COLUMNS('[ad]')) FROM l, r WHERE b = c GROUP BY c) SELECT a FROM q",
    "SELECT c, max(COLUMNS(l.*)) FROM l JOIN r ON b = c GROUP BY c",
    "SELECT greatest(*COLUMNS('[ab]'), 2), list_sum([*COLUMNS(*)]) FROM l",
    "SELECT coalesce(UNPACK(COLUMNS('[ab]'))) FROM l",
    "SELECT sum(least(*COLUMNS(* EXCLUDE d))) FROM l, r WHERE a = d",
    "SELECT a FROM l WHERE 2 IN (*COLUMNS('[ab]'))",
    "SELECT * FROM l WHERE COLUMNS(*) > 1",
    "SELECT * FROM l WHERE (COLUMNS(*) > 2) IS NOT TRUE OR a = 1",
    "SELECT * FROM l JOIN r ON b = c WHERE COLUMNS('[ad]') + COLUMNS('[ad]') > 3 AND c > 1",
    "SELECT * FROM l ORDER BY COLUMNS('[ab]') LIMIT 2",
    "SELECT DISTINCT ON (COLUMNS('[a]')) * FROM l ORDER BY a, b",
    "SELECT a FROM l WHERE b IN (SELECT COLUMNS('c') FROM r)",
    "SELECT (SELECT max(COLUMNS('c')) FROM r) AS m, COLUMNS('a') FROM l",
    "SELECT unnest({'lo': min(a), 'hi': max(b)}) FROM l",
    "SELECT b, unnest({'lo': min(a), 'n': count(*)}) FROM l GROUP BY b",
    # in the SELECT list #1 is a column of FROM, in ORDER BY one of the SELECT list
    "SELECT #2, a FROM l ORDER BY #1 DESC, #2 LIMIT 3",
    "SELECT b, #4, #2 + #3 AS s FROM l JOIN r ON b = c",
    "SELECT y.a, #1, #4 FROM l JOIN l y ON l.b = y.a",
    # FROM first: a comma binds looser than the joins behind it there, too
    "FROM l, r RIGHT JOIN l z ON z.a = r.c",
    "FROM l, r x FULL JOIN r y ON x.c = y.d SELECT a, y.c WHERE a > 1",
)


@pytest.mark.parametrize("query", QUERIES)
def test_kept_by_changes(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))


@pytest.mark.parametrize("query", QUERIES)
def test_names_and_types(query: str) -> None:
    same_columns(query, SETUP)


def test_names_of_expressions_are_duckdbs() -> None:
    """UNPIVOT makes values of them, and a pattern chooses by them."""
    follow("UNPIVOT (SELECT a, COLUMNS('b')::VARCHAR FROM l) ON b", SETUP, random.Random(1))
    for query in (
        "SELECT COLUMNS('max.*') FROM (SELECT max(a), min(b) FROM l)",
        "SELECT * LIKE 'max(%' FROM (SELECT max(a), min(b) FROM l)",
    ):
        follow(query, SETUP, random.Random(2), incremental=False)
