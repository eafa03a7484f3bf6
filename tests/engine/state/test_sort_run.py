"""What a run is filled with: sorted, but equal rows of a key are put together only in crowds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.engine.state import sorting
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_run
from tidewheel.planner.view_statements import each_once

SCHEMA = Schema(("k", "s", "x"), (pa.int64(), pa.string(), pa.int32()))


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("crowd", [3, 2_000])
@pytest.mark.parametrize("different", [2, 9_000])
def test_sorted_by_key(ascending: bool, crowd: int, different: int) -> None:
    rng = np.random.default_rng(5)
    k = rng.permutation(np.arange(9_000) // 3)
    k[:crowd] = 70
    if ascending:
        k.sort()
    s = pa.array([f"s{i % different}" for i in range(len(k))])
    x = np.zeros(len(k), np.int32)
    rows = sort_run(Layout(SCHEMA, [0]).rows(Delta(SCHEMA, [k, s, x], np.ones(len(k), np.int64))))
    assert (np.diff(rows.keys) >= 0).all()
    assert (rows.keys == rows.cols[0]).all()
    got: Counter[tuple[int, str]] = Counter()
    for key, text, weight in zip(
        rows.cols[0].tolist(), rows.cols[1].to_pylist(), rows.weights.tolist(), strict=True
    ):
        got[key, text] += weight
    assert got == Counter(zip(k.tolist(), s.to_pylist(), strict=True))
    together = crowd > sorting._CROWD or different == 2
    assert len(rows) == (len(got) if together else len(k))


def test_views_over_rows_that_are_there_more_than_once() -> None:
    views = {
        "joined": "SELECT t.k, t.s, u.n FROM t JOIN u ON u.k = t.k",
        "kept": "SELECT k, n FROM u WHERE EXISTS (FROM t WHERE t.k = u.k AND t.s = 's1')",
        "outer_": "SELECT u.k, t.s, t.x FROM u LEFT JOIN t ON t.k = u.k AND t.x = 0",
        "least": "SELECT k, min(s) AS l, max(x) AS m, count(DISTINCT s) AS d FROM t GROUP BY k",
        "top": "SELECT k, s FROM t ORDER BY s DESC, k, x LIMIT 7",
        "first": "SELECT k, s FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY s, x) < 3",
    }
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (k INTEGER, s VARCHAR, x INTEGER)")
        con.execute("INSERT INTO t SELECT i % 100, 's' || i % 3, i % 2 FROM range(12_000) r(i)")
        con.execute("CREATE TABLE u AS SELECT i AS k, i * 2 AS n FROM range(0, 120, 3) r(i)")
        for name, query in views.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            con.execute(f"SELECT count(*) FROM {name}").fetchall()
        for change in (
            "DELETE FROM t WHERE k = 3 AND rowid % 200 > 3",
            "INSERT INTO t SELECT 3, 's1', 1 FROM range(300)",
            "DELETE FROM t WHERE k = 3",
            "DELETE FROM t WHERE s = 's1' AND k < 9",
            "UPDATE t SET s = 's0' WHERE k = 6",
            "INSERT INTO t SELECT i % 7, 's9', 0 FROM range(5000) r(i)",
            "DELETE FROM t WHERE s = 's9'",
            "DELETE FROM t WHERE k >= 9",
        ):
            con.execute(change)
            for name in views:
                assert not con.execute(f"VERIFY VIEW {name}").fetchall(), (change, name)


@pytest.mark.parametrize("span", [1, 3, 1_000, 50_000, 1 << 40])
@pytest.mark.parametrize("weight", [1, -2])
def test_values_are_counted(span: int, weight: int) -> None:
    """Whether few, many or none of them are there again."""
    rng = np.random.default_rng(3)
    ascending = np.sort(rng.integers(0, span, 5_000))
    values, weights = sorting._counted(ascending, weight)
    want, times = np.unique(ascending, return_counts=True)
    assert (values == want).all()
    assert (weights == times * weight).all()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("span", [1, 90, 30_000, 1 << 40])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("weight", [1, 3])
def test_integers(kind: str, span: int, width: int, weight: int) -> None:
    """Close together or not, of few bits or many: they are counted, or sorted by value."""
    ends = np.iinfo(kind)
    rng = np.random.default_rng(4)
    low = max(int(ends.min), -span // 2)
    high = min(int(ends.max), low + span)
    cols = [rng.integers(low, high, 9_000, dtype=kind, endpoint=True) for _ in range(width)]
    if span == 1 << 40:
        cols[0][:2] = ends.min, ends.max
    schema = Schema([f"c{i}" for i in range(width)], [pa.from_numpy_dtype(kind)] * width)
    given = Delta(schema, cols, np.full(9_000, weight))
    rows = sort_run(Layout(schema, [0]).rows(given))
    assert (np.diff(rows.keys) >= 0).all()
    assert [c.dtype for c in rows.cols] == [c.dtype for c in cols]
    got: Counter[tuple[int, ...]] = Counter()
    for *row, times in zip(*(c.tolist() for c in rows.cols), rows.weights.tolist(), strict=True):
        got[tuple(row)] += times
    want = Counter(zip(*(c.tolist() for c in cols), strict=True))
    assert got == {row: n * weight for row, n in want.items()}
    if width == 1:
        once = each_once(given.to_arrow(weight=None), schema)
        assert dict(zip(once.cols[0].tolist(), once.weights.tolist(), strict=True)) == {
            row[0]: n for row, n in want.items()
        }
        assert once.cols[0].dtype == cols[0].dtype


def test_no_integers() -> None:
    found = sorting.tallied(np.empty(0, np.int64))
    assert found is not None
    assert [len(part) for part in found] == [0, 0]
