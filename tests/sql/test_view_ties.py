"""Rows that an ORDER BY leaves alike: VERIFY accepts any right answer, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.sql.ties import accepted, settled

QUERIES = (
    "SELECT id, row_number() OVER (PARTITION BY p ORDER BY y) AS n FROM t",
    "SELECT id, y, lag(id) OVER w AS l, ntile(3) OVER w AS q FROM t WINDOW w AS (ORDER BY y DESC)",
    "SELECT id, sum(id) OVER (PARTITION BY p ORDER BY y ROWS UNBOUNDED PRECEDING) AS s FROM t",
    "SELECT id, avg(x) OVER (ORDER BY y ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a FROM t",
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY p ORDER BY y DESC) <= 3",
    "SELECT t.id, u.id AS other, first_value(u.id) OVER (PARTITION BY t.p ORDER BY t.y) AS f"
    " FROM t JOIN u ON t.p = u.p",
    "SELECT id, y, last_value(id) OVER (ORDER BY y) AS l FROM t",
    "SELECT id, nth_value(x, p + 1) OVER w AS v, last_value(id IGNORE NULLS) OVER w AS l,"
    " sum(id) OVER w AS s FROM t WINDOW w AS (PARTITION BY p ORDER BY y DESC NULLS FIRST)",
    "SELECT id, y, first_value(id) OVER (ORDER BY y GROUPS BETWEEN UNBOUNDED PRECEDING"
    " AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS f FROM t",
    "SELECT id, first_value(id) OVER (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING"
    " AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS f FROM t",
    "SELECT id, last_value(x) OVER w AS l, nth_value(id, 2) OVER w AS n FROM t WINDOW w AS"
    " (PARTITION BY p ORDER BY y DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    " EXCLUDE TIES)",
    "SELECT id, last_value(x) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS l"
    " FROM t",
    "SELECT id, last_value(x) OVER w AS l, nth_value(id, 2) OVER w AS n FROM t"
    " WINDOW w AS (PARTITION BY p ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
    "SELECT id, first(x IGNORE NULLS) OVER (w ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
    " AS f, last(id) OVER w AS l FROM t WINDOW w AS (PARTITION BY p ORDER BY y)",
    "SELECT id, lead(id ORDER BY y) OVER (PARTITION BY p ORDER BY x // 9) AS l FROM t",
    "SELECT id, row_number(ORDER BY y) OVER (PARTITION BY p) AS r, ntile(3 ORDER BY y DESC) OVER ()"
    " AS n FROM t",
    "SELECT id, first_value(id ORDER BY y) OVER (PARTITION BY p) AS f FROM t",
    "SELECT p, y, lag(sum(id)) OVER (PARTITION BY p ORDER BY y % 2) AS l FROM t"
    " GROUP BY ROLLUP (p, y)",
    "SELECT p, y, row_number() OVER (ORDER BY count(*) // 100) AS r FROM t"
    " GROUP BY GROUPING SETS ((p, y), y, ())",
    "SELECT * FROM (SELECT id, p, count(*) OVER (PARTITION BY y) AS n FROM t)"
    " QUALIFY row_number() OVER (PARTITION BY p ORDER BY n) <= 2",
    "SELECT DISTINCT ON (p) t.id, u.id AS other FROM t JOIN u USING (p) ORDER BY y",
    "SELECT t.p, arg_max(u.id, y), list(t.id ORDER BY y) FROM t JOIN u USING (p) GROUP BY t.p",
    "SELECT p, count(*) AS n, row_number() OVER (ORDER BY count(*) DESC) AS r FROM t GROUP BY p",
    "SELECT count(*), sum(id) FROM (SELECT id FROM t ORDER BY y LIMIT 20)",
    "SELECT u.id, t.id AS other FROM u ASOF JOIN t ON u.p = t.p AND u.id >= t.y",
    "SELECT u.id, t.id AS other FROM u ASOF JOIN t ON u.id >= t.y",
    "SELECT u.id, t.id AS other FROM u ASOF LEFT JOIN t ON (u.p = t.p) AND (u.id >= t.y)",
    "FROM u ASOF LEFT JOIN (SELECT p, y + 1 AS id, x FROM t) AS l USING (p, id)",
    "SELECT u.p, sum(l.x) FROM u ASOF JOIN t AS l ON l.y * 2 <= u.id AND u.p = l.p GROUP BY u.p",
)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_right_views_are_right(seed: int) -> None:
    rng = random.Random(seed)
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (id INTEGER, p INTEGER, y INTEGER, x DOUBLE)")
        con.execute("CREATE TABLE u AS SELECT i AS id, i % 3 AS p FROM range(7) r(i)")
        add = "INSERT INTO t SELECT i + ?, hash(i) % 4, hash(i, 1) % 5, i / 7 FROM range(?) r(i)"
        con.execute(add, [0, 300])
        for i, query in enumerate(QUERIES):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for step in range(3):
            kind = rng.randrange(3)
            if kind == 0:
                con.execute(add, [1000 * (1 + step), rng.randrange(1, 40)])
            elif kind == 1:
                con.execute("UPDATE t SET y = ? WHERE id % 7 = ?", [rng.randrange(5), step])
            else:
                con.execute("DELETE FROM t WHERE id % 11 = ?", [rng.randrange(11)])
            for i, query in enumerate(QUERIES):
                assert con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query


DUCKDB = duckdb.connect(config={"threads": 1})


def run(sql: str, **tables: pa.Table) -> pa.Table:
    for name, table in tables.items():
        DUCKDB.register(name, table)
    return DUCKDB.sql(sql).to_arrow_table()


def table(*rows: Sequence[object]) -> pa.Table:
    return pa.table({f"c{i}": list(column) for i, column in enumerate(zip(*rows, strict=True))})


# p, y, id and the row before by y; of p = 1 the first two rows tie
FIRST = ((1, 5, "a", None), (1, 5, "b", "a"), (1, 6, "c", "b"), (2, 1, "d", None), (2, 3, "e", "d"))
SECOND = ((1, 5, "b", None), (1, 5, "a", "b"), (1, 6, "c", "a"), *FIRST[3:])


@pytest.mark.parametrize(
    "wrong",
    [
        SECOND[:4],
        (*SECOND, SECOND[0]),
        (*SECOND[:4], (2, 3, "e", None)),
        (*SECOND[:4], (2, 4, "e", "d")),
        ((1, 5, "b", None), (1, 5, "b", "b"), *SECOND[2:]),
        ((1, 5, "b", None), (2, 5, "a", "b"), *SECOND[2:]),
    ],
)
def test_ties_hide_nothing_else(wrong: Sequence[Sequence[object]]) -> None:
    answers = [table(*FIRST), table(*SECOND)]
    assert all(accepted(answer, either(*answers), run) for answer in answers)
    assert not accepted(table(*wrong), either(*answers), run)


def either(*answers: pa.Table) -> Callable[[int], pa.Table]:
    return lambda way: answers[way % len(answers)]


def test_a_value_that_is_there_less_often_is_no_mode() -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t AS SELECT unnest([1, 1, 2, 2, 3]) AS x")
        for call in ("mode(x) FILTER (x < 9)", "mode(x ORDER BY x)", "mode(x) OVER ()"):
            ways = (settled(f"SELECT {call} FROM t LIMIT 1", way) for way in range(9))
            assert {con.execute(str(way)).fetchone() for way in ways} == {(1,), (2,)}


def test_without_ties_nothing_is_accepted() -> None:
    assert not accepted(table(*SECOND), either(table(*FIRST)), run)
    assert settled("SELECT sum(x) OVER (ORDER BY y), rank() OVER (ORDER BY y) FROM t", 0) is None
    # w is for both, and an order of more would be another RANGE for the sum
    both = settled("SELECT lag(x) OVER w, sum(x) OVER w FROM t WINDOW w AS (ORDER BY y)", 0)
    assert both is not None
    assert "SUM(x) OVER (ORDER BY y)" in both
    assert "LAG(x) OVER (ORDER BY y, " in both


def test_the_last_value_is_that_of_a_peer() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i // 4 AS y, i AS id FROM range(20) r(i)")
    for call in ("last_value(id)", "nth_value(id, 1)"):
        query = f"SELECT y, {call} OVER (PARTITION BY y > 2 ORDER BY y DESC) AS l FROM t"
        found = [set(con.execute(settled(query, way) or "").fetchall()) for way in range(6)]
        assert len(set(map(frozenset, found))) > 1
        assert all(len(rows) == 5 for rows in found)
        group = "id // 4 = y" if "last" in call else "id // 4 = CASE WHEN y > 2 THEN 4 ELSE 2 END"
        allowed = con.execute(f"FROM (SELECT DISTINCT y FROM t), (SELECT id FROM t) WHERE {group}")
        assert set().union(*found) <= set(allowed.fetchall())


@pytest.mark.parametrize("on", ["ON a.k = b.k AND a.t >= b.t", "USING (k, t)"])
def test_an_asof_join_has_one_of_the_partners_at_the_last_place(on: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE a AS SELECT i % 3 AS k, i AS t FROM range(20) r(i)")
    con.execute("CREATE TABLE b AS SELECT i % 3 AS k, i % 5 AS t, i AS id FROM range(40) r(i)")
    query = f"SELECT a.k, a.t, b.id FROM a ASOF JOIN b {on}"
    ways = [settled(query, way) or "" for way in range(4)]
    found = [set(con.execute(way).fetchall()) for way in ways]
    assert len(set(map(frozenset, found))) > 1
    right = (
        "SELECT a.k, a.t, b.id FROM a JOIN b USING (k) "
        "WHERE b.t = (SELECT max(t) FROM b WHERE k = a.k AND t <= a.t)"
    )
    assert set().union(*found) <= set(con.execute(right).fetchall())
    once = con.execute(f"SELECT a.k, a.t FROM a ASOF JOIN b {on} ORDER BY ALL").fetchall()
    assert all(sorted(row[:2] for row in rows) == once for rows in found)


def test_each_way_has_another_order() -> None:
    """Rows that are in all of the few orders that one asks for would have to be in the view."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE TABLE t AS SELECT i % 2 AS p, i % 5 AS y, i FROM range(30) r(i)")
    ways = [settled("SELECT i, lag(i) OVER (PARTITION BY p ORDER BY y) FROM t", w)
            for w in range(40)]  # fmt: skip
    orders = {tuple(sorted(con.execute(str(way)).fetchall(), key=str)) for way in ways}
    assert len(orders) > 30


