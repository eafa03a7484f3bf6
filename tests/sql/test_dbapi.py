"""Connection and Cursor, as PEP 249 and DuckDB's users expect them."""

import decimal
import os
import threading
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidewheel

BIG = "select range as a, 'row ' || range as b from range(400000)"


@pytest.fixture
def connection() -> Any:
    with tidewheel.connect() as opened:
        yield opened


def test_module_attributes() -> None:
    assert (tidewheel.apilevel, tidewheel.threadsafety, tidewheel.paramstyle) == ("2.0", 2, "qmark")
    for name in tidewheel.__all__:
        assert hasattr(tidewheel, name)
    for name in ("Error", "DataError", "NotSupportedError"):
        assert getattr(tidewheel.Connection, name) is getattr(tidewheel, name)


def test_fetch(connection: tidewheel.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.execute("from range(5)") is cursor
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    assert cursor.fetchmany(2) == [(2,), (3,)]
    assert cursor.fetchall() == [(4,)]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == cursor.fetchall() == []
    cursor.arraysize = 3
    assert len(cursor.execute("from range(5)").fetchmany()) == 3
    assert list(connection.execute("from range(3)")) == [(0,), (1,), (2,)]
    assert connection.execute("select 1 where false").fetchall() == []


def test_description_compares_with_type_objects(connection: tidewheel.Connection) -> None:
    cursor = connection.execute(
        "select 1 i, 'a' s, 'x'::blob b, now() t, 1.5::decimal(4,1) d, [1] l, true o, 1::hugeint h"
    )
    assert cursor.description is not None
    codes = {c[0]: c[1] for c in cursor.description}
    assert all(len(c) == 7 for c in cursor.description)
    for name in "idho":
        assert codes[name] == tidewheel.NUMBER
        assert codes[name] != tidewheel.STRING
    assert codes["s"] == tidewheel.STRING
    assert codes["b"] == tidewheel.BINARY
    assert codes["t"] == tidewheel.DATETIME
    assert codes["l"] == "INTEGER[]"
    assert codes["l"] != tidewheel.NUMBER
    assert codes["d"] == "DECIMAL(4,1)"
    assert codes["o"] == "BOOLEAN"


def test_rowcount(connection: tidewheel.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute("create table t(a int)").rowcount == -1
    assert cursor.description is None
    assert cursor.execute("insert into t values (1), (2), (3)").rowcount == 3
    assert cursor.execute("update t set a = a + 1 where a > 1").rowcount == 2
    assert cursor.execute("delete from t where a = 1").rowcount == 1
    with pytest.raises(tidewheel.ProgrammingError, match="no rows"):
        cursor.fetchall()
    assert cursor.execute("insert into t values (9) returning a, a + 1 as b").fetchall() == [
        (9, 10)
    ]
    assert cursor.execute('select a as "Count" from t where a = 9').fetchall() == [(9,)]


def test_last_result_of_a_script_is_kept(connection: tidewheel.Connection) -> None:
    assert connection.execute("select 1; select 2").fetchall() == [(2,)]
    cursor = connection.execute("select 1; create table t(a int)")
    assert cursor.description is None
    results = [c.fetchall() for c in connection.script("select 1; select ?; select 3", [2])]
    assert results == [[(1,)], [(2,)], [(3,)]]
    assert connection.execute("").description is None


def test_parameters(connection: tidewheel.Connection) -> None:
    assert connection.execute("select ?, ?", [1, "a"]).fetchall() == [(1, "a")]
    assert connection.execute("select $2, $1", (1, "a")).fetchall() == [("a", 1)]
    assert connection.execute("select $a + $b + $a", {"a": 1, "b": 2}).fetchall() == [(4,)]
    assert connection.execute("select ?; select ?", [1, 2]).fetchall() == [(2,)]
    values = [None, True, 2**100, 1.5, decimal.Decimal("1.50"), b"x", "é", [1, 2], {"k": 1}]
    for value in values:
        assert connection.execute("select ?", [value]).fetchall() == [(value,)]


def test_executemany_is_all_or_nothing(connection: tidewheel.Connection) -> None:
    connection.execute("create table t(a integer primary key)")
    cursor = connection.executemany("insert into t values (?)", [(i,) for i in range(5)])
    assert cursor.rowcount == 5
    with pytest.raises(tidewheel.IntegrityError):
        connection.executemany("insert into t values (?)", [(7,), (8,), (1,)])
    assert connection.execute("select count(*) from t").fetchall() == [(5,)]
    named = [{"a": 10}, {"a": 11}]
    assert connection.executemany("insert into t values ($a)", named).rowcount == 2


def test_transactions(connection: tidewheel.Connection) -> None:
    connection.execute("create table t(a int)")
    connection.commit()
    connection.rollback()
    connection.begin()
    connection.execute("insert into t values (1)")
    connection.rollback()
    assert connection.execute("from t").fetchall() == []
    connection.execute("begin; insert into t values (2)")
    connection.commit()
    assert connection.execute("from t").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "bad", ["selec", "select 'a'::int from range(3)", "insert into t values (1, 2)"]
)
def test_error_in_a_transaction_is_as_in_duckdb(bad: str) -> None:
    """In DuckDB 2.0 an error aborts the transaction: only ROLLBACK works then."""
    outcomes = []
    for module in (tidewheel, duckdb):
        connection: Any = module.connect()
        log: list[Any] = []
        for sql in ("create table t(a int)", "begin", "insert into t values (1)", bad, "from t"):
            try:
                cursor = connection.execute(sql)
                log.append(cursor.fetchall() if sql.startswith("from") else "done")
            except module.Error:
                log.append("error")
        connection.execute("rollback")
        log.append(connection.execute("from t").fetchall())
        outcomes.append(log)
        connection.close()
    assert outcomes[0] == outcomes[1]


def test_open_results_do_not_block(connection: tidewheel.Connection) -> None:
    first = connection.execute(BIG)
    assert first.fetchone() == (0, "row 0")
    second = connection.execute(BIG)
    connection.execute("create table t as " + BIG)
    third = connection.execute("from t")
    assert len(second.fetchall()) == 400_000
    assert third.fetchone() is not None
    rest = first.fetchall()
    assert len(rest) == 399_999
    assert rest[-1] == (399_999, "row 399999")


def test_set_aside_results_go_to_disk(
    connection: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.sql.result.BUFFER_BYTES", 1 << 20)
    first = connection.execute("select range, uuid() from range(400000)")
    assert connection.execute("select 1").fetchall() == [(1,)]
    rows = first.fetchall()
    assert [r[0] for r in rows] == list(range(400_000))


def test_error_of_a_result_set_aside_is_its_own(connection: tidewheel.Connection) -> None:
    connection.execute("set threads = 1")  # a second one may be at the wrong row before any is read
    sql = "select cast(case when i = 2500000 then 'x' else '1' end as int) from range(3000000) t(i)"
    first = connection.execute(sql)
    assert connection.execute("select 1").fetchall() == [(1,)]
    with pytest.raises(tidewheel.DataError):
        first.fetchall()


def test_arrow(connection: tidewheel.Connection) -> None:
    table = connection.execute("select 1 a, sum(x) s, uuid() u from range(3) t(x)").to_arrow_table()
    assert table.schema.types == [pa.int32(), pa.decimal128(38, 0), pa.string()]
    reader = connection.execute(BIG).to_arrow_reader()
    assert sum(batch.num_rows for batch in reader) == 400_000
    assert pa.table(connection.execute(BIG)).num_rows == 400_000
    assert pl.DataFrame(connection.execute("select 1 a, 'b' b")).rows() == [(1, "b")]
    empty = connection.execute("select 1::hugeint h where false").to_arrow_table()
    assert empty.schema.types == [pa.decimal128(38, 0)]


def test_arrow_types_are_those_of_duckdb(connection: tidewheel.Connection) -> None:
    sql = """select 1::hugeint h, 1::uhugeint u, uuid() i, '101'::bit b, '{}'::json j, true o,
        [1::hugeint] l, {'a': true} s, now() t, interval 1 day n, 'a'::enum('a', 'b') e,
        time '10:00:00' d, map{'a': 1::hugeint} m"""
    ours = connection.execute(sql).to_arrow_table().schema
    theirs = duckdb.connect().sql(sql).to_arrow_table().schema
    assert ours.types == theirs.types


def test_frames(connection: tidewheel.Connection) -> None:
    frame = connection.execute("select 1 a, 'b' b, date '2020-01-01' d").df()
    expected = duckdb.sql("select 1 a, 'b' b, date '2020-01-01' d").df()
    pd.testing.assert_frame_equal(frame, expected)
    assert connection.execute("select 1 a").pl().rows() == [(1,)]
    twice = "select 1 a, 2 a, 3 b"
    assert connection.execute(twice).pl().to_dicts() == [{"a": 1, "a_1": 2, "b": 3}]
    assert list(connection.execute(twice).df().columns) == ["a", "a_1", "b"]


@pytest.mark.parametrize(
    ("library", "value", "kind"),
    [
        ("pl", "interval 1 day", "INTERVAL"),
        ("pl", "{'a': [interval 1 day]}", "STRUCT"),
        ("pl", "union_value(n := 1)", "UNION"),
        ("df", "2::bignum", "BIGNUM"),
        ("fetchnumpy", "2::uhugeint", "UHUGEINT"),
    ],
)
def test_a_type_that_a_library_lacks(
    connection: tidewheel.Connection, library: str, value: str, kind: str
) -> None:
    with pytest.raises(tidewheel.NotSupportedError, match=f"(?s){kind}.*cast it to VARCHAR"):
        getattr(connection.execute(f"SELECT {value} AS c"), library)()
    assert getattr(connection.execute(f"SELECT ({value})::VARCHAR AS c"), library)() is not None


@pytest.mark.parametrize("end", ["con.close()", "cursor.close()", "cursor.execute('SELECT 1')"])
def test_a_reader_does_not_end_early(end: str) -> None:
    """What it has not read when its cursor gives up is an error, not the end of its rows."""
    con = tidewheel.connect()
    cursor = con.execute("FROM range(500000)")
    reader = cursor.to_arrow_reader()
    reader.read_next_batch()
    eval(end)
    with pytest.raises(tidewheel.ProgrammingError, match="given up before their end"):
        reader.read_all()


def test_a_reader_of_rows_set_aside_outlives_its_connection() -> None:
    con = tidewheel.connect()
    reader = con.execute("FROM range(500000)").to_arrow_reader()
    con.execute("SELECT 1")
    con.close()
    assert reader.read_all().num_rows == 500_000


def test_register(connection: tidewheel.Connection) -> None:
    frames = {
        "arrow": pa.table({"a": [1, 2]}),
        "pandas": pd.DataFrame({"a": [1, 2]}),
        "polars": pl.DataFrame({"a": [1, 2]}),
    }
    for name, frame in frames.items():
        connection.register(name, frame)
        assert connection.execute(f"select sum(a) from {name}").fetchall() == [(3,)]
    connection.register("arrow", pa.table({"a": [5]}))
    assert connection.execute("from arrow").fetchall() == [(5,)]
    connection.unregister("arrow")
    with pytest.raises(tidewheel.ProgrammingError):
        connection.execute("from arrow")
    connection.execute("create table t(a int)")
    with pytest.raises(tidewheel.ProgrammingError, match="t"):
        connection.register("t", frames["arrow"])
    with pytest.raises(tidewheel.ProgrammingError):
        connection.register("x", {"a": 1})


def test_closed_things_say_so(connection: tidewheel.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    with pytest.raises(tidewheel.Error, match="closed"):
        cursor.fetchone()
    other = tidewheel.connect()
    left = other.execute(BIG)
    other.close()
    calls = (
        left.fetchall,
        lambda: other.execute("select 1"),
        other.cursor,
        other.enable_progress,
        other.close,
    )
    for call in calls:
        with pytest.raises(tidewheel.Error, match="closed"):
            call()


def test_connections_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with tidewheel.connect(path) as one, tidewheel.connect(str(path)) as two:
        one.execute("create table t(a int)")
        two.execute("insert into t values (1)")
        assert one.execute("from t").fetchall() == [(1,)]
        one.begin()
        one.execute("insert into t values (2)")
        assert two.execute("from t").fetchall() == [(1,)]
        one.commit()
        assert two.execute("select count(*) from t").fetchall() == [(2,)]
    with tidewheel.connect(path, read_only=True) as readonly:
        assert readonly.execute("select count(*) from t").fetchall() == [(2,)]
        with pytest.raises(tidewheel.Error):
            readonly.execute("insert into t values (3)")


def test_a_file_has_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = str(tmp_path / "a.db")
    names = [
        "~/a.db",
        f"file:{path}",
        f"file://{path}",
        f"file://localhost{path}",
        f"duckdb:{path}",
    ]
    with tidewheel.connect(path) as con:
        con.execute("create table t(a int)")
        con.execute("create materialized view v as select count(*) as n from t")
        for rows, name in enumerate([*names, "DuckDB:~/a.db", os.fsencode(path)], 1):
            with tidewheel.connect(name) as other:
                other.execute("insert into t values (1)")
                assert con.execute("from v").fetchall() == other.execute("from v").fetchall()
            assert con.execute("from v").fetchall() == [(rows,)], name
    with tidewheel.connect("duckdb::memory:") as con:
        assert con.execute("from duckdb_tables()").fetchall() == []
    for name in ":default:", "a\0b":
        with pytest.raises(tidewheel.ProgrammingError, match=r"default|NUL"):
            tidewheel.connect(name)


def test_connect_refuses_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(tidewheel.OperationalError):
        tidewheel.connect(tmp_path / "no" / "folder.db")
    path = tmp_path / "text.db"
    path.write_text("this is no database, whatever its name says. " * 100)
    with pytest.raises(tidewheel.OperationalError):
        tidewheel.connect(path)
    with pytest.raises(tidewheel.ProgrammingError, match="whole number"):
        tidewheel.connect(threads="many")
    with pytest.raises(tidewheel.Error):
        tidewheel.connect(no_such_setting=1)
    for name in ("", ":memory:", ":memory:shared"):
        with pytest.raises(tidewheel.ProgrammingError, match="memory cannot be read-only"):
            tidewheel.connect(name, read_only=True)


def test_plans_follow_the_catalog(connection: tidewheel.Connection) -> None:
    for fusion in ("on", "off"):
        connection.execute(f"set fusion = {fusion}; create or replace table t as select 1 a")
        assert connection.execute("select * from t").fetchall() == [(1,)]
        connection.execute("create or replace table t as select 'x' b, 2 c")
        assert connection.execute("select * from t").fetchall() == [("x", 2)]
        connection.execute("alter table t rename c to d")
        assert connection.execute("select * from t").df().columns.tolist() == ["b", "d"]


def test_settings_are_shown_and_reset(connection: tidewheel.Connection) -> None:
    assert connection.execute("set threads = 1; show threads").fetchall() == [("1",)]
    assert connection.execute("select current_setting('threads')").fetchall() == [(1,)]
    assert connection.execute("set max_iterations to 7; show max_iterations").fetchall() == [("7",)]
    assert connection.execute("reset max_iterations; show max_iterations").fetchall() == [("none",)]
    assert connection.execute("set fusion = 'off'; show fusion").fetchall() == [("off",)]


def test_settings_take_parameters(connection: tidewheel.Connection) -> None:
    connection.execute("set threads = ?", [1])
    connection.execute("set max_iterations = $n", {"n": 7})
    shown = connection.execute("select current_setting('threads'); show max_iterations")
    assert shown.fetchall() == [("7",)]
    assert connection.execute("show threads").fetchall() == [("1",)]
    with pytest.raises(tidewheel.ProgrammingError, match="many is no value for threads"):
        connection.execute("set threads = ?", ["many"])


@pytest.mark.parametrize("kind", ["view", "materialized view", "or replace temp view"])
@pytest.mark.parametrize(("mark", "given"), [("?", [1]), ("$a", {"a": 1}), ("?", None)])
def test_a_view_has_no_parameters(
    connection: tidewheel.Connection, kind: str, mark: str, given: Any
) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="a view can't have parameters") as caught:
        connection.execute(f"create {kind} v as select {mark} as a", given)
    assert caught.value.column == len(f"create {kind} v as select ") + 1
    assert connection.execute("create table view as select ?::int as a", [1]).rowcount == 1


def test_threads_share_a_connection(connection: tidewheel.Connection) -> None:
    connection.execute("create table t(a int)")
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(20):
                connection.execute("insert into t values (?)", [number])
                rows = connection.execute("select ? + range from range(3000)", [i]).fetchall()
                assert (rows[0], len(rows)) == ((i,), 3000)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert connection.execute("select count(*) from t").fetchall() == [(80,)]


def test_callproc_is_not_supported(connection: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.NotSupportedError):
        connection.cursor().callproc("f")
