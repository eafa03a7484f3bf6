"""Rows inserted one by one: the second of a form is planned, the ones after it are EXECUTEd.

Whatever way a row takes, table and views must be what DuckDB makes of the statement as written.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import duckdb
import numpy as np
import pytest

import tidewheel
from tidewheel.sql import repeated

TYPES = (
    "BOOLEAN", "TINYINT", "INTEGER", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(6,2)",
    "DECIMAL(38,3)", "VARCHAR", "BLOB", "DATE", "TIMESTAMP", "INTERVAL", "UUID", "INTEGER[]",
    "ENUM('a', 'b')", "BIT",
)  # fmt: skip
LITERALS = (
    "7", "-1", "+3", "0012", "200", "9223372036854775808", "1.5", "-0.0", "12345.678", "1e2",
    "2.5E-3", "1e400", "0.30000000000000004", "123456789012345678", "'7'", "'a'", "'it''s'", "''",
    "' x '", "'2021-02-03'", "'2021-02-03 04:05:06'", "DATE '2021-02-03'", "date'2021-02-30'",
    "TIMESTAMP '2021-02-03 04:05:06.5'", "TIMESTAMP '2021-02-03 24:05:06'", "'true'", "true",
    "FALSE", "null", "'[1, 2]'",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    7, -1, 200, 2**31, 2**63, 2**70, 1.5, -0.0, 0.1, 1e300, float("inf"), float("nan"), True, None,
    "a", "it's", "7", "x\0y", "\ud800", decimal.Decimal("1.50"), decimal.Decimal("-0.00"),
    decimal.Decimal("-0.25"), decimal.Decimal("0.0"), decimal.Decimal("0.05"),
    decimal.Decimal("1E+3"), dt.date(2021, 2, 3), dt.date(900, 1, 1),
    dt.datetime(2021, 2, 3, 4, 5, 6, 7), dt.datetime(2021, 2, 3, tzinfo=dt.UTC), b"a",
    "-0", "-0.0", "0", "007", "+5", " 5", "-12", "12.5", "1.505", "1e3", "1_000", "\u0663",
    "12345.678", "123456789012345.678", "99999999999999999999", "-9223372036854775808",
    "2021-02-03", "2021-02-29", "2021-13-03", "0000-01-01", "9999-12-31", "infinity",
    "2021-02-03 04:05:06.5", "2021-02-03 04:05:06.1234567", "2021-02-03T04:05:06",
    "2021-02-03 24:00:00", "2021-02-03 04:05", "2021-02-03 04:05:06+02", "2021-02-03 ",
    np.float64(0.1), np.float64("nan"), np.str_("n"),
)  # fmt: skip


def insert(con: Any, sql: str, given: list[Any] | None = None) -> None:
    """Run an INSERT; a refusal leaves no trace."""
    try:
        done = con.execute(sql, given)
        if done.description is not None:
            done.fetchall()
    except (tidewheel.Error, duckdb.Error, UnicodeError):
        pass


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("watched", [False, True])
def test_what_duckdb_makes_of_each_value(kind: str, watched: bool) -> None:
    theirs = duckdb.connect()
    with tidewheel.connect() as ours:
        for con in (ours, theirs):
            con.execute(f"CREATE TABLE t (i INTEGER, x {kind})")
        if watched:
            ours.execute("CREATE MATERIALIZED VIEW v AS SELECT i, x FROM t")
        for i, literal in enumerate(LITERALS * 2):
            for con in (ours, theirs):
                insert(con, f"INSERT INTO t VALUES ({i}, {literal})")
        for i, value in enumerate(VALUES * 2):
            for con in (ours, theirs):
                insert(con, "INSERT INTO t VALUES (?, ?)", [100 + i, value])
        shown = "SELECT i, x::VARCHAR FROM t ORDER BY ALL"
        assert ours.execute(shown).fetchall() == theirs.execute(shown).fetchall()
        if watched:
            kept = shown.replace("FROM t", "FROM v")
            assert ours.execute(kept).fetchall() == theirs.execute(shown).fetchall()
            assert not ours.execute("VERIFY VIEW v").fetchall()


@pytest.mark.parametrize("kind", TYPES)
def test_what_duckdb_makes_of_two_rows(kind: str) -> None:
    """It may bring their values to one type before it makes them the column's."""
    theirs, rng = duckdb.connect(), random.Random(kind)
    with tidewheel.connect() as ours:
        for con in (ours, theirs):
            con.execute(f"CREATE TABLE t (i INTEGER, x {kind})")
        ours.execute("CREATE MATERIALIZED VIEW v AS SELECT i, x FROM t")
        for i in range(60):
            a, b = rng.sample(LITERALS, 2)
            values = rng.sample(VALUES, 2)
            for con in (ours, theirs):
                insert(con, f"INSERT INTO t VALUES ({i}, {a}), ({i}, {b})")
                insert(con, f"INSERT INTO t VALUES ({i}, ?), ({i}, ?)", values)
        shown = "SELECT i, x::VARCHAR FROM t ORDER BY ALL"
        assert ours.execute(shown).fetchall() == theirs.execute(shown).fetchall()
        kept = shown.replace("FROM t", "FROM v")
        assert ours.execute(kept).fetchall() == theirs.execute(shown).fetchall()


