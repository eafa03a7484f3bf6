"""Every view shape, maintained under random edits, against DuckDB's own run of its query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidewheel
from oracle.shapes import EDITS, SCHEMA, SHAPES

Rows = Counter[tuple[Any, ...]]


def rows(found: list[tuple[Any, ...]]) -> Rows:
    return Counter(tuple(repr(v) for v in row) for row in found)


def opened(threads: int, names: list[str]) -> tidewheel.Connection:
    con = tidewheel.connect(threads=threads)
    con.execute(SCHEMA)
    for name in names:
        con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS {SHAPES[name]}")
    return con


def compare(con: tidewheel.Connection, oracle: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    for name in names:
        got = rows(con.execute(f"FROM v_{name}").fetchall())
        want = rows(oracle.execute(SHAPES[name]).fetchall())
        assert got == want, name


def check(edits: list[str], names: list[str], threads: int, batch: int) -> None:
    """Run edits in transactions of `batch` statements on both sides; all views agree after each."""
    oracle = duckdb.connect()
    oracle.execute(SCHEMA)
    with opened(threads, names) as con:
        for start in range(0, len(edits), batch):
            con.execute("BEGIN")
            for edit in edits[start : start + batch]:
                con.execute(edit)
                oracle.execute(edit)
            con.execute("COMMIT")
            compare(con, oracle, names)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=4, max_size=12))
def test_each_shape_stepwise(name: str, edits: list[str]) -> None:
    check(edits, [name], 1, 1)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=6, max_size=12), batch=st.integers(2, 12))
@pytest.mark.parametrize("threads", [1, 2])
def test_all_shapes_batched(edits: list[str], batch: int, threads: int) -> None:
    check(edits, list(SHAPES), threads, batch)


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=st.lists(EDITS, min_size=10, max_size=40), batch=st.integers(1, 10))
def test_each_shape_at_length(name: str, edits: list[str], batch: int) -> None:
    check(edits, [name], 1, batch)
