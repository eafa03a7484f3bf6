"""Lists that are put together without a statement, against DuckDB."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import parse_one

from tidewheel.engine.state.columns import column_type, from_arrow
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner.list_columns import Lists
from tidewheel.planner.number import NeedsKernel, Number, finished
from tidewheel.planner.structural import compile_predicate, compile_value

CON = duckdb.connect()
CON.execute("SET arrow_lossless_conversion = true")
VALUES = {
    "INTEGER": ["-1", "0", "1", "2147483647"],
    "VARCHAR": ["''", "'a'", "'é'", "'xyz'"],
    "DOUBLE": ["'nan'", "0.0", "-0.0", "1.5"],
    "DECIMAL(9,2)": ["1.25", "0"],
    "DECIMAL(30,2)": ["1.25", "0"],
    "DATE": ["'2020-01-01'", "'infinity'"],
    "TIMESTAMP": ["'2020-01-01'", "'-infinity'"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "HUGEINT": ["1", "5", "170141183460469231731687303715884105727"],
}
EXPRESSIONS = [
    *["list_append(l, x)", "array_push_back(l, x)", "list_prepend(x, l)", "array_push_front(l, x)"],
    *["l || m", "l || [x]", "[x] || (l || m)", "[x, y, x]", "list_concat(l, m)", "list_cat(l, m)"],
    *["list_append(list_append(l, x), y)", "len(l)", "array_length(m, 1)", "[NULL, x]"],
    *["list_contains(l, x)", "NOT list_contains(l, y)", "NOT array_has(m, x)"],
]
NAMES = ["l", "m", "x", "y"]


def table(kind: str, n: int, seed: int) -> pa.Table:
    """Rows of lists and values, NULLs and empty lists among them, that begin within an array."""
    rng = random.Random(seed)

    def value() -> str:
        return "NULL" if rng.random() < 0.2 else f"{rng.choice(VALUES[kind])}::{kind}"

    def values() -> str:
        listed = f"[{', '.join(value() for _ in range(rng.randrange(4)))}]"
        return ("NULL" if rng.random() < 0.2 else listed) + f"::{kind}[]"

    rows = (f"({i}, {values()}, {values()}, {value()}, {value()})" for i in range(n + 1))
    query = f"SELECT * EXCLUDE (i) FROM (VALUES {', '.join(rows)}) t(i, l, m, x, y) ORDER BY i"
    return CON.sql(query).to_arrow_table().combine_chunks().slice(1)


@pytest.mark.parametrize("kind", VALUES)
def test_lists_equal_duckdb(kind: str) -> None:
    computed = 0
    for seed in range(4):
        rows = table(kind, (1, 3, 30, 600)[seed], seed)
        schema = Schema(NAMES, rows.schema.types)
        n = rows.num_rows
        delta = Delta(schema, [from_arrow(c) for c in rows.columns], np.ones(n, np.int64))
        CON.register("__rows", delta.to_arrow(None))
        for text in EXPRESSIONS:
            found = CON.sql(f"SELECT {text} AS v FROM __rows").to_arrow_table()["v"]
            parsed = parse_one(text, dialect="duckdb")
            try:
                if found.type == CON.sql("SELECT TRUE").to_arrow_table()[0].type:
                    predicate = compile_predicate(parsed, schema)
                    assert predicate is not None
                    held = predicate(delta.cols, n).tolist()
                    assert held == [bool(v) for v in found.to_pylist()]
                else:
                    value = compile_value(parsed, schema)
                    assert isinstance(value, Number | Lists)
                    number = isinstance(value, Number)
                    made = finished(value, found.type) if number else value.column(found.type)
                    assert made is not None, text
                    ours = column_type(found.type).dump(made(delta.cols, n))
                    ours.validate(full=True)
                    assert ours.type == found.type
                    assert ours.to_string(window=n) == found.combine_chunks().to_string(window=n)
            except NeedsKernel:
                assert text.startswith("NOT")  # NULL in an empty list
                continue
            computed += 1
    assert computed > 4 * (len(EXPRESSIONS) - 2)


def test_what_duckdb_casts_is_left_to_it() -> None:
    schema = Schema(["l", "x"], [pa.list_(pa.int32()), pa.int64()])
    value = compile_value(parse_one("list_append(l, x)", dialect="duckdb"), schema)
    assert isinstance(value, Lists)
    assert value.column(pa.list_(pa.int64())) is None
    predicate = parse_one("list_contains(l, x)", dialect="duckdb")
    assert compile_predicate(predicate, schema) is None


def test_the_length_of_a_dimension_is_left_to_duckdb() -> None:
    """It is NULL where the dimension is."""
    schema = Schema(["l", "x"], [pa.list_(pa.int32()), pa.int64()])
    for text in ("array_length(l, NULL)", "array_length(l, x)"):
        assert compile_value(parse_one(text, dialect="duckdb"), schema) is None