def test_values_of_numpy(con: Any) -> None:
    """DuckDB refuses most of them; what comes of a DataFrame's cell is one."""
    kinds = (np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float64)
    for i, kind in enumerate(kinds * 2):
        con.execute("INSERT INTO t VALUES (?, ?)", [np.int64(i), kind(i + 1)])
    assert con.execute("SELECT x FROM t ORDER BY i").fetchall() == [(i + 1,) for i in range(12)]
    assert counted(con) == [(12, sum(range(2, 14)))]


TABLES = {
    "plain": "(i INTEGER, a VARCHAR, b INTEGER, c DATE)",
    "key": "(i INTEGER PRIMARY KEY, a VARCHAR, b INTEGER, c DATE)",
    "not null": "(i INTEGER PRIMARY KEY, a VARCHAR NOT NULL, b INTEGER, c DATE)",
    "default": "(i INTEGER PRIMARY KEY, a VARCHAR, b INTEGER DEFAULT 7, c DATE)",
    "sequence": "(i INTEGER PRIMARY KEY DEFAULT nextval('q'), a VARCHAR, b INTEGER, c DATE)",
    "check": "(i INTEGER, a VARCHAR, b INTEGER CHECK (b > 0), c DATE)",
    "generated": "(i INTEGER, a VARCHAR, b INTEGER, c DATE, g INTEGER AS (b + 1))",
}
LISTS = ("i, a", "b, i", "A, I, b, c", "c, b, a, i", '"i", "B"', "a", "i, i", "i, nope", "i, a, b")


@pytest.mark.parametrize("table", TABLES)
def test_some_of_the_columns_are_given(table: str) -> None:
    values = {"i": "{0}", "a": "'x'", "b": "-{0}", "c": "'2021-02-03'"}
    with tidewheel.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            con.execute(f"CREATE SEQUENCE q; CREATE TABLE t {TABLES[table]}")
        ours.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        for i in range(60):
            listed = LISTS[i % len(LISTS)]
            names = [name.strip(' "').lower() for name in listed.split(",")]
            given = [values.get(name, "1").format(i % 40) for name in names]
            given = given[:-1] if i % 11 == 0 else given
            for con in (ours, theirs):
                insert(con, f"INSERT INTO t ({listed}) VALUES ({', '.join(given)})")
            shown = "SELECT * FROM t ORDER BY ALL"
            assert ours.execute(shown).fetchall() == theirs.execute(shown).fetchall()
            kept = shown.replace("FROM t", "FROM v")
            assert ours.execute(kept).fetchall() == theirs.execute(shown).fetchall()


@pytest.fixture
def con() -> Any:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, x INTEGER NOT NULL CHECK (x < 100))")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT i, x + 1 AS y FROM t WHERE x > 0")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n, sum(y) AS s FROM v")
        con.execute("SELECT * FROM w").fetchall()
        yield con


def counted(con: Any) -> list[Any]:
    for view in ("v", "w"):
        assert not con.execute(f"VERIFY VIEW {view}").fetchall()
    return list(con.execute("SELECT * FROM w").fetchall())


