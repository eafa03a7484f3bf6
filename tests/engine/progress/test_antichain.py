"""Antichains and change batches against plain sets and sums."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.engine.progress.antichain import Antichain
from tidewheel.engine.progress.change_batch import ChangeBatch, Pointstamp
from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.timestamp import Timestamp

times = st.builds(Timestamp, st.integers(0, 4), st.tuples(st.integers(0, 4)))
updates = st.lists(st.tuples(st.builds(Pointstamp, st.integers(0, 2), times), st.integers(-2, 2)))


@given(st.lists(times), times)
def test_antichain_is_the_set_of_minima(found: list[Timestamp], t: Timestamp) -> None:
    frontier = Antichain(found)
    minima = {a for a in found if not any(b != a and progress_leq(b, a) for b in found)}
    assert set(frontier) == minima
    assert len(frontier) == len(minima)
    assert frontier.precedes(t) == any(progress_leq(a, t) for a in found)
    assert frontier == Antichain(reversed(found))


@given(st.lists(times), st.lists(times))
def test_order_of_frontiers(a: list[Timestamp], b: list[Timestamp]) -> None:
    assert Antichain([*a, *b]).leq(Antichain(a))
    assert Antichain(a).leq(Antichain(a))
    assert Antichain(a).leq(Antichain())
    if Antichain(a).leq(Antichain(b)) and Antichain(b).leq(Antichain(a)):
        assert Antichain(a) == Antichain(b)


def test_prints() -> None:
    assert repr(Antichain([Timestamp(1, (2,))])) == "Antichain({1⟨2⟩})"


@given(updates)
def test_change_batch_adds_up(made: list[tuple[Pointstamp, int]]) -> None:
    batch, total = ChangeBatch(made), Counter[Pointstamp]()
    for p, delta in made:
        total[p] += delta
    assert all(batch.get(p) == total[p] for p in total)
    assert len(batch) == sum(1 for p in total if total[p])
    drained = batch.drain()
    assert dict(drained) == {p: d for p, d in total.items() if d}
    signs = [delta > 0 for _, delta in drained]
    assert signs == sorted(signs, reverse=True), "positives first"
    assert not batch
