"""EXPLAIN ROW: every printed derivation is checked by running its rules on its premises alone.

The checker reads the text as a user does. Of each step it makes tables that hold the premises and
nothing else, runs the rule that the step names on them in DuckDB, and looks for the row.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import duckdb
import pytest

import tidewheel

HEAD = re.compile(r"(\d+)\. (\w+) \((.*)\)(?:, iteration (\d+))?$")
RULE = re.compile(r"     (?:[^:]*): (.*)$")
PREMISE = re.compile(r"     <- (?:(\d+)\. )?(\w+) \((.*)\)$")


@dataclass
class Printed:
    """A step as it was printed; a premise is (step's number or None, name, values)."""

    name: str
    values: str
    iteration: int | None
    rule: str = ""
    premises: list[tuple[int | None, str, str]] = field(default_factory=list)


def parse(text: str) -> list[Printed]:
    steps: list[Printed] = []
    for line in text.splitlines():
        if head := HEAD.match(line):
            assert int(head[1]) == len(steps) + 1
            at = None if head[4] is None else int(head[4])
            steps.append(Printed(head[2], head[3], at))
        elif premise := PREMISE.match(line):
            number = None if premise[1] is None else int(premise[1])
            steps[-1].premises.append((number, premise[2], premise[3]))
        elif (rule := RULE.match(line)) and steps and not steps[-1].rule:
            steps[-1].rule = rule[1]
        else:
            assert line.startswith("     (") or line.endswith("is not recursive."), line
    return steps


def check(
    text: str,
    columns: dict[str, str],
    base: set[str],
    goal: str,
    tables: duckdb.DuckDBPyConnection,
) -> list[Printed]:
    """Is it a derivation of `goal`? `columns` of every name; `base` are tables of `tables`."""
    steps = parse(text)
    assert f"{steps[-1].name} ({steps[-1].values})" == goal
    for number, step in enumerate(steps, 1):
        for earlier, name, values in step.premises:
            if earlier is None:
                assert name in base
                held = tables.execute(f"FROM {name} WHERE ({columns[name]}) = ({values})")
                assert held.fetchall(), f"{name} ({values}) is no row of the table"
                continue
            assert 0 < earlier < number
            assert (steps[earlier - 1].name, steps[earlier - 1].values) == (name, values)
            if step.iteration is not None and steps[earlier - 1].iteration is not None:
                assert steps[earlier - 1].iteration <= step.iteration
        assert not step.rule.endswith("…")
        alone = _alone()
        for name, labels in columns.items():
            rows = [v for _, n, v in step.premises if n == name]
            types = ", ".join(f"{c} INTEGER" for c in labels.split(","))
            alone.execute(f"CREATE OR REPLACE TABLE {name}({types})")
            for values in rows:
                alone.execute(f"INSERT INTO {name} VALUES ({values})")
        rule = step.rule.replace("recurring.", "")
        made = alone.execute(rule).fetchall()
        rows = {", ".join("NULL" if v is None else str(v) for v in r) for r in made}
        assert step.values in rows, (
            f"{step.rule} does not give ({step.values}) from {step.premises}"
        )
    return steps


@cache
def _alone() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


PROGRAMS = {
    # name: query, columns of the tables that it defines, columns of the view
    "linear": (
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION "
        "SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SELECT * FROM t",
        {"t": "x,y"},
    ),
    "nonlinear": (
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION "
        "SELECT p.x, q.y FROM t p JOIN t q ON p.y = q.x) SELECT y, x FROM t WHERE x < 5",
        {"t": "x,y"},
    ),
    "mutual": (
        "WITH RECURSIVE odd(x, y) AS (SELECT a, b FROM e UNION SELECT p.x, e.b FROM even p, e "
        "WHERE e.a = p.y), even(x, y) AS (SELECT p.x, e.b FROM odd p, e WHERE e.a = p.y) "
        "SELECT * FROM even",
        {"odd": "x,y", "even": "x,y"},
    ),
    "distances": (
        "WITH RECURSIVE d(n, v) AS (SELECT 0, 0 UNION "
        "SELECT b, min(v + c) FROM d JOIN w ON w.a = d.n GROUP BY b) SELECT * FROM d",
        {"d": "n,v"},
    ),
    "widest": (
        "WITH RECURSIVE d(x, n, v) AS (SELECT a, b, c FROM w UNION "
        "SELECT d.x, w.b, max(least(v, c)) FROM d JOIN w ON w.a = d.n GROUP BY ALL) "
        "SELECT x, n, v FROM d",
        {"d": "x,n,v"},
    ),
    "walks": (
        "WITH RECURSIVE t(x, n) AS (SELECT a, 0 FROM e UNION ALL "
        "SELECT e.b, n + 1 FROM t, e WHERE e.a = t.x AND n < 3) SELECT * FROM t",
        {"t": "x,n"},
    ),
    "both ways": (
        "WITH RECURSIVE s AS (SELECT a, b FROM e UNION ALL SELECT b, a FROM e), t(x) AS (SELECT 0 "
        "UNION SELECT s.b FROM t JOIN s ON s.a = t.x) SELECT * FROM t",
        {"s": "a,b", "t": "x"},
    ),
    "subqueries": (
        "WITH RECURSIVE t(x) AS (SELECT 0 UNION SELECT b FROM e WHERE a IN (SELECT x FROM t) "
        "UNION SELECT b FROM w WHERE EXISTS (SELECT 1 FROM t WHERE t.x = w.a AND c > 2)) FROM t",
        {"t": "x"},
    ),
    "threshold": (
        "WITH RECURSIVE t(x) AS (SELECT a FROM e WHERE a < 2 UNION SELECT e.b FROM t, e "
        "WHERE e.a = t.x GROUP BY e.b HAVING count(*) >= 2) SELECT x FROM t",
        {"t": "x"},
    ),
    "generations": (
        "WITH RECURSIVE g(x, y) AS (SELECT p.b, q.b FROM e p, e q WHERE p.a = q.a UNION "
        "SELECT p.b, q.b FROM g, e p, e q WHERE p.a = g.x AND q.a = g.y) SELECT * FROM g",
        {"g": "x,y"},
    ),
    "mutually": (
        "WITH MUTUALLY RECURSIVE r(x INT) AS (SELECT 0 UNION SELECT b FROM r, e WHERE a = x), "
        "s(x INT, y INT) AS (SELECT a, b FROM r, e WHERE a = x UNION SELECT s.x, r.x FROM s, r "
        "WHERE s.y = r.x) SELECT y, x FROM s",
        {"r": "x", "s": "x,y"},
    ),
    "keyed": (
        "WITH RECURSIVE d(n, v) USING KEY (n) AS (SELECT 0, 0 UNION SELECT w.b, d.v + 1 "
        "FROM d, w WHERE w.a = d.n AND d.v < 3) SELECT n, v FROM d",
        {"d": "n,v"},
    ),
    "grouped": (
        "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION "
        "SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SELECT x, max(y) AS y FROM t GROUP BY x",
        {"t": "x,y"},
    ),
}
BASE = {"e": "a,b", "w": "a,b,c"}


@pytest.fixture(scope="module")
def con() -> Iterator[tidewheel.Connection]:
    con = tidewheel.connect()
    yield con
    con.close()


def explained(con: tidewheel.Connection, sql: str) -> str:
    return str(con.execute(f"EXPLAIN ROW {sql}").fetchall()[0][1])


def random_check(con: tidewheel.Connection, seed: int) -> None:
    rng = random.Random(seed)
    name = list(PROGRAMS)[seed % len(PROGRAMS)]
    query, columns = PROGRAMS[name]
    nodes = rng.randint(3, 9)
    pairs = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randint(2, 2 * nodes))}
    weights = {(a, b, rng.randint(1, 9)) for a, b in pairs}
    own = duckdb.connect()
    for each in (con, own):
        each.execute("DROP TABLE IF EXISTS e; DROP TABLE IF EXISTS w")
        each.execute("CREATE TABLE e(a INTEGER, b INTEGER)")
        each.execute("CREATE TABLE w(a INTEGER, b INTEGER, c INTEGER)")
        each.execute("INSERT INTO e VALUES " + ", ".join(map(str, sorted(pairs))))
        each.execute("INSERT INTO w VALUES " + ", ".join(map(str, sorted(weights))))
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    try:
        rows = sorted(set(con.execute("FROM v").fetchall()))
        for row in rng.sample(rows, min(3, len(rows))):
            values = ", ".join(map(str, row))
            text = explained(con, f"(v, {values})")
            assert "not taken apart" not in text, text
            known = columns | BASE
            check(text, known, set(BASE), f"v ({values})", own)
        absent = tuple(rng.randrange(nodes) for _ in con.execute("FROM v").description or ())
        if absent not in rows:
            assert "is not in the view" in explained(con, f"(v, {', '.join(map(str, absent))})")
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {name}: {error}") from error
    finally:
        con.execute("DROP MATERIALIZED VIEW v")
        own.close()


