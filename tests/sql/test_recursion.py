# ruff: noqa: E501
"""Recursive queries through a connection: answers against DuckDB's, and what is refused."""

from __future__ import annotations

import threading
import time

import duckdb
import pytest

import tidewheel
from tidewheel.planner import choice, degree

EDGES = [(1, 2, 1), (2, 3, 1), (3, 1, 5), (3, 4, 1), (4, 5, 2), (6, 6, 1)]


@pytest.fixture(
    params=[("on", 1), ("on", 0), ("off", 1), ("off", 2)],
    ids=["fused", "whole", "loops", "threads"],
)
def con(request, monkeypatch):
    fusion, threads = request.param
    monkeypatch.setattr(degree, "WORTH", 0)  # threads also where they gain little
    if threads:
        monkeypatch.setattr(choice, "FIRST", 0)  # DuckDB is not asked for the whole answer
    threads = threads or 1
    con = tidewheel.connect()
    con.execute(f"SET fusion = '{fusion}'; SET threads = {threads}")
    con.execute("CREATE TABLE e(a INTEGER, b INTEGER, w INTEGER)")
    con.execute("INSERT INTO e VALUES (1,2,1),(2,3,1),(3,1,5),(3,4,1),(4,5,2),(6,6,1)")
    yield con
    con.close()


@pytest.fixture
def duck():
    con = duckdb.connect()
    con.execute("CREATE TABLE e(a INTEGER, b INTEGER, w INTEGER)")
    con.executemany("INSERT INTO e VALUES (?, ?, ?)", EDGES)
    yield con
    con.close()


def rows(con, sql, parameters=None):
    return sorted(con.execute(sql, parameters).fetchall(), key=repr)


