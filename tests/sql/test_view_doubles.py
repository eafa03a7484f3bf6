"""Sums of doubles that a view is filled with: exact, whatever is guessed of the values before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidewheel
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.planner import derived_aggregates, view_doubles, view_fill
from tidewheel.planner.view_doubles import Size, limbs, terms

SUMS = {
    "table": "SELECT g, sum(x) AS s, avg(x) AS a, var_pop(x) AS v, count(*) AS n FROM t GROUP BY g",
    "join": "SELECT g, sum(x) AS s, avg(x) AS a, var_pop(x) AS v, count(*) AS n FROM t "
    "JOIN d USING (g) GROUP BY g",
}
ALIKE = st.floats(0.25, 1000.0)
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e150, min_value=-1e150),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.0, 2.0**52 + 1, 2.0**-60, 1e150, 1e-150]),
    ALIKE,
)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.none() | DOUBLES), max_size=12)


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    """Little is looked at before; what DuckDB keeps of a column is known of small tables, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_doubles, "_SOME", 3)
        patch.setattr(view_fill, "MANY", 1)
        yield


def expected(rows: list[tuple[int, float | None]]) -> list[tuple[Any, ...]]:
    found = []
    for group in sorted({g for g, _ in rows}):
        values = [Fraction(x) for g, x in rows if g == group and x is not None]
        n = len(values)
        if not n:
            found.append((group, None, None, None, sum(g == group for g, _ in rows)))
            continue
        total = sum(values, Fraction(0))
        squares = sum((v * v for v in values), Fraction(0))
        variance = (squares * n - total * total) / (n * n) if n > 1 else Fraction(0)
        means = float(total), float(total / n), float(variance)
        found.append((group, *means, sum(g == group for g, _ in rows)))
    return found


def kept(con: tidewheel.Connection) -> int:
    """Rows of state that the view's sums have."""
    plan = con._session.database.maintainer.views["memory.main.v"].plan
    assert plan is not None
    assert plan.circuit is not None
    ops = [n.op for n in plan.circuit.nodes if n is not None and isinstance(n.op, Accumulate)]
    assert ops
    return sum(len(a.contents()) for op in ops for a in op.arrangements())


@pytest.mark.parametrize("shape", SUMS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=st.lists(st.tuples(st.integers(0, 2), ALIKE), max_size=6), rest=ROWS)
def test_whatever_comes_behind_what_was_looked_at(
    shape: str, first: list[tuple[int, float | None]], rest: list[tuple[int, float | None]]
) -> None:
    rows = first + rest
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (i INTEGER, g INTEGER, x DOUBLE)")
        con.execute("CREATE TABLE d AS SELECT unnest([0, 1, 2]) AS g")
        if rows:
            con.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, *r) for i, r in enumerate(rows)])
        con.execute(f"CREATE MATERIALIZED VIEW v AS {SUMS[shape]}")
        assert con.execute("FROM v ORDER BY g").fetchall() == expected(rows)
        con.execute("DELETE FROM t WHERE i % 2 = 0")
        assert con.execute("FROM v ORDER BY g").fetchall() == expected(rows[1::2])
        con.execute("DELETE FROM t")
        assert con.execute("FROM v").fetchall() == []
        assert kept(con) == 0


