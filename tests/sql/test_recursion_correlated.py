"""Recursions that read the rows of a query around them: as for each of these rows by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import tidewheel

EDGES = [(1, 2), (2, 3), (3, 1), (4, 5), (5, 7), (6, 6), (7, None)]
PEOPLE = [(1, 1), (4, 1), (None, 2), (7, 2), (9, None)]

# {0} stands for a value of the row around the recursion, {1} for another.
PROGRAMS = {
    "two tables": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT e.b FROM s JOIN e ON e.a = s.n),
        s(n) AS (SELECT 0 UNION SELECT n FROM r) SELECT count(*), max(n) FROM r
    """,
    "two references": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT b FROM r, e WHERE a = r.n UNION
        SELECT r.n + x.n FROM r, r AS x WHERE r.n + x.n < 9) SELECT count(*), sum(n) FROM r
    """,
    "both columns": """
        WITH RECURSIVE r(x, y) AS (SELECT a, b FROM e WHERE a >= {0} UNION SELECT r.x, z.y
        FROM r, r z WHERE r.y = z.x AND z.y <> {1}) SELECT count(*), max(y) FROM r
    """,
    "in the step": """
        WITH RECURSIVE r(n) AS (SELECT a FROM e UNION SELECT n FROM s), s(n) AS (SELECT 8
        UNION SELECT r.n + {0} FROM r WHERE r.n < 30 AND r.n + {0} <> {1}) SELECT count(*),
        sum(n) FROM r
    """,
    "best": """
        WITH RECURSIVE r(n, v) AS (SELECT {0}, 0 UNION SELECT b, min(v + d) FROM r, w WHERE
        a = n GROUP BY b) SELECT count(*), sum(v) FROM r
    """,
    "best by place": """
        WITH RECURSIVE r(n, v) AS (SELECT {0}, {1} UNION SELECT b, min(v + d) FROM w JOIN r
        ON a = n WHERE d < 9 GROUP BY 1) SELECT max(n), sum(v) FROM r
    """,
    "enough of them": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT 3 UNION SELECT b FROM r, e WHERE a =
        n GROUP BY b HAVING count(*) >= 1) SELECT count(*), sum(n) FROM r
    """,
    "EXISTS": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT b FROM e WHERE EXISTS (SELECT 1 FROM
        s WHERE s.n = a)), s(n) AS (SELECT {1} UNION SELECT n FROM r) SELECT count(*),
        max(n) FROM r
    """,
    "a table of its own": """
        WITH RECURSIVE h AS (SELECT {0} + 1 AS v), r(n) AS (SELECT v FROM h UNION SELECT b
        FROM s, e WHERE a = s.n), s(n) AS (SELECT 0 UNION SELECT n FROM r, h WHERE n <= v)
        SELECT count(*), max(n) FROM (SELECT n FROM r UNION SELECT n FROM s)
    """,
    "several steps": """
        WITH RECURSIVE r(n) AS (SELECT max(a) FROM e WHERE a <= {0} UNION SELECT d FROM w
        WHERE a IN (FROM r) AND d <> {1} UNION SELECT b FROM e WHERE a IN (FROM r))
        SELECT count(*), sum(n) FROM r
    """,
    "parentheses": """
        WITH RECURSIVE r(n) AS ((SELECT a FROM e WHERE a >= {0} ORDER BY a LIMIT 1) UNION
        SELECT x.n + 1 FROM r AS x, r AS y WHERE x.n + y.n > {1} AND x.n < 9)
        SELECT count(*), sum(n) FROM r
    """,
    "UNION ALL": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION ALL SELECT n + 1 FROM s WHERE n < 9), s(n)
        AS (SELECT 2 UNION ALL SELECT n + 1 FROM r WHERE n < 12) SELECT count(*), sum(n)
        FROM r
    """,
    "mutually": """
        WITH MUTUALLY RECURSIVE r(n int) AS (SELECT {0} UNION SELECT b FROM r, e WHERE a =
        n) SELECT count(*), max(n) FROM r
    """,
    "mutually, best": """
        WITH MUTUALLY RECURSIVE r(n int, v int) AS (SELECT n, min(v) FROM (SELECT {0} AS n,
        0 AS v UNION ALL SELECT b, v + d FROM r, w WHERE a = n) GROUP BY n) SELECT count(*),
        sum(v) FROM r
    """,
    "mutually, not monotone": """
        WITH MUTUALLY RECURSIVE r(n int) AS (SELECT {0} UNION SELECT n + 2 FROM r WHERE n <
        9 EXCEPT SELECT 7), c(k int) AS (SELECT count(*) FROM r) SELECT count(*), max(k)
        FROM c
    """,
    "mutually, limited": """
        WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) r(n int) AS (SELECT {0} UNION
        ALL SELECT n + 1 FROM r) SELECT count(*), max(n) FROM r
    """,
    "linear": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT b FROM r, e WHERE a = n AND b <>
        {1}) SELECT count(*), max(n) FROM r
    """,
    "linear, all": """
        WITH RECURSIVE r(n, k) AS (SELECT {0}, 1 UNION ALL SELECT b, k + 1 FROM r, e WHERE a
        = n AND k < 5) SELECT count(*), sum(n * k) FROM r
    """,
    "linear, together": """
        WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT max(n) + 1 FROM r HAVING max(n) < 8)
        SELECT count(*), max(n) FROM r
    """,
}


@pytest.fixture(params=["on", "off"])
def connection(request: pytest.FixtureRequest) -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a int, b int); CREATE TABLE p(id int, other int)")
        con.execute("CREATE TABLE w(a int, b int, d int)")
        con.executemany("INSERT INTO e VALUES (?, ?)", EDGES)
        con.executemany("INSERT INTO p VALUES (?, ?)", PEOPLE)
        con.execute("INSERT INTO w VALUES (1,2,5), (2,3,1), (1,3,9), (3,4,1), (4,1,1), (7,7,0)")
        con.execute(f"SET fusion = '{request.param}'")
        yield con


def rows(con: tidewheel.Connection, sql: str) -> list[Any]:
    return sorted(con.execute(sql).fetchall(), key=repr)


def one_by_one(con: tidewheel.Connection, program: str) -> list[Any]:
    """What each row of `p` has, its values written into the recursion."""
    found = []
    for values in con.execute("SELECT id, other FROM p").fetchall():
        known = ["NULL::int" if v is None else f"{v}" for v in values]
        found.append((*values, *con.execute(program.format(*known)).fetchall()[0]))
    return sorted(found, key=repr)


def lateral(program: str) -> str:
    text = program.format("p.id", "p.other")
    return f"SELECT p.*, q.* FROM p, LATERAL ({text}) q"


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_row_has_a_recursion_of_its_own(connection: tidewheel.Connection, name: str) -> None:
    program = PROGRAMS[name]
    expected = one_by_one(connection, program)
    assert rows(connection, lateral(program)) == expected
    unqualified = program.format("id", "other")
    assert rows(connection, f"SELECT p.*, q.* FROM p, ({unqualified}) q") == expected
    connection.execute("BEGIN; INSERT INTO p VALUES (3, 3)")
    assert rows(connection, lateral(program)) == one_by_one(connection, program)
    connection.execute("COMMIT")


@pytest.mark.parametrize("name", PROGRAMS)
def test_views_follow(name: str) -> None:
    program = PROGRAMS[name]
    changing = random.Random(name)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a int, b int); CREATE TABLE p(id int, other int)")
        con.execute("CREATE TABLE w(a int, b int, d int)")
        con.executemany("INSERT INTO e VALUES (?, ?)", EDGES)
        con.executemany("INSERT INTO p VALUES (?, ?)", PEOPLE)
        con.execute("INSERT INTO w VALUES (1,2,5), (2,3,1), (1,3,9), (3,4,1), (4,1,1), (7,7,0)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {lateral(program)}")
        assert rows(con, "FROM v") == one_by_one(con, program)
        for _ in range(4):
            a, b = changing.randint(1, 9), changing.randint(1, 9)
            con.execute(
                changing.choice(
                    [
                        f"INSERT INTO e VALUES ({a}, {b})",
                        f"DELETE FROM e WHERE a = {a} OR b = {b}",
                        f"INSERT INTO p VALUES ({a}, {b})",
                        f"DELETE FROM p WHERE id = {a}",
                        f"UPDATE w SET d = {a} WHERE b = {b}",
                        f"INSERT INTO w VALUES ({a}, {b}, 2)",
                    ]
                )
            )
            assert rows(con, "FROM v") == one_by_one(con, program)


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("around", ["x AS y(bound)", "(SELECT a AS bound FROM x)"])
@pytest.mark.parametrize("local", ["", "WITH again AS (SELECT * FROM (FROM numbers))"])
def test_columns_behind_stars_and_without_a_name(view: bool, around: str, local: str) -> None:
    """Sums of what there is (Materialize's test): `bound` is nobody's column in the recursion."""
    source = "again" if local else "numbers"
    query = f"""
        SELECT bound, (WITH MUTUALLY RECURSIVE numbers (n int) AS (VALUES (1) UNION ALL (
        {local} SELECT DISTINCT p.n + q.n AS n FROM {source} AS p, {source} AS q
        WHERE p.n <= bound AND q.n <= bound)) SELECT count(*) FROM numbers) FROM {around}
    """
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE x(a int)")
        if view:
            con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
            query = "FROM v"
        con.execute("INSERT INTO x VALUES (1), (4), (7)")
        assert rows(con, query) == [(1, 2), (4, 8), (7, 14)]


def test_a_column_that_an_alias_does_not_name() -> None:
    """`e AS f(c)` has the columns c and b: b is not the one of the query around."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a int, b int); INSERT INTO e VALUES (1, 2), (2, 3)")
        found = con.execute("""
            SELECT (WITH RECURSIVE r(n) AS (SELECT p.b UNION SELECT b FROM e AS f(c), s WHERE
            c = n), s(n) AS (SELECT 0 UNION SELECT n FROM r) SELECT list_sort(list(n)) FROM r)
            FROM (SELECT 1 AS b) p
        """)
        assert found.fetchall() == [([1, 2, 3],)]


