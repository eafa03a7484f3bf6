"""Rows that were computed anew, compared with those before."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidewheel.planner.recompute import compared


def _no_statement(sql: str, **tables: pa.Table) -> pa.Table:
    raise AssertionError(sql)


@pytest.mark.parametrize("read", [True, False])
def test_rows_are_compared_without_a_statement(read: bool) -> None:
    old = pa.table({"a": [1, 1, 2, None], "s": [["x"], ["x"], None, ["y"]]})
    new = pa.table({"a": [None, 3, 1], "s": [["y"], ["z"], ["x"]]})
    found = compared(old, new, _no_statement, read).table()
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert sorted(rows, key=str) == [(1, ["x"], -1), (2, None, -1), (3, ["z"], 1)]
    assert found.column_names == ["a", "s", "weight"]


def test_what_is_equal_and_does_not_look_the_same_has_changed() -> None:
    """A view that reads it as text would keep the old one."""
    found = compared(pa.table({"x": [0.0]}), pa.table({"x": [-0.0]}), _no_statement, read=True)
    assert sorted(str(row["x"]) for row in found.table().to_pylist()) == ["-0.0", "0.0"]


def test_columns_of_another_type_are_compared_by_duckdb() -> None:
    asked = []

    def run(sql: str, **tables: pa.Table) -> pa.Table:
        asked.append(sql)
        return pa.table({"x": pa.array([], pa.int64()), "weight": pa.array([], pa.int64())})

    small = pa.table({"x": pa.array([1], pa.int32())})
    assert compared(small, pa.table({"x": [1]}), run, read=True).rows == 0
    assert len(asked) == 1