def moments(rows: list[tuple[float | None, float | None]]) -> list[Any]:
    """The covariance of pairs, and third and fourth central moments of the first values."""
    pairs = [(Fraction(x), Fraction(y)) for x, y in rows if x is not None and y is not None]
    values = [Fraction(x) for x, _ in rows if x is not None]
    found: list[Any] = [None]
    if pairs:
        x, y = (sum((p[i] for p in pairs), Fraction(0)) / len(pairs) for i in (0, 1))
        found = [float(sum((a - x) * (b - y) for a, b in pairs) / len(pairs))]
    for power in (3, 4):
        mean = sum(values, Fraction(0)) / max(1, len(values))
        sums = sum(((v - mean) ** power for v in values), Fraction(0))
        found.append(float(sums / len(values)) if values else None)
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.none() | ALIKE | st.sampled_from([0.0, 5e-324, -1e70, 2.0**-60, 3.0]),
            st.none() | ALIKE | st.sampled_from([0.0, 1e200, 7.0]),
        ),
        max_size=8,
    )
)
def test_products_of_two_and_more(rows: list[tuple[int, float | None, float | None]]) -> None:
    """Filled by a statement or by operators, and of what is left behind a change."""
    with tidewheel.connect() as con, pytest.MonkeyPatch.context() as patch:
        # the shape of values is a quotient of moments
        patch.setitem(derived_aggregates._SINGLE, "skewness", "m3")
        patch.setitem(derived_aggregates._SINGLE, "kurtosis", "m4")
        con.execute("CREATE TABLE t (i INTEGER, g INTEGER, x DOUBLE, y DOUBLE)")
        if rows:
            given_ = [(i, *r) for i, r in enumerate(rows)]
            con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", given_)
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT g, covar_pop(y, x) AS c, skewness(x) AS s, "
            "kurtosis(x) AS k FROM t GROUP BY g"
        )
        for left in (rows, rows[1::2], []):
            found = con.execute("FROM v ORDER BY g").fetchall()
            assert found == [
                (g, *moments([(x, y) for of, x, y in left if of == g]))
                for g in sorted({g for g, _, _ in left})
            ]
            con.execute("DELETE FROM t WHERE i % 2 = 0" if left is rows else "DELETE FROM t")
        assert kept(con) == 0


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("shape", SUMS)
def test_what_is_no_number_comes_late(value: str, shape: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i, i % 3 AS g, i / 7 AS x FROM range(40) AS r(i)")
        con.execute("CREATE TABLE d AS SELECT unnest([0, 1, 2]) AS g")
        con.execute(f"INSERT INTO t VALUES (40, 1, '{value}')")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {SUMS[shape]}")
        rows = [(i % 3, i / 7) for i in range(40)]
        found = con.execute("FROM v ORDER BY g").fetchall()
        assert [found[0], found[2]] == [expected(rows)[0], expected(rows)[2]]
        assert str(found[1][1]) == value
        con.execute("DELETE FROM t WHERE i = 40")
        assert con.execute("FROM v ORDER BY g").fetchall() == expected(rows)
        con.execute("DELETE FROM t")
        assert kept(con) == 0


def test_one_group_has_nearly_all_rows() -> None:
    """Parts of fewer bits are summed up then; so many rows of one group nobody expected."""
    with tidewheel.connect() as con:
        query = "SELECT CASE WHEN i < 5000 THEN 0 ELSE i END AS g, (i * 1e6 + 1) / 7 - 3 AS x"
        con.execute(f"CREATE TABLE t AS {query} FROM range(10000) AS r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        values = con.execute("SELECT x FROM t WHERE g = 0").fetchall()
        exact = sum((Fraction(x) for (x,) in values), Fraction(0))
        assert con.execute("SELECT s FROM v WHERE g = 0").fetchall() == [(float(exact),)]


def test_doubles_that_cancel_out_leave_errors() -> None:
    """The exact values lie between 0 and 16,000; some of what doubles make of them is 16,384."""
    query = "SELECT sum((x + 1e20) - 1e20) AS s, count(*) AS n FROM t"
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i / 50000 * 16000 AS x FROM range(50000) AS r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        rows = con.execute("SELECT (x + 1e20) - 1e20 FROM t").fetchall()
        exact = sum((Fraction(x) for (x,) in rows), Fraction(0))
        assert con.execute("FROM v").fetchall() == [(float(exact), 50000)]


@pytest.mark.parametrize("rows", [1, 1000, 1 << 20, 1 << 27, math.inf])
@pytest.mark.parametrize("sure", [True, False])
def test_sums_of_parts_are_exact(rows: float, sure: bool) -> None:
    class Of:
        argument, term, kind = 0, 0, tidewheel.engine.arrow.pa.float64()

    size = Size(1e6, 1e-3, sure, sure)
    found = terms([Of()], {}, {0: size}, rows)  # type: ignore[list-item]
    if math.isinf(rows):
        assert found is None  # one bit each
        return
    assert found is not None
    (term,) = found
    assert term.most(together=True) >= rows
    assert term.bits[0] + term.width >= math.frexp(1e6)[1]
    assert term.bits[-1] <= math.frexp(1e-3)[1] - 53


@pytest.mark.parametrize("bit", [0, 1, 25, 26, -1, -27, -1074, 900])
@pytest.mark.parametrize("amount", [0, 1, -1, (1 << 53) - 1, -(1 << 53) + 1, 1 << 26, -(1 << 26)])
def test_an_amount_is_the_sum_of_its_limbs(bit: int, amount: int) -> None:
    import numpy as np

    from tidewheel.engine.operators import exact

    found = limbs([(3, bit), (3, bit)], [np.array([amount]), np.array([amount])])
    total = sum(
        int(amounts[0]) * Fraction(2) ** (exact.DOUBLE_LIMB * (limb - exact.BIAS))
        for _, limb, amounts in found
    )
    assert total == 2 * amount * Fraction(2) ** bit


@pytest.mark.parametrize("function", ["sum(x)", "var_pop(x)"])
def test_no_value_is_no_wrong_guess(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Rows are read once, though some have no value."""
    measured: list[object] = []
    known = view_doubles.measured
    monkeypatch.setattr(
        view_doubles, "measured", lambda *given: measured.append(given) or known(*given)
    )
    with tidewheel.connect() as con:
        value = "CASE WHEN i % 10 < 9 THEN i / 8 - 20 END"
        con.execute(f"CREATE TABLE t AS SELECT i % 3 AS g, {value} AS x FROM range(900) r(i)")
        query = f"SELECT g, {function} AS s FROM t GROUP BY g"
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("FROM v ORDER BY g").fetchall()
        assert con.execute("VERIFY VIEW v").fetchall() == []
        assert not measured
