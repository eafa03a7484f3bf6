"""Texts of many rows by Arrow, or row by row, against DuckDB."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from tidewheel.engine.state.columns import column_type, from_arrow
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.by_rows import MOST
from tidewheel.planner.number import NeedsKernel, Number, finished
from tidewheel.planner.structural import compile_predicate, compile_value

CON = duckdb.connect()
SCHEMA = Schema("abi", [pa.string(), pa.string(), pa.int32()])
TEXTS = [None, "", "a", "x/y", "É", "ß", "\U0001f600b", "e\u0301", " z ", "AbC", "%", "a\x00b", "ǆ"]
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "'/'", "''", "'é'", "i::VARCHAR"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} || {t[1]} || {t[2]}"),
        inner.map(lambda t: f"({t} || a || (i + 1))"),
        st.tuples(st.sampled_from(["concat", "coalesce", "nullif"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(inner, inner).map(lambda t: f"concat_ws({t[0]}, b, {t[1]}, i)"),
        st.tuples(st.sampled_from(["lower", "upper", "trim"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(inner, inner).map(lambda t: f"CASE WHEN i > 0 THEN {t[0]} ELSE {t[1]} END"),
    ),
    max_leaves=5,
)


def delta_of(n: int, seed: int) -> Delta:
    """Rows that are part of longer arrays."""
    random = np.random.default_rng(seed)
    texts = [[TEXTS[at] for at in random.integers(0, len(TEXTS), n + 1)] for _ in range(2)]
    numbers = [None if v == 3 else v for v in random.integers(-3, 4, n + 1).tolist()]
    arrays = [pa.array(v, t) for v, t in zip([*texts, numbers], SCHEMA.types, strict=True)]
    return Delta(SCHEMA, [from_arrow(a.slice(1)) for a in arrays], np.ones(n, np.int64))


@settings(max_examples=300, deadline=None)
@given(
    text=EXPRESSIONS,
    length=st.booleans(),
    n=st.sampled_from([1, 2, 20, MOST + 1]),
    seed=st.integers(0, 9),
)
def test_texts_equal_duckdb(text: str, length: bool, n: int, seed: int) -> None:
    delta = delta_of(n, seed)
    text = f"length({text})" if length else text
    value = compile_value(parse_one(text, dialect="duckdb"), SCHEMA)
    CON.register("__rows", delta.to_arrow(None))
    found = CON.sql(f"SELECT {text} AS v FROM __rows").to_arrow_table().column("v")
    if value is None or isinstance(value, int):
        return
    made = finished(value, found.type) if isinstance(value, Number) else value.column(found.type)
    assert made is not None
    try:
        ours = column_type(found.type).dump(made(delta.cols, n))
    except NeedsKernel:
        return
    assert ours.type == found.type
    assert ours.to_pylist() == found.to_pylist()


@pytest.mark.parametrize(
    "text", ["a || '/' || b", "concat(a, i, b)", "coalesce(b, a) || i", "length(a || b)"]
)
def test_arrow_computes_whatever_the_number_of_rows(text: str) -> None:
    value = compile_value(parse_one(text, dialect="duckdb"), SCHEMA)
    kind = pa.int64() if isinstance(value, Number) else pa.string()
    assert value is not None
    assert not isinstance(value, int)
    made = finished(value, kind) if isinstance(value, Number) else value.column(kind)
    assert made is not None
    assert len(made(delta_of(10_000, 0).cols, 10_000)) == 10_000


def test_some_hundred_rows_are_asked_one_by_one() -> None:
    predicate = compile_predicate(parse_one("starts_with(a, b)", dialect="duckdb"), SCHEMA)
    assert predicate is not None
    few, many = delta_of(MOST, 0), delta_of(MOST + 1, 0)
    assert predicate(few.cols, MOST).any()
    with pytest.raises(NeedsKernel):
        predicate(many.cols, MOST + 1)
