"""Dates and timestamps computed without a statement are what DuckDB computes."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

import tidewheel
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.number import NeedsKernel, Number, finished, finished_row
from tidewheel.planner.structural import compile_predicate, compile_value
from tidewheel.planner.structural_rows import predicate_by_row

SCHEMA = Schema(["d", "t"], [pa.date32(), pa.timestamp("us")])
CON = duckdb.connect()
UNITS = ["second", "minutes", "hour", "day", "week", "month", "quarter", "year"]
PARTS = ["year", "quarter", "month", "week", "day", "dow", "isodow", "doy"]
VALUES = [
    *(f"date_trunc('{unit}', {column})" for unit in UNITS for column in ("t", "d", "t::DATE")),
    *(f"extract({part} FROM {column})" for part in PARTS for column in ("t", "d")),
    *(f"extract({part} FROM t)" for part in ("hour", "minute", "second")),
    *(f"{part}(t)" for part in ("year", "month", "dayofweek", "weekofyear", "hour", "dayofyear")),
    *("t::DATE", "date_trunc('month', t)::DATE", "year(t) * 100 + month(t)", "d::DATE"),
    "extract(week FROM date_trunc('month', t))",
]
CONSTANTS = [
    "TIMESTAMP '2020-02-29 12:00:00'",
    "'2020-02-29 12:00:00.000001'",
    "DATE '2020-02-29'",
    "'2020-02-29'",
    "DATE '2020-02-29' + INTERVAL 1 MONTH",
    "TIMESTAMP '2020-02-29' - INTERVAL '90 minutes'",
    "TIMESTAMP 'infinity'",
    "'2020-02-29 12:00:00.0000015'::TIMESTAMP_NS",
    "'2020-02-29 00:30:00+02'",
    "NULL",
]
TESTS = [
    f"{side} {comparison} {constant}"
    for side in ("t", "d", "t::DATE", "date_trunc('hour', t)", "date_trunc('year', d)")
    for comparison in ("=", "<", ">=", "<>")
    for constant in CONSTANTS
]
MOMENTS = st.one_of(
    st.none(),
    st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 30)),
    st.datetimes(datetime.datetime(2020, 2, 28), datetime.datetime(2020, 3, 1)),
    st.integers(0, 48).map(lambda h: datetime.datetime(2020, 2, 28, 12) + h * HOUR),
    st.integers(0, 4000).map(lambda d: datetime.datetime(1965, 1, 1) + d * 24 * HOUR),
)
HOUR = datetime.timedelta(hours=1)
ROWS = st.lists(MOMENTS, min_size=1, max_size=8)
Rows = list[datetime.datetime | None]


def table(moments: Rows) -> Delta:
    rows = [(None if m is None else m.date(), m, 1) for m in moments]
    delta = Delta.from_pylist(SCHEMA, rows)
    CON.register("__moments", delta.to_arrow(None))
    return delta


def by_row(moments: Rows) -> list[tuple[int | None, int | None]]:
    """Rows as the engine holds them: days and microseconds."""
    zero, microsecond = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
    times = [None if m is None else (m - zero) // microsecond for m in moments]
    return [(None if t is None else t // 86_400_000_000, t) for t in times]


@pytest.mark.parametrize("text", VALUES)
@settings(max_examples=25, deadline=None)
@given(moments=ROWS)
@example(moments=[datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 58)])
@example(moments=[datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), None])
def test_values(text: str, moments: Rows) -> None:
    value = compile_value(parse_one(text, dialect="duckdb"), SCHEMA)
    assert value is not None
    delta = table(moments)
    want = CON.sql(f"SELECT {text} AS v FROM __moments").to_arrow_table().column("v")
    if isinstance(value, int):
        return
    compute, row_of = finished(value, want.type), finished_row(value, want.type)
    assert compute is not None
    kind = Schema(["v"], [want.type]).kinds[0]
    assert kind.dump(compute(delta.cols, len(delta))).to_pylist() == want.to_pylist()
    if row_of is not None:
        found = kind.of([row_of(row) for row in by_row(moments)])
        assert kind.dump(found).to_pylist() == want.to_pylist()


@pytest.mark.parametrize("text", TESTS)
@settings(max_examples=10, deadline=None)
@given(moments=ROWS)
def test_conditions(text: str, moments: Rows) -> None:
    test = compile_predicate(parse_one(text, dialect="duckdb"), SCHEMA)
    row_test = predicate_by_row(parse_one(text, dialect="duckdb"), SCHEMA)
    if test is None:
        assert row_test is None
        return
    delta = table(moments)
    want = [v for (v,) in CON.sql(f"SELECT coalesce({text}, false) FROM __moments").fetchall()]
    assert test(delta.cols, len(delta)).tolist() == want
    if row_test is not None:
        assert [row_test(row) for row in by_row(moments)] == want


def test_what_is_taken() -> None:
    taken = {
        text
        for text in TESTS
        if compile_predicate(parse_one(text, dialect="duckdb"), SCHEMA) is not None
    }
    for constant in CONSTANTS[:6]:
        assert f"t >= {constant}" in taken
        assert f"date_trunc('hour', t) < {constant}" in taken
    for constant in CONSTANTS[6:]:
        if "+02" not in constant:
            assert f"t >= {constant}" not in taken


@pytest.mark.parametrize("value", [-(1 << 63) + 1, (1 << 63) - 1, -62_135_596_800_000_001])
def test_what_is_beyond_the_years_is_left_to_duckdb(value: int) -> None:
    number = compile_value(parse_one("date_trunc('day', t)", dialect="duckdb"), SCHEMA)
    assert isinstance(number, Number)
    assert number.row is not None
    compute = finished(number, pa.timestamp("us"))
    assert compute is not None
    with pytest.raises(NeedsKernel):
        compute([np.zeros(1, np.int32), np.array([value])], 1)
    with pytest.raises(NeedsKernel):
        number.row((0, value))


def test_a_view_takes_them_all() -> None:
    query = """SELECT date_trunc('month', t) AS m, t::DATE AS d, hour(t) AS h, count(*) AS n
        FROM e WHERE t >= '2020-01-01' OR t < TIMESTAMP '1900-01-01' GROUP BY ALL"""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (t TIMESTAMP)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "kernel" not in str(con.execute("EXPLAIN VIEW v").fetchall())
        for change in (
            "INSERT INTO e VALUES ('2020-02-29 13:14:15.5'), (NULL), ('2019-12-31 23:59:59')",
            "INSERT INTO e VALUES ('infinity'), ('-infinity'), ('0044-03-15 (BC)')",
            "INSERT INTO e VALUES ('290000-01-01 10:00:00'), ('2020-03-01')",
            "UPDATE e SET t = t + INTERVAL 1 DAY WHERE t < '2021-01-01'",
            "DELETE FROM e WHERE t = 'infinity'",
        ):
            con.execute(change)
            con.execute("VERIFY VIEW v")
            want = con.execute(f"SELECT * FROM ({query}) ORDER BY ALL").to_arrow_table()
            assert con.execute("SELECT * FROM v ORDER BY ALL").to_arrow_table() == want


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM x UNION ALL SELECT b FROM y",
        "SELECT d AS b FROM x UNION ALL SELECT t FROM y",
        "SELECT d FROM x UNION ALL BY NAME SELECT b FROM y",
        "SELECT a FROM x EXCEPT SELECT 1.5",
    ],
)
def test_a_union_that_casts_is_no_error(query: str) -> None:
    """The type of such a cast is text, not parsed."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE x (a INTEGER, d DATE); CREATE TABLE y (b BIGINT, t TIMESTAMP)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO x VALUES (1, '2020-02-29')")
        con.execute("INSERT INTO y VALUES (5, '2020-02-29 12:00:00')")
        assert con.execute("SELECT count(*) > 0 FROM v").fetchall() == [(True,)]
        assert con.execute("VERIFY VIEW v").fetchall() == []
