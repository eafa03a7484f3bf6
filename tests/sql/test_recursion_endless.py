"""A recursion under UNION ALL that follows a cycle is told so as soon as that is certain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel

ROUND = (
    "WITH RECURSIVE r(n) AS (SELECT 'a' UNION ALL SELECT b FROM s, e WHERE a = n), "
    "s(n) AS (SELECT 'c' UNION ALL SELECT n FROM r) "
)
"""Two tables; `e` is a cycle of three, which a step of both passes at every second iteration."""


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a text, b text)")
        con.execute("INSERT INTO e VALUES ('a', 'b'), ('b', 'c'), ('c', 'a')")
        yield con


def test_the_error_names_both_iterations(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.OperationalError, match="never ends: iteration 70 gave the rows"):
        con.execute(ROUND + "SELECT count(*) FROM r")


def test_a_step_that_refers_to_its_table_twice(con: tidewheel.Connection) -> None:
    query = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n FROM r, r x) SELECT count(*) FROM r"
    )
    with pytest.raises(tidewheel.OperationalError, match="never ends"):
        con.execute(query)


def test_what_ends_after_many_rounds_is_answered(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO e SELECT i, i + 1 FROM range(400) t(i)")
    query = (
        ROUND.replace("'a'", "'7'").replace("'c'", "'9'") + "SELECT count(*), max(n::int) FROM r"
    )
    assert con.execute(query).fetchall() == [(785, 400)]
    # one row of each table at every iteration
    query = (
        "WITH RECURSIVE r(n, k) AS (SELECT 1, 0 UNION ALL SELECT 1, s.k FROM s), "
        "s(n, k) AS (SELECT 1, 0 UNION ALL SELECT 1, k + 1 FROM r WHERE k < 200) "
        "SELECT count(*) FROM r"
    )
    assert con.execute(query).fetchall() == [(402,)]


def test_with_a_volatile_step_nothing_is_certain(con: tidewheel.Connection) -> None:
    query = ROUND.replace("WHERE a = n", "WHERE a = n AND random() >= 0") + "SELECT count(*) FROM r"
    con.execute("SET max_iterations = 300")
    with pytest.raises(tidewheel.OperationalError, match="does not end within max_iterations"):
        con.execute(query)


def test_a_bound_that_is_to_return_does(con: tidewheel.Connection) -> None:
    con.execute("SET max_iterations = 200; SET on_limit = 'return'")
    ((rows,),) = con.execute(ROUND + "SELECT count(*) FROM r").fetchall()
    assert rows > 200
