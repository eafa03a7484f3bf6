# ruff: noqa: E501
"""DuckDB or the loop: found out by trying, told by EXPLAIN, never past a bound."""

from __future__ import annotations

import math
import re

import duckdb
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.planner import choice, execute
from tidewheel.planner.choice import Choice
from tidewheel.planner.context import Context, Settings
from tidewheel.planner.logical import Block

CLOSURE = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SELECT count(*) FROM t"
ENDLESS = "WITH RECURSIVE t(x) AS (SELECT a FROM e UNION ALL SELECT e.b FROM t JOIN e ON e.a = t.x) SELECT count(*) FROM t"


@pytest.fixture
def con(monkeypatch):
    monkeypatch.setattr(choice, "FIRST", 60.0)
    monkeypatch.setattr(choice, "LONGEST", 60.0)
    monkeypatch.setattr(choice, "LIMITED", 60.0)
    monkeypatch.setattr(choice, "PLANNING", 0)  # the loop is tried at the fourth run or so
    con = tidewheel.connect()
    con.execute("CREATE TABLE e AS SELECT range::INT AS a, range::INT + 1 AS b FROM range(30)")
    yield con
    con.close()


def explained(con, sql: str) -> str:
    return str(con.execute(f"EXPLAIN {sql}").fetchall()[0][1]).split("\n")[0]


def test_small_tables_go_to_duckdb_first(con) -> None:
    assert "DuckDB is asked for the whole answer first" in explained(con, CLOSURE)
    assert con.execute(CLOSURE).fetchall() == [(465,)]
    assert "DuckDB alone took" in explained(con, CLOSURE)
    for _ in range(5):
        assert con.execute(CLOSURE).fetchall() == [(465,)]
    assert "runs it" in explained(con, CLOSURE)


def test_the_loop_is_planned_when_it_is_tried(con, monkeypatch) -> None:
    planned = []
    physical = execute.physical
    monkeypatch.setattr(execute, "physical", lambda *a: planned.append(1) or physical(*a))
    monkeypatch.setattr(choice, "PLANNING", 60.0)
    pairs = "WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT t.x, u.y FROM t JOIN t u ON u.x = t.y) SELECT count(*) FROM t"
    for query in (CLOSURE, pairs, f"SELECT * FROM ({CLOSURE})"):
        for _ in range(3):
            assert con.execute(query).fetchall() == [(465,)]
    assert not planned
    monkeypatch.setattr(choice, "PLANNING", 0)
    monkeypatch.setattr(choice, "_CHEAP", 0)
    for _ in range(9):
        assert con.execute(CLOSURE).fetchall() == [(465,)]
    assert planned == [1]
    assert re.match("DuckDB alone took .* ms; the loop took .* ms", explained(con, CLOSURE))


@pytest.mark.parametrize(
    "step",
    [
        "SELECT y FROM t",  # DuckDB refuses it, the planner says why
        "SELECT min(x) FROM t GROUP BY x",
        "SELECT t.x + u.x FROM t, t u WHERE t.x + u.x < 6",
        "SELECT x + 1 FROM recurring.t WHERE x < 3",
    ],
)
def test_what_the_text_does_not_tell_is_planned(con, monkeypatch, step: str) -> None:
    query = f"WITH RECURSIVE t(x) AS (SELECT 1 UNION {step}) SELECT * FROM t"

    def answer() -> object:
        try:
            return sorted(con.execute(query).fetchall())
        except tidewheel.Error as error:
            return str(error)

    drafted = answer()
    monkeypatch.setattr(choice, "FIRST", 0)
    con.execute("CREATE TABLE another AS SELECT 1")  # plans are made anew
    assert answer() == drafted


def test_the_loop_is_tried_again(con) -> None:
    found = Choice(Block("SELECT 1", (), (), (), ""))
    found.whole, found.loop, found.ends = 0.1, 0.2, True
    context = Context(None, Settings())  # type: ignore[arg-type]
    runs = 0
    while found.begin(context):
        found.note_whole(0.1, ended=True)
        runs += 1
    assert runs == 20


def test_the_loop_of_using_key_is_not_tried_while_duckdb_ends(con) -> None:
    keyed = (
        "WITH RECURSIVE t (k, n) USING KEY (k) AS"
        " (SELECT 1, 0 UNION SELECT k, n + 1 FROM t WHERE n < 3000) FROM t"
    )
    for _ in range(4):
        assert con.execute(keyed).fetchall() == [(1, 3000)]
    assert explained(con, keyed).endswith("DuckDB runs it alone")