@pytest.mark.parametrize("name", ["two tables", "two references", "best", "mutually"])
def test_most_are_maintained_by_their_changes(name: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e(a int, b int); CREATE TABLE p(id int, other int)")
        con.execute("CREATE TABLE w(a int, b int, d int)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {lateral(PROGRAMS[name])}")
        assert "recompute" not in con.execute("EXPLAIN VIEW v").fetchall()[0][1]


@pytest.mark.parametrize("view", [False, True])
def test_values_of_two_queries_around_it(connection: tidewheel.Connection, view: bool) -> None:
    text = (
        "WITH RECURSIVE r(n) AS (SELECT {0} UNION SELECT e.b FROM s, e WHERE e.a = s.n AND "
        "e.b <> {1}), s(n) AS (SELECT 0 UNION SELECT n FROM r) SELECT n FROM r"
    )
    program = text.format("p.id", "k.d")
    pairs = connection.execute("SELECT p.id, k.a, k.d FROM p, w k").fetchall()
    expected: dict[object, int] = {}
    for value, a, d in pairs:
        known = "NULL::int" if value is None else str(value)
        met = connection.execute(text.format(known, d)).fetchall()
        expected[value] = expected.get(value, 0) + ((a,) in met)
    # (a row that is found several times would be counted so)
    query = f"SELECT p.id, (SELECT count(*) FROM w k WHERE k.a IN ({program})) FROM p"
    query += f" WHERE EXISTS (SELECT 1 FROM w k WHERE EXISTS ({program}))"
    if view:
        connection.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        query = "FROM v"
    assert rows(connection, query) == sorted(expected.items(), key=repr)
    outer = text.format("p.id", "p.other")
    query = f"SELECT p.id, (SELECT count(*) FROM w k WHERE k.a IN ({outer})) FROM p"
    found = {}
    for value, other in connection.execute("SELECT id, other FROM p").fetchall():
        known = ["NULL::int" if v is None else str(v) for v in (value, other)]
        met = connection.execute(text.format(*known)).fetchall()
        found[value] = sum((a,) in met for (a,) in connection.execute("SELECT a FROM w").fetchall())
    assert rows(connection, query) == sorted(found.items(), key=repr)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT bound, (WITH MUTUALLY RECURSIVE n (x INTEGER) AS (VALUES (1) UNION ALL "
        "(WITH m AS (SELECT * FROM n) SELECT DISTINCT p.x + q.x FROM m p, m q "
        "WHERE p.x <= bound AND q.x <= bound)) SELECT count(*) FROM n) "
        "FROM (SELECT b AS bound FROM t WHERE b > 0)",
        "SELECT unnamed_subquery.b, x, (SELECT count(*) FROM t WHERE t.b < unnamed_subquery.b) "
        "FROM (SELECT b FROM t) JOIN (VALUES (1), (2)) v(x) ON x < b",
    ],
)
def test_rows_of_a_subquery_without_a_name(query: str) -> None:
    """DuckDB's name for it is what a recursion made for all of its rows asks for."""
    with tidewheel.connect(threads=1) as con, tidewheel.connect(fusion="off") as plain:
        for each in (con, plain):
            each.execute("CREATE TABLE t (b INTEGER); INSERT INTO t VALUES (1), (3), (3), (7)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        found = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
        assert found == [("incremental", None)]
        for change in ("INSERT INTO t VALUES (5), (NULL)", "DELETE FROM t WHERE b = 3"):
            for each in (con, plain):
                each.execute(change)
            right = sorted(plain.execute(query).fetchall())
            assert sorted(con.execute("FROM v").fetchall()) == right
