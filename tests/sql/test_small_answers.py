"""A query that is asked again, and whose answer was small, gives the same without Arrow."""

from __future__ import annotations

import decimal

import duckdb
import pytest

import tidewheel
from tidewheel.planner import direct

QUERIES = [
    "SELECT 1 AS a, 2 AS a, 'z', NULL::INTEGER",
    "SELECT 1.5, 0.1::FLOAT, 'nan'::DOUBLE IS NULL, -0.0::DOUBLE, 1e308::DOUBLE, 'inf'::FLOAT",
    "SELECT 255::UTINYINT, 18446744073709551615::UBIGINT, -1::HUGEINT, 1.50::DECIMAL(38, 2)",
    "SELECT DATE '2020-01-02', 'infinity'::DATE, [1, 2], {'a': true}, NULL",
    "SELECT 1 WHERE false",
    "SELECT i, i / 3, 'r' || i FROM range(1000) t(i) ORDER BY i",
    "SELECT i FROM range(1001) t(i)",
    "SELECT i FROM range(25000) t(i)",
]


@pytest.fixture
def con():
    with tidewheel.connect() as con:
        yield con


@pytest.fixture
def small(monkeypatch) -> list[str]:
    """The queries that passed no Arrow."""
    found: list[str] = []
    made = direct.Rows.__init__

    def noted(self, columns, context, sql="") -> None:
        found.append(sql)
        made(self, columns, context, sql)

    monkeypatch.setattr(direct.Rows, "__init__", noted)
    return found


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_types_and_arrow_are_the_same(con, sql: str) -> None:
    wanted = duckdb.connect().execute(sql)
    types = [(c[0], str(c[1]).strip('"')) for c in wanted.description]
    rows = wanted.fetchall()
    arrow = con.execute(sql).to_arrow_table()
    for _ in range(3):
        found = con.execute(sql)
        assert [(c[0], str(c[1]).strip('"')) for c in found.description] == types
        assert found.fetchall() == rows
        found = con.execute(sql)
        assert [*found.fetchmany(3), *found] == rows
    text = list(con.execute(sql).text_rows())
    assert con.execute(sql).to_arrow_table() == arrow
    assert text == list(tidewheel.connect().execute(sql).text_rows())


def test_only_small_answers_of_plain_types_read_as_rows(con, small) -> None:
    for sql in QUERIES:
        for _ in range(3):
            con.execute(sql).fetchall()
    plain = [QUERIES[i] for i in (0, 1, 2, 4, 5)]
    assert small == [sql for sql in plain for _ in range(2)]
    small.clear()
    for _ in range(3):
        con.execute("SELECT 5").to_arrow_table()
    assert not small


def test_literals_are_no_matter(con, small) -> None:
    """But that they may have another type."""
    con.execute("SELECT 5 AS t1, 'a'").fetchall()
    assert con.execute("SELECT 6 AS t1, 'it''s'").fetchall() == [(6, "it's")]
    assert con.execute("SELECT 7.5 AS t1, 1").fetchall() == [(decimal.Decimal("7.5"), 1)]
    assert len(small) == 2
    con.execute("SELECT struct_extract({'a': 1, 'b': [2]}, 'a')").fetchall()
    assert con.execute("SELECT struct_extract({'a': 1, 'b': [2]}, 'b')").fetchall() == [([2],)]


def test_parameters_and_growing_answers(con, small) -> None:
    sql = "SELECT i, i % 2 = 0 FROM range(?) t(i)"
    for n in (2, 3, 3000, 30_000, 4, 5, 1001, 0):
        assert con.execute(sql, (n,)).fetchall() == [(i, i % 2 == 0) for i in range(n)]
    assert len(small) == 4  # 3, 3000; after 4: 5, 1001
    con.execute(sql, (2,)).fetchall()
    assert con.execute(sql, (30_000,)).to_arrow_table().num_rows == 30_000
    small.clear()
    assert con.execute(sql, (3,)).to_arrow_table().num_rows == 3
    assert not small


def test_tables_change_between(con) -> None:
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    sql = "FROM t"
    for _ in range(3):
        assert con.execute(sql).fetchall() == [(1,)]
    con.execute("INSERT INTO t VALUES (2)")
    assert con.execute(sql).fetchall() == [(1,), (2,)]
    con.execute("CREATE OR REPLACE TABLE t AS SELECT '2020-01-02'::DATE AS b, [1] AS c")
    for _ in range(2):
        found = con.execute(sql)
        assert [c[0] for c in found.description] == ["b", "c"]
        assert str(found.fetchall()) == "[(datetime.date(2020, 1, 2), [1])]"
    con.execute("DROP TABLE t")
    with pytest.raises(tidewheel.ProgrammingError, match="t"):
        con.execute(sql)


def test_statements_that_do_something_do_it_once(con) -> None:
    con.execute("CREATE SEQUENCE s")
    assert [con.execute("SELECT nextval('s')").fetchall() for _ in range(4)] == [
        [(n,)] for n in (1, 2, 3, 4)
    ]


def test_a_result_that_is_open_while_others_run(con) -> None:
    sql = "SELECT i FROM range(?) t(i)"
    con.execute(sql, (2,)).fetchall()
    found = con.execute(sql, (25_000,))
    assert found.fetchone() == (0,)
    assert con.execute(sql, (1,)).fetchall() == [(0,)]
    assert con.execute("SELECT 7").fetchall() == [(7,)]
    assert len(found.fetchall()) == 24_999


def test_errors_show_their_place(con) -> None:
    con.execute("CREATE TABLE t AS SELECT 2 AS a")
    sql = "SELECT CASE WHEN a > 5 THEN error('too much') ELSE a END FROM t"
    for _ in range(2):
        con.execute(sql).fetchall()
    con.execute("UPDATE t SET a = 6")
    for _ in range(2):
        with pytest.raises(tidewheel.Error, match="too much"):
            con.execute(sql).fetchall()
    con.execute("UPDATE t SET a = 0")
    assert con.execute(sql).fetchall() == [(0,)]
