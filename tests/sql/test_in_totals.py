"""IN as a value and over several columns, with NULLs: right, and no dearer for rows that stay."""

from __future__ import annotations

import random

import pytest

import tidewheel
from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (NULL, 3), (3, NULL), (NULL, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (1, 2), (2, 3), (NULL, 3), (4, 1)",
)
QUERIES = {
    "value": "SELECT a, b, a IN (SELECT c FROM r) FROM l",
    "row": "SELECT a, b, (a, b) IN (SELECT c, d FROM r) FROM l",
    "not": "SELECT a, b FROM l WHERE (a, b) NOT IN (SELECT c, d FROM r)",
    "three": "SELECT a, b FROM l WHERE (a, b, a + b) NOT IN (SELECT c, d, c + 2 FROM r)",
    "any": "SELECT a, (a, b) = ANY (SELECT c, d FROM r), (a, b) <> ALL (SELECT d, c FROM r) FROM l",
    "or": "SELECT a, b FROM l WHERE (a, b) IN (SELECT c, max(d) FROM r GROUP BY c) OR a = 6",
    "total": "SELECT a, b > (SELECT count(*) // 1000 FROM r) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_random_changes(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


@pytest.mark.parametrize("name", QUERIES)
def test_a_row_leaves_the_others_alone(name: str) -> None:
    with tidewheel.connect(threads=1) as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute("INSERT INTO l SELECT i + 10, i % 7 FROM range(2000) t(i)")
        con.execute("INSERT INTO r SELECT 2 * i + 10, i % 5 FROM range(900) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
        con.execute("INSERT INTO r VALUES (7, 7)")
        passed = "SELECT sum(rows_out) FROM tidewheel_vertices()"
        before = con.execute(passed).fetchall()[0][0]
        con.execute("INSERT INTO r VALUES (8, 7)")
        con.execute("INSERT INTO l VALUES (8, 8)")
        assert con.execute(passed).fetchall()[0][0] < before + 200


def test_rows_with_a_null_do_not_meet_all_others() -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE l (a INTEGER, b INTEGER); CREATE TABLE r (c INTEGER, d INTEGER)")
        con.execute("INSERT INTO l SELECT i, NULL FROM range(500) t(i)")
        con.execute("INSERT INTO l SELECT NULL, 2 * i FROM range(500) t(i)")
        con.execute("INSERT INTO r SELECT 2 * i, if(i % 2 = 0, i, NULL) FROM range(500) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES['not']}")
        assert con.execute("SELECT count(*) FROM v").fetchall() == [(250,)]
        passed = con.execute("SELECT sum(rows_out) FROM tidewheel_vertices()").fetchall()
        assert passed[0][0] < 30_000