SAME = """
WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < 5) SELECT * FROM t
WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT b FROM t JOIN e ON x = a) SELECT * FROM t
WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 0.5 FROM t WHERE x < 3) SELECT * FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION SELECT s::VARCHAR FROM t WHERE s < '3') SELECT * FROM t
WITH RECURSIVE t AS (SELECT 'a' s UNION ALL SELECT s || 1 FROM t WHERE length(s) < 3) FROM t
WITH RECURSIVE t AS (SELECT 1::DECIMAL(4,2) s UNION ALL SELECT s + 1.123 FROM t WHERE s < 3) FROM t
WITH RECURSIVE t AS (SELECT DATE '2020-01-01' d UNION ALL SELECT d + INTERVAL 1 DAY FROM t WHERE d < '2020-01-05') FROM t
WITH RECURSIVE t(a) AS (SELECT 1, 2 s UNION ALL SELECT a + 1, s FROM t WHERE a < 3) SELECT a, s FROM t
WITH RECURSIVE t(a, b) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t WHERE a < 3) SELECT * FROM t
WITH RECURSIVE t AS (VALUES (1) UNION ALL SELECT col0 + 1 FROM t WHERE col0 < 3) FROM t
WITH RECURSIVE t AS (FROM (VALUES (1)) v(s) UNION ALL FROM (SELECT s + 1 FROM t WHERE s < 3)) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION SELECT 2 UNION ALL SELECT s + 2 FROM t WHERE s < 5) FROM t
WITH RECURSIVE t AS ((SELECT 1 s UNION ALL SELECT 5) UNION ALL SELECT s + 1 FROM t WHERE s < 3) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION ALL (SELECT s + 1 FROM t WHERE s < 3 ORDER BY s LIMIT 1)) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION ALL SELECT max(s) + 1 FROM t HAVING max(s) < 3) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION ALL SELECT s + 1 FROM t LEFT JOIN e ON a = s WHERE s < 3) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION ALL SELECT 2 WHERE EXISTS (SELECT 1 FROM t WHERE s = 1)) FROM t
WITH RECURSIVE t AS (SELECT 1 s UNION ALL (WITH u AS (SELECT s + 1 FROM t WHERE s < 3) FROM u)) FROM t
WITH RECURSIVE t(x) AS (WITH k AS (SELECT 1 z) SELECT z FROM k UNION ALL SELECT x + z FROM t, k WHERE x < 5) FROM t
WITH RECURSIVE a AS (SELECT 1 s UNION SELECT s + 1 FROM a WHERE s < 4), b AS (SELECT s FROM a UNION ALL SELECT s + 10 FROM b WHERE s < 30) SELECT * FROM b
WITH RECURSIVE a AS (SELECT 1 s UNION SELECT s + 1 FROM a WHERE s < 4), m AS (SELECT max(s) m FROM a) SELECT a.s, m.m FROM a, m
SELECT (WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t WHERE x < 4) SELECT sum(x)::INTEGER FROM t) + 1
SELECT * FROM e WHERE a IN (WITH RECURSIVE t(x) AS (SELECT 4 UNION SELECT b FROM t JOIN e ON x = a) SELECT x FROM t)
SELECT o.x, (WITH RECURSIVE t AS (SELECT o.x AS a UNION ALL SELECT a + 1 FROM t WHERE a < o.x + 2) SELECT sum(a)::INTEGER FROM t) FROM (VALUES (1), (5)) o(x)
WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL (WITH RECURSIVE s(y) AS (SELECT x FROM t UNION ALL SELECT y + 1 FROM s WHERE y < 3) SELECT max(y) + 1 FROM s HAVING max(y) < 9)) FROM t
WITH RECURSIVE t(x) AS ((WITH RECURSIVE s(y) AS (SELECT 1 UNION ALL SELECT y + 1 FROM s WHERE y < 3) SELECT y FROM s) UNION SELECT x * 2 FROM t WHERE x < 20) FROM t
WITH RECURSIVE t(k, v) AS (SELECT 1, 0 UNION SELECT (k + 1) % 3, v + (SELECT count(*) FROM recurring.t) FROM t WHERE v < 14) FROM t
WITH RECURSIVE t(k, v) USING KEY (k) AS (SELECT 1, 0 UNION SELECT (k + 1) % 3, v + 1 FROM t WHERE v < 4) FROM t
WITH RECURSIVE t(k, v) USING KEY (k) AS (SELECT 1, 0 UNION SELECT (k + 1) % 3, v + (SELECT count(*) FROM recurring.t) FROM t WHERE v < 14) FROM t
WITH RECURSIVE t(x) AS (SELECT NULL::INTEGER UNION SELECT coalesce(x, 0) + 1 FROM t WHERE x IS NULL OR x < 3) FROM t
WITH RECURSIVE t(x) AS (SELECT 'NaN'::DOUBLE UNION SELECT x + 1 FROM t) FROM t
WITH RECURSIVE t(x) AS (SELECT INTERVAL '30 days' UNION SELECT d FROM t, (VALUES (INTERVAL '720 hours'), (INTERVAL '1 month'), (INTERVAL '1 day')) v(d)) SELECT count(*) FROM t
WITH RECURSIVE t(x) AS (SELECT ['infinity'::DATE] UNION SELECT [d] FROM t, (VALUES (DATE 'infinity'), (DATE '2026-01-01')) v(d)) SELECT count(*) FROM t
WITH RECURSIVE t(x) AS (SELECT [1] UNION SELECT list_append(x, len(x) + 1) FROM t WHERE len(x) < 4) FROM t
WITH RECURSIVE t(x) AS (SELECT {'a': 1} UNION SELECT {'a': x.a % 3 + 1} FROM t) FROM t
WITH RECURSIVE "T x"("ä ö") AS (SELECT 1 UNION ALL SELECT "ä ö" + 1 FROM "t X" WHERE "ä ö" < 4) FROM "T x" -- ü
""".strip().splitlines()


