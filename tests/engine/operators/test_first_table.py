"""The first rows of a view, of which some go, against a count of them."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from tidewheel.engine.operators import first_table
from tidewheel.engine.operators.first_table import FirstTable
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_rows

KINDS = {
    "integers": [("a", pa.int32(), [1, 2, 3, None]), ("b", pa.int64(), [0, -1, 1 << 60])],
    "texts": [("s", pa.string(), ["", "x", "a longer text than others", None])],
    "one": [("a", pa.int64(), [*range(40)])],
    "few": [("g", pa.int8(), [1]), ("s", pa.string(), [*"abcdefgh"])],
    "mixed": [
        ("a", pa.int16(), [1, 2]),
        ("x", pa.float64(), [0.0, -0.0, float("nan"), 1.5, None]),
        ("t", pa.bool_(), [True, False, None]),
        ("l", pa.list_(pa.int64()), [[1], [], None, [1, 2]]),
        ("c", pa.uint64(), [0, (1 << 64) - 1]),
    ],
}


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("looks", [0, 2, 100])
@pytest.mark.parametrize("bits", [4, 1 << 16])
def test_rows_that_go(kinds: str, looks: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more often than they are there, and when nothing, or all, is left."""
    monkeypatch.setattr(first_table, "BLOCK", 8)
    monkeypatch.setattr(first_table, "_LOOKS", looks)
    monkeypatch.setattr(first_table, "_BITS", bits)
    draw = random.Random(f"{kinds}{looks}{bits}")
    columns = KINDS[kinds]
    schema = Schema([n for n, _, _ in columns], [t for _, t, _ in columns])
    layout = Layout(schema, range(len(schema)), exactly=True)

    def delta(rows: list[tuple[object, ...]], weights: list[int]) -> Delta:
        return Delta.from_pylist(schema, [(*r, w) for r, w in zip(rows, weights, strict=True)])

    def one() -> tuple[object, ...]:
        return tuple(draw.choice(values) for _, _, values in columns)

    for size in (1, 7, 8, 100):
        rows = [one() for _ in range(size)]
        found = FirstTable(delta(rows, [draw.choice([1, 1, 2]) for _ in rows]), layout)
        there = counted(found)
        begun = len(found)
        assert begun == there.total()
        for _ in range(12):
            gone = {repr(r): r for r in (one() for _ in range(draw.choice([1, 1, 5])))}
            gone |= {repr(r): r for r in draw.sample(rows, min(size, draw.choice([0, 1, 3])))}
            weights = [-draw.choice([1, 1, 2, 9]) for _ in gone]
            left = found.take_out(sort_rows(layout.rows(delta([*gone.values()], weights))))
            wanted = Counter[str]()
            for row, weight in zip(
                delta([*gone.values()], weights).to_pylist(), weights, strict=True
            ):
                key = repr(row[:-1])
                taken = min(there[key], -weight)
                there[key] -= taken
                wanted[key] += -weight - taken
            missing = Counter[str]()
            for *row, weight in left.delta().to_pylist():
                missing[repr(tuple(row))] -= weight
            assert +missing == +wanted
            assert counted(found) == +there
            assert len(found) == there.total() == sum(map(len, found.batches()))
            assert found.nbytes > 0
            assert found.worn(begun)
            assert found.worn() == (4 * (begun - len(found)) > begun)


def counted(table: FirstTable) -> Counter[str]:
    """The rows by how they are written: -0.0 is not 0.0."""
    rows = Counter[str]()
    for *row, weight in table.rows().to_pylist():
        rows[repr(tuple(row))] += weight
    batches = table.batches()
    if batches:
        shown = Delta.from_arrow(pa.Table.from_batches(batches), 1).to_pylist()
        assert Counter(repr(tuple(row[:-1])) for row in shown) == rows
    return rows


def test_blocks_in_which_nothing_goes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_table, "BLOCK", 8)
    schema = Schema(["a"], [pa.int64()])
    layout = Layout(schema, [0], exactly=True)
    found = FirstTable(Delta.from_pylist(schema, [(i, 1) for i in range(80)]), layout)
    found.take_out(sort_rows(layout.rows(Delta.from_pylist(schema, [(17, -1)]))))
    before = found.batches()
    found.take_out(sort_rows(layout.rows(Delta.from_pylist(schema, [(40, -1), (41, -1)]))))
    after = found.batches()
    assert [a is b for a, b in zip(before, after, strict=True)] == [i != 5 for i in range(10)]
