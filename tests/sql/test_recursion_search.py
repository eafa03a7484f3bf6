# ruff: noqa: E501
"""SEARCH and CYCLE as in PostgreSQL's documentation and tests; answers are version 15's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel

ARCS = "(1, 2, 'arc 1 -> 2'), (1, 3, 'arc 1 -> 3'), (2, 3, 'arc 2 -> 3'), (1, 4, 'arc 1 -> 4'), "
ARCS += "(4, 5, 'arc 4 -> 5')"


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    con = tidewheel.connect()
    for name, more in (("graph0", ""), ("graph", ", (5, 1, 'arc 5 -> 1')")):
        con.execute(f"CREATE TABLE {name}(f INTEGER, t INTEGER, label VARCHAR)")
        con.execute(f"INSERT INTO {name} VALUES {ARCS}{more}")
    yield con
    con.close()


def search_graph(clause: str, query: str, graph: str = "graph0", union: str = "ALL") -> str:
    """The query that all of PostgreSQL's examples share: note the star in the step."""
    return (
        f"WITH RECURSIVE search_graph(f, t, label) AS (SELECT * FROM {graph} g UNION {union} "
        f"SELECT g.* FROM {graph} g, search_graph sg WHERE g.f = sg.t) {clause} {query}"
    )


DEPTH = [(1, 2), (2, 3), (1, 3), (1, 4), (4, 5), (2, 3), (4, 5)]
BREADTH = [(1, 2), (1, 3), (1, 4), (2, 3), (4, 5), (2, 3), (4, 5)]


@pytest.mark.parametrize("union", ["ALL", "DISTINCT"])
@pytest.mark.parametrize(("order", "wanted"), [("DEPTH", DEPTH), ("BREADTH", BREADTH)])
def test_search(con: tidewheel.Connection, union: str, order: str, wanted: object) -> None:
    clause = f"SEARCH {order} FIRST BY f, t SET seq"
    sql = search_graph(clause, "SELECT f, t FROM search_graph ORDER BY seq", union=union)
    assert con.execute(sql).fetchall() == wanted


@pytest.mark.parametrize("union", ["ALL", "DISTINCT"])
@pytest.mark.parametrize(
    ("values", "no", "yes"), [("", False, True), ("TO 'Y' DEFAULT 'N'", "N", "Y")]
)
def test_cycle(con: tidewheel.Connection, union: str, values: str, no: object, yes: object) -> None:
    clause = f"CYCLE f, t SET is_cycle {values} USING path"
    query = "SELECT is_cycle, count(*) FROM search_graph GROUP BY is_cycle ORDER BY is_cycle"
    sql = search_graph(clause, query, "graph", union)
    assert con.execute(sql).fetchall() == [(no, 22), (yes, 3)]


def test_both(con: tidewheel.Connection) -> None:
    clause = "SEARCH DEPTH FIRST BY f, t SET seq CYCLE f, t SET is_cycle USING path"
    query = "SELECT f, t FROM search_graph WHERE f = 5 OR is_cycle ORDER BY seq"
    found = con.execute(search_graph(clause, query, "graph")).fetchall()
    assert found == [(5, 1), (1, 4), (5, 1), (4, 5), (5, 1), (5, 1)]


def test_stars_of_the_table_itself_do_not_give_what_the_clauses_add(
    con: tidewheel.Connection,
) -> None:
    sql = "WITH RECURSIVE a AS (SELECT 1 AS b UNION ALL SELECT * FROM a) CYCLE b SET c USING p "
    assert con.execute(sql + "SELECT b, c FROM a").fetchall() == [(1, False), (1, True)]
    sql = (
        "WITH RECURSIVE a(x, y) AS (SELECT 1, 1 UNION ALL SELECT a.* FROM a, graph0 WHERE f = x) "
        "SEARCH BREADTH FIRST BY x SET s CYCLE x SET c USING p SELECT x, y, c, s.depth FROM a"
    )
    assert sorted(con.execute(sql).fetchall()) == [(1, 1, False, 0), *[(1, 1, True, 1)] * 3]


