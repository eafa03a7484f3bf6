"""`Connection.append`, and `executemany`: one epoch each, all or nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.sql import append

SETUP = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR DEFAULT 'x', c DOUBLE, d DATE,
                e ENUM ('u', 'v'), f DECIMAL(10, 2), g INTEGER[], CHECK (c < 100));
INSERT INTO t (a, c) VALUES (0, 1);
CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a)::BIGINT AS a, max(c) AS c FROM t;
FROM v;
"""


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(SETUP)
        yield connection


def test_columns_go_by_name_and_missing_ones_get_defaults(con: tidewheel.Connection) -> None:
    assert con.append("t", pa.table({"C": [2.5, None], "a": [1, 2]})) == 2
    rows = con.execute("SELECT * EXCLUDE (g) FROM t WHERE a > 0 ORDER BY a").fetchall()
    assert rows == [(1, "x", 2.5, None, None, None), (2, "x", None, None, None, None)]
    assert con.execute("FROM v").fetchall() == [(3, 3, 2.5)]


def test_what_is_taken(con: tidewheel.Connection) -> None:
    frame = pd.DataFrame(
        {"a": [1.0, 2.0], "d": pd.to_datetime(["2020-01-01", None]), "e": ["u", None]}
    )
    assert con.append("main.t", frame[frame.a > 1]) == 1  # its index is no column
    assert con.append('"T"', pl.DataFrame({"a": [3], "f": [Decimal("1.25")], "g": [[1, 2]]})) == 1
    assert con.append("t", pa.record_batch({"a": [4], "f": [2]})) == 1
    assert con.append("t", pa.table({"a": range(5, 9)}).to_reader(2)) == 4
    assert con.append("t", pa.table({"a": pa.array([], pa.int32())})) == 0
    con.execute('CREATE SCHEMA s; CREATE TABLE s."my table" AS SELECT 1 AS a')
    con.execute("USE s")
    assert con.append("my table", con.execute('SELECT a + 1 AS a FROM "my table"')) == 1
    # a result of this connection, read while the INSERT runs
    reader = con.execute('FROM "my table"').to_arrow_reader()
    assert con.append('s."my table"', reader) == 2
    assert con.execute('FROM "my table" ORDER BY a').fetchall() == [(1,), (1,), (2,), (2,)]
    con.execute("USE main")
    assert con.execute("FROM v").fetchall() == [(8, 35, 1.0)]
    assert con.execute("VERIFY VIEW v").fetchall() == []


MISFITS: list[tuple[dict[str, list[Any]], type[tidewheel.Error], str]] = [
    ({"a": [1, 0]}, tidewheel.IntegrityError, "Duplicate key"),
    ({"a": [1, 1]}, tidewheel.IntegrityError, "duplicate key"),
    ({"a": [1, 2], "c": [1.0, 100.0]}, tidewheel.IntegrityError, "CHECK"),
    ({"b": ["y"]}, tidewheel.IntegrityError, "NOT NULL"),
    ({"a": [1.0, 2.5]}, tidewheel.DataError, "column a is INTEGER, which does not hold 2.5"),
    ({"a": [1.0, float("nan")]}, tidewheel.DataError, "column a is INTEGER"),
    ({"a": [1, 1 << 40]}, tidewheel.DataError, "column a is INTEGER: .*1099511627776"),
    ({"a": [1], "f": [Decimal(10**9)]}, tidewheel.DataError, "column f is DECIMAL"),
    ({"a": [1], "e": ["w"]}, tidewheel.DataError, "column e is ENUM.*'w'"),
    ({"a": [1], "d": [dt.datetime(2020, 1, 1, 3)]}, tidewheel.DataError, "d is DATE.*03:00"),
    ({"a": ["1"]}, tidewheel.ProgrammingError, "a is INTEGER, the data have VARCHAR"),
    ({"a": [1], "d": ["2020-01-01"]}, tidewheel.ProgrammingError, "d is DATE"),
    ({"a": [1], "g": ["[1]"]}, tidewheel.ProgrammingError, r"g is INTEGER\[\]"),
    ({"a": [1], "f": [Decimal("1.239")]}, tidewheel.DataError, r"f is DECIMAL.*not hold 1\.239"),
    ({"a": [1], "g": [[1.5]]}, tidewheel.DataError, r"column g\[\] is INTEGER, .* 1\.5"),
    ({"a": [1], "g": [["1"]]}, tidewheel.ProgrammingError, r"column g\[\] is INTEGER, the data"),
    ({"a": [1], "zz": [1]}, tidewheel.ProgrammingError, "no column zz"),
    ({}, tidewheel.ProgrammingError, "no columns"),
]


