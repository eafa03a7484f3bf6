"""The place of an error that DuckDB names no position for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidewheel
from tidewheel.sql.error_place import moved, search
from tidewheel.sql.statements import tokens


@pytest.fixture
def con() -> tidewheel.Connection:
    connection = tidewheel.connect()
    connection.execute("CREATE TABLE t AS SELECT i, i - 1 AS z FROM range(3) r(i)")
    return connection


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("SELECT 5 // 0", "//"),
        ("SELECT i, 10 % (i * 0) FROM t", "%"),
        ("SELECT i // 7, i // z FROM t", "// z"),
        ("SELECT '%', i % t.z -- a % b\nFROM t", "% t.z"),
        ("SELECT mod(i, 0) FROM t", "mod"),
        ("SELECT 9223372036854775807 + i FROM t", "+"),
        ("SELECT -i - 9223372036854775807 - i * 2 FROM t WHERE i > 1", None),
        ("SELECT (i - 3) * 9223372036854775807 FROM t", "*"),
        ("SELECT abs((-128)::TINYINT)", "abs"),
        ("SELECT 'abc'::INT + i FROM t", "::"),
        ("SELECT count(*) FROM 'junk.parquet'", "'junk.parquet'"),
        ("SELECT * FROM read_parquet('junk.parquet')", "'junk.parquet'"),
        ("SELECT * FROM read_parquet('no_such.parquet')", "'no_such.parquet'"),
        ("SELECT * FROM read_csv('no_such.csv')", "'no_such.csv'"),
        ("SELECT u.i FROM u WHERE u.i = 1", "u WHERE"),
        ("SELECT u.i FROM t JOIN u ON u.i = t.i", "u ON"),
        ("WITH a AS (SELECT b.i FROM b), b AS (FROM t) SELECT a.i FROM a", "b), b"),
        ("DELETE FROM u WHERE u.i = 1", "u WHERE"),
        ("SELECT i FROM t UNION ALL SELECT * FROM t", "UNION ALL"),
        ("SELECT i FROM t EXCEPT SELECT 'UNION', * FROM t", "EXCEPT"),
        ("SELECT 1 UNION SELECT 2 UNION SELECT 3, 4", None),
        ("CREATE MATERIALIZED VIEW v AS SELECT i FROM t INTERSECT SELECT * FROM t", "INTERSECT"),
        ("CREATE TABLE c(i INT REFERENCES t(i) ON DELETE CASCADE)", "CASCADE"),
        ("CREATE TABLE c(i INT REFERENCES t(i) ON UPDATE /* NULL */ SET  NULL)", "SET  NULL"),
        ("ALTER TABLE t ADD FOREIGN KEY (i) REFERENCES t(i)", "FOREIGN KEY"),
        ("INSERT INTO u SELECT u.i FROM t u", "u SELECT"),
        ("SELECT nope(i), nope(z) FROM t", "nope(i)"),
        ("CREATE MATERIALIZED VIEW v AS SELECT u.i FROM u LIMIT 1", "u LIMIT"),
        ("CREATE MATERIALIZED VIEW v AS SELECT ii, ii FROM t", "ii, ii"),
        ("BEGIN; SELECT u.i, u.z FROM u LIMIT 1", "u LIMIT"),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
            "r(n)",
        ),
    ],
)
def test_place(
    con: tidewheel.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    marked: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.parquet").write_text("junk")
    con.execute("SET max_iterations = 50")
    with pytest.raises(tidewheel.Error) as raised:
        con.execute("SELECT 1;\n" + sql).fetchall()
    error = raised.value
    if marked is None:
        assert error.source_line is None
    else:
        assert error.line is not None
        assert error.line > 1
        assert error.source_line is not None
        assert error.column is not None
        assert error.source_line[error.column - 1 :].startswith(marked)
    if sql.startswith("BEGIN"):  # which the error has ended
        con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("sql", "parameters", "marked"),
    [
        ("INSERT INTO w VALUES (?, ?), (?, nope)", [1, 2, 3], "nope"),
        ("INSERT INTO w VALUES (?, 2), ('é', zzz)", [1], "zzz"),
        ("INSERT INTO w SELECT ?, nope", [1], "nope"),
        ("INSERT INTO w VALUES (?, ?) RETURNING nope", [1, 2], "nope"),
        ("UPDATE w SET a = ?, b = nope", [1], "nope"),
        ("UPDATE w SET a = ? WHERE b = ? AND nope = 1 RETURNING a", [1, 2], "nope = 1"),
        ("DELETE FROM w WHERE a = ? AND b = ? AND nope = 1", [1, 2], "nope = 1"),
        ("INSERT INTO w VALUES ($one, $two), ($one, nope)", {"one": 1, "two": 2}, "nope"),
        ("INSERT INTO w VALUES (1, 2) RETURNING a, nope", None, "nope"),
        ("INSERT INTO w VALUES (?, 2) RETURNING", [1], "RETURNING"),
        ("DELETE FROM w WHERE a = 1 RETURNING", None, "RETURNING"),
        ("INSERT INTO w (a)", None, ")"),
        ("UPDATE w SET a =", None, "="),
        ("DELETE FROM w USING", None, "USING"),
    ],
)
def test_place_in_a_statement_whose_changes_are_captured(
    con: tidewheel.Connection, sql: str, parameters: Any, marked: str
) -> None:
    con.execute("CREATE TABLE w (a INT, b INT)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM w GROUP BY a")
    with pytest.raises(tidewheel.Error) as raised:
        con.execute(sql, parameters)
    error = raised.value
    assert error.source_line is not None
    assert error.column is not None
    assert error.source_line[error.column - 1 :].startswith(marked)
    assert error.length == len(marked.split()[0])


@pytest.mark.parametrize("statement", ["DELETE FROM w", "DELETE FROM w WHERE a = 1", "FROM w"])
def test_a_comment_that_does_not_end(con: tidewheel.Connection, statement: str) -> None:
    con.execute("CREATE TABLE w (a INT); INSERT INTO w VALUES (1)")
    con.execute("CREATE MATERIALIZED VIEW v AS FROM w")
    for sql in (statement, f"CREATE MATERIALIZED VIEW x AS {statement}"):
        with pytest.raises(tidewheel.ProgrammingError):
            con.execute(f"{sql} /* and /* more */")
    assert con.execute("FROM v").fetchall() == [(1,)]


def test_a_place_moves_with_the_words_around_it() -> None:
    own = "INSERT INTO t VALUES (?, ?) RETURNING a, b"
    made = "INSERT INTO t VALUES ($tw1, $tw2) RETURNING *, a, b"
    assert moved(made.index("$tw2"), 4, made, own) == (own.index("?)"), 1)
    assert moved(made.index("b"), 1, made, own) == (own.index("b"), 1)
    assert moved(made.index("VALUES"), 13, made, own) == (own.index("VALUES"), 10)
    assert moved(made.index("*"), 1, made, own) is None
    assert moved(len(made), 1, made, own) is None


def test_what_is_not_unique_has_no_place() -> None:
    parts = list(tokens("SELECT a + b, c + d"))
    assert search(parts, "Overflow in addition of INT32 (1 + 2)!") == (None, 1)
    assert search(parts, 'something about "q"') == (None, 1)