@pytest.mark.parametrize("sql", SAME)
def test_the_answer_is_duckdbs(con, duck, sql):
    assert repr(rows(con, sql)) == repr(rows(duck, sql))


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("DATE", "'infinity'", "'290000-01-01'"),
        ("DATE[]", "['infinity'::DATE]", "[NULL]"),
        ("TIMESTAMP", "'infinity'", "'-infinity'"),
        ("TIMESTAMPTZ", "'infinity'", "'2026-01-01 00:00+00'"),
        ("STRUCT(x TIMESTAMP_S)", "{x: 'infinity'}", "{x: '2026-01-01'}"),
        ("TIME", "'24:00'", "'00:00'"),
        ("TIMESTAMP_NS", "'2026-01-01 00:00:00.000000001'", "'2026-01-01'"),
    ],
)
def test_using_key_has_dates_and_times_that_python_does_not_have(con, duck, kind, a, b):
    """Python ended in an OverflowError, and took 24:00 for 00:00."""
    sql = (
        f"WITH RECURSIVE t(k, n) USING KEY (k) AS (SELECT {a}::{kind}, 0 UNION "
        f"SELECT {b}::{kind}, n + 1 FROM t WHERE n < 2) SELECT k::VARCHAR, n FROM t"
    )
    assert rows(con, sql) == rows(duck, sql)
    assert len(rows(con, sql)) == 2


def test_parameters_are_shared_out_to_the_parts(con):
    sql = (
        "WITH RECURSIVE t(x) AS (SELECT ? UNION ALL SELECT x + 1 FROM t WHERE x < ?) "
        "SELECT x FROM t WHERE x <> ?"
    )
    assert rows(con, sql, [1, 5, 3]) == [(1,), (2,), (4,), (5,)]
    named = sql.replace("?", "$a", 1).replace("?", "$b", 1).replace("?", "$c", 1)
    assert rows(con, named, {"a": 1, "b": 4, "c": 2}) == [(1,), (3,), (4,)]


def test_insert_select_reads_a_recursion(con):
    con.execute(
        "INSERT INTO e WITH RECURSIVE t(x) AS (SELECT ? UNION ALL SELECT x + 1 FROM t WHERE x < 9) "
        "SELECT x, x, ? FROM t",
        [7, 0],
    )
    assert rows(con, "SELECT a FROM e WHERE w = 0") == [(7,), (8,), (9,)]


def test_a_view_holds_a_recursion(con):
    con.execute(
        "CREATE VIEW r AS WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT b FROM t JOIN e ON x = a) "
        "SELECT x FROM t"
    )
    assert rows(con, "SELECT * FROM r") == [(1,), (2,), (3,), (4,), (5,)]


FIXPOINTS = [
    # Non-linear: paths joined with paths.
    (
        "WITH RECURSIVE p(a, b) AS (SELECT a, b FROM e UNION SELECT p.a, q.b FROM p JOIN p q ON p.b = q.a) FROM p",
        "WITH RECURSIVE p(a, b) AS (SELECT a, b FROM e UNION SELECT p.a, e.b FROM p JOIN e ON p.b = e.a) FROM p",
    ),
    # The second reference stands in a subquery.
    (
        "WITH RECURSIVE p(x) AS (SELECT 1 UNION SELECT e.b FROM p JOIN e ON e.a = p.x WHERE p.x IN (SELECT x FROM p)) FROM p",
        "WITH RECURSIVE p(x) AS (SELECT 1 UNION SELECT b FROM p JOIN e ON a = x) FROM p",
    ),
    # Mutual, the second one without UNION.
    (
        "WITH RECURSIVE even(n) AS (SELECT 0 UNION SELECT n + 1 FROM odd), odd(n) AS (SELECT n + 1 FROM even WHERE n < 10) SELECT n, 'e' FROM even UNION ALL SELECT n, 'o' FROM odd",
        "SELECT n, CASE WHEN n % 2 = 0 THEN 'e' ELSE 'o' END FROM range(11) t(n)",
    ),
    # Shortest paths.
    (
        "WITH RECURSIVE d(n, dist) AS (SELECT 1, 0 UNION SELECT b, min(dist + w) FROM d JOIN e ON d.n = e.a GROUP BY b) FROM d",
        "SELECT * FROM (VALUES (1, 0), (2, 1), (3, 2), (4, 3), (5, 5))",
    ),
    # ... with the node that they come by.
    (
        "WITH RECURSIVE d(n, dist, via) AS (SELECT 1, 0, 0 UNION SELECT b, min(dist + w), arg_min(a, dist + w) FROM d JOIN e ON d.n = e.a GROUP BY b) FROM d",
        "SELECT * FROM (VALUES (1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 3, 3), (5, 5, 4))",
    ),
    # Widest paths.
    (
        "WITH RECURSIVE d(n, wide) AS (SELECT 1, 9 UNION SELECT b, max(least(wide, w)) FROM d JOIN e ON d.n = e.a GROUP BY b) FROM d",
        "SELECT * FROM (VALUES (1, 9), (2, 1), (3, 1), (4, 1), (5, 1))",
    ),
    # Company control: a threshold on a sum that can only grow.
    (
        "WITH RECURSIVE s(o, c, p) AS (VALUES (1, 2, 60), (1, 3, 30), (2, 3, 30), (3, 4, 40), (2, 4, 20)), "
        "c(o, c) AS (SELECT o, c FROM s WHERE p > 50 UNION SELECT x.o, s.c FROM (SELECT o, c FROM c UNION SELECT o, o FROM s) x JOIN s ON x.c = s.o GROUP BY x.o, s.c HAVING sum(abs(p)) > 50) FROM c",
        "SELECT * FROM (VALUES (1, 2), (1, 3), (1, 4))",
    ),
    # Materialize's form, with negation: the complement of reachability.
    (
        "WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 1 UNION SELECT b FROM r JOIN e ON x = a), "
        "n(x INT) AS (SELECT a FROM e EXCEPT SELECT x FROM r) SELECT * FROM n",
        "SELECT 6",
    ),
    (
        "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) t(x INT) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) FROM t",
        "SELECT * FROM (VALUES (1), (2), (3), (4))",
    ),
]


