"""A table's rows by key, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.state import key_index
from tidewheel.engine.state.change import Change
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.key_index import KeyIndex

NAMES = ("name", "id", "value")
SCHEMA = Schema(NAMES, (pa.string(), pa.int32(), pa.float64()))
SCHEMA_ARROW = pa.schema(list(zip(NAMES, SCHEMA.types, strict=True)))
Held = tuple[str, int, float | None]
VALUES = st.none() | st.sampled_from([0.5, 1.5])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "refused", "many"]), st.integers(0, 6), VALUES))


def change(*rows: tuple[Held, int]) -> Change:
    """A few rows with their weights, as single statements give them."""
    weights = np.array([weight for _, weight in rows])
    return Change.of(Delta.of_rows(SCHEMA, [row for row, _ in rows], weights), NAMES)


@pytest.mark.parametrize("key", [(1,), (0,), (0, 1)])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, waiting=st.integers(1, 6))
def test_against_a_dictionary(
    key: tuple[int, ...], steps: list[tuple[str, int, float | None]], waiting: int
) -> None:
    """Rows come, go, are replaced and refused, one by one and many at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_WAITING", waiting)
        known: dict[int, Held] = {i: (f"n{i}", i, None) for i in range(3)}
        index = KeyIndex(NAMES, SCHEMA, key, None)
        index.fill(Delta.from_pylist(SCHEMA, [(*row, 1) for row in known.values()]))
        for what, i, value in steps:
            row, there = (f"n{i}", i, value), known.get(i)
            if what == "refused":  # as a second row of a key is, after views and index had it
                index.apply(change((row, 1)))
                index.apply(change((row, 1)).negated())
            elif there is None:
                known[i] = row
                index.apply(change((row, 1)))
            elif value is None:
                del known[i]
                index.apply(change((there, -1)))
            elif what == "put":
                known[i] = row
                index.apply(change((row, 1), (there, -1)))
            else:
                known[i] = row
                table = pa.Table.from_pylist(
                    [dict(zip(NAMES, r, strict=True)) for r in (there, row)], SCHEMA_ARROW
                )
                index.apply(Change(table.append_column("weight", pa.array([-1, 1]))))
            for j in range(7):
                name = tuple([(f"n{j}", j)[at] for at in key])
                assert index.find(name) == known.get(j)