@pytest.mark.parametrize(
    ("clause", "message", "at"),
    [
        ("SEARCH DEPTH FIRST BY foo, tar SET seq", "named by SEARCH, is no column", "foo,"),
        ("SEARCH DEPTH FIRST BY f, t SET label", 'has a column "label" already', "label SELECT"),
        ("SEARCH DEPTH FIRST BY f, t, f SET seq", 'SEARCH names "f" twice', "f, t, f"),
        ("CYCLE foo, tar SET c USING p", "named by CYCLE, is no column", "foo,"),
        ("CYCLE f, t, f SET c USING p", 'CYCLE names "f" twice', "f, t, f"),
        ("CYCLE f, t SET label USING p", 'has a column "label" already', "label USING"),
        ("CYCLE f, t SET foo USING foo", 'has a column "foo" already', "foo SELECT"),
        ("SEARCH DEPTH FIRST BY f SET x CYCLE f SET x USING p", 'column "x" already', "x USING"),
    ],
)
def test_errors(con: tidewheel.Connection, clause: str, message: str, at: str) -> None:
    sql = search_graph(clause, "SELECT * FROM search_graph", "graph")
    with pytest.raises(tidewheel.ProgrammingError, match=message) as caught:
        con.execute(sql)
    assert caught.value.column is not None
    assert sql[caught.value.column - 1 :].startswith(at)


def test_the_step_may_read_what_the_clauses_add(con: tidewheel.Connection) -> None:
    alone = (
        "WITH RECURSIVE r AS (SELECT 0 AS x UNION ALL SELECT (x + 1) % 10 FROM r WHERE NOT c) "
        "CYCLE x SET c USING path SELECT count(*), sum(x), bool_or(c) FROM r"
    )
    assert con.execute(alone).fetchall() == [(11, 45, True)]
    joined = (
        "WITH RECURSIVE s(f, t) AS (SELECT f, t FROM graph WHERE f = 1 UNION ALL SELECT g.f, g.t "
        "FROM (SELECT *, 'x' AS path FROM graph) g, s WHERE g.f = s.t AND {}) "
        "CYCLE f, t SET c USING path SELECT count(*) FROM s"
    )
    # (in PostgreSQL, where `path` alone is ambiguous, without the column of that name)
    for condition, count in [("len(s.path) < 3", 6), ("NOT s.c", 10), ("path = 'x'", 10)]:
        query = joined.format(condition)
        assert con.execute(query).fetchall() == [(count,)]
        con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO graph VALUES (3, 4, 'more')")
        assert con.execute("VERIFY VIEW v").fetchall() == []
        con.execute("DELETE FROM graph WHERE label = 'more'")
        assert con.execute("FROM v").fetchall() == [(count,)]


TREE = "WITH RECURSIVE t(x, n) AS (SELECT {}, 0 UNION ALL SELECT e.t, n + 1 FROM t JOIN graph e ON e.f = t.x AND n < 4) "
TREE += "SEARCH DEPTH FIRST BY x SET way"


def test_tables_may_follow_the_clauses(con: tidewheel.Connection) -> None:
    sql = (
        f"{TREE.format(1)}, u AS (SELECT x, n, way FROM t WHERE n < 2) SELECT x FROM u ORDER BY way"
    )
    assert con.execute(sql).fetchall() == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("fusion", ["on", "off"])
def test_what_duckdb_runs_has_no_clauses(con: tidewheel.Connection, fusion: str) -> None:
    con.execute(f"SET fusion = '{fusion}'")
    rows = f"({TREE.format('o.t')} SELECT count(*) FROM t)"
    sql = f"SELECT o.f, o.t, {rows} FROM graph0 o WHERE o.f > 1"  # correlated
    wanted = [(2, 3, 1), (4, 5, 8)]
    assert sorted(con.execute(sql).fetchall()) == wanted
    con.execute(f"CREATE TABLE made AS {sql}")
    assert sorted(con.execute("FROM made").fetchall()) == wanted
    con.execute(f"INSERT INTO made {sql}")
    assert sorted(con.execute("FROM made").fetchall()) == sorted(wanted * 2)
    query = f"{TREE.format(4)} SELECT x FROM t ORDER BY way"
    found = [(4,), (5,), (1,), (2,), (3,), (3,), (4,), (5,)]
    con.execute(f"PREPARE q AS {query}")
    assert con.execute("EXECUTE q").fetchall() == found
    con.execute(f"CREATE MACRO m() AS TABLE {query}")
    assert con.execute("FROM m()").fetchall() == found
    con.execute(f"CREATE OR REPLACE TEMP VIEW v AS {query}")
    assert con.execute("FROM v").fetchall() == found
    con.execute(f"CREATE TEMPORARY VIEW w AS {TREE.format(4)} CYCLE x SET c USING p FROM t")
    assert con.execute("SELECT count(*), bool_or(c) FROM w").fetchall() == [(7, True)]
