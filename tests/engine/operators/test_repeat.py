"""What goes round without state is what a naive run over the whole anchor gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators.linear import Rewrite, computing, filtering
from tidewheel.engine.operators.repeat import Repeat
from tidewheel.engine.state.delta import Delta, Schema

SCHEMA = Schema(["n"], [pa.int64()])


def adding(step: int, below: int) -> Rewrite:
    """`SELECT n + step WHERE n < below`."""
    kept = filtering(lambda cols, n: np.asarray(cols[0]) < below, lambda row: row[0] < below)
    added = computing([lambda cols, n: cols[0] + step], SCHEMA, [lambda row: row[0] + step])
    return lambda delta: added(kept(delta))


def naive(rows: Counter[int], steps: list[tuple[int, int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    while rows:
        found.update(rows)
        derived: Counter[int] = Counter()
        for step, below in steps:
            for n, weight in rows.items():
                if n < below:
                    derived[n + step] += weight
        rows = Counter({n: w for n, w in derived.items() if w})
    return Counter({n: w for n, w in found.items() if w})


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 30), st.sampled_from([-2, -1, 1, 2])), max_size=40),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 30)), min_size=1, max_size=3),
)
def test_a_change_goes_round(changes: list[tuple[int, int]], steps: list[tuple[int, int]]) -> None:
    seen: list[tuple[int, ...]] = []
    op = Repeat(SCHEMA, [adding(*step) for step in steps], seen.append)
    said = op.step((7,), [Delta.from_pylist(SCHEMA, changes)])
    found: Counter[int] = Counter()
    for _, counters, delta in said:
        assert counters == (7,)
        for n, weight in delta.to_pylist():
            found[n] += weight
    rows: Counter[int] = Counter()
    for n, weight in changes:
        rows[n] += weight
    assert Counter({n: w for n, w in found.items() if w}) == naive(rows, steps)
    assert seen == [(7, i) for i in range(len(seen))]


def test_what_ends_it() -> None:
    def watch(counters: tuple[int, ...]) -> None:
        if counters[-1] == 100:
            raise RecursionError

    op = Repeat(SCHEMA, [lambda delta: delta], watch)
    with pytest.raises(RecursionError):
        op.step((), [Delta.from_pylist(SCHEMA, [(1, 1)])])
    assert op.left((100,))[0] is not None
    assert op.step((), [None]) == []