@pytest.mark.parametrize(("sql", "expected"), FIXPOINTS)
def test_fixpoints(con, duck, sql, expected):
    assert rows(con, sql) == rows(duck, expected)


def test_search_and_cycle_are_postgresqls(con):
    depth = con.execute(
        "WITH RECURSIVE s(a, b) AS (SELECT a, b FROM e WHERE a = 1 UNION ALL "
        "SELECT e.a, e.b FROM s JOIN e ON s.b = e.a) "
        "SEARCH DEPTH FIRST BY a, b SET o CYCLE a, b SET c USING p SELECT a, b, c, len(p) FROM s ORDER BY o"
    ).fetchall()
    assert depth == [
        (1, 2, False, 1),
        (2, 3, False, 2),
        (3, 1, False, 3),
        (1, 2, True, 4),
        (3, 4, False, 3),
        (4, 5, False, 4),
    ]
    breadth = con.execute(
        "WITH RECURSIVE s(x) AS (SELECT 1 UNION ALL SELECT b FROM s AS q JOIN e ON q.x = a WHERE b <> 1) "
        "SEARCH BREADTH FIRST BY x SET o SELECT x, o.depth FROM s ORDER BY o"
    ).fetchall()
    assert breadth == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]
    marked = con.execute(
        "WITH RECURSIVE s(x) AS (SELECT 6 UNION ALL SELECT b FROM s JOIN e ON x = a) "
        "CYCLE x SET c TO 'Y' DEFAULT 'N' USING p SELECT x, c FROM s"
    ).fetchall()
    assert sorted(marked) == [(6, "N"), (6, "Y")]


