"""`Closure` against recomputation from scratch: random edits of cyclic graphs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators.closure import Closure
from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.operators.linear import selecting
from tidewheel.engine.state.delta import Delta, Schema

NODES = 7
EDGES = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))
# (is an anchor?, edge); an edit that is there already takes it away.
EDITS = st.lists(st.lists(st.tuples(st.booleans(), EDGES), min_size=1, max_size=6), max_size=12)


def reached(anchors: set[int], edges: set[tuple[int, int]]) -> set[int]:
    """Naive fixpoint."""
    found = set(anchors)
    while True:
        more = {b for a, b in edges if a in found} - found
        if not more:
            return found
        found |= more


def table(rows: list[tuple[int, ...]], names: tuple[str, ...], text: bool) -> list[pa.Array]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    if text:
        return [pa.array([f"node {v}" for v in c], pa.string()) for c in columns]
    return [pa.array(c, pa.int64()) for c in columns]


def delta(schema: Schema, changes: list[tuple[tuple[int, ...], int]], text: bool) -> Delta:
    arrays = table([r for r, _ in changes], schema.names, text)
    weights = pa.array([w for _, w in changes], pa.int64())
    return Delta.from_arrow(
        pa.Table.from_arrays([*arrays, weights], names=[*schema.names, "weight"])
    )


@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@settings(max_examples=150, deadline=None)
@given(edits=EDITS)
def test_random_edits_equal_recomputation(
    text: bool, edits: list[list[tuple[bool, tuple[int, int]]]]
) -> None:
    kind = pa.string() if text else pa.int64()
    x, pair = Schema(("n",), (kind,)), Schema(("a", "b"), (kind, kind))
    arrange = Arrange(pair, [0])
    op = Closure(
        x,
        [0],
        arrange.arrangement,
        [(0, 0), (1, 0), (1, 1)],
        Schema(("n", "a", "b"), (kind,) * 3),
        selecting([2], x),
    )
    anchors: set[int] = set()
    edges: set[tuple[int, int]] = set()
    held: dict[object, int] = {}
    for epoch in edits:
        changed: dict[bool, list[tuple[tuple[int, ...], int]]] = {True: [], False: []}
        for is_anchor, edge in epoch:
            if is_anchor:
                changed[True].append(((edge[0],), -1 if edge[0] in anchors else 1))
                anchors ^= {edge[0]}
            else:
                changed[False].append((edge, -1 if edge in edges else 1))
                edges ^= {edge}
        moved = arrange.step((), [delta(pair, changed[False], text)]) if changed[False] else []
        first = delta(x, changed[True], text) if changed[True] else None
        for _, _, out in op.step((), [first, moved[0][2] if moved else None]):
            for row, weight in zip(out.to_pylist(), out.weights.tolist(), strict=True):
                held[row[0]] = held.get(row[0], 0) + weight
        want = {f"node {n}" if text else n for n in reached(anchors, edges)}
        assert {k: v for k, v in held.items() if v} == dict.fromkeys(want, 1)
