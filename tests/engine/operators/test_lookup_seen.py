"""What a loop without SQL is made of, against sets and dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from tidewheel.engine.operators.lookup import Relation
from tidewheel.engine.operators.seen import Anchored, Bitmap, Runs, Space
from tidewheel.engine.operators.step_program import NULL


@pytest.mark.parametrize("spread", [1, 1000, 1 << 40])
@pytest.mark.parametrize("width", [0, 1, 2])
@pytest.mark.parametrize("nulls", [False, True])
def test_a_lookup_finds_all_rows_of_a_key(spread: int, width: int, nulls: bool) -> None:
    rng = np.random.default_rng(spread % 1009 + width)
    key = rng.integers(-5, 6, 40) * spread
    if nulls:
        key[::7] = NULL
    rest = [rng.integers(-3, 4, 40) * (1 << 30) for _ in range(width)]
    relation = Relation([key, *rest])
    if spread == 1:
        relation.cover(-9, 9)
    asked = rng.integers(-7, 8, 30) * spread
    where, found = relation.lookup(asked)
    assert where is not None
    got = sorted(zip(where.tolist(), *(c.tolist() for c in found), strict=True))
    rows = list(zip(key.tolist(), *(c.tolist() for c in rest), strict=True))
    assert got == sorted((i, *r[1:]) for i, a in enumerate(asked) for r in rows if r[0] == a)


@pytest.mark.parametrize("batches", [3, 40])
def test_what_was_seen_is_not_new(batches: int) -> None:
    rng = np.random.default_rng(batches)
    size = 500
    bitmap, runs, known = Bitmap(2 * size), Runs(), set()
    for n in range(batches):
        keys = rng.integers(0, size, rng.integers(1, 60))
        fresh = set(keys.tolist()) - known
        known |= fresh
        if n % 2:
            assert bitmap.add_many(keys, size).tolist() == sorted(fresh)
        else:
            assert sorted(keys[bitmap.add(keys)].tolist()) == sorted(fresh)
        assert sorted(keys[runs.add(keys)].tolist()) == sorted(fresh)
    bitmap.clear()
    assert not bitmap.seen.any()


def test_a_row_is_its_number() -> None:
    space = Space([-3, 5, 0], [10, 4, 7])
    rng = np.random.default_rng(1)
    columns = [
        low + rng.integers(0, size, 50) for low, size in zip((-3, 5, 0), (10, 4, 7), strict=True)
    ]
    numbers = space.pack(columns, nulls=False)
    assert all(map(np.array_equal, space.unpack(numbers), columns))


@pytest.mark.parametrize("count", [0, 1, 100, 20_000])
@pytest.mark.parametrize("spread", [1, 1 << 30])
def test_a_column_tells_the_row(count: int, spread: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.permutation(count) * spread
    assert Relation([np.zeros(count, np.int64), values[:], values // 2]).told_by([0])
    assert Relation([values, values % 7, values]).told_by([0, 1])
    assert not Relation([values, values]).told_by([])
    if count > 1:
        values[-1] = values[0]
        assert not Relation([np.zeros(count, np.int64), values]).told_by([0])


def test_only_the_rows_of_the_anchor_are_known() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        keys, asked = rng.integers(0, 1 << 12, 200), rng.integers(0, 1 << 12, 300)
        anchored, bitmap = Anchored(), Bitmap(1 << 12)
        assert sorted(keys[anchored.add(keys)].tolist()) == sorted(set(keys.tolist()))
        bitmap.add(keys)
        wanted = [k for k in asked.tolist() if k not in keys]
        for seen in (anchored, bitmap):
            assert asked[seen.unseen(asked)].tolist() == wanted
        others = np.setdiff1d(asked, keys)
        assert anchored.unseen(others) is others
