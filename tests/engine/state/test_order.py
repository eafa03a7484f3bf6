"""Orders by several sort keys against NumPy's lexsort, few rows and many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.state.order import argsort, begins, order_by, refine
from tidewheel.engine.state.run import search

_LIMITS = np.iinfo(np.int64)


def _column(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "constant":
        return np.full(n, rng.integers(_LIMITS.min, _LIMITS.max))
    if kind == "few":
        return rng.integers(-3, 4, n)
    if kind == "hashes":
        return rng.integers(_LIMITS.min, _LIMITS.max, n, endpoint=True)
    if kind == "crowded hashes":
        return rng.choice(rng.integers(_LIMITS.min, _LIMITS.max, n // 4 + 1), n)
    if kind == "close together":  # values agree in their leading bits, and lie far apart
        return rng.choice(np.array([_LIMITS.min, 0, _LIMITS.max - 9]), n) + rng.integers(0, 9, n)
    if kind == "32 bits":  # just so many, or one more, with the rows' positions
        bits = 32 - (n - 1).bit_length() + rng.integers(0, 2)
        return rng.integers(0, 1 << bits, n) - 5
    assert kind == "two runs"
    column = rng.integers(0, n, n)
    return np.concatenate([np.sort(column[: n // 2]), np.sort(column[n // 2 :])])


KINDS = ("constant", "few", "hashes", "crowded hashes", "close together", "32 bits", "two runs")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.sampled_from([1, 2, 100, 8191, 8192, 20_000]),
    st.integers(0, 2**32 - 1),
)
def test_like_lexsort(kinds: list[str], n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [_column(rng, kind, n) for kind in kinds]
    order, first = order_by(keys)
    wanted = np.lexsort(keys[::-1])
    assert (np.sort(order) == np.arange(n)).all()
    for key in keys:
        assert (key[order] == key[wanted]).all()
    differs = begins(keys[0][wanted])
    for key in keys[1:]:
        differs |= begins(key[wanted])
    assert (first == differs).all()


@pytest.mark.parametrize("kind", KINDS)
def test_argsort_of_one_key(kind: str) -> None:
    keys = _column(np.random.default_rng(1), kind, 30_000)
    assert (keys[argsort(keys)] == np.sort(keys)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_finer_order_of_what_is_ordered(kind: str) -> None:
    rng = np.random.default_rng(2)
    coarse, fine = np.sort(rng.integers(0, 500, 20_000)), _column(rng, kind, 20_000)
    order = np.arange(20_000)
    first = begins(coarse)
    refine(order, first, fine.__getitem__)
    assert (coarse[order] == coarse).all()
    assert (fine[order] == fine[np.lexsort((fine, coarse))]).all()
    assert (first == begins(coarse) | begins(fine[order])).all()


@pytest.mark.parametrize("n", [1, 100, 5000, 9000])
@pytest.mark.parametrize("distinct", [True, False])
def test_search_tells_where_keys_are(n: int, distinct: bool) -> None:
    rng = np.random.default_rng(n)
    keys = np.sort(rng.integers(0, 20_000, n))
    for among in (rng.integers(-5, 20_005, 8000), np.array([3, 3, 4]), keys):
        probes = np.unique(among) if distinct else among
        begin, counts = search(keys, probes)
        assert counts.tolist() == [int((keys == p).sum()) for p in probes]
        there = counts > 0
        assert (begin[there] == keys.searchsorted(probes[there])).all()
