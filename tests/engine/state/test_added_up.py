"""Rows that are there many times, added up by their hash: what sorting them gives."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.state.added_up import added_up
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_by, sort_run

N = 20_000
VALUES = [
    pa.array([None, 0.0, -0.0, float("nan"), 1.5], pa.float64()),
    pa.array(["", None, "a", "b", "ab"]),
    pa.array([None, True, False, True, False]),
    pa.array([*map(Decimal, ("1.5", "2.5", "-1", "0")), None], pa.decimal128(30, 1)),
    pa.array([0, 1, 2, 3, None], pa.date32()),
    pa.array([b"", b"x", b"yy", None, b"zzz"]),
]  # fmt: skip


def rows_of(values: pa.Array, seed: int = 1) -> tuple[Layout, Delta]:
    random = np.random.default_rng(seed)
    picked = values.take(pa.array(random.integers(0, 5, N)))
    table = pa.table({"k": random.integers(0, 40, N), "v": picked})
    delta = Delta.from_arrow(table, 1)
    delta.weights = random.integers(1, 4, N)
    return Layout(delta.schema, [0]), delta


@pytest.mark.parametrize("values", VALUES, ids=lambda v: str(v.type))
def test_it_is_what_sorting_gives(values: pa.Array) -> None:
    layout, delta = rows_of(values)
    once = added_up(layout.rows(delta))
    assert once is not None
    assert len(once) < N // 50
    found, wanted = (r.delta().to_pylist() for r in (sort_by(once), sort_by(layout.rows(delta))))
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert len(sort_run(layout.rows(delta))) == len(wanted)


def test_lists_are_sorted() -> None:
    layout, delta = rows_of(pa.array([[1], [], None, [2, 3], [1]]))
    assert added_up(layout.rows(delta)) is None
    assert len(sort_run(layout.rows(delta))) == 40 * 4


def test_columns_of_one_name() -> None:
    values = pa.array([1, 1, 2] * 3000)
    schema = Schema(["a", "a"], [pa.int64(), pa.int64()])
    delta = Delta.from_arrow(pa.Table.from_arrays([values, values], names=["a", "a"]), 1, schema)
    once = added_up(Layout(schema, [0]).rows(delta))
    assert once is not None
    assert sorted(once.delta().to_pylist()) == [(1, 1, 6000), (2, 2, 3000)]
