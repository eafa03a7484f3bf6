"""Sums, differences and comparisons of dates and timestamps are DuckDB's, or left to DuckDB."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.constants import interval
from tidewheel.planner.number import NeedsKernel, Number, finished, finished_row
from tidewheel.planner.structural import compile_predicate, compile_value
from tidewheel.planner.structural_rows import predicate_by_row

SCHEMA = Schema(
    ["d", "u", "t", "n", "s"],
    [pa.date32(), pa.date32(), pa.timestamp("us"), pa.int32(), pa.int8()],
)
CON = duckdb.connect()
INTERVALS = [
    "INTERVAL 1 DAY",
    "INTERVAL 1 MONTH",
    "INTERVAL '-13 months 40 days -26 hours'",
    "INTERVAL (3) YEARS",
    "INTERVAL '90 minutes 1.000001 seconds'",
    "INTERVAL 2 WEEKS",
    "to_days(400)",
    "to_months(-1)",
    "(INTERVAL 1 QUARTER - INTERVAL 1 DAY)",
    "'1 day'::INTERVAL",
    "2 * INTERVAL 1 MONTH",
    "INTERVAL 9000 YEARS",
    "INTERVAL 3000000 DAYS",
    "INTERVAL 0 DAYS",
]
VALUES = [
    *(f"{m} {sign} {i}" for i in INTERVALS for m in ("d", "t") for sign in "+-"),
    *(f"({i} + d)::DATE" for i in INTERVALS),
    *("d + n", "d - n", "n + d", "d + 1", "d - 1", "d + s", "d + (s * 2 - n)", "d + 700000"),
    *("d - u", "u - d + n", "d - DATE '2020-02-29'", "DATE '2020-02-29' - d"),
    *("d - u::TIMESTAMP::DATE", "u::TIMESTAMP::DATE - d", "year(d + INTERVAL 1 MONTH)"),
    *("d::TIMESTAMP", "t::TIMESTAMP", "t::DATE + 1", "d::TIMESTAMP - INTERVAL 1 HOUR"),
    *("DATE '2020-01-31' + s", "DATE '2020-01-31'", "date_add(t, INTERVAL 1 MONTH)"),
    "date_trunc('month', d) + INTERVAL 1 MONTH - INTERVAL 1 DAY",
]  # fmt: skip
TESTS = [
    f"{left} {comparison} {right}"
    for left in ("d + INTERVAL 1 DAY", "d - 1", "t + INTERVAL '1 month'", "d::TIMESTAMP", "d", "u")
    for comparison in ("=", "<", ">=", "<>")
    for right in (
        *("u", "t", "d", "u + n", "t - INTERVAL 1 DAY", "t::DATE", "d + INTERVAL 1 MONTH"),
        *("DATE '2020-03-01'", "'2020-03-01'", "TIMESTAMP '2020-03-01'", "DATE 'infinity'"),
    )
]
DAY = 86_400_000_000
EDGES = [-719_162, 2_932_896, -719_163, 2_932_897, 0, -1]
FAR = [-(1 << 31) + 1, (1 << 31) - 1, (1 << 31) - 2, -(1 << 31) + 2, 106_751_991]
FAR_TIMES = [-(1 << 63) + 1, (1 << 63) - 1, (1 << 63) - 2, -9_223_372_022_400_000_000]
SPAN = st.integers(-719_162, 2_932_896)
NEAR = st.integers(18_310, 18_330)  # about 29 February 2020
DAYS = st.one_of(st.none(), NEAR, NEAR, SPAN, st.sampled_from(EDGES), st.sampled_from(FAR))
TIMES = st.one_of(
    st.none(),
    st.integers(18_310 * DAY, 18_330 * DAY),
    st.builds(lambda day, more: day * DAY + more, SPAN, st.integers(0, DAY - 1)),
    st.sampled_from([day * DAY + more for day in EDGES for more in (0, 1, DAY - 1)] + FAR_TIMES),
)
NUMBERS = st.one_of(st.none(), st.integers(-40, 40), st.sampled_from([(1 << 31) - 1, -(1 << 31)]))
SMALL = st.one_of(st.none(), st.integers(-128, 127))
ROWS = st.lists(st.tuples(DAYS, DAYS, TIMES, NUMBERS, SMALL), min_size=1, max_size=4)
Rows = list[tuple[int | None, ...]]
LAST_DAYS: Rows = [(d, d + 1, d * DAY + DAY - 1, 1, 1) for d in (18_292, 18_321, 18_320, 18_261)]


def table(rows: Rows) -> Delta:
    delta = Delta.of_rows(SCHEMA, rows, np.ones(len(rows), np.int64))
    CON.register("__moments", delta.to_arrow(None))
    return delta


@pytest.mark.parametrize("text", VALUES)
@settings(max_examples=12, deadline=None)
@given(rows=ROWS)
@example(rows=LAST_DAYS)
@example(rows=[(-719_162, 2_932_896, -719_162 * DAY, 0, 0), (None,) * 5])
def test_values(text: str, rows: Rows) -> None:
    value = compile_value(parse_one(text, dialect="duckdb"), SCHEMA)
    assert isinstance(value, Number)
    delta = table(rows)
    arrow = CON.sql(f"SELECT {text} AS v FROM __moments WHERE false").to_arrow_table()
    kind = arrow.column("v").type
    found = Schema(["v"], [kind]).kinds[0]
    compute, row_of = finished(value, kind), finished_row(value, kind)
    assert compute is not None
    assert row_of is not None
    try:
        want = CON.sql(f"SELECT {text} AS v FROM __moments").to_arrow_table().column("v")
    except duckdb.Error:
        with pytest.raises(NeedsKernel):
            compute(delta.cols, len(delta))
        with pytest.raises(NeedsKernel):
            list(map(row_of, rows))
        return
    held = found.values(found.load(want.combine_chunks()))
    try:
        assert list(found.values(compute(delta.cols, len(delta)))) == held
    except NeedsKernel:
        assert any(far(row) for row in rows) or "000" in text
    try:
        assert list(map(row_of, rows)) == held
    except NeedsKernel:
        assert any(far(row) for row in rows) or "000" in text


def far(row: tuple[int | None, ...]) -> bool:
    """Is there a value within 100 years of the ends, beyond them, or a number as large?"""
    d, u, t, n, _ = (0 if v is None else v for v in row)
    days = (d, u, t // DAY)
    return not all(-680_000 < v < 2_890_000 for v in days) or abs(n) > 40


@pytest.mark.parametrize("text", TESTS)
@settings(max_examples=6, deadline=None)
@given(rows=ROWS)
@example(rows=LAST_DAYS)
def test_conditions(text: str, rows: Rows) -> None:
    expression = parse_one(text, dialect="duckdb")
    test, row_test = compile_predicate(expression, SCHEMA), predicate_by_row(expression, SCHEMA)
    if test is None:
        assert row_test is None
        assert "infinity" in text
        return
    delta = table(rows)
    try:
        found = CON.sql(f"SELECT coalesce({text}, false) FROM __moments").fetchall()
        want = [value for (value,) in found]
    except duckdb.Error:
        want = None
    for run in (lambda: test(delta.cols, len(delta)).tolist(), lambda: list(map(row_test, rows))):
        try:
            assert run() == want
        except NeedsKernel:
            assert any(far(row) for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        *("d + t", "d + INTERVAL (n) DAY", "d - t", "t - t", "d + 1.5", "t + 1", "d + NULL"),
        *("t::TIMESTAMPTZ + INTERVAL 1 DAY", "TRY_CAST(d AS TIMESTAMP)", "t::TIMESTAMP_S"),
        *("d + INTERVAL 20000 YEARS", "d + TIME '12:00'", "d + 9000000000", "DATE 'infinity' + n"),
    ],
)  # fmt: skip
def test_what_is_left_to_duckdb(text: str) -> None:
    assert compile_value(parse_one(text, dialect="duckdb"), SCHEMA) is None


def test_an_interval_has_months_days_and_microseconds() -> None:
    text = "INTERVAL '-13 months -40 days -26 hours -3 minutes -4.5 seconds'"
    assert interval(parse_one(text, dialect="duckdb")) == (-13, -40, -93_784_500_000)
    assert interval(parse_one("DATE '2020-01-01'", dialect="duckdb")) is None
    assert interval(parse_one("INTERVAL (n) DAY", dialect="duckdb")) is None
