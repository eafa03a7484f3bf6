"""Every view shape, maintained under random edits, against DuckDB's own run of its query."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidewheel
from oracle.shape_checks import FEW, check_shapes
from oracle.shapes import EDITS, SHAPES
from tidewheel.engine.operators import following, shared
from tidewheel.planner import view_fill, view_heads
from tidewheel.planner.rewrites import measured

HALVES = st.sampled_from([list(SHAPES)[::2], list(SHAPES)[1::2]])
"""Views of one database, that share what they have in common."""


@pytest.mark.parametrize("name", SHAPES)
@settings(FEW, max_examples=2)
@given(edits=st.lists(EDITS, min_size=4, max_size=12))
def test_each_shape_stepwise(name: str, edits: list[str]) -> None:
    check_shapes(edits, [name], 1, 1)


@settings(FEW, max_examples=2)
@given(edits=st.lists(EDITS, min_size=6, max_size=12), batch=st.integers(2, 12), shapes=HALVES)
@pytest.mark.parametrize("threads", [1, 2])
def test_shapes_batched(edits: list[str], batch: int, threads: int, shapes: list[str]) -> None:
    check_shapes(edits, shapes, threads, batch)


@settings(FEW, max_examples=3)
@given(
    before=st.lists(EDITS, min_size=8, max_size=20),
    edits=st.lists(EDITS, max_size=6),
    shapes=HALVES,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_shapes_made_over_rows(
    threads: int, before: list[str], edits: list[str], shapes: list[str]
) -> None:
    check_shapes(edits, shapes, threads, 1, before)


@settings(FEW, max_examples=2)
@given(
    before=st.lists(EDITS, min_size=8, max_size=20),
    edits=st.lists(EDITS, min_size=4, max_size=8),
    shapes=HALVES,
)
@pytest.mark.parametrize(("batch", "fewer"), [(1, 0), (3, 0), (1, 1)])
def test_shapes_with_state_that_waits(
    batch: int, fewer: int, before: list[str], edits: list[str], shapes: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_fill, "MANY", 0)
        patch.setattr(shared, "FEWER", fewer)
        patch.setattr(measured, "LOOKED_AT", 2)
        patch.setattr(shared, "TIMES", 4 - batch)
        patch.setattr(shared, "ROW", 1)
        patch.setattr(view_heads, "LEAST", 1)
        patch.setattr(view_heads, "PART", 0)
        patch.setattr(following, "SMALL", 0)
        check_shapes(edits, shapes, 1, batch, before)


def test_sums_of_doubles_do_not_drift() -> None:
    """After inserts and deletes a sum is the exact sum of what is there, rounded once."""
    rng = random.Random(7)
    kept: list[float] = []
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE n (id INTEGER, d DOUBLE)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(d) AS s, avg(d) AS a FROM n")
        for i in range(200):
            if kept and rng.random() < 0.45:
                at = rng.randrange(len(kept))
                con.execute("DELETE FROM n WHERE id = ?", [at])
                con.execute("UPDATE n SET id = ? WHERE id = ?", [at, len(kept) - 1])
                kept[at] = kept[-1]
                kept.pop()
            else:
                kept.append(rng.choice([0.1, 0.2, 1e16, -1e16, 3.3e-9, float(i) / 3]))
                con.execute("INSERT INTO n VALUES (?, ?)", [len(kept) - 1, kept[-1]])
            total = float(sum(map(Fraction, kept)))
            mean = float(sum(map(Fraction, kept)) / len(kept)) if kept else None
            want = (total, mean) if kept else (None, None)
            assert con.execute("FROM v").fetchall() == [want], i


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=st.lists(EDITS, min_size=10, max_size=40), batch=st.integers(1, 10))
def test_each_shape_at_length(name: str, edits: list[str], batch: int) -> None:
    check_shapes(edits, [name], 1, batch)