def test_the_status_says_that_rows_tie() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS a, i % 2 AS b FROM range(4000) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, lag(a) OVER (ORDER BY b) AS l FROM t")
        con.execute("DELETE FROM t WHERE a < 100; INSERT INTO t VALUES (1, 0), (2, 0)")
        cursor = con.execute("VERIFY VIEW v")
        assert cursor.fetchall() == []
        assert (
            cursor.status
            == "main.v is right: it has the 3,902 rows of its query, up to rows that tie"
        )
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT a, lag(a) OVER (ORDER BY a) AS l FROM t")
        assert con.execute("VERIFY VIEW w").status.endswith("of its query")


WRITTEN_ELSEWHERE = (
    "SELECT place(y) AS n, id FROM t",
    "FROM best(2)",
    "FROM placed",
    "SELECT p.id, q.n FROM placed p JOIN renamed AS q (a, n) ON p.id = q.a WHERE p.n < 9",
    "WITH x AS (SELECT * FROM first_rows) SELECT count(*), sum(id) FROM x",
    "SELECT id FROM t WHERE id IN (SELECT id FROM first_rows)",
    "UNPIVOT first_rows ON id INTO NAME n VALUE v ORDER BY v",
)


def test_ties_of_plain_views_and_macros() -> None:
    """What orders the rows stands in a view or a macro that the maintained view names."""
    with tidewheel.connect(threads=1) as con:
        con.execute("""
            CREATE TABLE t (id INTEGER, y INTEGER);
            CREATE MACRO place(x) AS row_number() OVER (ORDER BY x);
            CREATE MACRO best(n) AS TABLE SELECT id FROM t ORDER BY y LIMIT n;
            CREATE VIEW placed AS SELECT id, row_number() OVER (ORDER BY y) AS n FROM t;
            CREATE VIEW renamed (a, b) AS SELECT id, n FROM placed;
            CREATE VIEW first_rows AS SELECT id FROM t ORDER BY y LIMIT 3""")
        for i, query in enumerate(WRITTEN_ELSEWHERE):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        con.execute("INSERT INTO t SELECT i, i % 3 FROM range(20) r(i)")
        con.execute("UPDATE t SET y = 0 WHERE id % 4 = 1; DELETE FROM t WHERE id IN (0, 3)")
        con.execute("INSERT INTO t VALUES (30, 0), (31, 1)")
        for i, query in enumerate(WRITTEN_ELSEWHERE):
            assert con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query


