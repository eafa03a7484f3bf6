"""RowSet against Python sets of rows."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators.rowset import RowSet, frozen

TYPES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 3),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan]),
    pa.string(): st.text(max_size=2),
    pa.list_(pa.int64()): st.lists(st.integers(0, 2), max_size=2),
    pa.decimal128(6, 2): st.decimals(-99, 99, places=2),
}


@st.composite
def batches(draw):
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    row = st.tuples(*(st.none() | TYPES[t] for t in types))
    rows = draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=5))
    return types, rows


@given(batches())
@settings(max_examples=150, deadline=None)
def test_new_rows_are_those_of_a_python_set(given_batches):
    types, all_rows = given_batches
    rows = RowSet(len(types))
    seen = set()
    names = [f"c{i}" for i in range(len(types))]
    for batch in all_rows:
        arrays = [pa.array([r[i] for r in batch], t) for i, t in enumerate(types)]
        wanted = []
        for row in batch:
            if frozen(list(row)) not in seen:
                seen.add(frozen(list(row)))
                wanted.append(row)
        found = rows.add(pa.Table.from_arrays(arrays, names))
        columns = [c.to_pylist() for c in found.columns]
        got = list(zip(*columns, strict=True)) if found.num_rows else []
        assert [frozen(list(r)) for r in got] == [frozen(list(r)) for r in wanted]
        assert len(rows) == len(seen)
