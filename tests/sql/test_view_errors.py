"""What fails in a maintained view's query fails the change, names the view, and breaks nothing."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.engine.arrow import Exchanged
from tidewheel.engine.operators.ranged import RangeJoin
from tidewheel.planner import view_choice, view_kernels
from tidewheel.sql import view_text

FAILING = {
    "incremental": "SELECT 10 // a AS q FROM t",
    "recomputed": "SELECT 10 // a AS q FROM t POSITIONAL JOIN (SELECT 1 AS one)",
    "two rows": "SELECT a, (SELECT b FROM u) AS b FROM t",
    "two rows of a key": "SELECT a, (SELECT b FROM u WHERE u.a = t.a) AS b FROM t",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT n - 1 FROM r WHERE n > -1) "
    "SELECT 10 // n AS q FROM r WHERE n = 0",
}


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("query", FAILING.values(), ids=FAILING)
def test_the_view_is_named(monkeypatch: pytest.MonkeyPatch, query: str, anew: bool) -> None:
    if anew:
        monkeypatch.setattr(view_choice, "LARGE", 1)
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT); CREATE TABLE u (a INT, b INT)")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("BEGIN")
    con.execute("INSERT INTO u VALUES (0, 1), (0, 2)")
    con.execute("INSERT INTO t VALUES (0)")
    with pytest.raises(tidewheel.DatabaseError) as caught:
        con.execute("COMMIT")
    assert "maintained view main.v " in (caught.value.hint or "")
    assert caught.value.line is None  # the place would be one of the view's text
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    con.execute("INSERT INTO t VALUES (-1)")
    assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    ("query", "place", "message"),
    [
        ("SELECT a, b::INT AS n FROM t", "b::INT", "Could not convert"),
        ("SELECT x.a FROM t x\nJOIN t y ON x.a = y.b::INT", "y.b::INT", "Could not convert"),
        ("SELECT a // 0 AS q, sum(a) AS s FROM t GROUP BY 1", "//", "(a // 0)"),
        ("SELECT a FROM t WHERE\n\tb::DATE > '2020-01-01'", "b::DATE", "invalid date"),
        ("SELECT a, b::INT AS a FROM t", "b::INT", "Could not convert"),
    ],
)
def test_the_place_is_told_as_it_was_written(query: str, place: str, message: str) -> None:
    """Neither the columns of a view's plan nor its statements are shown."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT, b VARCHAR)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "INSERT INTO t VALUES (1, 'x')",
            "INSERT INTO t SELECT 1, 'x' FROM range(9)",
        ):
            with pytest.raises(tidewheel.DataError) as caught:
                con.execute(change)
            assert message in caught.value.message
            hint, line, mark = str(caught.value).split("\n")[-3:]
            assert "maintained view main.v " in hint
            assert line.partition(": ")[2].endswith(query.split("\n")[-1])
            assert mark.index("^") - line.index(place) in range(len(place))
        con.execute("DROP MATERIALIZED VIEW v")
        con.execute("INSERT INTO t VALUES (1, 'x')")
        with pytest.raises(tidewheel.DataError) as caught:
            con.execute(f"-- first\nCREATE MATERIALIZED VIEW v AS\n{query}")
        assert message in caught.value.message
        assert caught.value.line == 3 + query.count("\n")
        assert "CAST(" not in str(caught.value)
        assert "SELECT *" not in str(caught.value)


def test_a_function_that_refuses_its_text_names_no_plan() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (b VARCHAR); INSERT INTO t VALUES ('x')")
        with pytest.raises(tidewheel.DataError, match="Could not parse") as caught:
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT strptime(b, '%Y') AS y FROM t")
        assert (caught.value.source_line or "").startswith("CREATE MATERIALIZED VIEW")


