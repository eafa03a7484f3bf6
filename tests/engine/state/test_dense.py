"""Single integers that lie close together, kept by value, against a dictionary."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.state import dense, spine
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.columns import from_arrow
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.dense import Dense
from tidewheel.engine.state.run import Rows

LOW, HIGH = -(1 << 63), (1 << 63) - 1
BASES = {"int32": [0, -(1 << 31)], "int64": [0, LOW, HIGH - 400], "uint64": [0, (1 << 64) - 401]}
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 60) | st.integers(0, 400), st.integers(-1, 2)), max_size=40),
    max_size=12,
)


def rows_of(arrangement: Arrangement, keys: list[int], weights: list[int], parts: int) -> Rows:
    """Rows of one column, and of one or several weights."""
    kind = arrangement.schema.types[0]
    given_ = np.array(weights, np.int64)
    shaped = given_ if parts == 1 else np.stack([given_, given_ * 3], axis=1)
    return arrangement.layout.rows(
        Delta(arrangement.schema, [from_arrow(pa.array(keys, kind))], shaped)
    )


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("kind", "base"), [(k, b) for k in BASES for b in BASES[k]])
@settings(deadline=None, max_examples=30)
@given(batches=BATCHES, probes=st.lists(st.integers(-5, 405), min_size=1, max_size=30))
def test_like_a_dictionary(
    kind: str, base: int, parts: int, batches: list[list[tuple[int, int]]], probes: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spine, "LEAST", 5)
        patch.setattr(dense, "LEAST", 5)
        patch.setattr(spine, "HEAD", 3)
        arrangement = Arrangement(Schema(["k"], [pa.type_for_alias(kind)]), [0])
        want: Counter[int] = Counter()
        for batch in batches:
            keys = [base + key for key, _ in batch]
            for key, (_, weight) in zip(keys, batch, strict=True):
                want[key] += weight
            rows = rows_of(arrangement, keys, [w for _, w in batch], parts)
            arrangement.spine.insert(rows)
            there = {k: w for k, w in want.items() if w}
            whole = arrangement.spine.all()
            assert dict(zip(whole.cols[0].tolist(), firsts(whole), strict=True)) == there
            if arrangement.spine._dense is not None:
                assert len(arrangement.spine) == len(there)
                assert whole.keys.tolist() == sorted(whole.keys.tolist())
        asked = [base + p for p in probes if kind != "uint64" or 0 <= base + p < 1 << 64]
        asked = [a for a in asked if kind == "uint64" or LOW <= a <= HIGH]
        sought = np.array([a - (1 << 64) if a > HIGH else a for a in asked], np.int64)
        for some in (sought, sought[:1]):
            found = arrangement.spine.lookup(some)
            got: Counter[tuple[int, int]] = Counter()
            if found is not None:
                at, rows = found
                for place, key, weight in zip(
                    at.tolist(), rows.cols[0].tolist(), firsts(rows), strict=True
                ):
                    assert int(some[place]) == int(
                        np.int64(np.uint64(key % (1 << 64)).view(np.int64))
                    )
                    got[place, key] += weight
            wanted = {(i, a): want[a] for i, a in enumerate(asked[: len(some)]) if want[a]}
            assert {k: w for k, w in got.items() if w} == wanted


def firsts(rows: Rows) -> list[int]:
    """The first part of each weight."""
    if rows.weights.ndim == 2:
        assert (rows.weights[:, 1] == 3 * rows.weights[:, 0]).all()
        return list(rows.weights[:, 0].tolist())
    return list(rows.weights.tolist())


def arranged(values: np.ndarray, weight: int = 1) -> Arrangement:
    """An arrangement of integers."""
    arrangement = Arrangement(Schema(["k"], [pa.int64()]), [0])
    arrangement.insert(Delta(arrangement.schema, [values], np.full(len(values), weight)))
    return arrangement


def test_many_close_together_are_kept_by_value() -> None:
    arrangement = arranged(np.arange(100_000) % 60_000)
    assert isinstance(arrangement.spine._dense, Dense)
    assert len(arrangement) == 60_000
    assert arrangement.nbytes == 8 * 60_000
    arrangement.insert(Delta(arrangement.schema, [np.arange(60_000)], np.full(60_000, -1)))
    assert len(arrangement) == 40_000


@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
@settings(deadline=None, max_examples=40)
@given(
    base=st.sampled_from([0, (1 << 31) - 60, HIGH - 30, (1 << 64) - 60]),
    rows=st.lists(st.tuples(st.none() | st.integers(0, 59), st.integers(-2, 3)), max_size=30),
)
def test_one_row_at_a_time(kind: str, base: int, rows: list[tuple[int | None, int]]) -> None:
    most = {"int32": (1 << 31) - 1, "int64": HIGH, "uint64": (1 << 64) - 1}[kind]
    base = min(base, most - 59)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spine, "LEAST", 2)
        patch.setattr(dense, "LEAST", 2)
        arrangement = Arrangement(Schema(["k"], [pa.type_for_alias(kind)]), [0])
        first = from_arrow(pa.array([base + 20, base + 21, base + 22, base + 24], kind))
        arrangement.insert(Delta(arrangement.schema, [first], np.ones(4, np.int64)))
        assert arrangement.spine._dense is not None
        want: Counter[int | None] = Counter(base + i for i in (20, 21, 22, 24))
        for key, weight in rows:
            value = None if key is None else base + key
            want[value] += weight
            delta = Delta.of_rows(arrangement.schema, [(value,)], np.array([weight]))
            arrangement.post(delta)
            whole = arrangement.contents()
            there = {k: w for k, w in want.items() if w}
            assert dict(whole.to_pylist()) == there
            for asked in (value, base + 20, base + 58):
                if asked is None:
                    continue
                sought = asked - (1 << 64) if asked > HIGH else asked
                assert arrangement.spine.weight(sought) in (None, want[asked])


def test_rows_that_were_given_do_not_change() -> None:
    arrangement = arranged(np.arange(10_000))
    one, some, every = (
        arrangement.fetch(np.array([7])),
        arrangement.fetch(np.arange(5, 9)),
        arrangement.spine.single,
    )
    arrangement.insert(Delta(arrangement.schema, [np.arange(10_000)], np.full(10_000, 4)))
    for rows in (one, some, every):
        assert rows is not None
        assert (rows.weights == 1).all()


def test_far_apart_they_are_runs_again() -> None:
    arrangement = arranged(np.arange(10_000))
    assert arrangement.spine._dense is not None
    arrangement.insert(Delta(arrangement.schema, [np.array([1 << 40])], np.array([1])))
    assert arrangement.spine._dense is None
    assert len(arrangement) == 10_001
    found = arrangement.fetch(np.array([5, 1 << 40]))
    assert found is not None
    assert sorted(found.keys.tolist()) == [5, 1 << 40]
    arrangement.insert(Delta(arrangement.schema, [np.arange(9_000)], np.full(9_000, 1)))
    assert arrangement.spine._dense is None


def test_few_far_apart_are_runs_though_they_are_there_often() -> None:
    arrangement = arranged(np.repeat([0, 90_000], 50_000))
    assert arrangement.spine._dense is None
    assert len(arrangement) == 2


def test_null_among_them_makes_runs() -> None:
    arrangement = arranged(np.arange(10_000))
    column = from_arrow(pa.array([None, 3], pa.int64()))
    arrangement.insert(Delta(arrangement.schema, [column], np.array([1, 1])))
    assert arrangement.spine._dense is None
    assert arrangement.contents().weights.sum() == 10_002


def test_null_after_all_of_them_went() -> None:
    arrangement = arranged(np.arange(10_000))
    arrangement.insert(
        Delta(arrangement.schema, [np.arange(10_000)], np.full(10_000, -1, np.int64))
    )
    column = from_arrow(pa.array([None], pa.int64()))
    arrangement.insert(Delta(arrangement.schema, [column], np.array([1])))
    assert arrangement.spine._dense is None
    assert arrangement.fetch(np.array([5, 7])) is None
    assert arrangement.contents().weights.tolist() == [1]


def test_a_window_that_moves_on_takes_no_more_room() -> None:
    arrangement = arranged(np.arange(10_000))
    for step in range(1, 60):
        new = np.arange(2_000) + 8_000 + 2_000 * step
        arrangement.insert(Delta(arrangement.schema, [new], np.ones(2_000, np.int64)))
        gone = new - 10_000
        arrangement.insert(Delta(arrangement.schema, [gone], np.full(2_000, -1)))
    assert len(arrangement) == 10_000
    assert arrangement.nbytes < 2_000_000
    assert sorted(arrangement.contents().cols[0].tolist()) == [*range(118_000, 128_000)]


@pytest.mark.parametrize("parts", [1, 2])
def test_one_row_that_several_count(parts: int) -> None:
    """Weights of several parts, as a `Tally` of a join's sides has them, are added by arrays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spine, "LEAST", 2)
        patch.setattr(dense, "LEAST", 2)
        arrangement = Arrangement(Schema(["k"], [pa.int32()]), [0])
        first = from_arrow(pa.array([20, 21, 22, 24], pa.int32()))
        arrangement.insert(Delta(arrangement.schema, [first], np.ones((4, parts), np.int64)))
        assert arrangement.spine._dense is not None
        arrangement.post(Delta.of_rows(arrangement.schema, [(21,)], np.full((1, parts), 2)))
        found = arrangement.fetch(np.array([21]))
        assert found is not None
        assert found.weights.tolist() == [[3] * parts]