# (the query with § before the place, a part of the message)
REFUSED = [
    ("WITH RECURSIVE §t AS (SELECT x + 1 x FROM t) FROM t", "no anchor"),
    ("WITH RECURSIVE §t AS (FROM u UNION FROM t), u AS (FROM t UNION FROM u) FROM t", "no anchor"),
    ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL §SELECT x, 2 FROM t) FROM t", "2 columns"),
    ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT §yy FROM t) FROM t", '"yy" not found'),
    ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t §LIMIT 3) FROM t", "LIMIT"),
    (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT u.x FROM u, §u v), "
        "u AS (SELECT x FROM t) FROM t",
        "not linear",
    ),
    ("WITH RECURSIVE t AS (SELECT 1 x §EXCEPT SELECT x + 1 FROM t) FROM t", "EXCEPT can't join"),
    ("WITH RECURSIVE t AS (SELECT 1 x §INTERSECT FROM t) FROM t", "only UNION and UNION ALL can"),
    (
        "SELECT (WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n + 1 FROM u), "
        "u(n) AS (SELECT n FROM t WHERE n <= §z) SELECT count(*) FROM t) "
        "FROM (SELECT x + random() FROM range(4) s(x)) r(z)",
        "z is of a query around this recursion",
    ),
    (
        "SELECT (WITH MUTUALLY RECURSIVE t(n int) AS (SELECT §r.z + random() UNION SELECT n + 1 FROM "
        "t WHERE n < 9) SELECT count(*) FROM t) FROM range(4) r(z)",
        "r is of a query around this recursion",
    ),
    (
        "SELECT (SELECT (WITH RECURSIVE t(n, v) AS (SELECT §r.z, s.y UNION SELECT b, min(v + 1) FROM "
        "t, e WHERE a = n GROUP BY b) SELECT count(*) FROM t) FROM range(r.z) s(y) LIMIT 1) "
        "FROM range(4) r(z)",
        "r is of a query around this recursion",
    ),
    (
        "SELECT (WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n + 1 FROM u), "
        "u(n) AS (SELECT n FROM t WHERE n <= §x.z) SELECT count(*) FROM t) FROM range(4) r(z)",
        '"x" not found',
    ),
    (
        "SELECT * FROM (WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT §yy FROM t) FROM t)",
        '"yy" not found',
    ),
    ("CREATE RECURSIVE VIEW v (x) AS SELECT 1 UNION SELECT §yy FROM v", '"yy" not found'),
    ("CREATE RECURSIVE VIEW v §AS SELECT 1 UNION SELECT x FROM v", "expected the columns"),
    (
        "WITH RECURSIVE t(n) AS (SELECT 0 UNION SELECT n + 1 FROM u), "
        "u AS (SELECT max(n) n FROM §t) FROM t",
        "cycle t → u → t",
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 0 UNION SELECT b FROM t, e "
        "WHERE b NOT IN (SELECT n FROM §t)) FROM t",
        "negated (NOT IN)",
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 0 UNION SELECT b FROM t, e "
        "WHERE NOT EXISTS (FROM §t x WHERE x.n = b)) FROM t",
        "negated (NOT EXISTS)",
    ),
    (
        "WITH RECURSIVE a(n) AS (SELECT 1 UNION SELECT n FROM b), "
        "b(n) AS (SELECT 2 EXCEPT SELECT n FROM §a) FROM a",
        "EXCEPT",
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 0 UNION SELECT e.b FROM t x JOIN e ON x.n = a "
        "LEFT JOIN §t y ON y.n = b) FROM t",
        "nullable side",
    ),
    (
        "WITH RECURSIVE d(n, s) AS (SELECT 1, 0 UNION "
        "SELECT b, §sum(s + w) FROM d JOIN e ON n = a GROUP BY b) FROM d",
        "can become worse",
    ),
    (
        "WITH RECURSIVE d(n, s) AS (SELECT 1, 0 UNION "
        "SELECT b, min(§9 - s) FROM d JOIN e ON n = a GROUP BY b) FROM d",
        "may become worse",
    ),
    (
        "WITH RECURSIVE d(n, s) AS (SELECT 1, 0 UNION "
        "SELECT b, min(s + w) FROM d JOIN e ON n = a WHERE §s > 3 GROUP BY b) FROM d",
        "may fail the condition",
    ),
    ("WITH MUTUALLY RECURSIVE §t(x) AS (SELECT 1 UNION SELECT x FROM t) FROM t", "typed"),
]


@pytest.mark.parametrize(("marked", "message"), REFUSED)
def test_what_has_no_meaning_is_refused_with_its_place(con, marked, message):
    sql, column = marked.replace("§", ""), marked.index("§") + 1
    refusals = (tidewheel.ProgrammingError, tidewheel.NotSupportedError)
    with pytest.raises(refusals, match=r".") as caught:
        con.execute("SELECT 1;\n" + sql).fetchall()
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, column)
    assert con.execute("SELECT 2").fetchall() == [(2,)]