def test_a_refused_change_is_taken_back_whatever_its_query_ends_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The view's query is run once more for its error; Ctrl-C left the transaction open there."""

    def interrupted(sql: str) -> tuple[str, int]:
        raise KeyboardInterrupt

    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (s VARCHAR)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT s::INTEGER AS n FROM t")
        monkeypatch.setattr(view_text, "as_written", interrupted)
        with pytest.raises(KeyboardInterrupt):
            con.execute("INSERT INTO t VALUES ('x'), ('1')")
        monkeypatch.undo()
        con.execute("BEGIN; INSERT INTO t VALUES ('2'), ('3'); COMMIT")
        assert sorted(con.execute("FROM v").fetchall()) == [(2,), (3,)]
        assert sorted(con.execute("FROM t").fetchall()) == [("2",), ("3",)]


def test_views_outlive_an_internal_error_of_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, md5(a::VARCHAR) AS h FROM t")
    con.execute("INSERT INTO t VALUES (1)")
    real = view_kernels.table_of

    def broken(*of: Any) -> Any:
        real(*of)
        view_kernels.statements()._opened().close()  # DuckDB would refuse whatever follows
        raise duckdb.InternalException("INTERNAL Error: of a test")

    monkeypatch.setattr(view_kernels, "table_of", broken)
    with pytest.raises(tidewheel.InternalError, match="of a test"):
        con.execute("INSERT INTO t SELECT unnest([2, 5])")
    monkeypatch.setattr(view_kernels, "table_of", real)
    con.execute("INSERT INTO t VALUES (3)")
    assert con.execute("SELECT a FROM v ORDER BY a").fetchall() == [(1,), (3,)]
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT sha1(a::VARCHAR) AS h FROM t")
    con.execute("INSERT INTO t VALUES (4)")
    assert con.execute("VERIFY VIEW v").fetchall() == con.execute("VERIFY VIEW w").fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (a) a, b FROM u ORDER BY a, b",
        "SELECT t.a, u.b FROM t ASOF LEFT JOIN u ON t.a >= u.a",
        "SELECT a, (SELECT b FROM u WHERE u.a = t.a) AS b FROM t",
        "SELECT t.a, l.b FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a ORDER BY b LIMIT 1) l",
        "SELECT t.a, i FROM t LEFT JOIN LATERAL range(t.a) r(i) ON true",
        "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a AND u.b < t.a) AS n FROM t",
    ],
)
def test_what_is_kept_by_its_changes(query: str) -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT); CREATE TABLE u (a INT, b INT)")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    kept = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
    assert kept == [("incremental", None)]


def test_verify_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    con.execute("INSERT INTO t VALUES (1), (2)")
    assert con.execute("FROM t").status is None
    assert con.execute("VERIFY VIEW v").status == "main.v is right: it has the 1 row of its query"
    views = con._session.views
    monkeypatch.setattr(
        views, "_run", lambda view: pa.table({"a": pa.array([2, 3, 4], pa.int32())})
    )
    cursor = con.execute("VERIFY VIEW v")
    assert cursor.status == (
        "main.v is wrong in 2 rows: weight > 0 is missing, weight < 0 is too much"
    )
    assert sorted(cursor.fetchall()) == [(3, 1), (4, 1)]


def test_verify_takes_sums_that_are_rounded_to_either_side_for_the_same() -> None:
    parts = [-5.338310994848547, -5.382669169180314, -5.624379253246228, 17.57992730740009]
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INTEGER, x DOUBLE)")
        con.executemany("INSERT INTO t VALUES (1, ?)", [(x,) for x in parts])
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k")
        exact = con.execute("SELECT s FROM v").fetchone()[0]
        added = con.execute("SELECT sum(x) FROM t").fetchone()[0]
        assert f"{exact:.11e}" != f"{added:.11e}"
        assert con.execute("VERIFY VIEW v").fetchall() == []


def test_a_timeout_is_not_put_down_to_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT max(a) m FROM t")
        plan = con._session.views._maintainer.views["memory.main.v"].plan

        def late(*_: object) -> None:
            con._session.limit.end()
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

        monkeypatch.setattr(plan, "step", late)
        con.execute("SET statement_timeout = '1min'")
        with pytest.raises(tidewheel.OperationalError, match="statement_timeout") as caught:
            con.execute("INSERT INTO t SELECT 1 FROM range(3)")
        assert "maintained view" not in str(caught.value)
        monkeypatch.undo()
        con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("FROM v").fetchall() == [(2,)]


