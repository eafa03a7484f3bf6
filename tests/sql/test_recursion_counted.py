"""Tables without UNION in a mutual recursion have each row as often as their query gives it."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel

QUERIES = [
    "SELECT x.s, y.t FROM p x JOIN p y ON x.t = y.s",
    "SELECT x.s, z.t FROM p x JOIN p y ON x.t = y.s JOIN p z ON y.t = z.s",
    "SELECT x.s, y.t FROM p x, p y WHERE x.t < y.s",
    "SELECT DISTINCT s, 5 FROM p",
    "SELECT DISTINCT x.s, y.t FROM p x JOIN p y ON x.t = y.s",
    "SELECT s, 4 FROM p GROUP BY s",
    "SELECT s, t FROM e WHERE s IN (SELECT t FROM p)",
    "SELECT s, t FROM e WHERE EXISTS (SELECT 1 FROM p WHERE p.t = e.s)",
    "SELECT s, t FROM e SEMI JOIN p ON p.t = e.s",
    "SELECT s, t FROM p NATURAL JOIN (SELECT DISTINCT s FROM p)",
    "SELECT * FROM (SELECT s, 4 FROM p UNION SELECT t, 4 FROM p)",
    "SELECT * FROM (SELECT x.s, y.t FROM p x JOIN p y ON x.t = y.s UNION ALL SELECT t, s FROM p)",
    "SELECT * FROM (SELECT t, s FROM p UNION ALL SELECT 3, 4)",
    "SELECT * FROM (SELECT s, t FROM p INTERSECT SELECT t, s FROM p)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_the_query_over_the_fixpoint(query: str) -> None:
    with_ = (
        "WITH RECURSIVE p(s, t) AS (SELECT s, t FROM e UNION SELECT q.s, q.t FROM q "
        f"WHERE q.s > 1 AND q.t < 9), q(s, t) AS ({query}) "
    )
    dice = random.Random(query)
    with tidewheel.connect() as con, duckdb.connect() as plain:
        con.execute("SET max_iterations = 100")
        for base in (con, plain):
            base.execute("CREATE TABLE e (s INTEGER, t INTEGER)")
            base.execute("INSERT INTO e VALUES (1, 2), (3, 2), (2, 5)")
        plain.execute("CREATE TABLE p (s INTEGER, t INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {with_} FROM q")
        for _ in range(10):
            for base in (con, plain):
                base.execute("DELETE FROM e WHERE s = 6 OR t = 0")
            a, b = dice.randrange(7), dice.randrange(7)
            change = dice.choice([f"INSERT INTO e VALUES ({a}, {b})", f"DELETE FROM e WHERE s={a}"])
            for base in (con, plain):
                base.execute(change)
            plain.execute("DELETE FROM p")
            for row in con.execute(f"{with_} FROM p").fetchall():
                plain.execute("INSERT INTO p VALUES (?, ?)", row)
            expected = Counter(plain.execute(query).fetchall())
            assert Counter(con.execute(f"{with_} FROM q").fetchall()) == expected
            assert Counter(con.execute("FROM v").fetchall()) == expected


def test_tables_in_a_chain_and_beside_union_all() -> None:
    ends = {
        "p(n) AS (SELECT 1 UNION SELECT n FROM r WHERE n < 5), q(n) AS (SELECT DISTINCT n + 1 "
        "FROM p), r(n) AS (SELECT n FROM q)": [2, 3, 4, 5],
        "p(n) AS (SELECT 1 UNION SELECT n FROM r WHERE n < 5), q(n) AS (SELECT n + 1 FROM p "
        "INTERSECT ALL SELECT n + 1 FROM p), r(n) AS (SELECT n FROM q)": [2, 3, 4, 5],
        "p(n) AS (SELECT 1 UNION ALL SELECT n FROM r), r(n) AS (SELECT DISTINCT n + 1 FROM p "
        "WHERE n < 5)": [2, 3, 4, 5],
    }
    with tidewheel.connect() as con:
        con.execute("SET max_iterations = 100")
        for tables, expected in ends.items():
            query = f"WITH RECURSIVE {tables} SELECT n FROM r ORDER BY n"
            con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
            for asked in (query, "FROM v ORDER BY n"):
                assert [n for (n,) in con.execute(asked).fetchall()] == expected