def test_a_runaway_ends_in_an_error_that_explains(con):
    con.execute("SET max_iterations = 60")
    endless = (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
    )
    with pytest.raises(tidewheel.OperationalError, match="max_iterations = 60") as caught:
        con.execute(endless).fetchall()
    assert "1, 1, 1, 1, 1, 1, 1, 1, 1, 1 rows" in str(caught.value)
    cycle = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT b FROM t JOIN e ON x = a) SELECT count(*) FROM t"
    with pytest.raises(tidewheel.OperationalError, match="cycle"):
        con.execute(cycle).fetchall()
    grows = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(tidewheel.OperationalError, match="values that were not there"):
        con.execute(grows).fetchall()
    con.execute("SET max_iterations = 100000")
    con.execute("SET max_recursive_rows = 5000")
    doubles = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t, range(2)) SELECT count(*) FROM t"
    with pytest.raises(tidewheel.OperationalError, match="max_recursive_rows"):
        con.execute(doubles).fetchall()
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_on_limit_return_gives_the_rows_so_far(con):
    con.execute("SET max_iterations = 4")
    con.execute("SET on_limit = 'return'")
    sql = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) FROM t"
    assert rows(con, sql) == [(1,), (2,), (3,), (4,), (5,)]


def test_error_at_recursion_limit(con):
    sql = (
        "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 7) t(x INT) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM t) FROM t"
    )
    with pytest.raises(tidewheel.OperationalError, match="after 7 iterations"):
        con.execute(sql).fetchall()


def test_interrupt_stops_a_recursion(con):
    con.execute("SET max_iterations = 100000000")
    sql = "WITH RECURSIVE t(x) AS (SELECT 1::BIGINT UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
    failed = []

    def work():
        try:
            con.execute(sql).fetchall()
        except tidewheel.Error as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.3)
    for _ in range(100):
        con.interrupt()
        thread.join(0.2)
        if not thread.is_alive():
            break
    assert not thread.is_alive()
    assert failed
    assert "interrupt" in str(failed[0])
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_a_step_over_nothing_is_evaluated_once(con, duck):
    sql = (
        "WITH RECURSIVE t AS (SELECT 1 s WHERE false UNION ALL "
        "SELECT coalesce(max(s), 0) + 1 FROM t HAVING coalesce(max(s), 0) < 3) FROM t ORDER BY s"
    )
    assert rows(con, sql) == duck.execute(sql).fetchall() == [(1,), (2,), (3,)]
    endless = "WITH RECURSIVE t AS (SELECT 1 s WHERE false UNION ALL SELECT max(s) FROM t) "
    endless += "SELECT count(*) FROM (FROM t LIMIT 7)"
    assert rows(con, endless) == duck.execute(endless).fetchall() == [(7,)]


def test_limit_ends_an_endless_recursion(con):
    sql = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x * 2 FROM t LIMIT 3 OFFSET 1"
    assert rows(con, sql) == [(4,), (6,), (8,)]
    sql = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x + 1 FROM t) SELECT x FROM t LIMIT 2"
    assert rows(con, sql) == [(1,), (2,)]


