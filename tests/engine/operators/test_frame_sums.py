"""Sums, means and variances over frames are those of the exact numbers, rounded once."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators import frame_sums
from tidewheel.engine.operators.frame_sums import FrameSums, Function, framed

# all doubles, those that a few limbs cover, and such that cancel out
DOUBLES = st.one_of(
    st.floats(),
    st.integers(-(10**6), 10**6).map(lambda n: n / 100),
    st.sampled_from([0.0, -0.0, 0.1, -0.3, 1e16, -1e16, 5e-324, 1.7e308, math.nan, math.inf]),
)
ROWS = st.lists(st.one_of(DOUBLES, st.none()), min_size=1, max_size=40)


def expected(values: list[float | None], function: Function) -> float | None:
    there = [v for v in values if v is not None]
    if not there:
        return None
    if function not in ("sum", "avg"):
        return spread(there, function)
    if not all(map(math.isfinite, there)):
        return math.fsum(v for v in there if not math.isfinite(v)) if _one_way(there) else math.nan
    total = sum(map(Fraction, there), Fraction(0)) / (len(there) if function == "avg" else 1)
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def spread(there: list[float], function: Function) -> float | None:
    n, less = len(there), int("samp" in function)
    if n <= less:
        return None
    if n == 1 or not all(map(math.isfinite, there)):
        return 0.0 if n == 1 else math.nan
    exact = list(map(Fraction, there))
    found = (n * sum(v * v for v in exact) - sum(exact) ** 2) / (n * (n - less))
    try:
        value = found.numerator / found.denominator
    except OverflowError:
        value = math.inf
    return math.sqrt(value) if "stddev" in function else value


def _one_way(values: list[float]) -> bool:
    nan = any(map(math.isnan, values))
    return not nan and len({v for v in values if math.isinf(v)}) == 1


def arrays(rows: list[float | None]) -> tuple[np.ndarray, np.ndarray | None]:  # type: ignore[type-arg]
    nulls = np.array([v is None for v in rows])
    values = np.array([0.5 if v is None else v for v in rows])
    return values, nulls if nulls.any() else None


def check(found: tuple[np.ndarray, np.ndarray], wanted: list[float | None]) -> None:  # type: ignore[type-arg]
    for value, null, want in zip(*found, wanted, strict=True):
        assert null == (want is None)
        assert want is None or value == want or (math.isnan(value) and math.isnan(want))


FUNCTIONS = ["sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"]


@settings(deadline=None)
@given(ROWS, st.integers(0, 9), st.integers(-5, 9), st.sampled_from(FUNCTIONS))
@pytest.mark.parametrize("at_once", [3, 1 << 16])
def test_frames(
    at_once: int, rows: list[float | None], before: int, after: int, function: Function
) -> None:
    at = np.arange(len(rows))
    low = np.maximum(at - before, 0)
    high = np.clip(at + after + 1, low, len(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_sums, "_AT_ONCE", at_once)
        found = framed(function, *arrays(rows), low, high)
    wanted = [expected(rows[a:b], function) for a, b in zip(low, high, strict=True)]
    check(found, wanted)


@settings(deadline=None)
@given(ROWS, st.integers(0, 40), st.integers(0, 40), st.sampled_from(FUNCTIONS))
def test_running_sums_go_on(
    rows: list[float | None], cut: int, again: int, function: Function
) -> None:
    """From what others came to, twice: in two groups, one of which is begun."""
    ends = sorted([0, min(cut, len(rows)), min(again, len(rows)), len(rows)])
    state: bytes | None = None
    for begin, end in itertools.pairwise(ends):
        n = end - begin
        if not n:
            continue
        values, nulls = arrays(rows[begin:end] * 2)
        at = np.arange(2 * n)
        group = at // n
        squares = function not in ("sum", "avg")
        sums = FrameSums.of(values, nulls, group * n, at + 1, squares)
        sums.go_on(group, [state, None])
        known = [expected(rows[: begin + i + 1], function) for i in range(n)]
        fresh = [expected(rows[begin : begin + i + 1], function) for i in range(n)]
        check(sums.value(function), known + fresh)
        state = sums.states()[n - 1].as_py()


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.booleans())
def test_means_of_integers(values: list[int], cents: bool) -> None:
    at, one = np.arange(len(values)), 100 if cents else 1
    sums = FrameSums.of(np.array(values), None, at * 0, at + 1)
    totals = [sum(values[: i + 1]) for i in range(len(values))]
    check(sums.value("avg", one), [t / (one * (i + 1)) for i, t in enumerate(totals)])


def test_no_frames() -> None:
    none = np.empty(0, np.int64)
    values, nulls = framed("sum", np.empty(0), None, none, none)
    assert len(values) == len(nulls) == 0