@pytest.mark.parametrize("block", range(2))
def test_random_derivations(con: tidewheel.Connection, block: int) -> None:
    for seed in range(13 * block, 13 * (block + 1)):
        random_check(con, seed)


@pytest.mark.long
def test_many_random_derivations(con: tidewheel.Connection) -> None:
    for seed in range(1_000, 2_000):
        random_check(con, seed)


# -- the text, and what is said where there is no proof


@pytest.fixture
def own() -> Iterator[tidewheel.Connection]:
    con = tidewheel.connect()
    con.execute("CREATE TABLE e(a INTEGER, b INTEGER)")
    con.execute("INSERT INTO e VALUES (1, 2), (2, 3), (3, 4), (4, 2)")
    con.execute(f"CREATE MATERIALIZED VIEW reach AS {PROGRAMS['linear'][0]}")
    yield con
    con.close()


TEXT = """\
1. t (1, 2), iteration 0
     the anchor of t: SELECT a, b FROM e
     <- e (1, 2)
2. t (1, 3), iteration 1
     the step of t: SELECT t.x, e.b FROM t JOIN e ON e.a = t.y
     <- 1. t (1, 2)
     <- e (2, 3)
3. reach (1, 3)
     the query of the view: SELECT * FROM t
     <- 2. t (1, 3)"""


