"""Joins of one row with rows that are kept by value, against all pairs counted one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators.circuit import Circuit
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.operator import Source
from tidewheel.engine.state import dense, spine
from tidewheel.engine.state.delta import Delta, Schema

WIDE = Schema(["name", "k"], [pa.string(), pa.int32()])
KEYS = Schema(["k"], [pa.int32()])
PAIRS = Schema(["left", "name", "right"], [pa.int32(), pa.string(), pa.int32()])
ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9))
CHANGES = st.lists(
    st.tuples(st.none() | ROWS, st.none() | st.integers(0, 9), st.integers(-2, 3)), max_size=20
)


@pytest.mark.parametrize("null_safe", [False, True])
@settings(deadline=None, max_examples=60)
@given(changes=CHANGES, many=st.booleans())
def test_like_all_pairs(null_safe: bool, changes: list[tuple[object, ...]], many: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spine, "LEAST", 2)
        patch.setattr(dense, "LEAST", 2)
        circuit = Circuit()
        sources = circuit.add(Source(WIDE)), circuit.add(Source(KEYS))
        left = Arrange(WIDE, [1], null_keys=null_safe)
        right = Arrange(KEYS, [0], null_keys=null_safe)
        columns = [(0, 1), (0, 0), (1, 0)]
        join = Join(left.arrangement, right.arrangement, columns, PAIRS)
        last = circuit.add(join, circuit.add(left, sources[0]), circuit.add(right, sources[1]))
        got: Counter[object] = Counter()
        last.op.step = _noted(join, got)  # type: ignore[method-assign]
        wide: Counter[object] = Counter()
        keys: Counter[object] = Counter(range(8))
        values = np.arange(8, dtype=np.int32)
        circuit.push(sources[1], Delta(KEYS, [values], np.ones(8, np.int64)))
        circuit.run()
        for row, key, weight in changes:
            assert isinstance(weight, int)
            if row is not None:
                assert isinstance(row, tuple)
                wide[row] += weight
                circuit.push(sources[0], Delta.of_rows(WIDE, [row], np.array([weight])))
            if key is not None or row is None:
                keys[key] += weight
                circuit.push(sources[1], Delta.of_rows(KEYS, [(key,)], np.array([weight])))
            if not many:
                circuit.run()
        circuit.run()
        want: Counter[object] = Counter()
        for (name, k), w in wide.items():  # type: ignore[misc]
            for other, v in keys.items():
                if k == other and (null_safe or k is not None):  # type: ignore[has-type]
                    want[k, name, other] += w * v  # type: ignore[has-type]
        assert {k: w for k, w in got.items() if w} == {k: w for k, w in want.items() if w}


def _noted(join: Join, got: Counter[object]):  # type: ignore[no-untyped-def]
    step = type(join).step

    def noted(counters, deltas):  # type: ignore[no-untyped-def]
        emitted = step(join, counters, deltas)
        for _, _, delta in emitted:
            for *row, weight in delta.to_pylist():
                got[tuple(row)] += weight
        return emitted

    return noted
