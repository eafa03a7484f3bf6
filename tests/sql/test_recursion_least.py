# ruff: noqa: E501
"""WITH MUTUALLY RECURSIVE as SQL's own recursion: where it has the same meaning, and only there."""

from __future__ import annotations

import random

import pytest

import tidewheel
from tidewheel.sql import recursion, recursion_member, recursion_plan, session

LEAST = {
    "reach": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON e.a = t.x) SELECT x FROM t",
    "wider": "WITH MUTUALLY RECURSIVE t(x bigint, y double) AS (SELECT 0, NULL UNION SELECT e.b, w::float FROM t JOIN e ON e.a = t.x) SELECT x, y, typeof(x) FROM t",
    "two anchors": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT a FROM e WHERE w = 1 UNION ALL SELECT 0 UNION SELECT e.b FROM t JOIN e ON e.a = t.x) SELECT x FROM t",
    "closure": "WITH MUTUALLY RECURSIVE t(x int, y int) AS (SELECT a, b FROM e UNION SELECT t.x, u.y FROM t JOIN t u ON t.y = u.x) SELECT x, y FROM t",
    "in turn": "WITH MUTUALLY RECURSIVE even(x int) AS (SELECT 0 UNION SELECT e.b FROM odd JOIN e ON e.a = odd.x), odd(x int) AS (SELECT NULL UNION SELECT e.b FROM even JOIN e ON e.a = even.x) SELECT even.x, odd.x FROM even, odd",
    "exists": "WITH MUTUALLY RECURSIVE t(x int, y int) AS (SELECT a, b FROM e WHERE w > 1 UNION SELECT a, b FROM e WHERE EXISTS (FROM t WHERE t.y = e.a)) SELECT x, y FROM t",
    "three": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON e.a = t.x UNION SELECT e.a FROM t JOIN e ON e.b = t.x AND w = 0) SELECT x FROM t",
}  # fmt: skip
OTHER = {
    "bag": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION ALL SELECT x + 1 FROM t WHERE x < 3) SELECT x FROM t",
    "narrower": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0.6 UNION SELECT 1.4 FROM t) SELECT x FROM t",
    "narrower step": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT x / 2 + 1 FROM t) SELECT x FROM t",
    "not monotone": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT count(*)::INT FROM t WHERE x < 1) SELECT x FROM t",
    "left over": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT a FROM e UNION SELECT 99 FROM e LEFT JOIN t ON e.b = t.x WHERE t.x IS NULL) SELECT x FROM t",
    "except": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 1 UNION SELECT x + 1 FROM t WHERE x < 5 EXCEPT SELECT 3) SELECT x FROM t",
    "limited": "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) t(x int) AS (SELECT 0 UNION SELECT x + 1 FROM t) SELECT x FROM t",
    "no recursion": "WITH MUTUALLY RECURSIVE s(x int) AS (SELECT a FROM e UNION SELECT b FROM e), t(x int) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON e.a = t.x) SELECT s.x, t.x FROM s, t",
    "no union": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT DISTINCT a FROM e WHERE a NOT IN (SELECT b FROM e) OR a IN (SELECT x FROM t)) SELECT x FROM t",
    "nested": "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT * FROM (WITH RECURSIVE r(y) AS (SELECT x FROM t UNION SELECT e.b FROM r JOIN e ON e.a = r.y) SELECT y FROM r)) SELECT x FROM t",
}  # fmt: skip


@pytest.fixture
def con():
    with tidewheel.connect() as connection:
        connection.execute("CREATE TABLE e (a INTEGER, b INTEGER, w INTEGER)")
        connection.execute("INSERT INTO e SELECT i, i + 1, i % 3 FROM range(6) AS r(i)")
        yield connection


def kinds(con, query: str) -> str:
    return str(con.execute(f"EXPLAIN (LOGICAL) {query}").fetchall()[0][1])


def rows(con, query: str) -> list[tuple[object, ...]]:
    return sorted(con.execute(query).fetchall(), key=repr)


