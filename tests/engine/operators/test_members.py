"""Slots by some columns of their keys, against a search through all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.members import Members
from tidewheel.engine.operators.slots import Slots
from tidewheel.engine.state.columns import column_type
from tidewheel.engine.state.delta import KeySpec, Schema


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.string()], ids=str)
@pytest.mark.parametrize("join", [(0,), (1,), (2, 0)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_like_a_search(kind: pa.DataType, join: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(("a", "b", "c"), (kind,) * 3)
    asked = Schema(("x", *("k" for _ in join)), (pa.int8(), *(kind for _ in join)))
    slots = Slots(schema)
    members = Members(slots, join)

    def some(n: int, nulls: bool) -> object:
        values = [str(v) if kind == pa.string() else v for v in rng.integers(0, 7, n).tolist()]
        return column_type(kind).load(pa.array(values, kind, mask=(rng.random(n) < 0.1) & nulls))

    for _ in range(12):
        n = int(rng.choice([1, 5, 200]))
        slots.open([some(n, seed % 2 == 1) for _ in range(3)], n)
        members.extend()
        n = int(rng.choice([0, 1, 9]))
        cols = [np.zeros(n, np.int8), *(some(n, False) for _ in join)]
        at, found = members.find(cols, KeySpec(asked, range(1, len(asked))), n)
        taken = slots.take(np.arange(slots.size))
        lists = (k.dump(c).to_pylist() for k, c in zip(schema.kinds, taken, strict=True))
        rows = list(zip(*lists, strict=True))
        probes = list(zip(*(column_type(kind).dump(c).to_pylist() for c in cols[1:]), strict=True))
        want = {
            (i, slot)
            for i, probe in enumerate(probes)
            for slot, row in enumerate(rows)
            if tuple(row[j] for j in join) == probe
        }
        assert set(zip(at.tolist(), found.tolist(), strict=True)) == want
        assert len(at) == len(want)
