# ruff: noqa: E501
"""Loops inside loops of several tables, against sets in Python; once and maintained."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import duckdb
import pytest

import tidewheel

Edges = set[tuple[int, int]]
Ints = set[int]


def image(rows: Ints, edges: Edges) -> Ints:
    return {b for a, b in edges if a in rows}


def reach(start: Ints, e: Edges, without: Ints = frozenset()) -> Ints:  # type: ignore[assignment]
    found: Ints = set()
    while True:
        more = (start | image(found, e)) - without
        if more == found:
            return found
        found = more


def both(of_a: Callable[[Ints], Ints], of_b: Callable[[Ints], Ints]) -> list[tuple[int, str]]:
    a: Ints = set()
    b: Ints = set()
    while True:
        before = a, b
        a = of_a(b)
        b = of_b(a)
        if (a, b) == before:
            return sorted([(x, "a") for x in a] + [(y, "b") for y in b])


def forwards(e: Edges, f: Edges) -> list[tuple[int, str]]:
    return both(lambda b: {1} | b, lambda a: image(reach(a, e), f))


def twice(e: Edges, f: Edges) -> list[tuple[int, str]]:
    return both(lambda b: reach({1} | b, e), lambda a: image(reach(a, e, {2}), f))


def fixed(e: Edges, f: Edges) -> list[tuple[int, str]]:
    return both(lambda b: {1} | b, lambda a: image(reach({0}, {x for x in e if x[1] in a}), f))


TAIL = " SELECT x, 'a' FROM a UNION SELECT y, 'b' FROM b"
REACH = "c(z INT) AS (SELECT x FROM a UNION SELECT e.b FROM c JOIN e ON e.a = z) SELECT f.b FROM c JOIN f ON f.a = z"
A = "a(x INT) AS (SELECT 1 UNION SELECT y FROM b)"
FORMS = {
    "mutually in mutually": (
        f"WITH MUTUALLY RECURSIVE {A}, b(y INT) AS (WITH MUTUALLY RECURSIVE {REACH}) {TAIL}",
        forwards,
    ),
    "the reader first": (
        f"WITH MUTUALLY RECURSIVE b(y INT) AS (WITH MUTUALLY RECURSIVE {REACH}), {A} {TAIL}",
        forwards,
    ),
    "several in several": (
        f"WITH MUTUALLY RECURSIVE {A}, b(y INT) AS (WITH MUTUALLY RECURSIVE c(z INT) AS (SELECT x FROM a UNION SELECT v FROM d), "
        f"d(v INT) AS (SELECT e.b FROM c JOIN e ON e.a = z) SELECT f.b FROM c JOIN f ON f.a = z) {TAIL}",
        forwards,
    ),
    "recursive in mutually": (
        f"WITH MUTUALLY RECURSIVE {A}, b(y INT) AS (WITH RECURSIVE {REACH.replace('(z INT)', '(z)')}) {TAIL}",
        forwards,
    ),
    "one in each": (
        "WITH MUTUALLY RECURSIVE a(x INT) AS (WITH MUTUALLY RECURSIVE c(z INT) AS (SELECT 1 UNION SELECT y FROM b UNION SELECT e.b FROM c JOIN e ON e.a = z) SELECT z FROM c), "
        "b(y INT) AS (WITH MUTUALLY RECURSIVE c(z INT) AS (SELECT x FROM a UNION SELECT e.b FROM c JOIN e ON e.a = z EXCEPT SELECT 2) SELECT f.b FROM c JOIN f ON f.a = z) "
        + TAIL,
        twice,
    ),
    "an anchor that stays": (
        f"WITH MUTUALLY RECURSIVE {A}, b(y INT) AS (WITH RECURSIVE c(z) AS (SELECT 0 UNION SELECT e.b FROM c JOIN e ON e.a = z JOIN a ON a.x = e.b) "
        f"SELECT f.b FROM c JOIN f ON f.a = z) {TAIL}",
        fixed,
    ),
    "in a group": (
        f"WITH RECURSIVE a(x) AS (SELECT 1 UNION SELECT y FROM b), b(y) AS (SELECT f.b FROM f, (WITH RECURSIVE c(z) AS (SELECT x FROM a "
        f"UNION SELECT e.b FROM c JOIN e ON e.a = z) SELECT z FROM c) q WHERE f.a = q.z) {TAIL}",
        forwards,
    ),
    "through a table of its own": (
        f"WITH RECURSIVE a(x) AS (SELECT 1 UNION SELECT y FROM b), b(y) AS (WITH q AS (SELECT x FROM a) SELECT f.b FROM f, q WHERE f.a = q.x) {TAIL}",
        lambda e, f: both(lambda b: {1} | b, lambda a: image(a, f)),
    ),
}


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        yield con


def fill(con: tidewheel.Connection, name: str, rows: Edges) -> None:
    con.execute(f"CREATE OR REPLACE TABLE {name}(a INT, b INT)")
    if rows:
        con.execute(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}")


@pytest.mark.parametrize("form", FORMS)
def test_nested_loops(con: tidewheel.Connection, form: str) -> None:
    query, evaluate = FORMS[form]
    rng = random.Random(form)
    for seed in range(4):
        e, f = (
            {(rng.randrange(7), rng.randrange(7)) for _ in range(rng.randint(4, 12))} for _ in "ef"
        )
        fill(con, "e", e)
        fill(con, "f", f)
        for fusion in ("on", "off"):
            con.execute(f"SET fusion = '{fusion}'")
            assert sorted(con.execute(query).fetchall()) == evaluate(e, f), (seed, fusion)
        con.execute("SET fusion = 'on'")
        con.execute(f"CREATE MATERIALIZED VIEW v(p, q) AS {query}")
        for _ in range(4):
            assert sorted(con.execute("FROM v").fetchall()) == evaluate(e, f), seed
            gone = rng.choice(sorted(e))
            come = rng.randrange(7), rng.randrange(7)
            con.execute(f"DELETE FROM e WHERE (a, b) = {gone}")
            e -= {gone}
            if come not in e:
                con.execute(f"INSERT INTO e VALUES {come}")
                e |= {come}
        con.execute("DROP MATERIALIZED VIEW v")


@pytest.mark.parametrize("inner", ["WITH", "WITH RECURSIVE"])
@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
def test_a_table_at_the_head_has_the_name_of_the_recursion(inner: str, union: str) -> None:
    """The step reads the recursive table, as in DuckDB; a view kept what the inner one holds."""
    more = "" if inner == "WITH" else "UNION ALL SELECT x + 1 FROM r WHERE x < 5"
    query = f"""
        WITH RECURSIVE r(x) AS ({inner} r(x) AS (SELECT a FROM t {more})
        SELECT x FROM r {union} SELECT x + 1 FROM r WHERE x < 4) SELECT x FROM r
    """
    with tidewheel.connect() as con, duckdb.connect() as duck:
        con.execute("CREATE TABLE t(a int)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO t VALUES (0), (3)")
        duck.execute("CREATE TABLE t AS SELECT * FROM (VALUES (0), (3)) v(a)")
        wanted = sorted(duck.execute(query).fetchall())
        for fusion in ("on", "off"):
            con.execute(f"SET fusion = '{fusion}'")
            assert sorted(con.execute(query).fetchall()) == wanted
        assert sorted(con.execute("FROM v").fetchall()) == wanted
