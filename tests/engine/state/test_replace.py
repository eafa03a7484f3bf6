"""Rows of a spine that take the place of others, whatever runs, merges and head they lie in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.state.delta import Delta, Schema, consolidate
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_rows
from tidewheel.engine.state.spine import Spine

SCHEMA = Schema(("k", "at", "x"), (pa.int64(), pa.int64(), pa.int64()))
Row = tuple[int, int, int]


def made(rows: Counter[Row]) -> Delta:
    return consolidate(Delta.from_pylist(SCHEMA, [(*row, n) for row, n in rows.items()]))


@pytest.mark.parametrize("seed", range(4))
def test_they_are_there_and_the_others_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout(SCHEMA, [0], rank=Ranking(SCHEMA, Order(1)))
    spine, known = Spine(layout), Counter[Row]()
    for turn in range(40):
        n = int(rng.choice([1, 3, 80, 3000]))
        new = Counter[Row](zip(*(rng.integers(0, top, n).tolist() for top in (3, 500, 4)),
                               strict=True))  # fmt: skip
        if turn % 3:
            gone = Counter({row: -many for row, many in known.items() if rng.random() < 0.1})
            new.update(gone)
            spine.insert(layout.rows(made(new)))
            known.update(new)
        else:
            key, (first, last) = int(rng.integers(0, 4)), sorted(rng.integers(-5, 505, 2).tolist())
            new = Counter({r: m for r, m in new.items() if r[0] == key and first <= r[1] <= last})
            spine.replace(key, first, last, sort_rows(layout.rows(made(new))))
            for row in [r for r in known if r[0] == key and first <= r[1] <= last]:
                del known[row]
            known.update(new)
        known = Counter({row: many for row, many in known.items() if many})
        rows = spine.all().delta().to_pylist()
        assert Counter({row[:-1]: row[-1] for row in rows}) == known
        for key in range(4):
            for part in spine.rows_of(key):
                assert part.rank is not None
                assert (part.rank[1:] >= part.rank[:-1]).all()