def edit(con, dice: random.Random) -> None:
    a, b, w = dice.randrange(7), dice.randrange(7), dice.randrange(3)
    con.execute(
        dice.choice(
            [
                f"INSERT INTO e VALUES ({a}, {b}, {w})",
                f"DELETE FROM e WHERE a = {a}",
                f"UPDATE e SET w = {w}, b = {b} WHERE a = {a}",
            ]
        )
    )


def generally(con, query: str, monkeypatch) -> list[tuple[object, ...]]:
    with monkeypatch.context() as patch:
        patch.setattr(recursion_plan, "taken_apart", lambda *_: None)
        con.execute("SET fusion = 'off'; CREATE OR REPLACE TABLE another AS SELECT 1")
        found = rows(con, query)
        con.execute("RESET fusion; CREATE OR REPLACE TABLE another AS SELECT 1")
    return found


@pytest.mark.parametrize("query", LEAST.values(), ids=LEAST)
def test_a_least_fixpoint(con, query: str, monkeypatch) -> None:
    assert "(union)" in kinds(con, query)
    assert "(mutual)" not in kinds(con, query)
    found = rows(con, query)
    assert found
    assert found == generally(con, query, monkeypatch)


@pytest.mark.parametrize("query", OTHER.values(), ids=OTHER)
def test_any_other_query_is_repeated(con, query: str, monkeypatch) -> None:
    assert "(mutual)" in kinds(con, query)
    assert rows(con, query) == generally(con, query, monkeypatch)


@pytest.mark.parametrize("query", LEAST.values(), ids=LEAST)
def test_maintained(con, query: str, monkeypatch) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    dice = random.Random(query)
    for _ in range(25):
        edit(con, dice)
        assert rows(con, "FROM v") == rows(con, query)
    assert rows(con, "FROM v") == generally(con, query, monkeypatch)


def test_columns_that_are_too_few_are_told(con) -> None:
    query = "WITH MUTUALLY RECURSIVE t(x int, y int) AS (SELECT 0 UNION SELECT e.b FROM t JOIN e ON e.a = t.x) FROM t"
    with pytest.raises(tidewheel.ProgrammingError, match="columns"):
        con.execute(query)


def test_the_proof_names_the_branches(con) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {LEAST['reach']}")
    proof = "\n".join(str(r) for r in con.execute("EXPLAIN ROW (v, 2)").fetchall())
    assert "anchor of t" in proof
    assert "step of t" in proof


GROUPED = {
    "paths": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, t.d + e.w FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, d FROM t",
    "named, by place": "WITH MUTUALLY RECURSIVE t(d bigint, x int) AS (SELECT min(u.l) AS best, u.k FROM (SELECT a AS k, 0 AS l FROM e WHERE a < 2 UNION ALL SELECT 3, 1 UNION ALL SELECT e.b AS k, t.d + 1 l FROM t, e WHERE e.a = t.x) AS u GROUP BY 2) SELECT d, x FROM t",
    "components": "WITH MUTUALLY RECURSIVE c(x int, l int) AS (SELECT x, max(l) FROM (SELECT a AS x, a AS l FROM e UNION ALL SELECT b, b FROM e UNION ALL SELECT e.b, c.l FROM c JOIN e ON e.a = c.x UNION SELECT e.a, c.l FROM c JOIN e ON e.b = c.x) GROUP BY ALL) SELECT x, l FROM c",
    "flags": "WITH MUTUALLY RECURSIVE t(x int, y boolean) AS (SELECT x, bool_or(y) FROM (SELECT a AS x, w = 1 AS y FROM e UNION ALL SELECT e.b, t.y FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, y FROM t",
}  # fmt: skip
NOT_GROUPED = {
    "falls": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, 9 - t.d FROM t JOIN e ON e.a = t.x AND e.b < 3) GROUP BY x) SELECT x, d FROM t",
    "counts": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, count(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, t.d FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, d FROM t",
    "narrower key": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0.4 AS x, 0 AS d UNION ALL SELECT e.b + 0.3, t.d + 1 FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, d FROM t",
    "having": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, t.d + 1 FROM t JOIN e ON e.a = t.x) GROUP BY x HAVING min(d) < 3) SELECT x, d FROM t",
    "literal key": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 5 AS d UNION ALL SELECT 1, t.d + 1 FROM t WHERE t.d < 7) GROUP BY x) SELECT x, d FROM t",
    "limited inside": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, t.d + 1 FROM t JOIN e ON e.a = t.x LIMIT 4) GROUP BY x) SELECT count(*) FROM t",
    "its own name": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b AS x, x + t.d AS d FROM (SELECT x AS y, d FROM t) AS t JOIN e ON e.a = t.y) GROUP BY x) SELECT x, d FROM t",
    "a sum inside": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT max(e.b), max(t.d) FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, d FROM t",
    "a FROM of its own": "WITH MUTUALLY RECURSIVE t(x int, y boolean) AS (SELECT x, bool_or(y) FROM (SELECT 0 AS x, false AS y UNION ALL SELECT e.b, e.w IS DISTINCT FROM e.a FROM t JOIN e ON e.a = t.x) GROUP BY x) SELECT x, y FROM t",
    "more is read": "WITH MUTUALLY RECURSIVE t(x int, d int) AS (SELECT x, min(d) FROM (SELECT 0 AS x, 0 AS d UNION ALL SELECT e.b, t.d + 1 FROM t JOIN e ON e.a = t.x) u JOIN e ON e.a = u.x GROUP BY x) SELECT x, d FROM t",
}  # fmt: skip