def test_the_first_run_of_the_loop_is_soon_tried_again(con) -> None:
    found = Choice(Block("SELECT 1", (), (), (), ""), ends=True)
    context = Context(None, Settings())  # type: ignore[arg-type]
    found.note_whole(0.125, ended=True)
    found.note_loop(0.5)  # modules were loaded
    runs = [0, 0]
    for at in range(2):
        while found.begin(context):
            found.note_whole(0.125, ended=True)
            runs[at] += 1
        found.note_loop(0.25 if at == 0 else 0.0625)
    assert runs == [8, 20]
    assert not found.alone


def test_many_more_rows_are_noticed_at_once(con) -> None:
    found = Choice(Block("SELECT 1", (), (), (), ""), ends=True)
    found.whole, found.loop = 0.008, 0.01
    context = Context(None, Settings())  # type: ignore[arg-type]
    assert found.begin(context)
    found.note_whole(0.02, ended=True)  # another process may have run
    assert found.begin(context)
    found.note_whole(0.4, ended=True)
    assert not found.begin(context)


def test_large_tables_and_views_do_not(con, monkeypatch) -> None:
    monkeypatch.setattr(choice, "SMALL", 29)
    assert con.execute(CLOSURE).fetchall() == [(465,)]
    assert explained(con, CLOSURE).startswith("the loop took")
    con.execute("CREATE VIEW f AS FROM e")
    query = CLOSURE.replace("FROM e ", "FROM f ")
    con.execute(query).fetchall()
    assert explained(con, query).startswith("the loop took")


def test_duckdb_is_stopped_and_the_loop_goes_on(con, monkeypatch) -> None:
    con.execute("INSERT INTO e VALUES (30, 0)")  # a cycle
    monkeypatch.setattr(choice, "FIRST", 0.01)
    monkeypatch.setattr(choice, "LONGEST", 0.01)
    con.execute("SET max_iterations = 100000")
    con.execute("RESET max_iterations")
    with pytest.raises(tidewheel.OperationalError, match="never ends"):
        con.execute(ENDLESS)
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert con.execute(CLOSURE).fetchall() == [(31 * 31,)]


def test_the_time_of_a_try_is_no_time_of_other_statements(con, monkeypatch) -> None:
    monkeypatch.setattr(choice, "FIRST", 0.001)
    setting = "SELECT current_setting('max_execution_time')"
    for rows in (31, 2000):
        con.execute(f"INSERT INTO e SELECT i, i + 1 FROM range(30, {rows}) AS r(i)")
        con.execute(CLOSURE).fetchall()
        assert con.execute(setting).fetchall() == [(0,)]
    con.execute("SET max_execution_time = 60000")
    con.execute(CLOSURE).fetchall()
    assert con.execute(setting).fetchall() == [(60000,)]
    assert explained(con, CLOSURE).startswith("the loop took")


def test_the_limit_is_taken_back_though_time_is_up(con, monkeypatch) -> None:
    """On a busy machine the SET that ends a limit may come to it."""
    late = 0

    class Busy:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self.connection = connection

        def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
            nonlocal late
            if late < 3:
                late += 1
                raise duckdb.InterruptException("Query exceeded maximum execution time")
            return self.connection.execute(sql)

    raw = duckdb.connect()
    choice._set(Busy(raw), 1000)  # type: ignore[arg-type]
    late = 0
    choice._set(Busy(raw), 0)  # type: ignore[arg-type]
    assert raw.sql("SELECT current_setting('max_execution_time')").fetchall() == [(0,)]


def test_a_configuration_that_is_locked() -> None:
    with tidewheel.connect(safe_mode=True) as con:
        con.execute("CREATE TABLE e AS SELECT 1 AS a, 2 AS b")
        for _ in range(2):
            assert con.execute(CLOSURE).fetchall() == [(1,)]
        assert explained(con, CLOSURE).startswith("the loop took")


@pytest.mark.parametrize("bound", ["max_iterations", "max_recursive_rows", "max_recursive_bytes"])
def test_what_has_bounds_is_run_by_the_loop(con, bound: str) -> None:
    con.execute(f"SET {bound} = 10")
    with pytest.raises(tidewheel.OperationalError, match=bound):
        con.execute(CLOSURE)


def test_errors_are_those_of_the_loop(con) -> None:
    query = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT e.b FROM t JOIN e ON e.a = t.x WHERE error('no') IS NULL) SELECT * FROM t"
    with pytest.raises(tidewheel.Error, match="no"):
        con.execute(query).fetchall()
    assert con.execute(CLOSURE).fetchall() == [(465,)]


def test_parameters_and_search_clauses(con) -> None:
    query = "WITH RECURSIVE t(x) AS (SELECT ?::INT UNION ALL SELECT e.b FROM t JOIN e ON e.a = t.x) SEARCH BREADTH FIRST BY x SET o SELECT x FROM t WHERE x < ? ORDER BY o"
    for _ in range(3):
        assert con.execute(query, [25, 28]).fetchall() == [(25,), (26,), (27,)]


