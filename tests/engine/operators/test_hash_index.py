"""Numbers for keys, against a dict: any batches, keys that share places, the same key often."""

from __future__ import annotations

import numpy as np
import pytest

from tidewheel.engine.operators.hash_index import HashIndex


@pytest.mark.parametrize("seed", range(40))
def test_like_a_dict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = HashIndex()
    known: dict[int, int] = {}
    for _ in range(rng.integers(1, 12)):
        most = int(rng.choice([2, 20, 500, 5000]))
        keys = rng.integers(-most, 2000, rng.integers(0, most))
        if rng.random() < 0.3:
            keys = keys << 52
        assert index.find(keys).tolist() == [known.get(k, -1) for k in keys.tolist()]
        numbers, fresh = index.add(keys)
        new = keys[fresh].tolist()
        assert len(set(new)) == len(new)
        assert known.keys().isdisjoint(new)
        known |= {k: i for i, k in enumerate(new, len(known))}
        assert numbers.tolist() == [known[k] for k in keys.tolist()]
        assert index.size == len(known)
