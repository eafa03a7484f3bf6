"""What the binder asks DuckDB of types: without running anything, and not twice in vain."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.planner import view_kernels
from tidewheel.sql import hidden

TABLE = """
CREATE TABLE t (a INTEGER, b DECIMAL(12, 2), c VARCHAR COLLATE NOCASE, d ENUM('x', 'it''s'),
    e STRUCT(a INTEGER, "B c" VARCHAR), f MAP(INTEGER, VARCHAR), g TIMESTAMPTZ, h JSON,
    i INTEGER[3])
"""


@pytest.mark.parametrize(
    "query",
    [
        "FROM t",
        "SELECT a AS x, b AS x, count(*), sum(b) FROM t GROUP BY ALL",
        "SELECT NULL, [], {'k': NULL}, e.\"B c\" FROM t -- the end",
        "WITH q AS (SELECT a + 1.5 AS n FROM t) SELECT n, n / 2, n || '' FROM q",
        "PIVOT t ON d USING sum(a)",
        "VALUES (1, 'x'), (2, NULL)",
        "SELECT nextval('s'), a FROM t",
    ],
)
def test_labels_and_types_are_those_of_describe(query: str) -> None:
    con = duckdb.connect()
    con.execute(f"{TABLE}; CREATE SEQUENCE s").fetchall()
    described = [(row[0], row[1]) for row in con.sql(f"DESCRIBE {query}").fetchall()]
    assert hidden.describe(con, query, None) == described
    assert con.execute("SELECT nextval('s')").fetchall() == [(1,)]


def test_a_query_that_does_not_bind_leaves_its_transaction() -> None:
    con = duckdb.connect()
    con.begin()
    con.execute("CREATE TABLE t AS SELECT 1 AS a").fetchall()
    with pytest.raises(duckdb.BinderException):
        hidden.describe(con, "SELECT b FROM t", None)
    con.commit()
    assert con.execute("FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("before", "expression", "after"),
    [
        ("CREATE MACRO m(x) AS x + 1", "m(a)", "CREATE OR REPLACE MACRO m(x) AS x || 'text'"),
        ("CREATE TYPE k AS INTEGER", "a::k", "DROP TYPE k; CREATE TYPE k AS VARCHAR"),
        ("CREATE TEMP TYPE k AS TINYINT", "a::k", "DROP TYPE k; CREATE TYPE k AS VARCHAR"),
        ("SET VARIABLE v = 1", "a + getvariable('v')", "SET VARIABLE v = 1.5"),
        ("SELECT 1", "a / 2", "SET integer_division = true"),
    ],
)
def test_types_are_asked_again_when_they_may_be_others(
    before: str, expression: str, after: str
) -> None:
    """Apart, every expression is typed alone."""
    with tidewheel.connect() as con, duckdb.connect() as peer:
        for at in (con, peer):
            at.execute("CREATE TABLE t AS SELECT 3 AS a")
        con.execute("SET fusion = 'off'")
        for change in (before, after):
            for statement in change.split(";"):
                con.execute(statement)
                peer.execute(statement).fetchall()
            query = f"SELECT {expression} AS v FROM t WHERE a = 3"
            assert con.execute(query).fetchall() == peer.execute(query).fetchall()
            kinds = [str(at.execute(query).description[0][1]) for at in (con, peer)]
            assert kinds[0] == kinds[1]


def test_kernels_are_planned_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second view of the same shape asks for nothing, and runs its kernel when rows come."""
    ran: list[str] = []
    for name in ("run", "prepare", "execute"):
        real = getattr(view_kernels.Statements, name)

        def noted(self: Any, sql: str, *rest: Any, _real: Any = real) -> Any:
            ran.append(sql)
            return _real(self, sql, *rest)

        monkeypatch.setattr(view_kernels.Statements, name, noted)
    bind = view_kernels.schema_of

    def bound(con: Any, sql: str, inputs: Any) -> Any:
        ran.append(sql)
        return bind(con, sql, inputs)

    monkeypatch.setattr(view_kernels, "schema_of", bound)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        query = "SELECT lpad(upper(b), 2, '0') AS u, count(*) AS n FROM t GROUP BY ALL"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert ran
        ran.clear()
        con.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
        assert not ran
        for at, text in enumerate(("x", "y", "X")):
            con.execute(f"INSERT INTO t VALUES ({at}, '{text}'), ({at}, '{text}')")
        assert con.execute("FROM w ORDER BY u").fetchall() == [("0X", 4), ("0Y", 2)]
        assert con.execute("VERIFY VIEW w").fetchall() == []
        assert ran
