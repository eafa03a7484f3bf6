"""Python values are those that DuckDB gives, though the rows travel as Arrow."""

from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel

CONNECTIONS: list[tuple[Any, Any]] = [
    (tidewheel, tidewheel.connect()),
    (duckdb, duckdb.connect()),
]
VALUES = [
    "1::hugeint",
    "(-170141183460469231731687303715884105728)::hugeint",
    "1::uhugeint",
    "255::utinyint",
    "uuid '00000000-0000-0000-0000-000000000001'",
    "'1010'::bit",
    "'{\"a\": 1}'::json",
    "interval 3 day",
    "interval 1 month",
    "timestamptz '2020-01-01 00:00:00+00'",
    "timestamptz '2020-07-01 00:00:00.123456+00'",
    "[timestamptz '2020-07-01 00:00:00+00']",
    "time '10:00:00.000001'",
    "'10:00:00+02'::timetz",
    "'a'::enum('a', 'b')",
    "[1, null, 2]",
    "[]::int[]",
    "[true, false]",
    "[date '2020-01-01']",
    "{'a': 1, 'b': [1::hugeint]}",
    "row(1, 'x')",
    "[row(1, 'x'), null]",
    "{'a': row(1, row(2))}",
    "map([row(1)], [row(2)])",
    "row(interval 1 month, 2)",
    "union_value(a := row(1, 2))",
    "map{'k': 1}",
    "map{{'a': 1}: [1]}",
    "union_value(x := 1)",
    "1.50::decimal(20, 3)",
    "'x\\x00'::blob",
    "date '2020-01-01'",
    "date '0001-01-01'",
    "date '9999-12-31'",
    "date 'infinity'",
    "date '10000-01-01'",
    "timestamp '2020-01-01 01:02:03.000004'",
    "timestamp '-infinity'",
    "timestamp_ns '2020-01-01 00:00:00.123456789'",
    "'2020-01-01'::timestamp_s",
    "timestamp_ms '2020-01-01 00:00:00.123'",
    "[1, 2]::int[2]",
    "1.5::float",
    "'nan'::double",
    "'-inf'::double",
    "true",
    "'é\\n'",
    "1::bignum",
    "'24:00:00'::time",
    "['24:00:00'::time, '01:02:03']",
    "7::variant",
    "[{'a': 'x'::variant}]",
    "map {'k': [1, 2]::variant}",
    "'POINT(1 2)'::geometry",
    "null",
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("value", VALUES)
def test_values(value: str, zone: str) -> None:
    sql = f"select {value} as v union all by name select null as v"
    outcomes = []
    for module, connection in CONNECTIONS:
        connection.execute(f"set timezone = '{zone}'")
        cursor = connection.execute(sql)
        kind = str(cursor.description[0][1]) if value != "'a'::enum('a', 'b')" else "ENUM"
        try:
            rows: object = cursor.fetchall()
        except module.Error as error:
            rows = type(error).__mro__[1].__name__
        outcomes.append((repr(rows), kind.strip('"')))
    ours, theirs = outcomes
    assert ours[0] == theirs[0]
    if not value.startswith(("row", "null")):
        assert ours[1] == theirs[1]


@pytest.mark.parametrize(
    "value",
    [
        "['b', null]::enum('a', 'b')[2]",
        "{'u': uuid '00000000-0000-0000-0000-000000000001', 'e': [['b']::enum('a', 'b')[1]]}",
    ],
)
def test_enums_in_arrays_of_fixed_size(value: str) -> None:
    """DuckDB does not read as Arrow what it writes: the numbers of the values came out."""
    ours, theirs = [c.execute(f"select {value}").fetchall() for _, c in CONNECTIONS]
    assert ours == theirs
    exported = CONNECTIONS[0][1].execute(f"select {value} as v").to_arrow_table()
    assert "'b'" in str(exported.to_pylist())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(max_size=5).filter(lambda t: "\0" not in t),
            st.none() | st.floats(),
            st.none() | st.dates(),
            st.none() | st.datetimes().map(lambda t: t.replace(fold=0)),
            st.none() | st.booleans(),
            st.none() | st.decimals(-(10**6), 10**6, places=2),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_random_rows_come_back(rows: list[tuple[Any, ...]]) -> None:
    with tidewheel.connect() as connection:
        connection.execute(
            "create table t(i bigint, s varchar, f double, d date, t timestamp, b boolean, "
            "x decimal(18, 2))"
        )
        connection.executemany("insert into t values (?, ?, ?, ?, ?, ?, ?)", rows)
        assert repr(connection.execute("from t").fetchall()) == repr(rows)
