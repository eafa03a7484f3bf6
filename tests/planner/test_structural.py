"""Integer arithmetic in NumPy against DuckDB, up to and over the ends of the types."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.structural import (
    NeedsKernel,
    bits,
    compile_predicate,
    compile_value,
    finished,
)
from tidewheel.planner.structural_rows import predicate_by_row, value_by_row

TYPES = {"a": ("TINYINT", pa.int8()), "b": ("INTEGER", pa.int32()), "c": ("BIGINT", pa.int64())}
SCHEMA = Schema(TYPES, (t for _, t in TYPES.values()))
LEAVES = st.one_of(
    st.sampled_from(["a", "b", "c"]), st.sampled_from(["0", "1", "2", "-3", "100", "70000"])
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["2", "7", "100"])).map(lambda t: f"({t[0]} % {t[1]})"),
    ),
    max_leaves=4,
)


def number(width: int) -> st.SearchStrategy[int | None]:
    end = 1 << (width - 1)
    near = st.sampled_from([-end, -end + 1, end - 1, end // 2, 0, 1])
    return st.one_of(st.none(), st.integers(-9, 9), near, st.integers(-end, end - 1))


ROWS = st.lists(st.tuples(number(8), number(32), number(64)), min_size=1, max_size=4)
CON = duckdb.connect()


@settings(max_examples=300, deadline=None)
@given(text=EXPRESSIONS, rows=ROWS)
def test_arithmetic_equals_duckdb(
    text: str, rows: list[tuple[int | None, int | None, int | None]]
) -> None:
    expression = parse_one(text, dialect="duckdb")
    value = compile_value(expression, SCHEMA)
    assert value is not None
    delta = Delta.from_pylist(SCHEMA, [(*r, 1) for r in rows])
    table = delta.to_arrow(None)
    try:
        CON.register("__rows", table)
        found = CON.sql(f"SELECT {text} AS v FROM __rows").to_arrow_table().column("v")
    except duckdb.Error:
        found = None
    if isinstance(value, int):
        assert isinstance(expression, exp.Column)
        return
    kind = pa.int32() if found is None else found.type
    compute = finished(value, kind, bits(expression, SCHEMA))
    if compute is None:  # HUGEINT
        return
    try:
        ours = compute(delta.cols, len(delta))
    except NeedsKernel:
        return
    assert found is not None, "DuckDB refuses what was computed here"
    dumped = Schema(["v"], [kind]).kinds[0].dump(ours)
    assert dumped.to_pylist() == found.to_pylist()
    by_row = value_by_row(expression, SCHEMA, min(bits(expression, SCHEMA), kind.bit_width))
    assert [by_row(row) for row in rows] == found.to_pylist()


def test_small_numbers_need_no_kernel() -> None:
    value = compile_value(parse_one("b * 2 + 1"), SCHEMA)
    assert value is not None
    assert not isinstance(value, int)
    compute = finished(value, pa.int32(), 32)
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
        st.sampled_from(["n BETWEEN 0.06 - 0.01 AND 2 + 1", "s IS NULL", "i IN (SELECT 1)"]),
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
        held = [(i, n and int(n * 100), t and (t - DAY_0).days, s) for i, n, t, s in rows]  # type: ignore[operator]
        assert [by_row(row) for row in held] == [v for (v,) in found]


def test_constants_are_computed_once() -> None:
    for text in (
        "t < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "n BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
        "s IN ('MAIL', 'SHIP')",
    ):
        assert compile_predicate(parse_one(text, dialect="duckdb"), MIXED) is not None
