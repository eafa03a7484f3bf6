"""LIMIT without ORDER BY, and row numbers, where a key leaves one row: as maintained views."""

from __future__ import annotations

import random

import pytest

import tidewheel
from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 4), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
    "CREATE TABLE k (id INTEGER PRIMARY KEY, name VARCHAR)",
    "INSERT INTO k VALUES (0, 'z'), (1, 'a'), (2, NULL), (3, 'c'), (4, 'd')",
    "CREATE TABLE t (i VARCHAR, j DOUBLE, v INTEGER, PRIMARY KEY (i, v))",
    "INSERT INTO t VALUES ('5', 0, 1), ('05', 0, 1), ('5', 1, 2)",
    "CREATE TABLE s (i INTEGER NOT NULL, j INTEGER NOT NULL, v INTEGER, UNIQUE (i, j))",
    "INSERT INTO s VALUES (1, 2, 7), (2, 1, 8), (2, 2, NULL), (3, 3, 9)",
)
KEPT = {
    "of each row": "SELECT a, (SELECT name FROM k WHERE id = b LIMIT 1) AS name FROM l",
    "with more to ask": "SELECT a, (SELECT name FROM k WHERE id = b AND id < a LIMIT 2) FROM l",
    "LATERAL": "SELECT * FROM l LEFT JOIN LATERAL (FROM k WHERE id = b LIMIT 1) AS x ON true",
    "of a constant": "SELECT name, d FROM k LEFT JOIN (SELECT c, sum(d) AS d FROM r GROUP BY c) "
    "ON c = id WHERE id = 3 LIMIT 1",
    "two columns": "SELECT a, (SELECT j FROM t WHERE i = '5' AND v = b LIMIT 1) FROM l",
    "UNIQUE": "SELECT a, (SELECT v FROM s WHERE i = a AND j = b LIMIT 1) FROM l",
    "a number of the only one": "SELECT * FROM (SELECT b, id, name, row_number() OVER "
    "(PARTITION BY b ORDER BY name) AS n FROM (SELECT DISTINCT b FROM l) JOIN k ON id = b) "
    "WHERE n = 1",
    "all the same": "SELECT 'much' AS found, 1 AS n FROM r WHERE d > 2 LIMIT 2",
    "a negative key": "SELECT name FROM k WHERE id = -1 LIMIT 1",
    "one value": "SELECT DISTINCT c, c + 1 FROM r WHERE c = 2 LIMIT 1",
    "whether there is one": "SELECT a, (SELECT 'yes' FROM r WHERE c = b LIMIT 1) AS known FROM l",
    "the key itself": "SELECT a, (SELECT c FROM r WHERE c = b LIMIT 1) AS c FROM l",
    "so many of them": "SELECT a, x.c FROM l, LATERAL (SELECT c FROM r WHERE c = b LIMIT 2) AS x",
    "no FROM": "SELECT a, z FROM l, LATERAL (SELECT a + b AS z LIMIT 1) AS x",
    "no OFFSET": "SELECT a FROM l WHERE b > 1 OFFSET 0",
    "a number that is rounded": "SELECT name FROM k WHERE id = 3 LIMIT 1.5 OFFSET 0.4",
    "a number by its power": "SELECT 1 AS one LIMIT 1e1",
    "all": "SELECT a, (SELECT count(*) FROM r WHERE c = b LIMIT ALL OFFSET 0) AS n FROM l",
}
ANEW = {
    "no key": "SELECT a, (SELECT d FROM r WHERE c = b LIMIT 1) FROM l",
    "equal doubles": "SELECT a, (SELECT j FROM t WHERE j = b LIMIT 1) FROM l",
    "half a key": "SELECT a, (SELECT j FROM t WHERE i = '5' LIMIT 1) FROM l",
    "joined with many": "SELECT d FROM k JOIN r ON id = c WHERE id = 2 LIMIT 1",
    "another way to write it": "SELECT i FROM t WHERE i::INTEGER = 5 AND v = 1 LIMIT 1",
    "a text as a number": "SELECT i FROM t WHERE i = 5 AND v = 1 LIMIT 1",
}


@pytest.mark.parametrize("name", KEPT)
def test_one_row(name: str) -> None:
    follow(KEPT[name], SETUP, random.Random(name))


@pytest.mark.parametrize("name", ANEW)
def test_more_than_one(name: str) -> None:
    with tidewheel.connect() as con:
        for statement in SETUP:
            con.execute(statement)
        (_, plan) = con.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {ANEW[name]}").fetchone()
    assert "LIMIT without ORDER BY" in plan


def test_keys_change() -> None:
    with tidewheel.connect() as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {KEPT['of each row']}")
        con.execute("FROM v").fetchall()
        for change in ("DELETE FROM k WHERE id = 1", "INSERT INTO k VALUES (1, 'b')"):
            con.execute(change)
        con.execute("UPDATE k SET name = name || '!'")
        assert con.execute("FROM v ORDER BY a NULLS LAST").fetchall() == [
            (1, None),
            (2, "b!"),
            (3, "c!"),
            (6, None),
            (None, None),
        ]
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_a_key_that_is_none_any_more() -> None:
    with tidewheel.connect() as con:
        for statement in SETUP:
            con.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {KEPT['UNIQUE']}")
        con.execute("ALTER TABLE s ALTER j DROP NOT NULL")
        (_, plan) = con.execute("EXPLAIN VIEW v").fetchone()
        assert "LIMIT without ORDER BY" in plan


def test_numbers_that_are_compared_as_double() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE h (h HUGEINT PRIMARY KEY); CREATE TABLE u (u UHUGEINT)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT row_number() OVER (PARTITION BY u) AS n "
            "FROM (SELECT DISTINCT u FROM u) JOIN h ON h = u"
        )
        con.execute("FROM v").fetchall()
        con.execute("INSERT INTO h VALUES (9007199254740992), (9007199254740993)")
        con.execute("INSERT INTO u SELECT max(h) FROM h")
        assert con.execute("FROM v ORDER BY n").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("limit", ["'x'", "1e30", "99999999999999999999"])
def test_no_number_of_rows(limit: str) -> None:
    with tidewheel.connect() as con, pytest.raises(tidewheel.DatabaseError, match=r"cast|convert"):
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT 1 AS one LIMIT {limit}")
