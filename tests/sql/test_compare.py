"""The multiset comparison against a brute-force one, and its rules one by one."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.sql.compare import compare, near

ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(["a", "b", None])),
    max_size=12,
)


def table(*columns: pa.Array) -> pa.Table:
    return pa.table(list(columns), names=[f"x{i}" for i in range(len(columns))])


def of_rows(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    return table(
        pa.array([row[0] for row in rows], pa.int32()),
        pa.array([row[1] for row in rows]) if rows else pa.array([], pa.string()),
    )


@settings(deadline=None, max_examples=50)
@given(ROWS, ROWS)
def test_differences_are_those_of_counters(left: list, right: list) -> None:
    found = compare(of_rows(left), of_rows(right))
    more, less = Counter(left), Counter(right)
    assert {row: n for n, row in found.only_left} == dict(more - less)
    assert {row: n for n, row in found.only_right} == dict(less - more)
    assert found.same == (more == less)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=8), st.randoms())
def test_doubles_with_noise_below_twelve_digits_are_the_same(values: list, random: object) -> None:
    noisy = [v * (1 + 1e-14) if math.isfinite(v * 1.1) else v for v in values]
    random.shuffle(noisy)  # type: ignore[attr-defined]
    left, right = pa.array(values, pa.float64()), pa.array(noisy, pa.float64())
    assert compare(table(left), table(right)).same


@settings(deadline=None, max_examples=50)
@given(st.floats(min_value=1e-200, max_value=1e200), st.sampled_from([1e-9, 1e-10]))
def test_doubles_that_differ_in_the_tenth_digit_differ(value: float, change: float) -> None:
    left, right = pa.array([value]), pa.array([value * (1 + change)])
    assert not compare(table(left), table(right)).same


def test_a_rounding_boundary_separates_nothing() -> None:
    below, above = 1.00000000000499, 1.00000000000501
    assert f"{below:.11e}" != f"{above:.11e}"
    found = compare(table(pa.array([below, below])), table(pa.array([above, below])))
    assert found.same
    assert near(below, above)


def test_one_of_two_equal_rows_missing_is_found() -> None:
    found = compare(table(pa.array([1, 1, 2])), table(pa.array([1, 2])))
    assert found.only_left == [(1, (1,))]
    assert found.only_right == []


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (pa.array([1], pa.int8()), pa.array([1], pa.int64()), True),
        (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5")]), True),
        (pa.array([Decimal("100")]), pa.array([100]), True),
        (pa.array([Decimal("1.5000000000001")]), pa.array([Decimal("1.5")]), False),
        (pa.array([Decimal(10**37)]), pa.array([Decimal(10**37 + 1)]), False),
        (pa.array([Decimal("1.5")]), pa.array([1.5]), True),
        (pa.array([None], pa.int32()), pa.array([0]), False),
        (pa.array([None], pa.int32()), pa.array([None], pa.string()), True),
        (pa.array([math.nan]), pa.array([math.nan]), True),
        (pa.array([-0.0]), pa.array([0.0]), True),
        (pa.array([math.inf]), pa.array([-math.inf]), False),
        (pa.array([dt.date(2020, 1, 1)]), pa.array([dt.datetime(2020, 1, 1)]), True),
        (pa.array([dt.date(2020, 1, 1)]), pa.array([dt.datetime(2020, 1, 1, 1)]), False),
        (pa.array(["1"]), pa.array(["1 "]), False),
        (pa.array([[1, 2]]), pa.array([[1, 2]]), True),
        (pa.array([[1, 2]]), pa.array([[2, 1]]), False),
        (pa.array([{"a": 1.0}]), pa.array([{"a": 1.0 + 1e-15}]), True),
        (pa.array([b"a"]), pa.array([b"a"], pa.large_binary()), True),
    ],
)  # fmt: skip
def test_rules(left: pa.Array, right: pa.Array, same: bool) -> None:
    assert compare(table(left), table(right)).same is same
    assert compare(table(right), table(left)).same is same


def test_widths_are_a_problem_not_a_crash() -> None:
    found = compare(table(pa.array([1])), table(pa.array([1]), pa.array([2])))
    assert not found.same
    assert found.problem == "1 columns against 2"


def test_names_and_order_do_not_count() -> None:
    left = pa.table({"a": [1, 2, 3]})
    right = pa.table({"b": [3, 1, 2]})
    assert compare(left, right).same
    double = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert compare(double, double).same


def test_sums_that_cancel_out_are_near_by_what_was_added_up() -> None:
    groups, sums = pa.array(["a", "b"]), pa.array([0.0, 1.0])
    sizes = table(groups, pa.array([0.6, 9.0]))
    left, right = table(groups, sums), table(groups, pa.array([-5.6e-17, 1.0]))
    assert not compare(left, right).same
    assert compare(left, right, sizes).same
    wrong = table(groups, pa.array([0.0, 1.0 + 1e-10]))
    assert [row for _, row in compare(left, wrong, sizes).only_right] == [("b", 1.0 + 1e-10)]
    assert not compare(left, right, table(groups.slice(1), sums.slice(1))).same


@pytest.mark.parametrize("call", ["sum(d)", "avg(d)", "sum(d) FILTER (d <> 9), count(*)"])
def test_verify_takes_sums_that_cancel_out(call: str) -> None:
    """A maintained sum is exact; DuckDB's has what its additions left, here -5.6e-17."""
    with tidewheel.connect(threads=1) as con:
        con.execute("CREATE TABLE t (g INTEGER, d DOUBLE)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT g, {call} FROM t GROUP BY g")
        con.execute("INSERT INTO t VALUES (1, 0.1), (1, 0.2), (1, -0.3), (1, -0.1), (1, -0.2)")
        con.execute("INSERT INTO t VALUES (1, 0.3), (2, 1e300)")
        plain = con.execute(f"SELECT {call} FROM t WHERE g = 1").fetchone()
        assert con.execute("SELECT * EXCLUDE g FROM v WHERE g = 1").fetchone() != plain
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    "call",
    [
        *(
            "skewness(x)",
            "skewness(t)",
            "stddev(t)",
            "sem(t) AS s",
            "1 + corr(x, t)",
            "regr_r2(x, t)",
        ),
        *("covar_pop(x, t)", "regr_slope(t, x)", "regr_sxy(t, x)"),
    ],
)
def test_verify_takes_statistics_that_cancel_out(call: str) -> None:
    """A maintained one is made of exact sums; DuckDB's digits end with those of large values."""
    with tidewheel.connect(threads=1) as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 10 AS g, (i * 37 % 200) * 1.25::DOUBLE AS x, "
            "1.7e9 + i * 420 AS t FROM range(300) AS r(i)"
        )
        con.execute(f"CREATE MATERIALIZED VIEW v AS SELECT g, {call} FROM t GROUP BY g")
        con.execute("DELETE FROM t WHERE x = 100")
        con.execute("INSERT INTO t VALUES (3, 77, 1.7e9), (4, 8, 1.6e9)")
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("rows", ["OVER (PARTITION BY g)", "OVER w", "FILTER (x > 9) OVER w"])
@pytest.mark.parametrize("call", ["var_pop(t)", "stddev(t)", "1 + corr(x, t)", "regr_sxy(t, x)"])
def test_verify_takes_statistics_of_windows(call: str, rows: str) -> None:
    with tidewheel.connect(threads=1) as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 10 AS g, (i * 37 % 200) * 1.25::DOUBLE AS x, "
            "(1e9 + i * 7 % 11)::BIGINT AS t FROM range(300) AS r(i)"
        )
        con.execute(
            f"CREATE MATERIALIZED VIEW v AS SELECT g, {call} {rows} FROM t "
            "WINDOW w AS (PARTITION BY g ORDER BY x)"
        )
        con.execute("DELETE FROM t WHERE x = 100")
        con.execute("INSERT INTO t VALUES (3, 77, 1700000000), (4, 8, 1600000000)")
        assert con.execute("VERIFY VIEW v").fetchall() == []
