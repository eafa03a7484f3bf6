"""Every view shape, maintained under random edits, against DuckDB's own run of its query."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tidewheel
from oracle.shapes import EDITS, SCHEMA, SHAPES
from tidewheel.engine.operators import following, shared
from tidewheel.planner import view_fill, view_heads
from tidewheel.planner.rewrites import measured

Rows = Counter[tuple[Any, ...]]


def rows(found: list[tuple[Any, ...]]) -> Rows:
    return Counter(tuple(repr(v) for v in row) for row in found)


def opened(threads: int, names: list[str], before: list[str]) -> tidewheel.Connection:
    con = tidewheel.connect(threads=threads)
    con.execute(SCHEMA)
    for edit in before:
        con.execute(edit)
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
    return con


def compare(con: tidewheel.Connection, oracle: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    for name in names:
        got = rows(con.execute(f"FROM v_{name}").fetchall())
        # ON CONFLICT moves the rows that it updates, where views read the table, behind the others.
        asked = con if name.startswith("table_order") else oracle
        want = rows(asked.execute(SHAPES[name]).fetchall())
        assert got == want, name


def check(
    edits: list[str], names: list[str], threads: int, batch: int, before: list[str] | None = None
) -> None:
    """Run edits in transactions of `batch` statements on both sides; all views agree after each.

    `before`: edits that come before the views are made.
    """
    oracle = duckdb.connect()
    oracle.execute(SCHEMA)
    for edit in before or ():
        oracle.execute(edit)
    with opened(threads, names, before or []) as con:
        compare(con, oracle, names)
        for start in range(0, len(edits), batch):
            con.execute("BEGIN")
            for edit in edits[start : start + batch]:
                con.execute(edit)
                oracle.execute(edit)
            con.execute("COMMIT")
            compare(con, oracle, names)


# Shrinking a failure would run for minutes; the edits are few as they are.
FEW = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.mark.parametrize("name", SHAPES)
@settings(FEW, max_examples=3)
@given(edits=st.lists(EDITS, min_size=4, max_size=12))
def test_each_shape_stepwise(name: str, edits: list[str]) -> None:
    check(edits, [name], 1, 1)


@settings(FEW, max_examples=2)
@given(edits=st.lists(EDITS, min_size=6, max_size=12), batch=st.integers(2, 12))
@pytest.mark.parametrize("threads", [1, 2])
def test_all_shapes_batched(edits: list[str], batch: int, threads: int) -> None:
    check(edits, list(SHAPES), threads, batch)


@settings(FEW, max_examples=3)
@given(before=st.lists(EDITS, min_size=8, max_size=20), edits=st.lists(EDITS, max_size=6))
@pytest.mark.parametrize("threads", [1, 2])
def test_all_shapes_made_over_rows(threads: int, before: list[str], edits: list[str]) -> None:
    check(edits, list(SHAPES), threads, 1, before)


@settings(FEW, max_examples=3)
@given(
    before=st.lists(EDITS, min_size=8, max_size=20), edits=st.lists(EDITS, min_size=4, max_size=8)
)
@pytest.mark.parametrize(("batch", "fewer"), [(1, 0), (3, 0), (1, 1)])
def test_all_shapes_with_state_that_waits(
    batch: int, fewer: int, before: list[str], edits: list[str]
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
        check(edits, list(SHAPES), 1, batch, before)


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
    check(edits, [name], 1, batch)
