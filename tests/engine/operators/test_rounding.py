"""Aggregates of doubles of many groups have the bits that exact fractions round to."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators import finish
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.doubles import AtOnce, Kept
from tidewheel.engine.operators.limbs import LimbColumns, LimbRows
from tidewheel.engine.operators.running_sums import CENTRAL, SQUARED, Aggregate, Function, Sum
from tidewheel.engine.state.delta import Delta, Schema

DBL = pa.float64()
ROWS = Schema(["g", "x"], [pa.int64(), DBL])
POWERS: dict[str, int] = {"third": 3, "fourth": 4}
FUNCTIONS: tuple[Function, ...] = ("sum", "avg", *SQUARED, "third", "fourth")
AGGREGATES = [Aggregate(f, 1, DBL) for f in FUNCTIONS]
OUTPUT = Schema(["g", *FUNCTIONS], [pa.int64(), *[DBL] * len(FUNCTIONS)])

ANY = st.floats(allow_nan=False, allow_infinity=False)
TAME = st.floats(-1e6, 1e6)
POWERS_OF_TWO = st.builds(math.ldexp, st.sampled_from([1.0, -1.0]), st.integers(-1074, 1023))
LARGEST = 1.7976931348623157e308
SMALL = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-1023, 2.0**-53]
EDGES = st.sampled_from([*SMALL, 2.0**1023, LARGEST, -LARGEST, 2.0**53, 2.0**53 + 2, 1.0, 0.1])
SPECIAL = st.sampled_from([math.nan, math.inf, -math.inf, None])


def ties() -> st.SearchStrategy[list[float | None]]:
    """Halves of a last bit, and a bit far below that tells whether it is more or less."""
    at = st.integers(-400, 400)
    mantissa = st.integers(1 << 52, (1 << 53) - 1)
    sign = st.sampled_from([1, -1])

    def rows(m: int, e: int, below: int, half: int, tiny: int) -> list[float | None]:
        parts = [math.ldexp(m, e), half * math.ldexp(0.5, e)]
        return [*parts, tiny * math.ldexp(1.0, e - below)]

    tiny = st.sampled_from([-1, 0, 1])
    return st.builds(rows, mantissa.map(int), at, st.integers(2, 600), sign, tiny)


def cancelled(values: list[float]) -> list[float | None]:
    return [*values, *(-v for v in values[1:])]


GROUP: st.SearchStrategy[list[float | None]] = st.one_of(
    st.lists(ANY, min_size=1, max_size=5),
    st.lists(TAME, min_size=1, max_size=9),
    st.lists(st.one_of(POWERS_OF_TWO, EDGES), min_size=1, max_size=5),
    st.lists(st.one_of(POWERS_OF_TWO, EDGES, SPECIAL), min_size=1, max_size=5),
    st.lists(ANY, min_size=1, max_size=4).map(cancelled),
    ties(),
    st.builds(lambda x, n: [x] * n, st.one_of(TAME, EDGES), st.integers(1, 12)),
)


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack("<d", value)


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def expected(function: Function, group: Sequence[float | None]) -> float | None:
    values = [v for v in group if v is not None]
    n, ends = len(values), {v for v in values if math.isinf(v)}
    if not n or (n == 1 and "samp" in function):
        return None
    if n == 1 and function in SQUARED:
        return 0.0
    if any(map(math.isnan, values)) or len(ends) == 2 or (ends and function in CENTRAL):
        return math.nan
    if ends:
        return ends.pop()
    exact = [Fraction(v) for v in values]
    if function in POWERS:
        center = sum(exact) / n
        return rounded(sum((v - center) ** POWERS[function] for v in exact) / n)
    if function not in SQUARED:
        return rounded(sum(exact) / (n if function == "avg" else 1))
    mean = sum(exact) / n
    squares = sum((v - mean) ** 2 for v in exact)
    variance = rounded(squares / (n - 1 if "samp" in function else n))
    return math.sqrt(variance) if "stddev" in function else variance


def finished(rows: list[tuple[int, float | None]]) -> dict[int, list[float | None]]:
    op = Accumulate(ROWS, [0], AGGREGATES, OUTPUT)
    out = op.step((), [Delta.from_pylist(ROWS, [(*row, 1) for row in rows])])
    return {r[0]: list(r[1:-1]) for _, _, delta in out for r in delta.to_pylist()}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(some=st.lists(GROUP, min_size=1, max_size=30), more=st.integers(0, 40))
def test_many_groups_have_the_bits_of_fractions(some: list[list[float | None]], more: int) -> None:
    count = finish.MANY + more
    groups = [some[i % len(some)] for i in range(count)]
    found = finished([(g, v) for g, group in enumerate(groups) for v in group])
    wants = [[bits(expected(f, group)) for f in FUNCTIONS] for group in some]
    for g, group in enumerate(groups):
        assert list(map(bits, found[g])) == wants[g % len(some)], group


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(some=st.lists(GROUP, min_size=1, max_size=30))
def test_many_groups_have_the_bits_of_few(some: list[list[float | None]]) -> None:
    few = finished([(g, v) for g, group in enumerate(some) for v in group])
    many = finished([(g, v) for g in range(finish.MANY) for v in some[g % len(some)]])
    for g, values in many.items():
        assert list(map(bits, values)) == list(map(bits, few[g % len(some)])), some[g % len(some)]


PAIRED: tuple[Function, ...] = ("covar_pop", "covar_samp")
PAIRS = st.lists(
    st.tuples(st.one_of(TAME, POWERS_OF_TWO, EDGES), st.one_of(TAME, EDGES)), max_size=5
)


def covariances(pairs: Sequence[tuple[float, float]]) -> list[float | None]:
    n, exact = len(pairs), [(Fraction(x), Fraction(y)) for x, y in pairs]
    if not n:
        return [None, None]
    means = [sum(p[i] for p in exact) / n for i in (0, 1)]
    moment = sum((x - means[0]) * (y - means[1]) for x, y in exact)
    return [rounded(moment / n), rounded(moment / (n - 1)) if n > 1 else None]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(some=st.lists(PAIRS, min_size=1, max_size=20))
def test_covariances_have_the_bits_of_fractions(some: list[list[tuple[float, float]]]) -> None:
    rows = Schema(["g", "x", "y"], [pa.int64(), DBL, DBL])
    out = Schema(["g", *PAIRED], [pa.int64(), DBL, DBL])
    for count in (len(some), finish.MANY):
        aggregates = [Aggregate(f, 2, DBL, 1) for f in PAIRED]
        op = Accumulate(rows, [0], aggregates, out)
        given_ = [(g, *pair, 1) for g in range(count) for pair in some[g % len(some)]]
        given_ += [(g, None, None, 1) for g in range(count)]
        found = op.step((), [Delta.from_pylist(rows, given_)])
        for row in (r for _, _, delta in found for r in delta.to_pylist()):
            pairs = some[row[0] % len(some)]
            assert list(map(bits, row[1:3])) == list(map(bits, covariances(pairs))), pairs


def number(limbs: dict[int, int]) -> Fraction:
    return sum((amount * Fraction(2) ** (26 * (i - 88)) for i, amount in limbs.items()), Fraction())


LIMBS = st.dictionaries(
    st.one_of(st.integers(84, 92), st.integers(45, 128)),
    st.one_of(
        st.integers(-(2**26), 2**26),
        st.integers(-(2**63) + 1, 2**63 - 1),
        st.sampled_from([2**62 - 1, 2**62, -(2**62), 2**61, -(2**61), 2**25, -(2**25), 1, -1]),
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(
    sums=st.lists(
        st.tuples(LIMBS, st.one_of(st.integers(1, 99), st.sampled_from([2**33, 2**34, 2**40]))),
        min_size=1,
        max_size=6,
    ),
    columns=st.booleans(),
)
@example(sums=[({87: 2**62, 88: 2**63 - 1}, 1), ({87: -(2**62), 88: -(2**63)}, 1)], columns=True)
def test_any_amounts_in_limbs(sums: list[tuple[dict[int, int], int]], columns: bool) -> None:
    """Sums that carry, borrow, cancel and lie far apart; counts of any size."""
    rows = [(g, i, amount) for g, (limbs, _) in enumerate(sums) for i, amount in limbs.items()]
    limbs: LimbColumns | LimbRows
    if columns:
        at = {i: np.zeros(len(sums), np.int64) for _, i, _ in rows}
        for g, i, amount in rows:
            at[i][g] = amount
        limbs = LimbColumns([(0, i, column) for i, column in at.items()])
    else:
        group, limb, amounts = (np.array([r[k] for r in rows], np.int64) for k in range(3))
        limbs = LimbRows(group, np.zeros(len(rows), np.int64), limb, amounts)
    s = Sum(0, DBL, 1, 0, False)
    weights = np.zeros((len(sums), 5), np.int64)
    weights[:, s.count_part] = [n for _, n in sums]
    for function in ("sum", "avg"):
        at_once = AtOnce(limbs, Kept({0: s}, {}))
        values, nulls = at_once(Aggregate(function, 0, DBL), weights)  # type: ignore[arg-type]
        assert not nulls.any()
        for (parts, n), value in zip(sums, values.tolist(), strict=True):
            want = rounded(number(parts) / (n if function == "avg" else 1))
            assert bits(value) == bits(want), (function, parts, n)


def test_what_is_left_of_a_quotient_counts() -> None:
    """Some of 1 / n have so many zeros behind half of a last bit that all digits end before 1."""
    n = np.arange(1 << 16, 1 << 17)
    s = Sum(0, DBL, 1, 0, False)
    weights = np.zeros((len(n), 5), np.int64)
    weights[:, s.count_part] = n
    at_once = AtOnce(LimbColumns([(0, 88, np.ones(len(n), np.int64))]), Kept({0: s}, {}))
    means, _ = at_once(Aggregate("avg", 0, DBL), weights)
    assert (means == 1.0 / n).all()


def test_a_sum_is_the_same_above_and_below_a_block() -> None:
    """Groups are finished some thousands at a time: each part has its own limbs."""
    n = 33_000
    values = [math.ldexp(1.0 + g / n, g % 2000 - 1000) for g in range(n)]
    found = finished([(g, v) for g, value in enumerate(values) for v in (value, 0.1)])
    for g in (0, 1, (1 << 14) - 1, 1 << 14, (1 << 15) - 1, 1 << 15, n - 1, 12_345):
        want = [expected(function, [values[g], 0.1]) for function in FUNCTIONS]
        assert list(map(bits, found[g])) == list(map(bits, want))


@pytest.mark.parametrize("most", [9, 1 << 37, 1 << 52, 1 << 58, (1 << 63) - 1])
@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(18, 2), pa.int32()])
@pytest.mark.parametrize("count", [9, 600])
def test_means_of_integers(kind: pa.DataType, most: int, count: int) -> None:
    decimal = pa.types.is_decimal128(kind)
    most = min(most, 10**18 - 1 if decimal else (1 << (kind.bit_width - 1)) - 1)
    rng = np.random.default_rng(most % 1000 + count)
    group = rng.integers(0, count, 4 * count)
    values = rng.integers(-most, most, len(group), endpoint=True)
    column: Any = values
    if decimal:
        words = np.stack([values, values >> 63], axis=1)
        column = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(words)])
    elif kind.bit_width == 32:
        column = values.astype(np.int32)
    schema = Schema(["g", "x"], [pa.int64(), kind])
    op = Accumulate(schema, [0], [Aggregate("avg", 1, DBL)], Schema(["g", "m"], [pa.int64(), DBL]))
    out = op.step((), [Delta(schema, [group, column], np.ones(len(group), np.int64))])
    found = {r[0]: r[1] for _, _, delta in out for r in delta.to_pylist()}
    for g, mean in found.items():
        mine = [int(v) for v in values[group == g]]
        assert bits(mean) == bits(float(Fraction(sum(mine), len(mine) * (100 if decimal else 1))))