def test_nulls_and_overflow_without_sql(con, duck):
    for target in (con, duck):
        target.execute("CREATE TABLE n(a INTEGER, b INTEGER)")
        target.execute("INSERT INTO n VALUES (1, 2), (2, NULL), (NULL, 7), (2, 3), (3, 1)")
    for sql in (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT b FROM t JOIN n ON x = a) FROM t",
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM n UNION SELECT x, b FROM t JOIN n ON y = a) FROM t",
        "WITH RECURSIVE t(x, k) AS (SELECT 1, 0 UNION SELECT b, k + 1 FROM t JOIN n ON x = a WHERE k < 3) FROM t",
    ):
        assert repr(rows(con, sql)) == repr(rows(duck, sql))
    con.execute("INSERT INTO n VALUES (7, 8)")
    over = (
        "WITH RECURSIVE d(x, v) AS (SELECT 7, 2147483647 UNION "
        "SELECT b, min(v + 1) FROM d JOIN n ON x = a GROUP BY b) FROM d"
    )
    with pytest.raises(tidewheel.DataError):
        con.execute(over).fetchall()


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_a_limit_over_values_that_still_improve(fusion):
    """It must see the last values, not the first ones that would be enough in number."""
    with tidewheel.connect() as con:
        con.execute(f"SET fusion = '{fusion}'")
        con.execute(
            "CREATE TABLE e AS SELECT * FROM (VALUES (1, 2, 9.5), (1, 3, 1.5), (3, 2, 1)) t(a, b, w)"
        )
        step = "SELECT b, min(v + w) FROM d JOIN e ON a = n GROUP BY b"
        query = f"WITH RECURSIVE d(n, v) AS (SELECT 1, 0::DOUBLE UNION {step}) SELECT * FROM d"
        assert sorted(con.execute(query + " LIMIT 9").fetchall()) == [(1, 0.0), (2, 2.5), (3, 1.5)]
        assert con.execute(query + " ORDER BY n LIMIT 2").fetchall() == [(1, 0.0), (2, 2.5)]
        for row in con.execute(query + " LIMIT 2").fetchall():
            assert row in [(1, 0.0), (2, 2.5), (3, 1.5)]


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
@pytest.mark.parametrize("limit", [5, 100])
def test_a_chain_up_to_a_bound(con, union, limit):
    con.execute("CREATE TABLE chain AS SELECT range::INT AS a, range::INT + 1 AS b FROM range(300)")
    query = f"WITH RECURSIVE t(x) AS (SELECT 0 {union} SELECT b FROM t JOIN chain ON a = x) SELECT count(*), max(x) FROM t"
    for setting, rows in (("max_iterations", limit + 1), ("max_recursive_rows", limit)):
        con.execute(f"SET {setting} = {limit}")
        with pytest.raises(tidewheel.OperationalError, match=setting):
            con.execute(query)
        con.execute("SET on_limit = 'return'")
        assert con.execute(query).fetchall() == [(rows, rows - 1)]
        con.execute(f"RESET {setting}; RESET on_limit")
    assert con.execute(query).fetchall() == [(301, 300)]


FAR = [
    ("t(x) AS (SELECT min(a) FROM far UNION SELECT b FROM t JOIN far ON a = x) SELECT count(*), max(x) // {s} FROM t", (41, 40)),
    ("t(x, y) AS (SELECT a, b FROM far UNION SELECT x, b FROM t JOIN far ON a = y) SELECT count(*), max(y) // {s} FROM t", (820, 40)),
    ("t(x, v) AS (SELECT min(a), 0::BIGINT FROM far UNION SELECT b, min(v + w) FROM t JOIN far ON a = x GROUP BY b) SELECT count(*), max(v) FROM t", (41, 780)),
]  # fmt: skip


@pytest.mark.parametrize(("query", "wanted"), FAR)
@pytest.mark.parametrize("step", [10**9, 10**12, 10**17])
def test_values_that_are_far_apart(con, query, wanted, step):
    con.execute(f"CREATE TABLE far AS SELECT range::BIGINT * {step} AS a, (range + 1)::BIGINT * {step} AS b, range::BIGINT AS w FROM range(40)")  # fmt: skip
    assert con.execute("WITH RECURSIVE " + query.format(s=step)).fetchall() == [wanted]


@pytest.mark.parametrize("on_limit", ["error", "return"])
def test_what_goes_too_far_is_read_to_its_end(con, on_limit: str) -> None:
    """DuckDB 2.0 may hang where a recursion of its own is not: a few of a hundred times."""
    con.execute(
        "CREATE TABLE p AS SELECT 'n' || (i // 2) AS a, 'n' || i AS b FROM range(1, 4000) r(i)"
    )
    con.execute(f"SET max_recursive_rows = 9000; SET on_limit = '{on_limit}'")
    query = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM p UNION SELECT x, b FROM t JOIN p ON a = y) SELECT count(*) FROM t"
    for _ in range(20):
        if on_limit == "return":
            assert con.execute(query).fetchall() <= [(9000,)]
        else:
            with pytest.raises(tidewheel.OperationalError, match="max_recursive_rows = 9,000"):
                con.execute(query).fetchall()
