"""Errors of DuckDB's that say neither where nor what to do: here they do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute("CREATE TABLE t (a INTEGER, b VARCHAR); CREATE INDEX i ON t (b)")
        opened.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
        opened.execute("CREATE TABLE f (id INTEGER REFERENCES p (id))")
        yield opened


@pytest.mark.parametrize(
    ("sql", "column", "hint"),
    [
        ("BEGIN; BEGIN", 8, "COMMIT or ROLLBACK first"),
        ("BEGIN; START TRANSACTION", 8, "COMMIT or ROLLBACK first"),
        ("COMMIT", 1, "BEGIN starts one"),
        ("SELECT 1; ROLLBACK", 11, "BEGIN starts one"),
        ("ALTER TABLE t RENAME a TO z", 13, "drop its indexes"),
        ("ALTER TABLE p RENAME TO q", 13, "a foreign key to it"),
        ("ALTER TABLE t ALTER b TYPE INTEGER", 13, "duckdb_indexes()"),
        ("ALTER TABLE IF EXISTS t DROP COLUMN b", 23, "DROP INDEX first"),
        ("DROP TABLE p", 12, "DROP TABLE f first"),
        ("CREATE VIEW v (x, y, z) AS SELECT a, b FROM t", 8, "no more names than the query"),
    ],
)
def test_place_and_cure(con: tidewheel.Connection, sql: str, column: int, hint: str) -> None:
    with pytest.raises(tidewheel.DatabaseError) as caught:
        con.execute(sql)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("sql", ["DELETE FROM p", "BEGIN; DELETE FROM f; DELETE FROM p"])
def test_a_row_that_others_refer_to(con: tidewheel.Connection, sql: str) -> None:
    con.execute("INSERT INTO p VALUES (1); INSERT INTO f VALUES (1)")
    with pytest.raises(tidewheel.IntegrityError) as caught:
        con.execute(sql)
    assert "until it is committed" in (caught.value.hint or "")


@pytest.mark.parametrize("sql", ["COPY t FROM '{}'", "SELECT * FROM read_csv('{}')"])
def test_a_file_that_is_no_csv(con: tidewheel.Connection, tmp_path: Path, sql: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(tidewheel.ProgrammingError, match=r"no way to read .*bad\.csv") as caught:
        con.execute(sql.format(path))
    assert caught.value.column == sql.index("'") + 1
    assert "delim" in (caught.value.hint or "")
    assert str(caught.value).count("\n") == 3  # message, statement, mark, hint


def test_a_csv_of_another_width(con: tidewheel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("a,b\n1,2\nx,3\n4,5,6,7\n")
    with pytest.raises(tidewheel.Error, match="2 columns are wanted, 4 were found"):
        con.execute(f"COPY t FROM '{path}'")


@pytest.mark.parametrize("size", ["x", None, 1.5])
def test_a_number_of_rows_is_an_int(con: tidewheel.Connection, size: Any) -> None:
    cursor = con.execute("SELECT 1")
    with pytest.raises(tidewheel.ProgrammingError, match="a number of rows is an int, not "):
        cursor.arraysize = size
    if size is not None:
        with pytest.raises(tidewheel.ProgrammingError, match="a number of rows is an int, not "):
            cursor.fetchmany(size)
    with pytest.raises(tidewheel.ProgrammingError, match="negative"):
        cursor.arraysize = -1
    assert cursor.arraysize == 1
    assert cursor.fetchmany() == [(1,)]


@pytest.mark.parametrize("watched", [False, True])
def test_a_parameter_without_a_number_comes_behind_the_greatest(watched: bool) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
        if watched:
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b, c FROM t")
        assert con.execute("SELECT $2, ?, $1", [1, 2, 3]).fetchall() == [(2, 3, 1)]
        assert con.execute("SELECT ?, $1", [1]).fetchall() == [(1, 1)]
        con.execute("INSERT INTO t VALUES ($2, ?, $1)", [1, 2, 3])
        con.execute("UPDATE t SET b = $1 + ? WHERE a = ?", [4, 5, 2])
        for table in ["t", "v"] if watched else ["t"]:
            assert con.execute(f"FROM {table}").fetchall() == [(2, 9, 1)]
        with pytest.raises(tidewheel.ProgrammingError, match="2 parameters, 1 given") as caught:
            con.execute("SELECT $1, ?", [1])
        assert caught.value.column == 12


@pytest.mark.parametrize("item", ["row_number() OVER (ORDER BY a)", "sum(b) + b"])
def test_group_by_all_that_cannot_tell_the_groups(item: str) -> None:
    with tidewheel.connect() as connection:
        connection.execute("CREATE TABLE t (a INT, b INT)")
        with pytest.raises(tidewheel.ProgrammingError) as caught:
            connection.execute(f"SELECT a, {item} FROM t GROUP BY ALL")
    assert caught.value.hint is not None
    assert "name their columns" in caught.value.hint
