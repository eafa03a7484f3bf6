"""Values of every type go in as parameters and come back as they were."""

import datetime as dt
import decimal
import enum
import pathlib
import uuid
import zoneinfo
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SOME_UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")


class Size(enum.IntEnum):
    SMALL = 1


@pytest.fixture(scope="module")
def connection() -> Any:
    with tidewheel.connect() as opened:
        yield opened


# SQL type, value in, value out if it is another one
VALUES: list[tuple[Any, ...]] = [
    ("boolean", True),
    ("tinyint", -128),
    ("ubigint", 2**64 - 1),
    ("hugeint", -(2**127)),
    ("uhugeint", 2**128 - 1),
    ("double", 1.5),
    ("float", 1.5),
    ("decimal(38, 10)", decimal.Decimal("12345678901234567890.0123456789")),
    ("decimal(4, 1)", decimal.Decimal("-1.5")),
    ("varchar", "é\0\n'\""),
    ("blob", b"\x00\xff"),
    ("blob", bytearray(b"ab"), b"ab"),
    ("blob", memoryview(b"ab"), b"ab"),
    ("bit", "0101"),
    ("uuid", SOME_UUID),
    ("date", dt.date(9999, 12, 31)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timetz", dt.time(1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    ("timetz", dt.time(1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30)))),
    ("timestamp", dt.datetime(2020, 2, 29, 1, 2, 3, 4)),
    ("timestamp_s", dt.datetime(2020, 2, 29, 1, 2, 3)),
    ("timestamp_ms", dt.datetime(2020, 2, 29, 1, 2, 3, 4000)),
    ("timestamp_ns", dt.datetime(2020, 2, 29, 1, 2, 3, 4)),
    ("timestamptz", dt.datetime(2020, 7, 1, 12, tzinfo=UTC)),
    ("timestamptz", dt.datetime(2020, 7, 1, 12, tzinfo=BERLIN)),
    ("interval", dt.timedelta(days=3, seconds=4, microseconds=5)),
    ("integer[]", [1, None, 3]),
    ("integer[]", []),
    ("integer[]", (1, 2), [1, 2]),
    ("integer[][]", [[1], [], None]),
    ("integer[2]", [1, 2], (1, 2)),
    ("struct(a integer, b varchar[])", {"a": 1, "b": ["x", None]}),
    ("map(varchar, integer)", {"a": 1}),
    ("map(integer, varchar)", {1: "a", 2: None}),
    ("map(date, integer[])", {dt.date(2020, 1, 1): [1]}),
    ("map(varchar, integer)", {}),
    ("enum('small', 'large')", "large"),
    ("json", '{"a": [1, null]}'),
    ("json", {"a": [1, None]}, '{"a":[1,null]}'),
    ("union(n integer, s varchar)", 1),
    ("integer", Size.SMALL),
    ("integer", np.int8(-4)),
    ("double", np.float32(0.5)),
    ("boolean", np.bool_(True)),
    ("varchar", np.str_("x")),
    ("date", np.datetime64("2020-01-31"), dt.date(2020, 1, 31)),
    ("timestamp", np.datetime64("2020-01-31T01:02:03", "ns"), dt.datetime(2020, 1, 31, 1, 2, 3)),
    ("interval", np.timedelta64(3, "s"), dt.timedelta(seconds=3)),
    ("timestamp", np.datetime64("nat"), None),
    ("double[]", np.array([1.5, 2.5]), [1.5, 2.5]),
    ("blob", memoryview(b"abcd")[::2], b"ac"),
    ("integer[]", [np.int64(1)], [1]),
    ("integer", np.array(5), 5),
    ("integer", np.ma.masked, None),
    ("date[]", np.array(["2020-01-31", "NaT"], "M8[D]"), [dt.date(2020, 1, 31), None]),
    ("timestamp", pd.Timestamp("2020-01-01"), dt.datetime(2020, 1, 1)),
    ("timestamp", pd.NaT, None),
    ("integer", pd.NA, None),
]


RELEASED = memoryview(b"x")
RELEASED.release()
CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
# (a memoryview's repr has an address)
IDS = [f"{c[0]}-{c[1]!r}"[:60].split(" at 0x")[0] for c in VALUES]


@pytest.mark.parametrize("case", VALUES, ids=IDS)
def test_values_come_back(connection: tidewheel.Connection, case: tuple[Any, ...]) -> None:
    sql_type, value, *expected = case
    wanted = expected[0] if expected else value
    connection.execute(f"create or replace table kept(v {sql_type})")
    connection.executemany("insert into kept values (?)", [[value], [None]])
    connection.execute("insert into kept values ($v)", {"v": value})
    found = [row[0] for row in connection.execute("from kept").fetchall()]
    assert found == [wanted, None, wanted]
    if wanted is not None and not isinstance(value, Size | np.generic):
        assert type(found[0]) is type(wanted)
    if isinstance(wanted, dt.datetime):
        assert (found[0].tzinfo is None) == (wanted.tzinfo is None)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "INTEGER"),
        (2**31, "BIGINT"),
        (2**100, "HUGEINT"),
        (True, "BOOLEAN"),
        (1.5, "DOUBLE"),
        (decimal.Decimal("1.50"), "DECIMAL(3,2)"),
        ("x", "VARCHAR"),
        (b"x", "BLOB"),
        (SOME_UUID, "UUID"),
        (dt.date(2020, 1, 1), "DATE"),
        (dt.datetime(2020, 1, 1, tzinfo=UTC), "TIMESTAMP WITH TIME ZONE"),
        (dt.timedelta(1), "INTERVAL"),
        ([1], "INTEGER[]"),
        ({"a": 1}, "STRUCT(a INTEGER)"),
        ({1: "a"}, "MAP(INTEGER, VARCHAR)"),
    ],
)
def test_values_without_a_target_have_the_natural_type(
    connection: tidewheel.Connection, value: object, name: str
) -> None:
    cursor = connection.execute("select ?", [value])
    assert cursor.description is not None
    assert cursor.description[0][1] == name
    assert cursor.fetchone() == (value,)