def test_the_text(own: tidewheel.Connection) -> None:
    assert explained(own, "(reach, 1, 3)") == TEXT
    assert explained(own, "(main.reach, 1, 1 + 2)") == TEXT
    assert own.execute("EXPLAIN ROW (reach, ?, ?)", [1, 3]).fetchall()[0] == ("row", TEXT)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("<- e (2, 3)", "<- e (2, 4)"),  # no row of the table
        ("<- 1. t (1, 2)", "<- 1. t (1, 4)"),  # not what that step made
        ("2. t (1, 3), iteration 1", "2. t (1, 4), iteration 1"),  # the rule does not give it
        ("<- 1. t (1, 2)", "<- 2. t (1, 3)"),  # circular
    ],
)
def test_the_checker_finds_what_is_wrong(wrong: str, right: str) -> None:
    tables = duckdb.connect()
    tables.execute("CREATE TABLE e AS FROM (VALUES (1, 2), (2, 3)) v(a, b)")
    columns = {"t": "x,y", "e": "a,b"}
    assert len(check(TEXT, columns, {"e"}, "reach (1, 3)", tables)) == 3
    with pytest.raises(AssertionError):
        check(TEXT.replace(wrong, right), columns, {"e"}, "reach (1, 3)", tables)


def test_a_row_that_is_not_there(own: tidewheel.Connection) -> None:
    text = explained(own, "(reach, 1, 1)")
    assert text.startswith("reach (1, 1) is not in the view: no rule gives it.")
    assert "  reach (1, 2)" in text


