"""Slots of keys, against a dict: keys that lie close together, far apart, and some of them NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.slots import Slots
from tidewheel.engine.state.columns import column_type
from tidewheel.engine.state.delta import Schema

KINDS = [pa.int64(), pa.int32(), pa.int8(), pa.uint64(), pa.uint8(), pa.date32()]


def batch(rng: np.random.Generator, kind: pa.DataType, n: int, spread: int, nulls: bool) -> Any:
    values = rng.integers(-spread, spread, n)
    if kind in (pa.uint64(), pa.uint8()):
        values = abs(values)
    if kind in (pa.int8(), pa.uint8()):
        values = values % 128
    array = pa.array(values, pa.int64()).cast(pa.int32() if kind == pa.date32() else kind)
    if nulls:
        array = pa.array(array.to_pylist(), array.type, mask=rng.random(n) < 0.2)
    return column_type(kind).load(array.cast(kind))


@pytest.mark.parametrize("seed", range(60))
def test_like_a_dict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.integers(0, len(KINDS), rng.integers(1, 4))]
    if seed % 2:
        kinds = [pa.int32()] * (1 + seed // 2 % 2)
    slots = Slots(Schema([f"c{i}" for i in range(len(kinds))], kinds))
    known: dict[tuple[Any, ...], int] = {}
    spreads = [4, 40, 300, 300, 300] if seed % 3 else [4, 300, 100_000, 3, 2_000_000_000]
    for _ in range(rng.integers(1, 14)):
        n = int(rng.choice([1, 3, 50, 3000]))
        spread, nulls = int(rng.choice(spreads)), bool(rng.random() < 0.05)
        cols = [batch(rng, k, n, spread, nulls) for k in kinds]
        rows = list(
            zip(
                *(column_type(k).dump(c).to_pylist() for k, c in zip(kinds, cols, strict=True)),
                strict=True,
            )
        )
        assert slots.find(cols, n).tolist() == [known.get(r, -1) for r in rows]
        if rng.random() < 0.3:
            continue
        found = slots.open(cols, n).tolist()
        for row, slot in zip(rows, found, strict=True):
            assert known.setdefault(row, slot) == slot
        assert sorted(known.values()) == list(range(slots.size))
        taken = slots.take(np.array(found))
        back = zip(
            *(column_type(k).dump(c).to_pylist() for k, c in zip(kinds, taken, strict=True)),
            strict=True,
        )
        assert list(back) == rows


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.list_(pa.int32())], ids=str)
def test_none_are_taken_where_there_are_none(kind: pa.DataType) -> None:
    slots = Slots(Schema(("c",), (kind,)))
    taken = slots.take(np.array([], np.int64))
    assert [column_type(kind).dump(c) for c in taken] == [pa.array([], kind)]


@pytest.mark.parametrize("descending", [False, True])
def test_a_table_grows_by_more_than_what_comes(descending: bool) -> None:
    """Keys that come in order, one at a time, make it anew a few times only."""
    kind = pa.int64()
    slots = Slots(Schema(("c",), (kind,)))
    tables = set()
    for i in range(20_000):
        slots.open([np.array([-i if descending else i])], 1)
        tables.add(id(slots._table))
    assert slots._table is not None
    assert len(tables) < 60
    assert slots.nbytes < 1_000_000