def test_names_of_fields_are_quoted_as_duckdb_does(connection: tidewheel.Connection) -> None:
    con = duckdb.connect()
    names = ["a", "A", "aB_1", "1a", "\u00e9", "a b", 'a"b', "a$", "_"]
    words = con.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    names += [word for (word,) in words]
    for name in names:
        query = "SELECT struct_pack({0} := 1), union_value({0} := 1)".format(
            '"' + name.replace('"', '""') + '"'
        )
        shown, ours = con.execute(query).description, connection.execute(query).description
        assert shown
        assert ours
        assert [str(c[1]) for c in shown] == [c[1] for c in ours]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (2**128, tidewheel.DataError, "128 bits"),
        (-(2**127) - 1, tidewheel.DataError, "128 bits"),
        ({1}, tidewheel.ProgrammingError, "set cannot be a parameter"),
        (
            pd.Series([1]),
            tidewheel.ProgrammingError,
            "Series cannot be a parameter\nHint: pass a list",
        ),
        (pd.Interval(0, 1), tidewheel.ProgrammingError, "Interval cannot be a parameter"),
        (range(3), tidewheel.ProgrammingError, "range cannot be a parameter\nHint: pass a list"),
        (object(), tidewheel.ProgrammingError, "object cannot be a parameter"),
        (pathlib.Path("x"), tidewheel.ProgrammingError, "Hint: pass text"),
        ([{"a": {1}}], tidewheel.ProgrammingError, "set cannot be a parameter"),
        (np.datetime64("2020-01-01T00:00:00.123456789"), tidewheel.DataError, "does not fit"),
        (np.timedelta64(5, "M"), tidewheel.DataError, "does not fit"),
        (
            pd.Timestamp("2020-01-01 00:00:00.123456789"),
            tidewheel.DataError,
            "fit Python's datetime",
        ),
        ([pd.Timedelta(1)], tidewheel.DataError, "does not fit Python's timedelta"),
        (RELEASED, tidewheel.ProgrammingError, "released memoryview"),
        (CIRCLE, tidewheel.DataError, "nested too deeply, or holds itself"),
        (np.longdouble(1.5), tidewheel.ProgrammingError, "longdouble cannot be a parameter"),
        (dt.time(1, tzinfo=BERLIN), tidewheel.ProgrammingError, "no offset from UTC without a"),
    ],
)
def test_values_that_cannot_be_parameters(
    connection: tidewheel.Connection, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        connection.execute("select ?", [value])
    assert connection.execute("select 1").fetchall() == [(1,)]


nested = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=1)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, min_size=1, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(nested)
def test_nested_values_come_back(value: object) -> None:
    with tidewheel.connect() as connection:
        assert connection.execute("select ?", [value]).fetchall() == [(value,)]


def test_description_of_decimals(connection: tidewheel.Connection) -> None:
    cursor = connection.execute("select 1.5::decimal(10, 3) as d, 1 as i")
    assert cursor.description == [
        ("d", "DECIMAL(10,3)", None, None, 10, 3, None),
        ("i", "INTEGER", None, None, None, None, None),
    ]


def test_what_python_cannot_hold(connection: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.DataError, match="Cast it to VARCHAR"):
        connection.execute("select interval '1000000000 days'").fetchall()
    text = connection.execute("select interval '1000000000 days'::varchar").fetchall()
    assert text == [("1000000000 days",)]


def test_what_arrow_or_pandas_cannot_hold(connection: tidewheel.Connection) -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(tidewheel.NotSupportedError, match="nested deeper"):
        connection.execute("select ?", [deep]).fetchall()
    for read in tidewheel.Cursor.df, tidewheel.Cursor.fetchnumpy:
        cursor = connection.execute("select date '300000-01-01' as d")
        with pytest.raises(tidewheel.DataError, match="300000"):
            read(cursor)
    cursor = connection.execute("select '2020-01-01'::timestamptz_ns as t")
    assert cursor.description is not None
    assert cursor.description[0][1] == "TIMESTAMPTZ_NS"
    assert cursor.description[0][1] == tidewheel.DATETIME


def test_constructors_of_values() -> None:
    assert tidewheel.Date(2002, 12, 25) == dt.date(2002, 12, 25)
    assert tidewheel.Time(13, 45, 30) == dt.time(13, 45, 30)
    assert tidewheel.Timestamp(2002, 12, 25, 13, 45, 30) == dt.datetime(2002, 12, 25, 13, 45, 30)
    assert tidewheel.Binary(b"x") == b"x"
    local = dt.datetime(2002, 12, 25, 13, 45, 30)
    ticks = local.timestamp()
    assert tidewheel.DateFromTicks(ticks) == local.date()
    assert tidewheel.TimeFromTicks(ticks) == local.time()
    assert tidewheel.TimestampFromTicks(ticks) == local