def test_the_short_way_is_taken(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    run = repeated.Repeated.run
    monkeypatch.setattr(
        repeated.Repeated, "run", lambda *a, **k: (texts.append(a[1].sql), run(*a, **k))[1]
    )
    for i in range(4):
        con.execute(f"INSERT INTO t VALUES ({i}, {i + 1})")
        con.execute("insert into T (x, i) values (?, ?)", [i + 1, 10 + i])
    assert texts == ["1, 2", "2, 11", "2, 3", "3, 12", "3, 4", "4, 13"]
    assert counted(con) == [(8, 28)]


@pytest.mark.parametrize("given", [True, False])
def test_a_refused_row_leaves_no_trace(con: Any, given: bool) -> None:
    def put(i: Any, x: Any) -> None:
        if given:
            con.execute("INSERT INTO t VALUES (?, ?)", [i, x])
        else:
            values = ", ".join("NULL" if v is None else repr(v) for v in (i, x))
            con.execute(f"INSERT INTO t VALUES ({values})")

    for i in range(3):
        put(i, i)
    with con.subscribe("v") as changes:
        assert changes.read(0).delta.num_rows == 2
        for bad in ((1, 5), (7, 100), (7, None), (None, 7)):
            with pytest.raises(tidewheel.IntegrityError):
                put(*bad)
            assert counted(con) == [(2, 5)]
        with pytest.raises(tidewheel.DataError):
            put(8, "abc")
        put(4, 4)
        assert changes.read(0).delta.to_pylist() == [{"i": 4, "y": 5, "weight": 1}]
        assert changes.read(0) is None
    assert counted(con) == [(3, 10)]


def test_errors_show_the_statement_as_written(con: Any) -> None:
    for i in range(3):
        con.execute(f"INSERT INTO t VALUES ({i}, {i})")
    with pytest.raises(tidewheel.DataError, match="abc"):
        con.execute("INSERT INTO t VALUES (9, 'abc')")
    con.execute("DROP MATERIALIZED VIEW w")
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute("DROP TABLE t")
    for _ in range(3):
        with pytest.raises(tidewheel.ProgrammingError) as raised:
            con.execute("INSERT INTO t VALUES (10, 10)")
        assert "INSERT INTO t VALUES (10, 10)" in str(raised.value)


def test_an_error_of_a_view_takes_the_row_back() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (x TINYINT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT x * 2::TINYINT AS y FROM t")
        con.execute("FROM v").fetchall()
        for x in (1, 2, 3):
            con.execute(f"INSERT INTO t VALUES ({x})")
        for x in (100, 101):
            with pytest.raises(tidewheel.DataError):
                con.execute(f"INSERT INTO t VALUES ({x})")
        con.execute("INSERT INTO t VALUES (4)")
        assert con.execute("SELECT sum(y) FROM v").fetchall() == [(20,)]
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(4,)]


def test_names_mean_what_they_mean_now() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s")
        for table in ("main.t", "s.t"):
            con.execute(f"CREATE TABLE {table} (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT x FROM memory.main.t")

        def rows(table: str) -> int:
            found = con.execute(f"SELECT count(*) FROM {table}").fetchall()
            return int(found[0][0])

        for _ in range(3):
            con.execute("INSERT INTO t VALUES (1)")
        con.execute("USE s")
        for _ in range(3):
            con.execute("INSERT INTO t VALUES (1)")
        assert (rows("main.t"), rows("s.t"), rows("main.v")) == (3, 3, 3)
        con.execute("CREATE TEMP TABLE t (x INTEGER)")
        for _ in range(3):
            con.execute("INSERT INTO t VALUES (1)")
        assert (rows("main.t"), rows("s.t"), rows("temp.t")) == (3, 3, 3)
        con.execute("DROP TABLE temp.t")
        con.execute("USE main")
        con.execute("DROP TABLE s.t")
        con.execute("ALTER TABLE t ADD COLUMN y VARCHAR DEFAULT 'd'")
        with pytest.raises(tidewheel.ProgrammingError):
            con.execute("INSERT INTO t VALUES (1)")
        for _ in range(3):
            con.execute("INSERT INTO t VALUES (1, 'a')")
            con.execute("INSERT INTO t (x) VALUES (2)")
        assert (rows("t"), rows("v")) == (9, 9)
        assert not con.execute("VERIFY VIEW v").fetchall()


def test_views_that_are_recomputed_and_generated_columns() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (x INTEGER, y INTEGER GENERATED ALWAYS AS (x * 2))")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT x, y FROM t")
        con.execute("CREATE MATERIALIZED VIEW m AS SELECT mode(x) AS m, median(y) AS d FROM t")
        con.execute("FROM v, m").fetchall()
        for x in (3, 1, 3, 2):
            con.execute(f"INSERT INTO t (x) VALUES ({x})")
        assert con.execute("FROM m").fetchall() == [(3, 5.0)]
        for view in ("v", "m"):
            assert not con.execute(f"VERIFY VIEW {view}").fetchall()


def test_another_connection_reads_one_epoch(tmp_path: Any) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute("CREATE TABLE t (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        both = "SELECT (SELECT s FROM v), (SELECT sum(x) FROM t)"
        for x in range(5):
            con.execute("INSERT INTO t VALUES (?)", [x])
            other.execute("INSERT INTO t VALUES (?)", [x])
            (kept, summed), *_ = other.execute(both).fetchall()
            assert kept == summed == x * (x + 1)
        con.execute("BEGIN")
        con.execute("INSERT INTO t VALUES (?)", [100])
        assert other.execute(both).fetchall() == [(20, 20)]
        con.execute("ROLLBACK")
        con.execute("INSERT INTO t VALUES (?)", [1])
        assert other.execute(both).fetchall() == [(21, 21)]


@pytest.mark.parametrize("view", [False, True])
def test_a_refused_row_takes_one_number_of_a_sequence(view: bool) -> None:
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for each in (con, duck):
            each.execute("CREATE SEQUENCE s")
            each.execute("CREATE TABLE t (a INTEGER DEFAULT nextval('s'), b INTEGER CHECK (b > 0))")
        if view:
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
            con.execute("FROM v").fetchall()
        for b in (1, 2, -3, 4, -5, -6, 7):
            insert(con, f"INSERT INTO t (b) VALUES ({b})")
            insert(duck, f"INSERT INTO t (b) VALUES ({b})")
        assert con.execute("FROM t").fetchall() == duck.execute("FROM t").fetchall()
        with pytest.raises(tidewheel.IntegrityError) as raised:
            con.execute("INSERT INTO t (b) VALUES (-8)")
        assert "INSERT INTO t (b) VALUES (-8)" in str(raised.value)
        if view:
            assert not con.execute("VERIFY VIEW v").fetchall()