def test_not_within_a_transaction(con) -> None:
    con.execute("BEGIN")
    assert con.execute(CLOSURE).fetchall() == [(465,)]
    con.execute("COMMIT")
    assert "asked" in explained(con, CLOSURE)


def test_the_faster_one_is_kept() -> None:
    found = Choice(Block("SELECT 1", (), (), (), ""))
    found.loop, found.runs = 0.1, 4
    context = Context(None, Settings())  # type: ignore[arg-type]
    asked = [found.runs for _ in range(20) if found.begin(context)]
    assert asked == [8, 16]
    found.note_whole(0.2, ended=True)
    assert found.begin(context) == 0
    found.note_whole(0.05, ended=True)
    assert found.begin(context) > 0.05
    found.note_whole(0.3, ended=False)
    assert found.begin(context) == 0


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
@pytest.mark.parametrize(
    ("reader", "rows"),
    [
        ("SELECT x FROM t WHERE x % 7 = 0 LIMIT 3", [7, 14, 21]),
        ("SELECT q.x * 2 FROM t AS q WHERE q.x > 5000 LIMIT 2 OFFSET 1", [10004, 10006]),
        ("SELECT sum(x) FROM (SELECT x FROM t WHERE x > 5 LIMIT 4)", [30]),
        ("SELECT x FROM t JOIN (VALUES (3), (5)) v(y) ON x = y LIMIT 2", [3, 5]),
    ],
)
def test_a_limit_ends_what_has_no_end(con, union: str, reader: str, rows: list[int]) -> None:
    query = f"WITH RECURSIVE t(x) AS (SELECT 1 {union} SELECT x + 1 FROM t) {reader}"
    assert "stops at the LIMIT" in explained(con, query)
    for _ in range(4):
        assert [x for (x,) in con.execute(query).fetchall()] == rows


def test_a_limit_that_is_never_reached(con, monkeypatch) -> None:
    monkeypatch.setattr(choice, "LIMITED", 0.05)
    query = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t WHERE x < 0 LIMIT 2"
    with pytest.raises(tidewheel.OperationalError, match="max_iterations"):
        con.execute(query)


def test_what_has_another_meaning_here_is_never_given_to_duckdb(con) -> None:
    mutual = "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT b FROM s, e WHERE a = x), s(x) AS (SELECT x FROM t) SELECT count(*) FROM t"
    grouped = "WITH RECURSIVE t(x, n) AS (SELECT 1, 0 UNION SELECT b, min(n + 1) FROM t, e WHERE a = x GROUP BY b) SELECT count(*) FROM t"
    nested = f"WITH RECURSIVE o(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM o, ({grouped}) WHERE x < 3) SELECT count(*) FROM o"
    for query in (mutual, grouped, nested):
        assert explained(con, query).startswith("#0")


@pytest.mark.parametrize("rows", [0, 1, 999, 1000, 1001, 2500])
@pytest.mark.parametrize(
    "columns",
    [
        "x, -x::HUGEINT * 1e30::HUGEINT, x::VARCHAR, (x / 4)::DECIMAL(9, 2), x % 2 = 0, NULL::BIGINT",
        "x, [x], x::DOUBLE",
    ],
)
def test_rows_and_types_are_those_of_duckdb(con, monkeypatch, rows: int, columns: str) -> None:
    query = f"WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < {max(rows, 1)}) SELECT {columns} FROM t WHERE {rows} > 0 ORDER BY x"
    wanted = duckdb.connect().execute(query)
    types = [str(column[1]) for column in wanted.description]
    answer = wanted.fetchall()
    monkeypatch.setattr(choice, "PLANNING", 60.0)
    tables = []
    for _ in range(2):  # few rows are not taken as Arrow again
        found = con.execute(query)
        assert [column[1] for column in found.description] == types
        assert found.fetchall() == answer
        tables.append(con.execute(query).to_arrow_table())
        found = con.execute(query)
        assert [*found.fetchmany(7), *found] == answer
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows == len(answer) == rows
    assert "DuckDB alone took" in explained(con, query)


def test_names_mean_what_they_mean_now(con) -> None:
    """The query that DuckDB runs is bound once, and again when the catalog has changed."""

    def answers(n: int) -> None:
        for _ in range(3):
            assert con.execute(CLOSURE).fetchall() == [(n,)]

    answers(465)
    con.execute("ALTER TABLE e RENAME TO f")
    con.execute("CREATE TABLE e AS SELECT range + 0.5 AS a, range + 1.5 AS b FROM range(10)")
    answers(55)
    con.execute("BEGIN; INSERT INTO e VALUES (10.5, 11.5)")
    answers(66)
    con.execute("ROLLBACK")
    answers(55)
    con.execute("CREATE SCHEMA s; CREATE TABLE s.e AS SELECT 1 AS a, 2 AS b; SET search_path = 's'")
    answers(1)


