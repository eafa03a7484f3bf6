"""What a change holds: its bytes, and the table that a subscriber is given."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta, Schema

NAMES = ["a", "b"]


def change(kind: pa.DataType, *values: Any) -> Change:
    schema = Schema(NAMES, [pa.int64(), kind])
    rows = list(enumerate(values))
    return Change.of(Delta.of_rows(schema, rows, np.ones(len(rows), np.int64)), NAMES)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), "x" * 100_000),
        (pa.binary(), b"x" * 100_000),
        (pa.list_(pa.string()), ["x" * 50_000, None, "y" * 50_000]),
        (pa.struct([("s", pa.string())]), {"s": "x" * 100_000}),
    ],
    ids=["text", "blob", "list", "struct"],
)
def test_bytes_of_few_rows_are_those_of_their_values(kind: pa.DataType, value: Any) -> None:
    assert 200_000 <= change(kind, value, value).nbytes <= 300_000
    assert change(kind, None, None).nbytes < 2_000


def test_columns_that_were_made_of_few_rows_count() -> None:
    few = change(pa.string(), "x" * 100_000)
    alone = few.nbytes
    few.column("b", pa.string())
    assert few.nbytes >= alone + 100_000


def test_the_table_of_few_rows_lasts_as_long_as_somebody_has_it() -> None:
    few = change(pa.string(), "x" * 100_000)
    alone = few.nbytes
    table = few.table()
    assert few.table() is table
    assert few.nbytes == alone
    gone = ref(table)
    del table
    gc.collect()
    assert gone() is None
    assert few.table().to_pylist() == [{"a": 0, "b": "x" * 100_000, "weight": 1}]
