"""Arithmetic and conditions in NumPy against DuckDB, up to and over the ends of the types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from tidewheel.engine.state.columns import from_arrow
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.number import NeedsKernel, Number, finished, finished_row
from tidewheel.planner.structural import compile_predicate, compile_value
from tidewheel.planner.structural_rows import predicate_by_row

SCHEMA = Schema("abc", [pa.int8(), pa.int32(), pa.int64()])
LEAVES = st.one_of(
    st.sampled_from(["a", "b", "c"]), st.sampled_from(["0", "1", "2", "-3", "100", "70000"])
)
CHOICE = st.sampled_from(["coalesce", "greatest", "least"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["2", "7", "100"])).map(lambda t: f"({t[0]} % {t[1]})"),
        st.tuples(CHOICE, inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    ),
    max_leaves=4,
)


def number(width: int) -> st.SearchStrategy[int | None]:
    end = 1 << (width - 1)
    near = st.sampled_from([-end, -end + 1, end - 1, end // 2, 0, 1])
    return st.one_of(st.none(), st.integers(-9, 9), near, st.integers(-end, end - 1))


ROWS = st.lists(st.tuples(number(8), number(32), number(64)), min_size=1, max_size=4)
CON = duckdb.connect()
CON.execute("SET arrow_lossless_conversion = true")  # a HUGEINT stays one
CON.execute("PRAGMA disable_optimizer")  # it turns 100 * (a * 2) into 200 * a, which no TINYINT is


def delta_of(schema: Schema, rows: list[tuple[object, ...]]) -> Delta:
    """The rows as a delta."""
    columns = zip(*rows, strict=True)
    cols = [
        kind.of([*values]) if kind.wide else from_arrow(pa.array([*values], kind.arrow))
        for kind, values in zip(schema.kinds, columns, strict=True)
    ]
    return Delta(schema, cols, np.ones(len(rows), np.int64))


def check(text: str, schema: Schema, rows: list[tuple[object, ...]]) -> None:
    """What is computed here is what DuckDB computes, to the last bit and NULL."""
    value = compile_value(parse_one(text, dialect="duckdb"), schema)
    assert value is not None
    if isinstance(value, int):
        return
    delta = delta_of(schema, rows)
    CON.register("__rows", delta.to_arrow(None))
    kind = CON.sql(f"SELECT {text} AS v FROM __rows WHERE false").to_arrow_table().column("v").type
    try:
        found = CON.sql(f"SELECT {text} AS v FROM __rows").to_arrow_table().column("v").to_pylist()
    except duckdb.Error:
        found = None
    compute = finished(value, kind)
    if compute is None:  # of another type
        return
    try:
        ours = compute(delta.cols, len(delta))
    except NeedsKernel:
        return
    assert found is not None, "DuckDB refuses what was computed here"
    dumped = Schema(["v"], [kind]).kinds[0].dump(ours)
    assert dumped.type == kind
    assert list(map(repr, dumped.to_pylist())) == list(map(repr, found))
    row_of = finished_row(value, kind)
    if row_of is None:
        return
    held = [tuple(map(_held, row, schema.types)) for row in rows]
    try:
        values = [row_of(row) for row in held]
    except NeedsKernel:
        return
    again = Schema(["v"], [kind]).kinds[0]
    assert list(map(repr, again.dump(again.of(values)).to_pylist())) == list(map(repr, found))


def _held(value: Any, kind: pa.DataType) -> Any:
    """A value as rows of the engine have it."""
    if isinstance(value, Decimal):
        return int(value.scaleb(kind.scale))
    return (value - DAY_0).days if isinstance(value, datetime.date) else value


@settings(max_examples=300, deadline=None)
@given(text=EXPRESSIONS, rows=ROWS)
def test_arithmetic_equals_duckdb(
    text: str, rows: list[tuple[int | None, int | None, int | None]]
) -> None:
    check(text, SCHEMA, [*rows])


HUGE = Schema(
    "abh", [pa.int8(), pa.int64(), CON.sql("SELECT 1::HUGEINT h").to_arrow_table().schema[0].type]
)
HUGE_LEAVES = st.sampled_from([*["a", "b", "h", "h", "2", "7"], *["b::HUGEINT", "3::HUGEINT"]])
HUGE_EXPRESSIONS = st.recursive(
    HUGE_LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["% 7", "// 3"])).map(lambda t: f"({t[0]} {t[1]})"),
        st.tuples(CHOICE, inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"CASE WHEN {t[0]} > 1.5 THEN {t[1]} END"),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"({t})::BIGINT"),
        inner.map(lambda t: f"({t} * 1.5)"),
        inner.map(lambda t: f"({t} / 3)"),
        inner.map(lambda t: f"({t} * 1.5e0)"),
    ),
    max_leaves=4,
)


@settings(max_examples=600, deadline=None)
@given(
    text=HUGE_EXPRESSIONS,
    rows=st.lists(
        st.tuples(number(8), number(64), st.one_of(number(64), number(80), number(128))),
        min_size=1,
        max_size=4,
    ),
)
def test_hugeints_equal_duckdb(text: str, rows: list[tuple[object, ...]]) -> None:
    if compile_value(parse_one(text, dialect="duckdb"), HUGE) is not None:
        check(text, HUGE, rows)


def test_hugeints_need_no_kernel() -> None:
    value = compile_value(parse_one("h * b + 1"), HUGE)
    assert isinstance(value, Number)
    compute = finished(value, HUGE.types[2])
    assert compute is not None
    delta = delta_of(HUGE, [(1, 3, 1 << 40), (1, None, 5)])
    kind = HUGE.kinds[2]
    assert kind.values(compute(delta.cols, 2)) == [3 * (1 << 40) + 1, None]
    assert value.row is not None
    assert value.row((1, 3, 1 << 100)) == 3 * (1 << 100) + 1


NUMERIC = Schema(
    ["i", "j", "m", "n", "w", "x", "t"],
    [
        pa.int16(),
        pa.int64(),
        pa.decimal128(9, 2),
        pa.decimal128(18, 4),
        pa.decimal128(38, 3),
        pa.float64(),
        pa.date32(),
    ],
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    end = 10**precision - 1
    whole = st.one_of(
        st.integers(-999, 999),
        st.sampled_from([end, -end, end // 7, 1 << 53, (1 << 53) + 1, 1 << 61, 0]),
    )
    return st.one_of(st.none(), whole.map(lambda v: Decimal(max(-end, min(v, end))).scaleb(-scale)))


NUMERIC_ROWS = st.lists(
    st.tuples(
        number(16),
        number(64),
        decimals(9, 2),
        decimals(18, 4),
        decimals(25, 3),
        st.one_of(st.none(), st.floats()),
        st.one_of(st.none(), st.dates(datetime.date(1, 1, 1))),
    ),
    min_size=1,
    max_size=5,
)
NUMERIC_LEAVES = st.sampled_from(
    [
        *["i", "j", "m", "n", "w", "x", "1", "7", "100.00", "0.5", "0.001", "year(t)", "day(t)"],
        *["EXTRACT(MONTH FROM t)", "CASE WHEN i > 0 THEN m ELSE 0 END"],
        *["CASE WHEN t IS NULL THEN 1 END"],
    ]
)
NUMERIC_EXPRESSIONS = st.recursive(
    NUMERIC_LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        st.tuples(CHOICE, inner, inner, inner).map(lambda t: f"{t[0]}({', '.join(t[1:])})"),
        st.tuples(inner, st.sampled_from(["<", "=", ">="]), inner, inner, inner).map(
            lambda t: f"CASE WHEN {t[0]} {t[1]} {t[2]} THEN {t[3]} ELSE {t[4]} END"
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=600, deadline=None)
@given(text=NUMERIC_EXPRESSIONS, rows=NUMERIC_ROWS)
def test_decimals_and_doubles_equal_duckdb(text: str, rows: list[tuple[object, ...]]) -> None:
    try:
        CON.sql(
            f"SELECT {text} FROM (SELECT 1::SMALLINT i, 1::BIGINT j, 1::DECIMAL(9,2) m, "
            "1::DECIMAL(18,4) n, 1::DECIMAL(38,3) w, 1e0 x, DATE '2020-01-01' t) LIMIT 0"
        )
    except duckdb.Error:  # too many digits for a DECIMAL
        return
    check(text, NUMERIC, rows)


DECIMALS = st.recursive(
    st.sampled_from(["i", "j", "m", "n", "w", "7", "0.005", "-2.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(
            inner, st.sampled_from(["(18, 2)", "(9, 1)", "(18, 0)", "(4, 3)", "(38, 5)"])
        ).map(lambda t: f"CAST({t[0]} AS DECIMAL{t[1]})"),
        inner.map(lambda t: f"CASE WHEN CAST({t} AS DECIMAL(18, 1)) > 0.5 THEN {t} END"),
    ),
    max_leaves=4,
)


@settings(max_examples=400, deadline=None)
@given(text=DECIMALS, rows=NUMERIC_ROWS)
def test_casts_to_decimals_equal_duckdb(text: str, rows: list[tuple[object, ...]]) -> None:
    if compile_value(parse_one(text, dialect="duckdb"), NUMERIC) is not None:
        test_decimals_and_doubles_equal_duckdb.hypothesis.inner_test(text, rows)  # type: ignore[attr-defined]


def test_prices_that_are_cast_need_no_kernel() -> None:
    value = compile_value(parse_one("CAST(n * m AS DECIMAL(18, 2))", dialect="duckdb"), NUMERIC)
    assert isinstance(value, Number)
    assert value.row is not None
    assert value.row((None, None, 150, 1_0005, None, None, None)) == 150
    assert value.row((None, None, -500, 3001, None, None, None)) == -150
    assert value.row((None, None, -500, 3010, None, None, None)) == -151
    compute = finished(value, pa.decimal128(18, 2))
    assert compute is not None
    rows = [(1, 1, Decimal("-5.00"), Decimal("0.3010"), None, None, None)]
    assert compute(delta_of(NUMERIC, [*rows]).cols, 1).tolist() == [-151]


def test_prices_need_no_kernel() -> None:
    value = compile_value(parse_one("m * (1 - n) / 2.0"), NUMERIC)
    assert value is not None
    assert not isinstance(value, int)
    compute = finished(value, pa.float64())
    assert compute is not None
    row = (None, None, Decimal("10.00"), Decimal("0.2500"), None, None, None, 1)
    delta = Delta.from_pylist(NUMERIC, [row])
    assert compute(delta.cols, 1).tolist() == [3.75]


def test_small_numbers_need_no_kernel() -> None:
    value = compile_value(parse_one("b * 2 + 1"), SCHEMA)
    assert value is not None
    assert not isinstance(value, int)
    compute = finished(value, pa.int32())
    assert compute is not None
    delta = Delta.from_pylist(SCHEMA, [(1, 20, 3, 1), (1, -7, None, 1)])
    assert compute(delta.cols, 2).tolist() == [41, -13]


DAY_0 = datetime.date(1970, 1, 1)
MIXED = Schema(["i", "n", "t", "s"], [pa.int32(), pa.decimal128(15, 2), pa.date32(), pa.string()])
DATES = [
    "DATE '2020-02-29'",
    "DATE '2019-02-28' + INTERVAL '1' YEAR",
    "DATE '2020-02-28' + INTERVAL '1' DAY",
    "DATE '2020-03-01' - INTERVAL '36' HOUR",
    "'infinity'::DATE",
    "TIMESTAMP '2020-02-29 00:00:00'",
    "NULL",
]
NUMBERS = ["3", "0.06 - 0.01", "1 + 2", "-(2 - 1)", "2 * 0.5", "0.055", "1e0", "2::TINYINT", "NULL"]
COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
PREDICATES = st.recursive(
    st.one_of(
        st.tuples(st.just("t"), COMPARISON, st.sampled_from(DATES)).map(" ".join),
        st.tuples(st.sampled_from("in"), COMPARISON, st.sampled_from(NUMBERS)).map(" ".join),
        st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4).map(
            lambda found: f"n IN ({', '.join(found)})"
        ),
        st.lists(st.sampled_from(["'a'", "'b'", "''", "NULL"]), min_size=1, max_size=3).map(
            lambda found: f"s IN ({', '.join(found)})"
        ),
        st.builds(
            lambda column, is_in, some: f"{column[0]} {is_in} ({', '.join((*column[1], *some))})",
            st.sampled_from(
                [
                    ("i", [str(n) for n in range(2, 12)]),
                    ("n", [f"{n}.05" for n in range(9)]),
                    ("t", [f"DATE '2020-02-{n}'" for n in range(19, 29)]),
                    ("s", [f"'{c}'" for c in "bcdefghijk"]),
                ]
            ),
            st.sampled_from(["IN", "NOT IN"]),
            st.sampled_from([[], [], ["NULL"]]),
        ),
        st.sampled_from(["n BETWEEN 0.06 - 0.01 AND 2 + 1", "s IS NULL", "i IN (SELECT 1)"]),
        st.sampled_from(["n < i", "n * 2 >= i + 1", "i / 2 > n", "year(t) = 2020", "n <> 0.055"]),
        st.tuples(
            st.just("s"),
            st.sampled_from(["LIKE", "NOT LIKE"]),
            st.sampled_from(["'a%'", "'_'", "'%'", "''", "'%b'", "'\\%'"]),
        ).map(" ".join),
    ),
    lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
        lambda t: f"({' '.join(t)})"
    ),
    max_leaves=3,
)
MIXED_ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-2, 4)),
        st.one_of(st.none(), st.sampled_from(["0.05", "0.06", "1.00", "3.00"]).map(Decimal)),
        st.one_of(st.none(), st.dates(datetime.date(2020, 2, 27), datetime.date(2020, 3, 1))),
        st.one_of(st.none(), st.sampled_from(["a", "b", ""])),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(text=PREDICATES, rows=MIXED_ROWS)
def test_predicates_equal_duckdb(text: str, rows: list[tuple[object, ...]]) -> None:
    test = compile_predicate(parse_one(text, dialect="duckdb"), MIXED)
    if test is None:
        return
    delta = Delta.from_pylist(MIXED, [(*r, 1) for r in rows])
    CON.register("__mixed", delta.to_arrow(None))
    found = CON.sql(f"SELECT coalesce({text}, false) FROM __mixed").fetchall()
    assert test(delta.cols, len(delta)).tolist() == [v for (v,) in found]
    by_row = predicate_by_row(parse_one(text, dialect="duckdb"), MIXED)
    if by_row is not None:
        held = [tuple(map(_held, row, MIXED.types)) for row in rows]
        assert [by_row(row) for row in held] == [v for (v,) in found]


def test_constants_are_computed_once() -> None:
    for text in (
        "t < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "n BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
        "s IN ('MAIL', 'SHIP')",
        "s NOT IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j')",
        "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
    ):
        assert compile_predicate(parse_one(text, dialect="duckdb"), MIXED) is not None