def test_the_types_of_a_replaced_table_are_asked_again(tmp_path) -> None:
    """DuckDB's columns are kept with its answers, and forgotten with the plan."""
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        other.execute("CREATE TABLE g AS SELECT 0 AS a, 1 AS b")
        query = "WITH RECURSIVE t(x) AS (SELECT a FROM g UNION SELECT b FROM t JOIN g ON a = x) "
        query += "FROM t ORDER BY 1"
        for _ in range(4):
            assert con.execute(query).fetchall() == [(0,), (1,)]
        other.execute("CREATE OR REPLACE TABLE g AS SELECT '0' AS a, 'z' AS b")
        for _ in range(4):
            found = con.execute(query)
            assert found.fetchall() == [("0",), ("z",)]
            assert found.description[0][1] == "VARCHAR"


@pytest.fixture
def given(con, monkeypatch):
    """The seconds that DuckDB was given."""
    found: list[float] = []
    run = Choice.run
    monkeypatch.setattr(Choice, "run", lambda c, s, context: found.append(s) or run(c, s, context))
    monkeypatch.setattr(choice, "PLANNING", 60.0)
    return found


def test_what_has_ended_needs_no_limit_until_its_tables_change(con, given) -> None:
    con.execute("CREATE TABLE other AS SELECT 1 AS a")

    def limited(n: int) -> bool:
        given.clear()
        assert con.execute(ENDLESS).fetchall() == [(n,)]
        return given[0] < math.inf

    assert [limited(495) for _ in range(4)] == [True, False, False, False]
    con.execute("INSERT INTO e VALUES (30, 31)")
    assert [limited(527) for _ in range(2)] == [True, False]
    assert con.append("e", pa.table({"a": [31], "b": [32]})) == 1
    assert [limited(560) for _ in range(2)] == [True, False]
    con.execute("DELETE FROM e WHERE a >= ?", (30,))
    assert [limited(495) for _ in range(2)] == [True, False]
    con.execute("BEGIN; INSERT INTO e VALUES (30, 31); COMMIT")
    assert [limited(527) for _ in range(2)] == [True, False]
    con.executemany("DELETE FROM e WHERE a = ?", [(30,)])
    assert [limited(495) for _ in range(2)] == [True, False]
    con.execute("PREPARE p AS INSERT INTO e VALUES (30, 31)")
    con.execute("EXECUTE p")
    assert [limited(527) for _ in range(2)] == [True, False]


def test_a_cycle_that_comes_is_still_an_error(con, given, monkeypatch) -> None:
    for _ in range(3):
        assert con.execute(ENDLESS).fetchall() == [(495,)]
    assert given[-1] == math.inf
    monkeypatch.setattr(choice, "FIRST", 0.05)
    con.execute("INSERT INTO e VALUES (30, 0)")
    for _ in range(2):
        with pytest.raises(tidewheel.OperationalError, match="cycle"):
            con.execute(ENDLESS)
    con.execute("DELETE FROM e WHERE a = 30")
    assert con.execute(ENDLESS).fetchall() == [(495,)]


@pytest.mark.parametrize(
    "anchor",
    [
        "SELECT a FROM v",
        "SELECT a FROM frame",
        "SELECT a FROM e WHERE random() >= 0",
        "SELECT a FROM m()",
        "SELECT column0::INT FROM '{path}'",
        "SELECT a FROM f.e",
    ],
)
def test_what_else_may_change_is_always_limited(con, given, tmp_path, anchor: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1\n2\n")
    con.execute("CREATE VIEW v AS SELECT a FROM e; CREATE MACRO m() AS TABLE SELECT a FROM e")
    con.execute(f"ATTACH '{tmp_path}/f.db' AS f; CREATE TABLE f.e AS FROM e")
    con.register("frame", pa.table({"a": [1, 2]}))
    query = ENDLESS.replace("SELECT a FROM e", anchor.format(path=path))
    for _ in range(4):
        con.execute(query).fetchall()
    assert not given or max(given) < math.inf


def test_a_database_that_others_may_write_is_always_limited(given, tmp_path) -> None:
    with tidewheel.connect(str(tmp_path / "a.db")) as other:
        other.execute("CREATE TABLE e AS SELECT range AS a, range + 1 AS b FROM range(3)")
        for _ in range(4):
            assert other.execute(ENDLESS).fetchall() == [(9,)]
    assert given
    assert max(given) < math.inf
