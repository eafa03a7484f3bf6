"""Aggregates side by side, against DuckDB's GROUP BY: by rows, by columns, under equal hashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators import collate
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.collate import Collate
from tidewheel.engine.operators.rank import Order
from tidewheel.engine.operators.running_sums import Aggregate
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.topk import Ordered, extreme
from tidewheel.engine.state import hashing
from tidewheel.engine.state.delta import Delta, Schema

I64, STR, DBL = pa.int64(), pa.string(), pa.float64()
HUGE = duckdb.connect()
HUGE.execute("SET arrow_lossless_conversion = true")
HUGEINT = HUGE.sql("SELECT 1::HUGEINT h").to_arrow_table().schema[0].type
GROUPS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (I64, [None, 1, 2, 3, -5, 2**40]),
    "texts": (STR, [None, "", "a", "bb", "é"]),
    # (found by arrays alone; DuckDB's -0.0 equals 0.0 in a group)
    "doubles": (DBL, [None, 1.5, -2.25, 1e300]),
    "nothing": (I64, [1]),
}


def wire(
    kind: pa.DataType, key: Sequence[int], ends: bool
) -> Callable[[Circuit, list[Node]], Node]:
    """count(*), avg(x); min(x); max(x); count(DISTINCT s): of a table of g, x, s.

    Without `ends` sum(x) and count(x) in place of the second and third one.
    """
    given = Schema(["g", "x", "s"], [kind, I64, STR])
    groups = given.select(key)

    def out(*columns: tuple[str, pa.DataType]) -> Schema:
        names, types = zip(*columns, strict=True)
        return Schema([*groups.names, *names], [*groups.types, *types])

    def end(c: Circuit, source: Node, descending: bool) -> Node:
        name = "b" if descending else "a"
        if not ends:
            summed = Aggregate("sum", 1, HUGEINT) if descending else Aggregate("count", 1, I64)
            return c.add(Accumulate(given, key, [summed], out((name, summed.type))), source)
        schema = out((name, I64))
        order = Order(1, descending)
        evaluate = extreme(given, key, 1, schema)
        return c.add(Ordered(given, key, order, 1, evaluate, schema, range(len(key))), source)

    def made(c: Circuit, s: list[Node]) -> Node:
        sums = [Aggregate("count_star", None, I64), Aggregate("avg", 1, DBL)]
        once = c.add(Tally(given), s[0])
        distinct = [Aggregate("count", 2, I64)]
        parts = [
            c.add(Accumulate(given, key, sums, out(("n", I64), ("m", DBL))), s[0]),
            end(c, s[0], False),
            end(c, s[0], True),
            c.add(Accumulate(given, key, distinct, out(("d", I64))), once),
        ]
        return c.add(Collate([p.op for p in parts], len(key)), *parts)  # type: ignore[misc]

    return made


SQL = """
WITH once AS (SELECT DISTINCT * FROM t0)
SELECT {0} n, m, a, b, d FROM
    (SELECT {0} count(*) AS n, avg(x) AS m, {4} AS a, {5} AS b FROM t0 {1}) AS l
    {2} (SELECT {0} count(s) AS d FROM once {1}) AS r {3}
"""


def text(key: Sequence[int], ends: bool) -> str:
    both = ("min(x)", "max(x)") if ends else ("count(x)", "sum(x)")
    if not key:
        return SQL.format("", "", ",", "", *both)
    joined = "ON l.g IS NOT DISTINCT FROM r.g"
    found = SQL.format("g,", "GROUP BY g", "JOIN", joined, *both)
    return found.replace("SELECT g, n", "SELECT l.g, n")


def run(name: str, run_oracle: Callable[..., None], ends: bool = True) -> None:
    kind, values = GROUPS[name]
    key = [] if name == "nothing" else [0]

    def make(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
        def pick(of: Sequence[Any]) -> Any:
            return of[int(rng.integers(len(of)))]

        return [lambda: (pick(values), pick([None, 4, 5, -6]), pick([None, "x", "yy"]))]

    schema = Schema(["g", "x", "s"], [kind, I64, STR])
    made = wire(kind, key, ends)
    run_oracle([schema], made, text(key, ends), make, steps=16, sizes=(1, 2, 3, 40))


@pytest.mark.parametrize("name", GROUPS)
def test_random_edits(name: str, run_oracle: Callable[..., None]) -> None:
    run(name, run_oracle)


@pytest.mark.parametrize("name", GROUPS)
def test_few_groups_are_remembered(
    name: str, run_oracle: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collate, "_KNOWN", 1)
    run(name, run_oracle)


@pytest.mark.parametrize("name", ["texts", "doubles"])
@pytest.mark.parametrize("few", [0, 16])
def test_equal_hashes(
    name: str, few: int, run_oracle: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    combine = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, v: combine(h, v) & np.uint64(1))
    monkeypatch.setattr(collate, "FEW", few)
    run(name, run_oracle, ends=False)


def test_what_is_side_by_side_at_first_is_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that come of one statement have their groups in its order, whatever that is."""
    schema = Schema(["g", "x"], [I64, I64])

    class Given:
        def __init__(self, name: str) -> None:
            self.schema = Schema(["g", name], [I64, I64])

        def given(self, keys: Any) -> Delta:
            raise AssertionError("asked")

    def no_sorting(*_: Any) -> Any:
        raise AssertionError("sorted")

    monkeypatch.setattr(collate, "Arrangement", no_sorting)
    op = Collate([Given("a"), Given("b")], 1)
    parts = [Delta.from_pylist(schema, [(3, i, 1), (1, i, 1), (2, i, 1)]) for i in (10, 20)]
    ((_, _, delta),) = op.step((), parts)
    assert delta.to_pylist() == [(3, 10, 20, 1), (1, 10, 20, 1), (2, 10, 20, 1)]
    assert op.state_rows == 0