@pytest.mark.parametrize("chunk", [append.CHUNK_BYTES, 1])
def test_what_does_not_fit_leaves_everything_as_it_was(
    con: tidewheel.Connection, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "CHUNK_BYTES", chunk)
    epoch = con._session.database.epoch
    for data, kind, message in MISFITS:
        table = pa.table(data)
        with pytest.raises(kind, match=f"(?s){message}") as found:
            con.append("t", table.to_reader(1) if data else table)
        assert found.value.line is None  # no place in a text that nobody wrote
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
        assert con.execute("FROM v").fetchall() == [(1, 0, 1.0)]
    assert con.append("t", pa.table({"a": [1]})) == 1
    assert con._session.database.epoch == epoch + 1
    assert con.execute("VERIFY VIEW v").fetchall() == []


def test_nothing_is_lost_within_a_value() -> None:
    texts = pa.map_(pa.string(), pa.float64())
    nanoseconds = pa.array([1001], pa.duration("ns"))
    moments = pa.list_(pa.duration("ns"), 1)
    for kind, fits, lost, message in [
        ("STRUCT(p INTEGER, q DATE)", [{"P": 1.0}, None], [{"p": 1.5}], r"column x\.p is INTEGER"),
        ("STRUCT(p INTEGER)", [{"p": 1}], [{"p": 1, "r": 2}], "column x has no field r"),
        ("STRUCT(p DOUBLE[])[]", [[{"p": [1]}]], [[{"p": ["1"]}]], r"x\[\]\.p\[\] is DOUBLE"),
        ("INTEGER[2]", [[1.0, None]], [[1.0, 1.5]], r"column x\[\] is INTEGER"),
        ("MAP(VARCHAR, INTEGER)", pa.array([[("k", 1.0)], None], texts),
         pa.array([[("k", 1.5)]], texts), r"column x\[\] is INTEGER"),
        ("MAP(VARCHAR, INTEGER)", [{"k": 1.0}], [{"k": 1.5}], r"column x\.k is INTEGER"),
        ("DECIMAL(4, 2)[]", [[Decimal("1.200")]], [[Decimal("1.234")]], r"column x\[\] is DECIMAL"),
        ("FLOAT[]", [[0.1]], [[1e300]], "column x is FLOAT"),
        ("INTERVAL", pa.nulls(1), nanoseconds, "column x has durations"),
        ("INTERVAL[]", [[dt.timedelta(1)]], pa.ListArray.from_arrays([0, 1], nanoseconds),
         "column x has durations"),
        ("MAP(VARCHAR, STRUCT(p INTERVAL[1]))", pa.nulls(1),
         pa.array([[("k", {"p": [1]})]], pa.map_(pa.string(), pa.struct([("p", moments)]))),
         "column x has durations"),
        ("BIGNUM", [2.0, None], [2.5], "column x is BIGNUM"),
        ("BIGNUM", [2, None], [Decimal("2.5")], "column x is BIGNUM"),
    ]:  # fmt: skip
        with tidewheel.connect() as con:
            con.execute(f"CREATE TABLE t (x {kind})")
            assert con.append("t", pa.table({"x": fits})) == len(fits)
            with pytest.raises(tidewheel.DatabaseError, match=message):
                con.append("t", pa.table({"x": lost}))
            assert con.execute("SELECT count(*) FROM t").fetchall() == [(len(fits),)]


def test_wrong_targets_and_data(con: tidewheel.Connection) -> None:
    row = pa.table({"a": [1]})
    con.execute("CREATE TABLE station (a INTEGER)")
    for name, message in [
        ("stations", "there is no table stations\nHint: did you mean station?"),
        ("v", "v is a view"),
        ("", "there is no table"),
        ("a b c", "there is no table a b c"),
    ]:
        with pytest.raises(tidewheel.ProgrammingError, match=message):
            con.append(name, row)
    for data in ([1, 2], pa.Table, None, {"a": [1]}):
        with pytest.raises(tidewheel.ProgrammingError, match="append takes a DataFrame"):
            con.append("t", data)
    con.close()
    with pytest.raises(tidewheel.ProgrammingError, match="closed"):
        con.append("t", row)


def test_a_stream_that_breaks_off_leaves_nothing(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "CHUNK_BYTES", 1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        yield pa.record_batch({"a": [2]})
        yield pa.record_batch({"a": [3]})
        raise ValueError("the wire was cut")

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())

    with pytest.raises(ValueError, match="the wire was cut"):
        con.append("t", reader())
    assert not con.in_transaction
    con.begin()
    con.append("t", pa.table({"a": [9]}))
    with pytest.raises(ValueError, match="the wire was cut"):
        con.append("t", reader())
    con.commit()  # the transaction has what succeeded
    assert con.execute("SELECT list(a) FROM t").fetchall() == [([0, 9],)]
    assert con.execute("FROM v").fetchall() == [(2, 9, 1.0)]