SUMS = {
    "decimal": ("DECIMAL(38, 2)", "999999999999999999999999999999999999.99"),
    "hugeint": ("HUGEINT", "170141183460469231731687303715884105727"),
}


@pytest.mark.parametrize(("type_", "most"), SUMS.values(), ids=SUMS)
def test_a_sum_that_is_too_large(type_: str, most: str) -> None:
    con = tidewheel.connect()
    con.execute(f"CREATE TABLE t (x {type_})")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    con.execute(f"INSERT INTO t VALUES ({most})")
    before = con.execute("FROM v").fetchall()
    with pytest.raises(tidewheel.DataError, match="Overflow") as caught:
        con.execute(f"INSERT INTO t VALUES ({most})")
    assert "maintained view main.v " in (caught.value.hint or "")
    with pytest.raises(tidewheel.DataError):
        con.execute(f"INSERT INTO t SELECT {most} FROM range(3)")
    assert con.execute("FROM v").fetchall() == before
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute(f"INSERT INTO t VALUES ({most})")
    with pytest.raises(tidewheel.DataError, match="Overflow"):
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    con.execute("DELETE FROM t")
    con.close()


def test_a_change_that_does_not_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
    con.execute("CREATE MATERIALIZED VIEW first AS SELECT DISTINCT a FROM t")
    con.execute(
        "CREATE MATERIALIZED VIEW pairs AS SELECT x.a, y.a AS b FROM t x JOIN t y ON x.a < y.a"
    )

    def full(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(RangeJoin, "step", full)
        with pytest.raises(tidewheel.OperationalError, match=r"out of memory\n.*main\.pairs"):
            con.execute("INSERT INTO t VALUES (3)")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
    con.execute("INSERT INTO t VALUES (4)")
    assert con.execute("VERIFY VIEW first").fetchall() == []
    assert con.execute("VERIFY VIEW pairs").fetchall() == []


def test_rows_that_do_not_fit_the_memory_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    con = tidewheel.connect()
    con.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT DISTINCT a FROM t")

    def full(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Exchanged, "__arrow_c_stream__", full)
        with pytest.raises(tidewheel.OperationalError, match=r"^out of memory\n.*more rows"):
            con.execute("SELECT a + 1 FROM v")
    assert con.execute("SELECT sum(a + 1) FROM v").fetchall() == [(5,)]


@pytest.mark.parametrize(
    ("head", "word"),
    [("left", "left"), ("IF NOT EXISTS Select", "Select"), ("main.v(a, order)", "order")],
)
def test_a_keyword_is_a_name_in_quotes_only(head: str, word: str) -> None:
    con = tidewheel.connect()
    with pytest.raises(tidewheel.ProgrammingError, match=f"expected a name at or near {word}") as e:
        con.execute(f"CREATE MATERIALIZED VIEW {head} AS SELECT 1 AS x, 2 AS y")
    assert e.value.hint == f'{word} is a keyword; as a name it is written "{word}"'
    con.execute('CREATE MATERIALIZED VIEW main.left("order", key) AS SELECT 1, 2')
    assert con.execute("FROM main.left").fetchall() == [(1, 2)]


@pytest.mark.parametrize("statement", ["SUBSCRIBE TO", "VERIFY VIEW", "DROP MATERIALIZED VIEW"])
@pytest.mark.parametrize("name", ['"v', "'", 'main."v'])
def test_a_name_whose_quote_is_not_closed(statement: str, name: str) -> None:
    con = tidewheel.connect()
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x")
    with pytest.raises(tidewheel.ProgrammingError, match="unterminated quoted identifier"):
        con.execute(f"{statement} {name}")
    assert con.execute("FROM v").fetchall() == [(1,)]
