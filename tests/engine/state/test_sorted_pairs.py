"""Large runs of integer pairs are sorted by value: the same as row by row."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import merge_runs, sort_rows


@pytest.mark.parametrize("key", [0, 1])
@pytest.mark.parametrize("weight", [1, -3])
@pytest.mark.parametrize("kind", [pa.int16(), pa.int64(), pa.date32()])
@pytest.mark.parametrize("low", [0, -30_000])
def test_sorted_by_value(key: int, weight: int, kind: pa.DataType, low: int) -> None:
    rng = np.random.default_rng(3)
    n = 6_000
    schema = Schema(("a", "b"), (kind, pa.int32()))
    dtype = schema.kinds[0].dtype
    assert dtype is not None
    a = rng.integers(low, low + 90, n).astype(dtype)
    b = rng.integers(-2_000_000_000, -2_000_000_000 + 90, n).astype(np.int32)
    delta = Delta(schema, [a, b], np.full(n, weight, np.int64))
    rows = sort_rows(Layout(schema, [key]).rows(delta))
    assert (np.diff(rows.keys) >= 0).all()
    assert [c.dtype for c in rows.cols] == [a.dtype, b.dtype]
    assert (rows.cols[key].astype(np.int64) == rows.keys).all()
    got = {
        (x, y): w
        for x, y, w in zip(*(c.tolist() for c in rows.cols), rows.weights.tolist(), strict=True)
    }
    want = Counter(zip(a.tolist(), b.tolist(), strict=True))
    assert got == {row: weight * count for row, count in want.items()}
    assert len(got) == len(rows)


@pytest.mark.parametrize("lows", [(0, 0, 0), (-(1 << 62), 1 << 61, 5), (-9, -(1 << 63), 1 << 63)])
def test_more_columns(lows: tuple[int, ...]) -> None:
    """The key in the middle, and values at the ends of their types."""
    schema = Schema(("a", "b", "c"), (pa.int64(), pa.int64(), pa.uint64()))
    rng = np.random.default_rng(5)
    cols = [
        (rng.integers(0, 9, 6_000) + np.array(low).astype(dtype)).astype(dtype)
        for low, dtype in zip(lows, (np.int64, np.int64, np.uint64), strict=True)
    ]
    rows = sort_rows(Layout(schema, [1]).rows(Delta(schema, cols, np.ones(6_000, np.int64))))
    want = Counter(zip(*(c.tolist() for c in cols), strict=True))
    got = zip(*(c.tolist() for c in rows.cols), strict=True)
    assert dict(zip(got, rows.weights.tolist(), strict=True)) == want
    assert len(rows) == len(want)
    assert (np.diff(rows.keys) >= 0).all()
    assert (rows.keys == rows.cols[1]).all()


@pytest.mark.parametrize("weight", [1, -2])
def test_one_column(weight: int) -> None:
    schema = Schema(("a",), (pa.int32(),))
    a = np.random.default_rng(4).integers(-900, 900, 6_000).astype(np.int32)
    rows = sort_rows(Layout(schema, [0]).rows(Delta(schema, [a], np.full(6_000, weight, np.int64))))
    values, counts = np.unique(a, return_counts=True)
    assert rows.keys.tolist() == rows.cols[0].tolist() == values.tolist()
    assert rows.cols[0].dtype == np.int32
    assert (rows.weights == counts * weight).all()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("others", [1, 500, 9_000])
def test_runs_of_one_column_meet(parts: int, others: int) -> None:
    schema = Schema(("a",), (pa.int32(),))
    layout = Layout(schema, [0])
    rng = np.random.default_rng(6)
    total: Counter[int] = Counter()
    runs = []
    for n in (6_000, others):
        a = rng.integers(-4_000, 4_000, n).astype(np.int32)
        weights = rng.integers(-1, 2, (n, parts)) if parts > 1 else rng.integers(-1, 2, n)
        for value, weight in zip(a.tolist(), weights.reshape(n, -1)[:, 0].tolist(), strict=True):
            total[value] += weight
        runs.append(sort_rows(layout.rows(Delta(schema, [a], weights))))
    for first, second in (runs, runs[::-1]):
        rows = merge_runs([first, second])
        assert (np.diff(rows.keys) > 0).all()
        assert rows.cols[0].tolist() == rows.keys.tolist()
        assert rows.weights.reshape(len(rows), -1).any(axis=1).all()
        firsts = rows.weights.reshape(len(rows), -1)[:, 0].tolist()
        found = dict(zip(rows.keys.tolist(), firsts, strict=True))
        assert {k: w for k, w in found.items() if w} == {k: w for k, w in total.items() if w}
