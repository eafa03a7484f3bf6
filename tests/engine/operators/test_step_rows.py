"""A step as Python's code gives the rows, and the refusals, of the same step on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.engine.operators.lookup import Relation
from tidewheel.engine.operators.step_program import (
    Compare,
    Compute,
    Limits,
    Number,
    Program,
    Slot,
    Unfit,
    Value,
)
from tidewheel.engine.operators.step_rows import compiled

SMALL = st.integers(-4, 4)


def values(slots: int) -> st.SearchStrategy[Value]:
    leaf = st.builds(Slot, st.integers(0, slots - 1)) | st.builds(Number, SMALL)
    operators = st.sampled_from(["+", "-", "*", "least", "greatest"])
    return st.recursive(
        leaf, lambda inner: st.builds(Compute, operators, inner, inner), max_leaves=4
    )


@st.composite
def steps(draw: st.DrawFn) -> Any:
    own = draw(st.integers(1, 3))
    widths = draw(st.lists(st.integers(0, 2), max_size=2))
    keys, slots = [], own
    for width in widths:
        keys.append(draw(st.integers(0, slots - 1)))
        slots += width
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])

    def conditions(known: int) -> list[Compare]:
        one = st.builds(Compare, compare, values(known), values(known))
        return draw(st.lists(one, max_size=1))

    outputs = tuple(draw(values(slots)) for _ in range(own))
    limits: list[Limits | None] = [
        draw(st.none() | st.sampled_from([(-3, 3), (-9, 20)])) for _ in outputs
    ]
    limits = [x if isinstance(o, Compute) else None for o, x in zip(outputs, limits, strict=True)]
    before, after = tuple(conditions(own)), tuple(conditions(slots))
    program = Program(own, tuple(keys), tuple(widths), before, after, outputs, tuple(limits))
    wide = draw(st.booleans())  # keys far from each other are not found by offsets
    rows = draw(st.lists(st.tuples(*[SMALL] * own), min_size=1, max_size=6))
    relations = []
    for width in widths:
        found = draw(st.lists(st.tuples(SMALL, *[SMALL] * width), max_size=8))
        if wide:
            found.append((1 << 40, *[0] * width))
        relations.append([np.array(c, dtype=np.int64) for c in zip(*found, strict=True)])
        relations[-1] = relations[-1] or [np.zeros(0, np.int64)] * (width + 1)
    return program, rows, relations


@given(steps())
def test_rows_are_those_of_arrays(case: Any) -> None:
    program, rows, columns = case
    relations = [Relation(c) for c in columns]
    arrays = [np.array(c, dtype=np.int64) for c in zip(*rows, strict=True)]

    def on_arrays() -> Any:
        found = program.run(arrays, relations, False)
        return sorted(zip(*(c.tolist() for c in found), strict=True))

    def by_rows() -> Any:
        return sorted(compiled(program, relations)(rows))

    def outcome(run: Any) -> Any:
        try:
            return run()
        except Unfit:
            return "unfit"

    assert outcome(by_rows) == outcome(on_arrays)


def test_arithmetic_never_leaves_64_bits() -> None:
    limit = 1 << 61
    outputs = (Compute("*", Slot(0), Slot(0)),)
    square = Program(1, (), (), (), (), outputs, ((-limit, limit),))
    for value, fits in ((1 << 30, True), (1 << 31, False), (-(1 << 32), False)):
        try:
            found = square.run([np.array([value])], [], False)
        except Unfit:
            assert not fits
        else:
            assert fits
            assert found[0].tolist() == [value * value]