def test_append_is_one_epoch_and_part_of_a_transaction(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "CHUNK_BYTES", 1)
    with con.subscribe("v") as changes:
        changes.read(0)
        con.append("t", pa.table({"a": range(1, 6)}).to_reader(2))
        update = changes.read(0)
        assert update is not None
        assert sorted(r[1:3] for r in update.rows()) == [(-1, 1), (1, 6)]
        con.begin()
        con.append("t", pa.table({"a": [10]}))
        con.append("t", pa.table({"a": [11]}))
        assert con.execute("SELECT n FROM v").fetchall() == [(8,)]
        assert changes.read(0) is None
        con.rollback()
        assert con.execute("SELECT n FROM v").fetchall() == [(6,)]
        assert changes.read(0) is None
    con.autocommit = False
    con.append("t", pa.table({"a": [20]}))
    assert con.in_transaction
    con.rollback()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(6,)]


@pytest.mark.parametrize("rows", [3, 30])
def test_executemany_is_one_epoch(con: tidewheel.Connection, rows: int) -> None:
    with con.subscribe("v") as changes:
        changes.read(0)
        for sql, sets in [
            ("INSERT INTO t (a) VALUES (?)", [(i,) for i in range(1, rows)]),
            ("UPDATE t SET c = ? WHERE a = ?", [(50 + i, i) for i in range(rows)]),
            ("DELETE FROM t WHERE a = ?", [(i,) for i in range(1, rows)]),
        ]:
            con.executemany(sql, sets)
            assert changes.read(0) is not None
            assert changes.read(0) is None, sql
        with pytest.raises(tidewheel.IntegrityError):
            con.executemany("INSERT INTO t (a) VALUES (?)", [(i,) for i in [*range(1, rows), 0]])
        assert changes.read(0) is None
    assert con.execute("FROM v").fetchall() == [(1, 0, 50.0)]
    assert con.execute("VERIFY VIEW v").fetchall() == []


def test_safe_mode_takes_rows() -> None:
    with tidewheel.connect(safe_mode=True) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        assert con.append("t", pa.table({"a": [1, 2]})) == 2
        assert con.execute("FROM t").fetchall() == [(1,), (2,)]


def test_a_column_of_mixed_objects_is_an_error_of_ours(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.DataError, match="column a") as caught:
        con.append("t", pd.DataFrame({"a": [1, "x"]}))
    assert "one type" in str(caught.value.hint)
    for frame in (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame({"c": [1j]}),
        pd.DataFrame({"a": pd.arrays.SparseArray([1, 0])}),
    ):
        with pytest.raises(tidewheel.DataError):
            con.append("t", frame)
    dense = pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
    )
    with pytest.raises(tidewheel.NotSupportedError, match="Union"):
        con.append("t", pa.table({"a": dense}))


def test_a_moment_is_not_cut_off(con: tidewheel.Connection) -> None:
    """A column of pandas or polars may count nanoseconds where that of the table does not."""
    kinds = {
        "tz": ("TIMESTAMPTZ", pa.timestamp("ns", "UTC"), 1000),
        "us": ("TIMESTAMP", pa.timestamp("ns"), 1000),
        "ms": ("TIMESTAMP_MS", pa.timestamp("us"), 1000),
        "s": ("TIMESTAMP_S", pa.timestamp("ns"), 10**9),
        "day": ("DATE", pa.timestamp("s"), 86_400),
        "time": ("TIME", pa.time64("ns"), 1000),
    }
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in kinds.items())
    con.execute(f"CREATE TABLE moment (k INTEGER PRIMARY KEY, {columns})")
    con.execute("CREATE MATERIALIZED VIEW moments AS SELECT k, us, tz FROM moment")
    for k in range(3):
        row = {n: pa.array([unit], t) for n, (_, t, unit) in kinds.items()}
        assert con.append("moment", pa.table({"k": [k], **row})) == 1
    (row_2,) = con.execute("SELECT us, ms, s, day, time FROM moment WHERE k = 2").fetchall()
    assert row_2 == (
        dt.datetime(1970, 1, 1, 0, 0, 0, 1),
        dt.datetime(1970, 1, 1, 0, 0, 0, 1000),
        dt.datetime(1970, 1, 1, 0, 0, 1),
        dt.date(1970, 1, 2),
        dt.time(0, 0, 0, 1),
    )
    assert con.execute("SELECT epoch_us(tz) FROM moments").fetchall() == [(1,)] * 3
    for name, (_, t, _) in kinds.items():
        with pytest.raises(tidewheel.DataError, match=f"column {name} is .* does not hold"):
            con.append("moment", pa.table({"k": [9], name: pa.array([1], t)}))
    assert con.execute("VERIFY VIEW moments").fetchall() == []


def test_the_name_comes_first(con: tidewheel.Connection) -> None:
    rows: Any = pd.DataFrame({"a": [1]})
    for call in (con.append, con.register):
        with pytest.raises(tidewheel.ProgrammingError, match="the name comes first"):
            call(rows, "t")
