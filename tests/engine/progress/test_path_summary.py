"""Laws of path summaries, against what the stages of a path do one after the other."""

from __future__ import annotations

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from tidewheel.engine.progress.order import progress_leq
from tidewheel.engine.progress.path_summary import (
    PathSummary,
    egress,
    feedback,
    identity,
    ingress,
    minimal,
)
from tidewheel.engine.progress.timestamp import Timestamp

DEPTH = 2
START = [Timestamp(0, c) for c in product(range(5), repeat=DEPTH)]


@st.composite
def paths(draw: st.DrawFn, depth: int = DEPTH) -> tuple[PathSummary, list[str], int]:
    """A walk through system stages from `depth` loops deep: its summary, its steps, its end."""
    summary, steps = identity(depth), []
    for _ in range(draw(st.integers(0, 7))):
        step = draw(st.sampled_from(["in", "out", "back"] if depth else ["in"]))
        steps.append(step)
        if step == "in":
            summary, depth = summary.then(ingress(depth)), depth + 1
        elif step == "out":
            summary, depth = summary.then(egress(depth)), depth - 1
        else:
            summary = summary.then(feedback(depth))
    return summary, steps, depth


def walk(steps: list[str], t: Timestamp) -> Timestamp:
    for step in steps:
        t = {"in": t.enter, "out": t.leave, "back": t.advance}[step]()
    return t


@given(paths())
def test_a_summary_does_what_its_path_does(path: tuple[PathSummary, list[str], int]) -> None:
    summary, steps, _ = path
    for t in START:
        assert summary.apply(t) == walk(steps, t)


@given(paths(), paths())
def test_monotone(
    one: tuple[PathSummary, list[str], int], other: tuple[PathSummary, list[str], int]
) -> None:
    for a, b in product(START, START):
        if progress_leq(a, b):
            assert progress_leq(one[0].apply(a), one[0].apply(b))


@given(st.data())
def test_composition(data: st.DataObject) -> None:
    p, _, depth = data.draw(paths())
    q, _, depth2 = data.draw(paths(depth))
    r, _, _ = data.draw(paths(depth2))
    assert p.then(q).then(r) == p.then(q.then(r))
    assert identity(DEPTH).then(p) == p
    assert p.then(identity(depth)) == p
    for t in START:
        assert p.then(q).apply(t) == q.apply(p.apply(t))


def summaries(start: int, end: int) -> list[PathSummary]:
    """All small normal forms between two depths."""
    found = []
    for keep in range(min(start, end) + 1):
        for add in range(3) if keep else [0]:
            for append in product(range(3), repeat=end - keep):
                found.append(PathSummary(keep, add, append))
    return found


def test_leq_is_pointwise() -> None:
    for end in range(4):
        for p, q in product(summaries(2, end), repeat=2):
            pointwise = all(progress_leq(p.apply(t), q.apply(t)) for t in START)
            assert p.leq(q) == pointwise, (p, q)


@given(st.lists(st.sampled_from(summaries(2, 3)), max_size=6), st.sampled_from(START))
def test_minimal_keeps_every_earliest_time(found: list[PathSummary], t: Timestamp) -> None:
    kept = minimal(found)
    assert set(kept) <= set(found)
    for p, q in product(kept, kept):
        assert p == q or not p.leq(q)
    for s in found:
        assert any(progress_leq(k.apply(t), s.apply(t)) for k in kept)
    assert minimal(reversed(found)) == kept


def test_incomparable_paths_are_both_kept() -> None:
    """One path keeps the inner counter, the other leaves the loop and comes back at 1."""
    stay, again = identity(2), PathSummary(1, 0, (1,))
    assert not stay.leq(again)
    assert not again.leq(stay)
    assert set(minimal([stay, again])) == {stay, again}


@given(paths())
def test_valid_graphs_have_one_minimum(path: tuple[PathSummary, list[str], int]) -> None:
    """Going round any enclosing loop makes a path later, never earlier or incomparable."""
    summary, _, depth = path
    assume(depth > 0)
    later = summary.then(feedback(depth))
    assert summary.leq(later)
    assert not later.leq(summary)


def test_prints() -> None:
    assert str(PathSummary(1, 2, (0, 0))) == "keep 1 +2 ⟨0,0⟩"
