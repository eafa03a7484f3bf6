"""A recursion that follows a cycle for ever is told so as soon as that is certain."""

from __future__ import annotations

import random
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


def test_a_view_of_it_is_refused(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.OperationalError, match="never ends: iteration 70 gave the rows"):
        con.execute(f"CREATE MATERIALIZED VIEW v AS {ROUND} SELECT count(*) FROM r")


def test_a_change_that_closes_a_cycle_is_refused(con: tidewheel.Connection) -> None:
    con.execute("DELETE FROM e WHERE a = 'c'")
    con.execute("INSERT INTO e SELECT i, i + 1 FROM range(100) t(i)")
    query = ROUND.replace("'c'", "'0'") + "SELECT count(*) FROM r"
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    before = con.execute("FROM v").fetchall()
    for row in ("('c', 'a')", "('100', '0')", "('100', '50')"):
        with pytest.raises(tidewheel.OperationalError, match=r"never ends: iteration \d\d\d gave"):
            con.execute(f"INSERT INTO e VALUES {row}")
        assert con.execute("FROM v").fetchall() == before
    con.execute("INSERT INTO e VALUES ('100', '101'), ('c', '99')")
    again = con.execute(query).fetchall()
    assert con.execute("FROM v").fetchall() == again != before


@pytest.mark.parametrize("seed", range(4))
def test_a_view_fails_where_the_statement_does(seed: int) -> None:
    dice = random.Random(seed)
    query = (
        "WITH RECURSIVE r(n, k) AS (SELECT 0, 0 UNION ALL SELECT b, s.k FROM s, e WHERE a = n), "
        "s(n, k) AS (SELECT 1, 0 UNION ALL SELECT n, k + w FROM r, f WHERE f.a = n) "
        "SELECT n, k, count(*) FROM r GROUP BY ALL"
    )
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE e(a int, b int); INSERT INTO e SELECT i, i + 1 FROM range(5) t(i)"
        )
        con.execute("CREATE TABLE f(a int, w int); INSERT INTO f SELECT i, 0 FROM range(5) t(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("SET max_iterations = 200")
        endless = 0
        for _ in range(12):
            a, b = dice.randrange(5), dice.choice([0, 1, 2, 3, 4, 99])
            change = f"UPDATE e SET b = {b} WHERE a = {a}"
            if dice.random() < 0.15:
                change = f"UPDATE f SET w = {b % 2} WHERE a = {a}"
            failed = ""
            try:
                con.execute(change)
            except tidewheel.OperationalError as error:
                failed = str(error)
            if not failed:
                found = sorted(con.execute("FROM v").fetchall())
                assert found == sorted(con.execute(query).fetchall())
                continue
            con.execute(
                "CREATE OR REPLACE TABLE e2 AS FROM e; CREATE OR REPLACE TABLE f2 AS FROM f"
            )
            con.execute(change.replace("UPDATE e", "UPDATE e2").replace("UPDATE f", "UPDATE f2"))
            other = query.replace(" e ", " e2 e ").replace(" f ", " f2 f ")
            with pytest.raises(tidewheel.OperationalError) as caught:
                con.execute(other)
            assert ("never ends" in failed) == ("never ends" in str(caught.value))
            endless += "never ends" in failed
        assert endless


@pytest.mark.parametrize("rows", ["(1, 2), (2, 1)", "(1, 1), (1, 3), (3, 3)"])
def test_a_table_of_integers_that_no_sql_runs(con: tidewheel.Connection, rows: str) -> None:
    con.execute(f"CREATE TABLE g (a INTEGER, b INTEGER); INSERT INTO g VALUES {rows}")
    con.execute("INSERT INTO g SELECT i, i + 1 FROM range(100, 30000) t(i)")
    query = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT b FROM r JOIN g ON a = x) "
    reader = "SELECT count(*) FROM r"
    if "2" in rows:
        with pytest.raises(tidewheel.OperationalError, match="never ends"):
            con.execute(query.format(1) + reader)
        with pytest.raises(tidewheel.OperationalError, match="never ends"):
            con.execute(query.format("a FROM g WHERE a = 1 OR a = 29000") + reader)
    else:  # one row more each time
        con.execute("SET max_iterations = 500")
        with pytest.raises(tidewheel.OperationalError, match="does not end within"):
            con.execute(query.format(1) + reader)
    con.execute("SET max_iterations = 100000")
    assert con.execute(query.format(20000) + reader).fetchall() == [(10001,)]
    con.execute("SET max_iterations = 300; SET on_limit = 'return'")
    assert con.execute(query.format(2) + "SELECT max(x) FROM r").fetchone() == (2,)


