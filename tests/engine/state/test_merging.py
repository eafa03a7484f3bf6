"""Runs of a spine, merged a little at a time, hold what was put in, in whatever steps."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.state import spine as module
from tidewheel.engine.state.delta import Delta, Schema, consolidate
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.spine import Spine

SCHEMA = Schema(("k", "x"), (pa.int64(), pa.int64()))
LAYOUT = Layout(SCHEMA, [0])


def filled(begin: int, rows: int) -> Delta:
    keys = np.arange(begin, begin + rows)[::-1]
    return Delta(SCHEMA, [keys, keys % 7], np.ones(rows, np.int64))


def test_a_merge_that_ends_may_take_all_runs_before_it_along() -> None:
    spine, n = Spine(LAYOUT), 0
    # The 300 begin a merge with the three before them, which the 70 end; with these, all are due.
    for rows in (12_900, 8060, 5000, 5700, 2400, 300, 70, 70, 3000):
        spine.insert(LAYOUT.rows(filled(n, rows)))
        n += rows
        assert len(spine) == n
    assert np.sort(spine.all().cols[0]).tolist() == list(range(n))


STEPS = st.lists(st.tuples(st.integers(1, 120), st.integers(0, 100)), min_size=1, max_size=60)


@settings(deadline=None)
@given(STEPS, st.sampled_from([1, 2, 4]), st.sampled_from([0.6, 1.5]))
def test_contents_are_the_same_however_merges_are_spread(
    steps: list[tuple[int, int]], fuel: int, ratio: float
) -> None:
    small = {"AT_ONCE": 8, "HEAD": 2, "LARGE": 8, "LARGE_RATIO": ratio, "RATIO": 3, "FUEL": fuel}
    with patch.multiple(module, **small):
        spine, known, begin = Spine(LAYOUT), Counter[int](), 0
        for rows, gone in steps:
            change = Counter(range(begin, begin + rows))
            begin += rows
            change.subtract([k for k in known if k % 101 < gone])
            known.update(change)
            known = +known
            made = [(k, k % 7, n) for k, n in change.items()]
            spine.insert(LAYOUT.rows(consolidate(Delta.from_pylist(SCHEMA, made))))
            assert Counter(spine.all().cols[0].tolist()) == known
        for key in range(0, begin, 17):
            found = spine.lookup(np.array([key]))
            assert (0 if found is None else int(found[1].weights.sum())) == known[key]
