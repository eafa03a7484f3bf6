"""The sqllogictest runner itself: formats, comparisons, loops, and that failures are seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from slt.engines import plain_duckdb
from slt.parser import FormatError, Query, Statement, parse
from slt.record import new, record
from slt.runner import Result, Runner
from slt.values import difference, digest, same_value


def run(tmp_path: Path, text: str, name: str = "x.test") -> Result:
    path = tmp_path / name
    path.write_text(text)
    return Runner(parse(path), plain_duckdb(), tmp_path).run()


DUCKDB_STYLE = """
# name: test/sql/x.test
# description: rows on lines, errors below the dashes
# group: [x]

require parquet

statement ok con1
CREATE TABLE t(a INTEGER, b VARCHAR)

statement ok
INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, '')

query IT rowsort
SELECT a, b FROM t
----
3	(empty)
2	NULL
1	x

query IT con1
SELECT a, b FROM t WHERE a = 1
----
1
x

query I
SELECT a > 1 FROM t ORDER BY a
----
0
1
true

query T
SELECT 'hello world'
----
<REGEX>:hel+o.*

statement error
SELECT nope FROM t
----
<REGEX>:.*nope.*not found.*

statement error
SELECT nope FROM t
----
Binder Error

foreach type <integral> !hugeint double

statement ok
CREATE TABLE f_${type}(v ${type})

loop i 0 3

statement ok
INSERT INTO f_${type} VALUES (${i})

endloop

query I
SELECT sum(v)::INT FROM f_${type}
----
3

endloop

mode skip

statement ok
this is not SQL

mode unskip

query I
SELECT 4
----
4
""".lstrip()


SQLITE_STYLE = """
hash-threshold 8

statement ok
CREATE TABLE t1(a INTEGER, b INTEGER, c REAL)

statement ok
INSERT INTO t1 VALUES (1, 10, 0.5), (2, NULL, 1.25)

onlyif mysql # its own syntax
statement ok
this is not SQL

skipif mysql
query IIR nosort
SELECT a, b, c FROM t1 ORDER BY a
----
1
10
0.500
2
NULL
1.250

query I valuesort label-1
SELECT a FROM t1
----
1
2

query I rowsort label-1
SELECT a FROM t1 ORDER BY a DESC
----
1
2

statement error
SELECT * FROM nothing
""".lstrip()


def test_duckdb_style(tmp_path: Path) -> None:
    result = run(tmp_path, DUCKDB_STYLE)
    assert [str(f) for f in result.failures] == []
    assert (result.passed, result.skipped, result.skip_reason) == (9 + 10 * 5, 1, None)


def test_sqlite_style(tmp_path: Path) -> None:
    result = run(tmp_path, SQLITE_STYLE)
    assert [str(f) for f in result.failures] == []
    assert (result.passed, result.skipped) == (6, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("query I\nSELECT 1\n----\n2\n", "expected"),
        ("query I\nSELECT 1 UNION ALL SELECT 2\n----\n1\n", "expected"),
        ("query II\nSELECT 1\n----\n1\n", "1 columns, not 2"),
        ("query I\nSELECT nope\n----\n1\n", "nope"),
        ("query T\nSELECT 'abc'\n----\n<REGEX>:x.*\n", "expected"),
        ("statement ok\nSELECT nope\n", "nope"),
        ("statement error\nSELECT 1\n", "succeeded"),
        ("statement error other words\nSELECT nope\n", "other words"),
        ("query I nosort a\nSELECT 1\n\nquery I nosort a\nSELECT 2\n", "labelled a"),
        ("query I\nSELECT 1\n----\n1 values hashing to 00000000000000000000000000000000\n", "got"),
    ],
)
def test_failures_are_seen(tmp_path: Path, text: str, says: str) -> None:
    result = run(tmp_path, text)
    assert len(result.failures) == 1
    assert says in str(result.failures[0])


def test_types_are_compared_in_our_own_files(tmp_path: Path) -> None:
    right = (
        "query IRTBDP?\nSELECT 1, 1.5, 'x', true, DATE '2024-01-01', TIMESTAMP '2024-01-01', [1]\n"
    )
    assert not run(tmp_path, right, "x.slt").failures
    assert run(tmp_path, "query R\nSELECT 1\n----\n1\n", "x.slt").failures


def test_every_record_runs_after_a_failure(tmp_path: Path) -> None:
    result = run(tmp_path, "statement ok\nSELECT nope\n\nstatement ok\nSELECT 1\n")
    assert (len(result.failures), result.passed) == (1, 1)


def test_restart_keeps_a_file(tmp_path: Path) -> None:
    text = (
        "load __TEST_DIR__/x.db\n\nstatement ok\nCREATE TABLE t AS SELECT 7 AS v\n\n"
        "restart\n\nquery I\nSELECT v FROM t\n----\n7\n"
    )
    assert not run(tmp_path, text).failures


def test_what_is_not_there_skips_the_file(tmp_path: Path) -> None:
    assert run(tmp_path, "require spatial\n").skip_reason == "requires spatial"
    assert "unknown command" in str(run(tmp_path, "frobnicate\n").skip_reason)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("statement perhaps\nSELECT 1\n", "x.test:1"),
        ("\nquery I\n----\n1\n", "without SQL"),
        ("statement ok\n", "without SQL"),
        ("skipif\n", "names no engine"),
    ],
)
def test_bad_files_name_the_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        parse(tmp_path / "x.test", text)


def test_places() -> None:
    first, second = parse(Path("x"), "# c\n\nstatement ok\nA\nB\n\nquery I\nC\n----\n1\n").records
    assert isinstance(first, Statement)
    assert (first.line, first.end, first.sql) == (3, 6, "A\nB")
    assert isinstance(second, Query)
    assert (second.line, second.expected) == (7, ("1",))


def test_values() -> None:
    assert same_value("0.30000000000000004", "0.3")
    assert same_value("true", "1")
    assert same_value("nan", "NaN")
    assert not same_value("9007199254740993", "9007199254740992")
    assert not same_value("NULL", "0")
    assert not same_value("1.5", "1.6")
    rows = [("b", "1"), ("a", "2")]
    assert difference(rows, 2, "rowsort", ["a\t2", "b\t1"]) is None
    assert difference(rows, 2, "nosort", ["a\t2", "b\t1"]) is not None
    assert difference(rows, 2, "valuesort", ["1", "2", "a", "b"]) is None
    assert difference(rows, 2, "nosort", [digest(rows)]) is None


def test_recording_comes_from_duckdb_and_is_stable(tmp_path: Path) -> None:
    path = tmp_path / "made.slt"
    sql = (
        "-- name: made\n-- description: by the recorder\ncreate table t(a int);\n"
        "insert into t values (2), (1);\n-- the whole table\nfrom t;\nfrom t\norder by a;\n"
        "-- error: nope\nselect nope;\n"
    )
    assert new(path, sql) == 2
    text = path.read_text()
    assert "query I rowsort\nfrom t\n----\n1\n2" in text
    assert "query I\nfrom t\norder by a\n----\n1\n2" in text
    assert "# the whole table\nquery" in text
    assert record(path) == 2
    assert path.read_text() == text
    path.write_text(text.replace("----\n1\n2", "----\n8\n9"))
    assert Runner(parse(path), plain_duckdb(), tmp_path).run().failures
    record(path)
    assert path.read_text() == text