def test_more_rows_than_can_be_counted_are_an_error(con: tidewheel.Connection) -> None:
    """Paths that double at each of 70 nodes: a view keeps each row once, and how often it comes."""
    con.execute("CREATE TABLE twice (a integer, b integer)")
    con.execute("INSERT INTO twice SELECT i, i + 1 FROM range(1, 40) r(i), range(2)")
    con.execute("SET max_recursive_rows = 10000")  # of the statement that would recompute it
    query = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT b FROM r, twice WHERE a = n) "
        "SELECT n, count(*) FROM r GROUP BY n"
    )
    con.execute(f"CREATE MATERIALIZED VIEW paths AS {query}")
    longest = "SELECT * FROM paths ORDER BY n DESC LIMIT 1"
    assert con.execute(longest).fetchall() == [(40, 2**39)]
    with pytest.raises(tidewheel.DataError, match="more than can be counted"):
        con.execute("INSERT INTO twice SELECT i, i + 1 FROM range(40, 71) r(i), range(2)")
    con.execute("INSERT INTO twice VALUES (500, 501)")  # the view is filled again
    assert con.execute(longest).fetchall() == [(40, 2**39)]
    con.execute("DROP MATERIALIZED VIEW paths")
    con.execute("INSERT INTO twice SELECT i, i + 1 FROM range(40, 71) r(i), range(2)")
    with pytest.raises(tidewheel.OperationalError, match="does not end within"):
        con.execute(f"CREATE MATERIALIZED VIEW paths AS {query}")


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_dates_that_python_does_not_have(kind: str) -> None:
    query = ROUND.replace("'a'", f"'infinity'::{kind}").replace("'c'", f"'-infinity'::{kind}")
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE e(a {kind}, b {kind})")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query} SELECT count(*) FROM r")
        with pytest.raises(tidewheel.OperationalError, match="never ends"):
            con.execute("INSERT INTO e VALUES ('infinity', 'infinity')")
        con.execute("DROP MATERIALIZED VIEW v")
        con.execute("INSERT INTO e VALUES ('infinity', 'infinity')")
        with pytest.raises(tidewheel.OperationalError, match="never ends"):
            con.execute(query + "SELECT count(*) FROM r")


WINS = (
    "WITH MUTUALLY RECURSIVE win(p INTEGER) AS ("
    "SELECT DISTINCT a FROM move WHERE NOT EXISTS (FROM win WHERE p = b)) FROM win"
)


def _winners(moves: set[tuple[int, int]]) -> set[int] | None:
    """Whoever can move to where nobody wins; None where that goes round for ever."""
    won: set[int] = set()
    seen: list[set[int]] = []
    while won not in seen:
        seen.append(won)
        won = {a for a, b in moves if b not in won}
    return won if won == seen[-1] else None


@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_take_themselves_away(seed: int, fusion: str) -> None:
    """A commit, and a query, ends with an error as soon as the tables are what they were before."""
    dice = random.Random(seed)
    with tidewheel.connect() as con:
        con.execute(f"SET fusion = '{fusion}'; SET max_iterations = 300")
        con.execute("CREATE TABLE move(a INTEGER, b INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {WINS}")
        moves: set[tuple[int, int]] = set()
        endless = 0
        for _ in range(25):
            one = dice.randrange(6), dice.randrange(6)
            change = f"INSERT INTO move VALUES {one}"
            if one in moves:
                change = f"DELETE FROM move WHERE (a, b) = {one}"
            want = _winners(moves ^ {one})
            if want is None:
                with pytest.raises(tidewheel.OperationalError, match="never ends: at iteration"):
                    con.execute(change)
                endless += 1
                continue
            con.execute(change)
            moves ^= {one}
            assert {p for (p,) in con.execute("FROM v").fetchall()} == want
        assert endless
        con.execute("DROP MATERIALIZED VIEW v; INSERT INTO move VALUES (9, 9)")
        said = "never ends: at iteration" if fusion == "on" else "come and go for ever"
        with pytest.raises(tidewheel.OperationalError, match=said):
            con.execute(WINS)


