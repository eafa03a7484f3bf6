"""A table of a WITH clause is one table, however many parts of a recursive query read it."""

from __future__ import annotations

import pytest

import tidewheel

TWICE = (
    "r(x, n) AS (SELECT x, 0 FROM p UNION "
    "SELECT a.x, a.n + 1 FROM r a, r b WHERE a.n < 2 AND a.x = b.x)"
)
READ = {
    "by a recursion and the query": f"{TWICE} SELECT count(*) FROM r WHERE x NOT IN (FROM p)",
    "the other way round": f"{TWICE} SELECT count(*) FROM p WHERE x NOT IN (SELECT x FROM r)",
    "by two recursions": f"{TWICE}, s(x) AS (SELECT x FROM p UNION SELECT a.x FROM s a, s b) "
    "SELECT count(*) FROM s WHERE x NOT IN (SELECT x FROM r)",
    "by a step": "r(x, n) AS (SELECT 0.5::DOUBLE, 0 UNION ALL "
    "SELECT p.x, n + 1 FROM r, p WHERE n < 3) SELECT count(DISTINCT x) - 4 FROM r",
    "through another table": f"q AS (SELECT * FROM p), {TWICE.replace('FROM p', 'FROM q')} "
    "SELECT count(*) FROM p WHERE x NOT IN (SELECT x FROM r)",
    "by tables that read each other": "r(x, n) AS (SELECT x, 0 FROM p UNION SELECT x, n + 1 FROM "
    "s WHERE n < 3), s(x, n) AS (SELECT x, n FROM r UNION SELECT x, 9 FROM p) "
    "SELECT count(*) FROM p WHERE (SELECT count(*) FROM s WHERE s.x = p.x) <> 5",
    "by a recursion for each of its rows": "z AS (SELECT 1) SELECT count(*) FROM p WHERE (WITH "
    "RECURSIVE r(v) AS (SELECT p.x UNION SELECT a.v FROM r a, r b) "
    "SELECT count(*) FROM r) <> 1",
}  # fmt: skip


@pytest.fixture(params=["on", "off"])
def con(request):
    with tidewheel.connect() as connection:
        connection.execute(f"SET fusion = '{request.param}'")
        connection.execute("CREATE MACRO noise(a) AS a * random()")
        connection.execute("CREATE TABLE t AS SELECT range AS id FROM range(40)")
        yield connection


@pytest.mark.parametrize("rest", READ.values(), ids=READ)
@pytest.mark.parametrize(
    "table",
    [
        "SELECT random() AS x FROM range(3)",
        "SELECT noise(id) AS x FROM t LIMIT 3",
        "SELECT noise(1) + range AS x FROM range(3)",
        "SELECT DISTINCT id * random() AS x FROM t ORDER BY random() LIMIT 3",
        "SELECT * FROM (SELECT id / 7 AS x FROM t TABLESAMPLE reservoir(3 ROWS))",
    ],
)
def test_random_rows_are_the_same_for_all(con, table: str, rest: str) -> None:
    for _ in range(3):
        assert con.execute(f"WITH RECURSIVE p AS MATERIALIZED ({table}), {rest}").fetchall() == [
            (0,)
        ]


def test_a_sequence_counts_once(con) -> None:
    con.execute("CREATE SEQUENCE s")
    table = "SELECT nextval('s') AS x FROM range(2)"
    query = f"WITH RECURSIVE p AS ({table}), {TWICE} SELECT max(r.x), max(p.x) FROM r, p"
    assert con.execute(query).fetchall() == [(2, 2)]
    assert con.execute("SELECT nextval('s')").fetchall() == [(3,)]


def test_a_table_that_one_anchor_reads_stays_in_it(con) -> None:
    query = f"WITH RECURSIVE p AS (SELECT id AS x FROM t LIMIT 3), {TWICE} SELECT count(*) FROM r"
    assert "once" not in con.execute(f"EXPLAIN (DATAFLOW) {query}").fetchone()[1]
    assert con.execute(query).fetchall() == [(9,)]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("(SELECT * FROM t LIMIT 3)", "has a LIMIT"),
        ("(SELECT * FROM t WHERE random() < 2)", "calls what is random"),
        ("t TABLESAMPLE 50%", "has a sample"),
        ("(SELECT id, row_number() OVER () AS n FROM t)", "has a window function"),
    ],
)
def test_what_to_do_about_rows_that_may_be_others(con, source: str, what: str) -> None:
    """What is read for its values first, and again for its rows, needs a name."""
    inner = (
        "(WITH RECURSIVE r(v) AS (SELECT p.id UNION SELECT a.v FROM r a, r b) "
        "SELECT count(*) FROM r)"
    )
    alias = "AS p " if source.startswith("(") else ""
    named = source if alias else "t AS p TABLESAMPLE 50%"
    with pytest.raises(tidewheel.NotSupportedError, match=f"{what}, so that it may have other"):
        con.execute(f"SELECT {inner} FROM {named if not alias else source + ' ' + alias}")
    body = f"SELECT * FROM {source}" if not alias else source
    found = con.execute(f"WITH p AS ({body}) SELECT {inner} FROM p").fetchall()
    assert set(found) <= {(1,)}
