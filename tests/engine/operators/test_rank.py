"""Places of values."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from tidewheel.engine.operators.rank import Order, Ranking, has_places
from tidewheel.engine.state.columns import from_arrow
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


SOME = {
    "x": "CASE WHEN i % 7 > 0 THEN (hash(i) % 5)::INTEGER END",
    "y": "(['nan', '-0.0', '0.0', '-inf', NULL])[(hash(i + 1) % 5)::INTEGER + 1]::DOUBLE",
    "s": "(['', 'a', 'ab', 'b', NULL])[(hash(i + 2) % 5)::INTEGER + 1]",
    "h": "CASE WHEN i % 5 > 0 THEN (hash(i + 3) % 4)::HUGEINT << (hash(i) % 90)::INTEGER END",
}
NESTED = [
    "{'y': y, 'x': x}",
    "{'s': s, 'y': y}",
    "{'a': {'h': h}, 's': s}",
    "[x, i]",
    "CASE WHEN x <> 3 THEN [s, 'z'][:i % 3] END",
    "CASE WHEN s <> 'a' THEN {'a': [y], 'b': x} END",
    "[{'h': h}]",
]


@pytest.mark.parametrize("value", NESTED)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_places_of_nested_values_are_in_their_order(
    value: str, descending: bool, nulls_first: bool
) -> None:
    columns = ", ".join(f"{expression} AS {name}" for name, expression in SOME.items())
    way = f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
    table = duckdb.sql(
        f"SELECT v FROM (SELECT {value} AS v FROM (SELECT i, {columns} FROM range(300) AS r(i))) "
        f"ORDER BY v {way}"
    ).to_arrow_table()
    array = table.column(0).combine_chunks()
    array = pa.concat_arrays([array.slice(0, 1), array]).slice(1)
    assert has_places(array.type)
    ranking = Ranking(Schema(["v"], [array.type]), Order(0, descending, nulls_first))
    places = ranking([from_arrow(array)], len(array)).tolist()
    assert places == sorted(places)
    assert len(set(places)) > 2
