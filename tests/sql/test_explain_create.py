"""EXPLAIN CREATE MATERIALIZED VIEW: how a view would be kept, and nothing left of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tidewheel

TABLES = """
CREATE TABLE t AS SELECT i, i % 3 AS g, 'n' || i AS s FROM range(10) r(i);
CREATE TABLE e (a INTEGER, b INTEGER);
INSERT INTO e VALUES (1, 2), (2, 3), (3, 1);
CREATE MATERIALIZED VIEW sums AS SELECT g, sum(i) AS n FROM t GROUP BY g
"""
REACH = """WITH RECURSIVE r(x) AS (
SELECT 1 UNION SELECT b FROM r JOIN e ON a = x) FROM r"""


@pytest.fixture
def con() -> tidewheel.Connection:
    con = tidewheel.connect()
    con.execute(TABLES)
    return con


def told(con: tidewheel.Connection, statement: str) -> str:
    return str(con.execute(f"EXPLAIN {statement}").fetchall()[0][1])


def bare(text: str) -> str:
    """What is shown, without what differs by the rows."""
    text = re.sub(r": [\d,]+ in · .*", "", text)
    return text.replace(" (not made)", "")


def state(con: tidewheel.Connection) -> object:
    catalog = (
        "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT (internal OR temporary)"
    )
    tables = "SELECT database_name, schema_name, table_name FROM duckdb_tables()"
    registry = con._session.views.registry
    return (
        con.execute(catalog).fetchall(),
        con.execute(tables).fetchall(),
        list(registry.views.items()),
        len(registry.shared),
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, count(*), max(s) FROM t GROUP BY g",
        "SELECT t.s, e.b FROM t LEFT JOIN e ON e.a = t.g WHERE t.i > 3",
        "SELECT n, count(*) FROM sums JOIN t USING (g) GROUP BY n",
        "SELECT s, row_number() OVER (PARTITION BY g ORDER BY i) FROM t",
        "SELECT s, percent_rank() OVER (ORDER BY i) FROM t",
        "SELECT first(s ORDER BY i), g FROM t GROUP BY GROUPING SETS ((g), ())",
        "VALUES (1), (2)",
        REACH,
        "SELECT x, count(*) FROM (" + REACH + ") JOIN t ON g = x GROUP BY x",
    ],
)
@pytest.mark.parametrize("transaction", [False, True])
def test_it_shows_what_explain_view_would(
    con: tidewheel.Connection, query: str, transaction: bool
) -> None:
    before = state(con)
    if transaction:
        con.execute("BEGIN")
    shown = told(con, f"CREATE MATERIALIZED VIEW v AS {query}")
    if transaction:
        con.execute("COMMIT")
    assert state(con) == before
    con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert bare(shown) == bare(told(con, "VIEW v"))


def test_forms(con: tidewheel.Connection) -> None:
    text = told(con, "CREATE OR REPLACE MATERIALIZED VIEW sums (a, b) AS SELECT i, s FROM t")
    assert text.startswith("view sums (not made)\nc0 source t [input]\n")
    told(con, "CREATE OR REPLACE MATERIALIZED VIEW fresh AS SELECT i FROM t WITH DATA;")
    for name in ("sums", "t"):
        text = told(con, f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS SELECT 1 AS x")
        assert text.splitlines()[0] == f"view {name}"
        assert "nothing would be made" in text
    for form in ("svg", "html", "dot", "mermaid", "text"):
        for new in ("v", "IF NOT EXISTS sums"):
            query = f"(FORMAT {form}) CREATE MATERIALIZED VIEW {new} AS SELECT g FROM t"
            assert told(con, query)
    assert con.execute("FROM sums ORDER BY g").fetchall() == [(0, 18), (1, 12), (2, 15)]


@pytest.mark.parametrize(
    "verb", ["CREATE MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW"]
)
@pytest.mark.parametrize(
    "rest",
    [
        "sums AS SELECT 1 AS x",
        "sums AS SELECT * FROM sums",
        "t AS SELECT 1 AS x",
        "v AS SELECT nope FROM t",
        "v AS\nSELECT i FROM gone",
        "v AS SELECT s + FROM t",
        "v (a, b) AS SELECT i FROM t",
        "v AS SELECT random() AS r FROM t",
        "v AS SELECT now() AS r FROM t",
        "v AS SELECT * FRO t",
        "v AS SELECT rowid FROM t",
        "v AS FROM tidewheel_views()",
        "v AS SELECT 1::VARIANT AS x",
        "v AS WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT nope FROM r) FROM r",
        "v AS WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT b FROM r JOIN gone ON a = x) FROM r",
        "v WITH x AS SELECT 1",
        "v AS SELECT 1 WITH NO DATA",
        "v AS SELECT * FROM t USING SAMPLE 3 ROWS",
        "v AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) FROM r",
        "",
        "other.v AS SELECT 1 AS x",
    ],
)
def test_errors_are_those_of_the_statement(con: tidewheel.Connection, verb: str, rest: str) -> None:
    statement = f"{verb} {rest}"
    if "OR REPLACE" in verb and rest.startswith("sums AS SELECT 1"):
        con.execute("CREATE MATERIALIZED VIEW over AS FROM sums")
    with pytest.raises(tidewheel.Error) as shown:
        told(con, statement)
    with pytest.raises(tidewheel.Error) as made:
        con.execute(statement)
    mine, own = shown.value, made.value
    assert type(mine) is type(own)
    assert (mine.message, mine.hint, mine.line) == (own.message, own.hint, own.line)
    moved = len("EXPLAIN ") if own.line == 1 else 0
    assert (mine.column or 0) == (own.column or 0) + (moved if own.column else 0)


def test_parameters_are_refused(con: tidewheel.Connection) -> None:
    statement = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT ? + i FROM t"
    with pytest.raises(tidewheel.ProgrammingError, match="can't have parameters") as found:
        con.execute(f"EXPLAIN (FORMAT svg) {statement}", [1])
    assert found.value.column == len("EXPLAIN (FORMAT svg) ") + statement.index("?") + 1


def test_view_may_be_called_materialized(con: tidewheel.Connection) -> None:
    assert told(con, "MATERIALIZED VIEW sums") == told(con, "VIEW sums")


def test_no_row_is_read(con: tidewheel.Connection) -> None:
    query = "SELECT s::INTEGER AS n FROM t"
    assert "sink" in told(con, f"CREATE MATERIALIZED VIEW v AS {query}")
    con.execute("SET max_iterations = 10")
    long = "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 99) FROM r"
    assert "sink" in told(con, f"CREATE MATERIALIZED VIEW v AS {long}")


@pytest.mark.parametrize("options", ["ANALYZE", "(ANALYZE)", "(ANALYZE, FORMAT trace)"])
def test_analyze_would_make_it(con: tidewheel.Connection, options: str) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match="would make the view") as found:
        told(con, f"{options} CREATE MATERIALIZED VIEW v AS SELECT 1")
    assert "EXPLAIN VIEW" in str(found.value)


@pytest.mark.parametrize("form", ["LOGICAL", "KERNELS", "FORMAT json", "FORMAT yaml"])
@pytest.mark.parametrize("what", ["VIEW sums", "CREATE MATERIALIZED VIEW v AS SELECT 1"])
def test_forms_that_only_queries_have(con: tidewheel.Connection, form: str, what: str) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match="a view has a dataflow") as found:
        told(con, f"({form}) {what}")
    assert "svg" in str(found.value)
    assert con.execute(f"EXPLAIN (FORMAT json) {REACH}").fetchall()


def test_in_a_transaction_that_has_made_what_it_reads(con: tidewheel.Connection) -> None:
    con.execute("BEGIN")
    con.execute("CREATE TABLE fresh AS SELECT 1 AS k")
    con.execute("CREATE MATERIALIZED VIEW first AS SELECT k, count(*) AS n FROM fresh GROUP BY k")
    assert "reduce" in told(con, "VIEW first")
    second = told(con, "CREATE MATERIALIZED VIEW second AS SELECT sum(n) FROM first")
    assert "reduce" in second
    con.execute("INSERT INTO fresh VALUES (1)")
    con.execute("COMMIT")
    assert con.execute("FROM first").fetchall() == [(1, 2)]
    assert con.execute("VERIFY VIEW first").fetchall() == []


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
def test_a_transaction_fills_no_view_that_others_read(tmp_path: Path, end: str) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute(TABLES)
    with tidewheel.connect(path) as con:
        con.execute("BEGIN")
        con.execute("INSERT INTO t VALUES (100, 100, 'x')")
        assert "reduce" in told(con, "VIEW sums")
        con.execute(end)
        there = [(100, 100)] if end == "COMMIT" else []
        assert con.execute("FROM sums WHERE g > 9").fetchall() == there
        assert con.execute("VERIFY VIEW sums").fetchall() == []
    with tidewheel.connect(path) as con:
        con.execute("BEGIN")
        con.execute("INSERT INTO t VALUES (200, 200, 'x')")
        with pytest.raises(tidewheel.OperationalError, match="not filled yet"):
            con.execute("SUBSCRIBE TO sums")
        con.execute("ROLLBACK")
        assert con.execute("FROM sums WHERE g > 100").fetchall() == []


def test_beside_a_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute(TABLES)
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (100, 100, 'x')")
        assert "0 in" in told(con, "VIEW sums")
        assert "sink" in told(con, "CREATE MATERIALIZED VIEW v AS SELECT g FROM t")
        other.execute("ROLLBACK")