@pytest.mark.parametrize("query", GROUPED.values(), ids=GROUPED)
def test_the_best_value_of_each_key(con, query: str, monkeypatch) -> None:
    assert "(improve)" in kinds(con, query)
    found = rows(con, query)
    assert found
    with monkeypatch.context() as patch:
        patch.setattr(recursion, "grouped", lambda _: None)
        con.execute("CREATE OR REPLACE TABLE another AS SELECT 1")
        assert "(mutual)" in kinds(con, query)
        assert rows(con, query) == found


@pytest.mark.parametrize("query", NOT_GROUPED.values(), ids=NOT_GROUPED)
def test_other_groups_are_repeated(con, query: str) -> None:
    assert "(mutual)" in kinds(con, query)
    con.execute("SET max_iterations = 50; SET on_limit = 'return'; BEGIN")
    rows(con, query)
    con.execute("COMMIT")  # nothing has failed on the way


@pytest.mark.parametrize("query", GROUPED.values(), ids=GROUPED)
def test_best_values_maintained(con, query: str) -> None:
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    dice = random.Random(query)
    for _ in range(25):
        edit(con, dice)
        assert rows(con, "FROM v") == rows(con, query)


def test_types_in_other_column_lists_are_told(con) -> None:
    query = "WITH RECURSIVE t(x bigint) AS (SELECT 1 UNION SELECT x + 1 FROM t WHERE x < 3) FROM t"
    with pytest.raises(tidewheel.ProgrammingError, match='"t" has types') as told:
        con.execute(query)
    assert (told.value.line, told.value.column) == (1, 16)


def test_verify_runs_the_query_as_it_is_written(con, monkeypatch) -> None:
    query = "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT x / 2 + 1 FROM t) SELECT x FROM t"
    with monkeypatch.context() as patch:
        patch.setattr(recursion_member, "widens", lambda *_: True)  # wrong: two rows become one
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert rows(con, "FROM v") == [(0,), (1,), (2,)]
        assert con.execute("VERIFY VIEW v").fetchall() == [(2, 1)]


@pytest.mark.parametrize("bound", ["_ROUNDS", "_ROWS"])
def test_verify_of_what_takes_long_to_evaluate(con, bound: str, monkeypatch) -> None:
    monkeypatch.setattr(session, bound, 100)
    con.execute(
        "CREATE TABLE chain AS SELECT i::INTEGER AS a, i::INTEGER + 1 AS b FROM range(200) AS r(i)"
    )
    query = "WITH MUTUALLY RECURSIVE t(x int) AS (SELECT 0 UNION SELECT b FROM t JOIN chain ON a = x) FROM t"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert con.execute("VERIFY VIEW v").fetchall() == []
