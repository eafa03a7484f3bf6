"""The rows of a view, as it was filled and after random changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators import sink
from tidewheel.engine.operators.sink import Sink
from tidewheel.engine.state.delta import Delta, Schema

SCHEMA = Schema(["a", "b"], [pa.int64(), pa.string()])
Rows = list[tuple[Any, ...]]


def some(rng: np.random.Generator, n: int) -> Rows:
    """Rows, many of them equal, with weights of at least 1."""
    texts = [None, "", "x", "yy"]
    return [
        (int(rng.integers(5)), texts[int(rng.integers(4))], int(rng.integers(1, 3)))
        for _ in range(n)
    ]


def pushed(op: Sink, rows: Rows) -> None:
    op.step((), [Delta.from_pylist(SCHEMA, rows)])


def held(op: Sink) -> Counter[Any]:
    return Counter(tuple(r.values()) for r in op.rows().to_pylist())


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("first", [0, 3, 200])
def test_first_rows_and_changes(monkeypatch: pytest.MonkeyPatch, first: int, read: bool) -> None:
    monkeypatch.setattr(sink, "LEAF", 8)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        op, want = Sink(SCHEMA), Counter[Any]()
        for part in (some(rng, first), some(rng, first // 2)):
            pushed(op, part)
            for *row, weight in part:
                want[tuple(row)] += weight
        op.begin()
        if read:
            assert held(op) == want
            assert op.rows() is op.rows()
        for _ in range(10):
            gone = [(*row, -1) for row, n in want.items() if n and rng.random() < 0.5]
            change = [*gone, *some(rng, int(rng.integers(4)))]
            pushed(op, change)
            delta = {tuple(row): n for *row, n in op.taken().to_pylist() if n}
            net = Counter[Any]()
            for *row, weight in change:
                net[tuple(row)] += weight
            assert delta == {row: n for row, n in net.items() if n}
            want.update(net)
            if read or rng.random() < 0.3:
                assert held(op) == +want
        assert held(op) == +want


def test_first_rows_are_as_they_came_until_one_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "LEAF", 8)
    op = Sink(SCHEMA)
    rows = [(i * 7919 % 100, "x") for i in range(100)]
    pushed(op, [(*row, 1) for row in rows])
    op.begin()
    assert [tuple(r.values()) for r in op.rows().to_pylist()] == rows
    assert op.state_rows == 100
    pushed(op, [(1, "x", -1)])
    op.taken()
    assert held(op) == Counter(row for row in rows if row != (1, "x"))


def test_what_is_taken_away_must_have_been_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "LEAF", 8)
    op = Sink(SCHEMA)
    pushed(op, [(i, "x", 1) for i in range(100)])
    op.begin()
    pushed(op, [(100, "x", -1)])
    op.taken()
    with pytest.raises(ValueError, match="was not there"):
        op.rows()


def test_what_nobody_reads_stays_small() -> None:
    op, want = Sink(SCHEMA), Counter[Any]()
    pushed(op, [(i, "x", 1) for i in range(10)])
    op.begin()
    want.update((i, "x") for i in range(10))
    most = 0
    for epoch in range(3000):  # a sum of each group that is another one after every commit
        new = "x" * (epoch % 7)
        rows = [row for row in want if row[0] == epoch % 10]
        change = [(*row, -want.pop(row)) for row in rows]
        want[epoch % 10, new] += 1
        pushed(op, [*change, (epoch % 10, new, 1)])
        op.taken()
        most = max(most, op.state_rows)
    assert most < 1000
    assert held(op) == +want


@pytest.mark.parametrize("first", [0, 300])
def test_rows_that_only_come_are_merged_now_and_then(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(sink, "LEAF", 16)
    op, want = Sink(SCHEMA), Counter[Any]()
    pushed(op, [(-i, "y", 1) for i in range(first)])
    op.begin()
    want.update((-i, "y") for i in range(first))
    parts = []
    for epoch in range(3000):
        pushed(op, [(epoch, "x", 1)])
        op.taken()
        want[epoch, "x"] += 1
        parts.append(len(op._waiting))
    assert max(parts) < 2 * sink.PARTS
    assert held(op) == want


def test_what_comes_and_goes_again_leaves_nothing() -> None:
    op = Sink(SCHEMA)
    op.begin()
    for _ in range(200):
        for weight in (1, -1):
            pushed(op, [(1, "x", weight)])
            op.taken()
    assert op.state_rows < 2 * sink.PARTS
    assert held(op) == Counter()
