# ruff: noqa: E501
"""The best row of each key, found by arrays, against the same row by row."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.engine.operators import variable

TYPES = {
    "TINYINT": [-128, 0, 5, 127, None],
    "BIGINT": [0, 3, 1 << 40],
    "BIGINT, its ends": [(1 << 63) - 1, None, -(1 << 63)],
    "DOUBLE": [0.5, -0.0, 0.0, math.nan, math.inf, -math.inf, None, 2.25],
    "FLOAT": [0.1, 1.5, -7.25],
    "DATE": [date(2020, 1, 1), date(1, 1, 1), None],
    "VARCHAR": ["a", "b", None],
    "BOOLEAN": [True, False, None],
    "HUGEINT": [-1, 255, 256, 1 << 100, None],
    "DECIMAL(9, 2)": [Decimal("-1.5"), Decimal("3.25"), None],
    "DECIMAL(30, 2)": [Decimal("-1.5"), Decimal("3.25"), None],
    "UUID": [UUID(int=1), UUID(int=1 << 127), None],
    "UBIGINT": [0, 1 << 63, None],
}
STEPS = {
    "values": "WITH RECURSIVE d(x, v) AS (SELECT a, w FROM e WHERE a < 3 UNION SELECT e.b, {0}(e.w) FROM d JOIN e ON e.a = d.x GROUP BY e.b UNION SELECT e.b, {0}(d.v) FROM d JOIN e ON e.a = d.x GROUP BY e.b) FROM d",
    "of which row": "WITH RECURSIVE d(x, v, p) AS (SELECT a, w, s FROM e WHERE a < 3 UNION SELECT e.b, {0}(e.w), arg_{0}(e.s, e.w) FROM d JOIN e ON e.a = d.x GROUP BY e.b) "
    "SELECT x, v, EXISTS (FROM e WHERE e.s = d.p AND e.w IS NOT DISTINCT FROM d.v AND d.x IN (e.a, e.b)) FROM d",
    "two values": "WITH RECURSIVE d(x, v, u) AS (SELECT a, w, w FROM e WHERE a < 3 UNION SELECT e.b, {0}(e.w), max(d.u) FROM d JOIN e ON e.a = d.x GROUP BY e.b) FROM d",
}  # fmt: skip


def answer(con, query: str) -> list[str]:
    rows = sorted(con.execute(query).fetchall(), key=repr)
    return [repr(row).replace("-0.0", "0.0") for row in rows]


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_as_row_by_row(name: str, step: str, data) -> None:
    row = st.tuples(
        st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 5), st.sampled_from(TYPES[name])
    )
    rows = data.draw(st.lists(row, max_size=14))
    query = step.format(data.draw(st.sampled_from(["min", "max"])))
    fits = variable.Improved.fits
    with tidewheel.connect() as con:
        con.execute("SET fusion = 'off'")
        con.execute(f"CREATE TABLE e (a INT, b INT, w {name.partition(', its')[0]}, s VARCHAR)")
        con.executemany("INSERT INTO e VALUES (?, ?, ?, ?)", [(*r, f"s{i}") for i, r in enumerate(rows)])  # fmt: skip
        found = answer(con, query)
        try:
            variable.Improved.fits = staticmethod(lambda *_: None)  # type: ignore[assignment, method-assign]
            assert found == answer(con, query)
        finally:
            variable.Improved.fits = fits  # type: ignore[method-assign]
