"""any_value and first of what the groups' keys decide: as maintained views over joins."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 4), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
    "CREATE TABLE k (id INTEGER PRIMARY KEY, name VARCHAR, x DOUBLE)",
    "INSERT INTO k VALUES (0, 'z', 0.5), (1, 'a', -0.0), (2, NULL, 2), (3, 'c', NULL), (4, 'd', 1)",
    "CREATE TABLE s (i INTEGER, code VARCHAR UNIQUE NOT NULL, word VARCHAR UNIQUE)",
    "INSERT INTO s VALUES (2, 'two', 'zwei'), (2, 'deux', NULL), (3, 'three', NULL)",
)
KEPT = {
    "a key": "SELECT a, any_value(a), first(a), max(d) FROM l JOIN r ON b = c GROUP BY a",
    "an expression": "SELECT a + b AS q, any_value(a + b) FROM l JOIN r ON b = c GROUP BY q",
    "over a key": "SELECT a, last(a * 2), count(*) FROM l JOIN r ON b = c GROUP BY a",
    "equal": "SELECT b, any_value(c), count(*) FROM l JOIN r ON b = c GROUP BY b",
    "a primary key": "SELECT id, any_value(name), first(x), sum(d) FROM k JOIN r ON id = c "
    "GROUP BY id",
    "by a reference": "SELECT c, any_value(upper(name)), sum(d) FROM r LEFT JOIN k ON id = c "
    "GROUP BY c",
    "another key": "SELECT code, any_value(i), first(word), sum(d) FROM s JOIN r ON i = c "
    "GROUP BY code",
    "a row": "SELECT id, any_value(k), mode(name) FROM k JOIN r ON id = c GROUP BY id",
    "a constant": "SELECT a, any_value('x'), first(-1) FILTER (d > 1), last(DATE '2024-01-02') "
    "FROM l JOIN r ON b = c GROUP BY ROLLUP (a)",
    "a constant of all": "SELECT any_value(2.50), mode(true), sum(d) FROM l JOIN r ON b = c",
    "a constant double": "SELECT c, any_value(0.5::DOUBLE), first('{}'::JSON) FROM l "
    "JOIN r ON b = c GROUP BY c",
    "filtered": "SELECT c, any_value(name) FILTER (WHERE d > 1), sum(d) FROM r, k WHERE id = c "
    "GROUP BY c",
    "a total": "SELECT id, any_value(coalesce(n, 0)), any_value(name), max(b) FROM k "
    "LEFT JOIN (SELECT c, count(*) AS n FROM r GROUP BY c) ON c = id LEFT JOIN l ON a = id "
    "GROUP BY id",
    "below a join": "SELECT p.id, any_value(q) FROM l LEFT JOIN "
    "(SELECT id, coalesce(name, 'none') AS q FROM k) AS p ON p.id = a GROUP BY p.id",
}
ANEW = {
    "a double": "SELECT x, any_value(x) FROM k JOIN r ON id = c GROUP BY x",
    "a key with NULLs": "SELECT word, any_value(code) FROM s JOIN r ON i = c GROUP BY word",
    "of another row": "SELECT id, any_value(d) FROM k JOIN r ON id >= c GROUP BY id",
    "more than equal": "SELECT c, first(name) FROM r LEFT JOIN k ON id = c AND d > 1 GROUP BY c",
    "the padded side": "SELECT id, any_value(c) FROM k RIGHT JOIN r ON id = c GROUP BY id",
    "NULL alike": "SELECT p.id, any_value(q) FROM l LEFT JOIN (SELECT nullif(id, 1) AS id, "
    "coalesce(nullif(id, 1), 9) AS q FROM k) AS p ON p.id IS NOT DISTINCT FROM a GROUP BY p.id",
}


@pytest.mark.parametrize("name", KEPT)
def test_what_the_keys_decide(name: str) -> None:
    follow(KEPT[name], SETUP, random.Random(name))


@pytest.mark.parametrize("name", ANEW)
def test_what_they_do_not(name: str) -> None:
    follow(ANEW[name], SETUP, random.Random(name), incremental=False)
