"""Sums of integers, kept in limbs."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidewheel.engine.operators.exact import join_limbs, split_wide

_EDGES = [0, -1, 1 << 32, -(1 << 32), (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 63) - 1, 1 << 64]


@pytest.mark.parametrize("bits", [3, 32, 62, 64, 100])
def test_sums_of_128_bits_are_64_bits_wide_where_all_fit(bits: int) -> None:
    rng = random.Random(bits)
    for _ in range(200):
        sums, expected = [np.zeros(3, np.int64) for _ in range(4)], [0, 0, 0]
        for _ in range(rng.randrange(1, 20)):
            some = [
                rng.choice([*_EDGES, rng.getrandbits(bits), -rng.getrandbits(bits)])
                for _ in sums[0]
            ]
            words = [[v & (1 << 64) - 1, v >> 64 & (1 << 64) - 1] for v in some]
            weight = rng.choice([1, -1, 2])
            for total, limb in zip(sums, split_wide(np.array(words, np.uint64)), strict=True):
                total += weight * limb
            expected = [e + weight * v for e, v in zip(expected, some, strict=True)]
        found = join_limbs(sums)
        assert list(found) == expected
        assert isinstance(found, np.ndarray) == all(-(1 << 63) <= v < 1 << 63 for v in expected)