@pytest.mark.parametrize(
    ("sql", "message", "at"),
    [
        ("EXPLAIN ROW (reach, §1)", "has 2 columns, 1 value is given", ")"),
        ("EXPLAIN ROW (reach, 1, 2, §3)", "has 2 columns, 3 values are given", "3"),
        ("EXPLAIN ROW (§raech, 1, 2)", "there is no view raech", "raech"),
        ("EXPLAIN ROW (§e, 1, 2)", "e is a table", "e"),
        ("EXPLAIN ROW (reach, 1, §'x')", "x is no INTEGER", "'x'"),
        ("EXPLAIN ROW (reach, §1.5, 2)", "1.5 is no INTEGER", "1.5"),
        ("EXPLAIN ROW (reach, 1, §foo)", 'column "foo"', "foo"),
        ("EXPLAIN ROW (reach, 1§,, 2)", "a value is missing", ","),
        ("EXPLAIN ROW (reach, 1, §2", "is not closed", "2"),
        ("EXPLAIN ROW (§)", "needs a view", ")"),
        ("EXPLAIN ROW (reach, 1, 2) §x", "ends before this", "x"),
        ("EXPLAIN ROW (reach §1, 2)", "expected a comma", "1"),
    ],
)
def test_errors(own: tidewheel.Connection, sql: str, message: str, at: str) -> None:
    with pytest.raises(tidewheel.ProgrammingError) as caught:
        own.execute(sql.replace("§", ""))
    assert message in str(caught.value)
    assert caught.value.column is not None
    if "values" not in message and "value is given" not in message and at != ",":
        assert sql.replace("§", "")[caught.value.column - 1 :].startswith(at)
    assert own.execute("SELECT count(*) FROM reach").fetchall() == [(12,)]  # it goes on


def test_a_view_that_is_not_recursive_shows_its_base_rows(own: tidewheel.Connection) -> None:
    own.execute("CREATE VIEW two AS SELECT x.a, y.b FROM e x JOIN e y ON y.a = x.b")
    text = explained(own, "(two, 1, 3)")
    assert text.startswith("two is not recursive.\n1. two (1, 3)\n")
    assert text.endswith("     <- e (1, 2)\n     <- e (2, 3)")


def test_views_over_views_and_plain_views(own: tidewheel.Connection) -> None:
    own.execute("CREATE VIEW far AS SELECT y, count(*) AS n FROM reach WHERE x = 1 GROUP BY y")
    steps = parse(explained(own, "(far, 3, 1)"))
    assert [s.name for s in steps] == ["t", "t", "reach", "far"]
    assert steps[-1].premises == [(3, "reach", "1, 3")]
    query = PROGRAMS["linear"][0]
    own.execute(f"CREATE VIEW plain AS {query}")
    assert [s.name for s in parse(explained(own, "(plain, 1, 3)"))] == ["t", "t", "plain"]


def test_a_view_over_a_recursive_one_is_not_called_no_recursion(own: tidewheel.Connection) -> None:
    own.execute(f"CREATE VIEW plain AS {PROGRAMS['linear'][0]}")
    own.execute("CREATE VIEW above AS SELECT * FROM plain")
    own.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM above WHERE true")
    own.execute("CREATE VIEW far AS SELECT * FROM reach")
    for view in ("above", "kept", "far"):
        for row in ("1, 3", "1, 77"):
            assert "not recursive" not in explained(own, f"({view}, {row})")
    assert parse(explained(own, "(kept, 1, 3)"))[-1].name == "kept"


def test_it_sees_what_its_transaction_sees(own: tidewheel.Connection) -> None:
    own.execute("BEGIN; INSERT INTO e VALUES (2, 9)")
    assert parse(explained(own, "(reach, 1, 9)"))[-1].premises == [(2, "t", "1, 9")]
    own.execute("ROLLBACK")
    assert "is not in the view" in explained(own, "(reach, 1, 9)")


def test_columns_that_are_no_numbers(own: tidewheel.Connection) -> None:
    own.execute("CREATE TABLE s(a VARCHAR, b VARCHAR, d DATE)")
    own.execute("INSERT INTO s VALUES ('it''s', 'b', '2024-01-02'), ('b', NULL, NULL)")
    own.execute(
        "CREATE MATERIALIZED VIEW w AS WITH RECURSIVE t(x, p, d) AS (SELECT 'it''s', ['it''s'], "
        "DATE '2024-01-01' UNION ALL SELECT b, list_append(p, b), s.d FROM t JOIN s ON s.a = t.x) "
        "SELECT * FROM t"
    )
    text = explained(own, "(w, 'b', ['it''s', 'b'], '2024-01-02')")
    assert [s.iteration for s in parse(text)] == [0, 1, None]
    assert "<- s ('it''s', 'b', '2024-01-02')" in text
    text = explained(own, "(w, NULL, ['it''s', 'b', NULL], NULL)")
    assert [s.iteration for s in parse(text)] == [0, 1, 2, None]


