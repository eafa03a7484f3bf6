"""A loop that comes back to where it was is found, and only such a one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidewheel.engine.operators.cycle import Cycle, bags


def table(values: list[int | None]) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": [str(v) for v in values]})


def since(cycle: Cycle, iteration: int, *tables: pa.Table) -> int | None:
    return cycle.since(iteration, [t.num_rows for t in tables], lambda: bags(tables))


@pytest.mark.parametrize("lead", [0, 1, 70, 500])
@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_a_cycle_is_found_in_time(lead: int, length: int) -> None:
    shuffling = random.Random(lead + length)
    cycle = Cycle()
    for i in range(4 * (lead + length) + 200):
        state = i if i < lead else lead + (i - lead) % length
        values = [state, state, None, -state]
        shuffling.shuffle(values)
        before = since(cycle, i, table(values), table([state]))
        if before is not None:
            assert before >= lead
            assert (i - before) % length == 0
            return
    pytest.fail("not found")


@pytest.mark.parametrize(
    "rows",
    [
        lambda i: [i],
        lambda i: [0] * (i % 3 + 1) + [i // 600],
        lambda i: [1, 1, 2] if i < 599 else [1, 2, 2],  # as bags they differ, once
    ],
)
def test_what_goes_on_is_no_cycle(rows) -> None:  # type: ignore[no-untyped-def]
    cycle = Cycle()
    states = [rows(i) for i in range(600)]
    for i, state in enumerate(states):
        before = since(cycle, i, table(state))
        assert before is None or sorted(states[before]) == sorted(state)


def test_numbers_that_only_look_alike_are_not_compared() -> None:
    cycle = Cycle()
    for i in range(300):
        assert since(cycle, i, pa.table({"a": [0.0 if i % 2 else -0.0]})) is None
