"""Laws of timestamps and of the two orders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.engine.progress.order import (
    data_glb,
    data_leq,
    data_lub,
    progress_leq,
    progress_lub,
)
from tidewheel.engine.progress.timestamp import Timestamp

small = st.integers(0, 3)


def times(depth: int = 2) -> st.SearchStrategy[Timestamp]:
    return st.builds(Timestamp, small, st.tuples(*[small] * depth))


@given(times(), times(), times())
def test_both_are_partial_orders(a: Timestamp, b: Timestamp, c: Timestamp) -> None:
    for leq in (progress_leq, data_leq):
        assert leq(a, a)
        if leq(a, b) and leq(b, a):
            assert a == b
        if leq(a, b) and leq(b, c):
            assert leq(a, c)


@given(times(), times())
def test_data_order_implies_progress_order_implies_tuple_order(a: Timestamp, b: Timestamp) -> None:
    assert progress_leq(a, b) or not data_leq(a, b)
    assert a <= b or not progress_leq(a, b)


@given(times(), times(), times())
def test_least_upper_bounds(a: Timestamp, b: Timestamp, c: Timestamp) -> None:
    for leq, lub in ((progress_leq, progress_lub), (data_leq, data_lub)):
        bound = lub(a, b)
        assert leq(a, bound)
        assert leq(b, bound)
        assert leq(bound, c) == (leq(a, c) and leq(b, c))


@given(times(), times(), times())
def test_greatest_lower_bound(a: Timestamp, b: Timestamp, c: Timestamp) -> None:
    bound = data_glb(a, b)
    assert data_leq(c, bound) == (data_leq(c, a) and data_leq(c, b))


def test_the_orders_differ_in_loops() -> None:
    early, late = Timestamp(0, (0, 7)), Timestamp(0, (1, 0))
    assert progress_leq(early, late)
    assert not data_leq(early, late)


def test_epochs_do_not_hide_counters() -> None:
    """An earlier epoch that has gone round more often is not before a later one (Naiad, 2.1)."""
    assert not progress_leq(Timestamp(0, (2,)), Timestamp(1, (1,)))
    assert not progress_leq(Timestamp(1, (1,)), Timestamp(0, (2,)))


@given(times())
def test_ingress_feedback_egress(t: Timestamp) -> None:
    assert t.enter().advance().advance().counters == (*t.counters, 2)
    assert t.enter().advance(5).leave() == t


def test_times_print_as_in_the_paper() -> None:
    assert [str(Timestamp(4)), str(Timestamp(4, (1, 0)))] == ["4", "4⟨1,0⟩"]