CALLED_LIKE_A_COLUMN = (
    "SELECT a.c, row_number() OVER (ORDER BY a.b) FROM t AS a JOIN t AS z ON z.c = a.c",
    "SELECT a.c FROM t AS a JOIN t AS z USING (b) QUALIFY row_number() OVER (ORDER BY b) = 1",
    "SELECT first(c.c ORDER BY a.b), arg_max(a.c, a.b) FROM t AS a JOIN t AS c ON a.a = c.b",
    "SELECT a.c, row_number() OVER (ORDER BY a.b) FROM (FROM t) AS a JOIN (FROM t) USING (c)",
    "SELECT z.c, a.c FROM t AS z ASOF JOIN t AS a ON z.b = a.a AND z.a >= a.b",
)


def test_a_table_is_called_like_a_column() -> None:
    """Its name is not its row there, but that column."""
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
        for i, query in enumerate(CALLED_LIKE_A_COLUMN):
            con.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        for c in (4, 5, 3, 2, 1, 0):
            con.execute("INSERT INTO t VALUES (1, 1, ?)", [c])
        con.execute("DELETE FROM t WHERE c = 4; INSERT INTO t VALUES (1, 1, 4)")
        for i, query in enumerate(CALLED_LIKE_A_COLUMN):
            assert con.execute(f"VERIFY VIEW v{i}").fetchall() == [], query