def test_a_long_way_round(con: tidewheel.Connection) -> None:
    """Twenty levels up, then none: as many iterations as it takes to be where it was."""
    con.execute("CREATE TABLE dep(t INTEGER, p INTEGER); INSERT INTO dep VALUES (2, 1), (3, 2)")
    query = (
        "WITH MUTUALLY RECURSIVE level(t INTEGER, n INTEGER) AS (SELECT t, max(n) FROM ("
        "SELECT DISTINCT p, 0 FROM dep UNION ALL SELECT dep.t, n + 1 FROM level, dep "
        "WHERE level.t = p AND n < 20) x(t, n) GROUP BY t) FROM level"
    )
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert sorted(con.execute("FROM v").fetchall()) == [(1, 0), (2, 1), (3, 2)]
    with pytest.raises(tidewheel.OperationalError, match="never ends: at iteration"):
        con.execute("INSERT INTO dep VALUES (2, 3)")
    assert sorted(con.execute("FROM v").fetchall()) == [(1, 0), (2, 1), (3, 2)]
    con.execute("DROP MATERIALIZED VIEW v; INSERT INTO dep VALUES (2, 3)")
    with pytest.raises(tidewheel.OperationalError, match="never ends: at iteration"):
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(tidewheel.OperationalError, match="never ends: at iteration"):
        con.execute(query)
    limited = query.replace("RECURSIVE", "RECURSIVE (RETURN AT RECURSION LIMIT 500)")
    assert con.execute(f"SELECT max(n) <= 20 FROM ({limited})").fetchall() == [(True,)]


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
@pytest.mark.parametrize("seed", range(2))
def test_a_depth_or_a_path_beside_a_cycle(union: str, seed: int) -> None:
    """Its rows are always new ones: a change is refused at once if, and only if, there is one."""
    dice = random.Random(seed)
    query = (
        f"WITH RECURSIVE r(root, n, depth, path) AS (SELECT a, a, d, 'x' FROM starts {union} "
        "SELECT root, b, depth + 1, path || b FROM r JOIN e ON a = n WHERE b <> 9) FROM r"
    )
    with tidewheel.connect(max_iterations=1000) as con:
        con.execute(
            "CREATE TABLE e(a int PRIMARY KEY, b int); CREATE TABLE starts AS SELECT 0 AS a, 0 AS d"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        edges: list[tuple[int, int]] = []
        told: list[str] = []
        for step in range(17):
            a, b = dice.randrange(5), dice.choice([0, 1, 2, 3, 4, 9])
            change = f"INSERT OR REPLACE INTO e VALUES ({a}, {b})"
            if dice.random() < 0.3:
                change = f"INSERT INTO starts VALUES ({a}, {dice.choice([0, 5, -90])})"
            if edges and dice.random() < 0.2:
                change = f"DELETE FROM e WHERE a = {dice.choice(edges)[0]}"
            if step == 16:
                change = "INSERT OR REPLACE INTO e VALUES (0, 1), (1, 0)"
            try:
                con.execute(change)
            except tidewheel.OperationalError as error:
                told.append(str(error))
                starts = con.execute("FROM starts").fetchall()
                with tidewheel.connect(max_iterations=300) as other:
                    other.execute("CREATE TABLE e(a int PRIMARY KEY, b int)")
                    other.executemany("INSERT INTO e VALUES (?, ?)", edges)
                    other.execute("CREATE TABLE starts(a int, d int)")
                    other.executemany("INSERT INTO starts VALUES (?, ?)", starts)
                    other.execute(change)
                    with pytest.raises(tidewheel.OperationalError):
                        other.execute(query)
            edges = con.execute("FROM e").fetchall()
            assert con.execute("VERIFY VIEW v").fetchall() == []
        assert told
        for text in told:
            assert "never ends: the rows of iteration" in text
            assert 'have the "n" of those' in text


def test_a_depth_that_is_null_ends(con: tidewheel.Connection) -> None:
    query = (
        "WITH RECURSIVE r(n, depth) AS (SELECT 'a', NULL::INT UNION "
        "SELECT b, depth + 1 FROM r JOIN e ON a = n) FROM r"
    )
    con.execute("DELETE FROM e WHERE a = 'c'")
    con.execute("INSERT INTO e SELECT i, i + 1 FROM range(100) t(i)")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("INSERT INTO e VALUES ('c', '0'), ('100', 'a')")
    assert len(con.execute("FROM v").fetchall()) == 104
