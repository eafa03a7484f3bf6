"""Rows by key against Python dicts."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators.keyed_rows import KeyedRows
from tidewheel.engine.operators.merging import merged_by_sorting

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("a", pa.int64()), ("n", pa.int64())])
HOW = [None, "min", "arg_min:1", "max"]
ROW = st.tuples(
    st.none() | st.integers(0, 6),
    st.none() | st.text("ab", max_size=2),
    st.integers(0, 9),
    st.none() | st.integers(0, 3),
)
STEPS = st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=12)


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(list(c), t) for c, t in zip(columns, SCHEMA.types, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def tuples(rows: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


@given(STEPS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_last_row_of_a_key_replaces_the_others(steps, changes_only: bool) -> None:
    keyed, known = small_pieces(), {}
    for step in steps:
        latest = {}
        for row in step:
            latest[row[0]] = row
        changed = [r for k, r in latest.items() if known.get(k) != r] if changes_only else step
        known.update(latest)
        assert tuples(keyed.replace(table(step), changes_only)) == changed
    assert tuples(keyed.rows()) == list(known.values())


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_the_best_values_of_a_key_stay(steps) -> None:
    keyed, known = small_pieces(), {}
    for step in steps:
        touched = {}
        for k, v, a, n in step:
            old = known.get(k)
            new = (k, v, a, n) if old is None else old
            if old is not None and v is not None and (old[1] is None or v < old[1]):
                new = (k, v, a, new[3])
            if old is not None and n is not None and (old[3] is None or n > old[3]):
                new = (*new[:3], n)
            if new != old:
                touched[k] = known[k] = new
        found = keyed.improve(table(step), HOW, lambda rows: merged_by_sorting(rows, HOW))
        assert sorted(map(repr, tuples(found))) == sorted(map(repr, touched.values()))
    assert tuples(keyed.rows()) == list(known.values())


def test_one_row_without_a_key() -> None:
    keyed = KeyedRows(SCHEMA, ())
    assert keyed.rows().num_rows == keyed.replace(table([]), True).num_rows == 0
    keyed.replace(table([(1, "a", 2, 3), (4, "b", 5, 6)]), True)
    assert tuples(keyed.rows()) == [(4, "b", 5, 6)]


def small_pieces() -> KeyedRows:
    """One that copies its rows often."""
    keyed = KeyedRows(SCHEMA, (0,))
    keyed._spare = 4
    return keyed