CALLS = (
    "row_number()", "rank()", "dense_rank()", "percent_rank()", "ntile(3)", "lag(c)", "lead(a, 2)",
    "sum(c)", "first_value(b)", "last_value(c)", "count(*)", "nth_value(c, 2)", "max(b)",
)  # fmt: skip
FRAMES = ("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING")
SOURCES = (
    "t", "(SELECT * FROM t WHERE c > 0) AS s",
    "t JOIN (SELECT DISTINCT a AS k FROM t) AS u ON k = a",
)  # fmt: skip


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(100, 400))]
)
def test_windows_of_few_values(seed: int) -> None:
    """Many rows tie, and are equal, in several orders: of tables, of subqueries and of joins."""
    rng = random.Random(seed)

    def row() -> str:
        return str(tuple(rng.choice((0, 1, 2, 3, 4, "NULL")) for _ in range(3))).replace("'", "")

    def window() -> str:
        part = rng.choice(("", "PARTITION BY a ", "PARTITION BY b "))
        order = rng.choice(("a", "b", "c", "b DESC", "a, b", "c DESC, a"))
        return f"{rng.choice(CALLS)} OVER ({part}ORDER BY {order}{rng.choice(FRAMES)})"

    shown = ", ".join((*rng.choice((("a", "b", "c"), ("a",), ())), *(window() for _ in range(2))))
    query = f"SELECT {shown} FROM {rng.choice(SOURCES)}"
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
        con.execute("INSERT INTO t VALUES " + ", ".join(row() for _ in range(rng.randint(3, 60))))
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for _ in range(2):
            con.execute(f"DELETE FROM t WHERE a = {rng.randrange(5)} AND b < {rng.randrange(5)}")
            con.execute("INSERT INTO t VALUES " + ", ".join(row() for _ in range(3)))
            assert con.execute("VERIFY VIEW v").fetchall() == [], query


def test_equal_rows_may_stand_in_each_order_otherwise() -> None:
    """Rows of one table that are alike in all columns: no hash of them settles their order."""
    query = (
        "SELECT a, b, ntile(2) OVER (ORDER BY a, b) AS n, "
        "lag(b, 2, -1) OVER (PARTITION BY a ORDER BY b) AS l, "
        "nth_value(b, 2) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING "
        "AND UNBOUNDED FOLLOWING) AS v FROM t"
    )
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        con.execute("INSERT INTO t VALUES (1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (3, 3)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("UPDATE t SET b = NULL WHERE a = 1")
        assert con.execute("VERIFY VIEW v").fetchall() == []
    con = duckdb.connect(config={"threads": 1})
    con.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b FROM range(4)")
    kept = table(*((1, 2, n, m) for n, m in ((1, 1), (1, 2), (2, 1), (2, 2))))
    wrong = table(*((1, 2, n, m) for n, m in ((1, 1), (1, 2), (2, 1), (2, 1))))
    query = (
        "SELECT a, b, ntile(2) OVER (ORDER BY a), ntile(2) OVER (PARTITION BY b ORDER BY a) FROM t"
    )

    def answer(way: int) -> pa.Table:
        rows = con.execute(settled(query, way) or "").fetchall()
        return table(*rows)

    assert accepted(kept, answer, run)
    assert not accepted(wrong, answer, run)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, y FROM a GROUP BY ALL ORDER BY x LIMIT 1",
        "SELECT x, y FROM a UNION SELECT x, y FROM a ORDER BY 1 LIMIT 1",
        "UNPIVOT a ON x INTO NAME n VALUE v ORDER BY v LIMIT 1",
    ],
)
def test_a_limit_under_names_of_its_own(query: str) -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE a AS SELECT 1 AS x, i AS y FROM range(1000, 2000) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v (p, q) AS {query}")
        con.execute("INSERT INTO a VALUES (1, 5)")
        assert 5 in con.execute("FROM v").fetchall()[0]
        assert con.execute("VERIFY VIEW v").fetchall() == []
