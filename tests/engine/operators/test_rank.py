"""Places of values."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.state.delta import Schema


@pytest.mark.parametrize("seed", range(5))
def test_places_of_texts_are_in_their_order(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(rng.choices("aé\0zÿ漢b", k=rng.randint(0, 9))) for _ in range(300)]
    texts += ["", "\0", "aaaaaaaa", "aaaaaaab"]
    array = pa.array(["before", *texts, "behind"]).slice(1, len(texts))
    places = Ranking(Schema(["s"], [pa.string()]), Order(0))([array], len(texts)).tolist()
    for one, place in zip(texts, places, strict=True):
        assert place == int.from_bytes(one.encode()[:7].ljust(7, b"\0"), "big")


def test_places_of_no_texts() -> None:
    ranking = Ranking(Schema(["s"], [pa.string()]), Order(0))
    assert ranking([pa.array([], pa.string())], 0).tolist() == []
    assert ranking([pa.array(["", ""])], 2).tolist() == [0, 0]