def test_search_and_cycle(own: tidewheel.Connection) -> None:
    own.execute(
        "CREATE MATERIALIZED VIEW c AS WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION ALL "
        "SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SEARCH DEPTH FIRST BY x, y SET o "
        "CYCLE x, y SET again USING p SELECT x, y, again FROM t"
    )
    text = explained(own, "(c, 1, 4, false)")
    assert text.count("<- e (") == 3
    assert "not taken apart" not in text


def test_what_is_not_taken_apart_is_said(own: tidewheel.Connection) -> None:
    own.execute(
        "CREATE MATERIALIZED VIEW n AS WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL (WITH RECURSIVE "
        "s(y) AS (SELECT x FROM t UNION ALL SELECT y + 1 FROM s WHERE y < 3) "
        "SELECT max(y) + 1 FROM s HAVING max(y) < 9)) FROM t"
    )
    assert '(not taken apart: "s" is a recursion inside a step' in explained(own, "(n, 4)")


def test_tables_that_would_read_each_other_read_the_catalog(own: tidewheel.Connection) -> None:
    own.execute("CREATE TABLE orders(id int); INSERT INTO orders VALUES (1), (2)")
    own.execute(
        "CREATE MATERIALIZED VIEW late AS WITH RECURSIVE raw AS (FROM orders WHERE id > 1), "
        "orders AS (SELECT id + 10 AS id FROM raw) FROM orders"
    )
    said = own.execute("EXPLAIN ROW (late, 12)").fetchall()[0][1]
    assert '"orders" where id > 1' in said.lower()
    assert "<- orders (2)" in said


def test_a_mutual_recursion_over_the_rows_around_it_is_not_taken_apart(
    own: tidewheel.Connection,
) -> None:
    own.execute(
        "CREATE MATERIALIZED VIEW around AS SELECT x, (WITH RECURSIVE r(n) AS (SELECT x UNION "
        "SELECT n + 1 FROM s WHERE n < 5), s(n) AS (SELECT 0 UNION SELECT n FROM r) "
        "SELECT count(*) FROM r) AS k FROM range(3) t(x)"
    )
    said = own.execute("EXPLAIN ROW (around, 2, 5)").fetchall()[0][1]
    assert "depends on the rows of a query around it" in said


def test_a_group_of_many_rows(own: tidewheel.Connection) -> None:
    own.execute("INSERT INTO e SELECT 50, i FROM range(100, 200) r(i)")
    own.execute("CREATE MATERIALIZED VIEW g AS SELECT a, count(*) AS n FROM e GROUP BY a")
    assert "<- and 80 more rows of the group" in explained(own, "(g, 50, 100)")


def test_a_long_derivation(own: tidewheel.Connection) -> None:
    own.execute("INSERT INTO e SELECT i, i + 1 FROM range(100, 400) r(i)")
    own.execute(
        "CREATE VIEW chain AS WITH RECURSIVE t(x) AS (SELECT 100 UNION "
        "SELECT b FROM t JOIN e ON a = x) FROM t"
    )
    steps = parse(explained(own, "(chain, 400)"))
    assert [s.iteration for s in steps] == [*range(301), None]


def test_a_row_near_the_start_of_a_deep_chain_is_explained_at_once() -> None:
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE e AS SELECT range::INT AS a, range::INT + 1 AS b FROM range(20000)"
        )
        con.execute(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE t(x) AS "
            "(SELECT 0 UNION SELECT b FROM t JOIN e ON a = x) SELECT x FROM t"
        )
        begun = time.perf_counter()
        proof = con.execute("EXPLAIN ROW (v, 3)").fetchall()[0][1]
        assert "4. t (3), iteration 3" in proof
        assert time.perf_counter() - begun < 15  # a statement per iteration takes a minute
