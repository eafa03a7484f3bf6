"""What an arrangement hands on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.state.delta import Delta, Schema


@pytest.mark.parametrize("rows", [10, 1000])
def test_rows_replaced_by_equal_ones_meet_nobody_in_a_loop(rows: int) -> None:
    schema = Schema(["a", "b"], [pa.int64(), pa.int64()])
    arrange = Arrange(schema, [0], depth=1)
    twice = np.concatenate([np.arange(rows), np.arange(rows)[::-1], np.array([7])])
    weights = np.repeat(np.array([1, -1, 1]), [rows, rows, 1])
    (emission,) = arrange.step((2,), [Delta(schema, [twice, twice], weights)])
    assert emission[1] == (2,)
    assert emission[2].to_pylist() == [(7, 7, 1)]
    assert arrange.arrangement.contents().to_pylist() == [(7, 7, 1)]
