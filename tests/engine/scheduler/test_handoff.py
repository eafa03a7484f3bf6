"""Handoffs by themselves, and the decisions of `Transitions` fed with events."""

from __future__ import annotations

import os
import pickle
from collections import deque
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.engine.scheduler import (
    DoubleBuffer,
    ExecResult,
    Handoff,
    HandoffState,
    SpillingHandoff,
    StreamGraph,
    StreamState,
    Transitions,
)
from tidewheel.engine.scheduler.testing import Apply, Collect, Values


def test_states() -> None:
    handoff = Handoff(max_batches=2)
    assert handoff.state is HandoffState.EMPTY
    handoff.request()
    assert handoff.state is HandoffState.UNDERFLOW
    handoff.put(0, "a")
    assert handoff.state is HandoffState.NONEMPTY
    handoff.put(1, "b")
    assert handoff.state is HandoffState.OVERFLOW
    assert handoff.full
    assert handoff.take() == (0, "a")
    assert not handoff.full
    handoff.finish()
    assert not handoff.eos
    assert handoff.take() == (1, "b")
    assert handoff.state is HandoffState.EOS
    with pytest.raises(RuntimeError, match="finished"):
        handoff.put(2, "c")
    with pytest.raises(IndexError):
        handoff.take()


def test_a_soft_bound_reports_but_does_not_stop() -> None:
    handoff = Handoff(max_batches=1, soft=True)
    for n in range(3):
        handoff.put(n, n)
    assert handoff.state is HandoffState.OVERFLOW
    assert not handoff.full
    assert len(handoff) == 3


def test_bytes_bound() -> None:
    table = pa.table({"x": list(range(100))})
    handoff = Handoff(max_batches=None, max_bytes=table.nbytes * 2)
    handoff.put(0, table)
    assert not handoff.full
    handoff.put(1, table)
    assert handoff.full
    handoff.take()
    assert not handoff.full
    assert handoff.nbytes == table.nbytes


@pytest.mark.parametrize("bounds", [{"max_batches": 0}, {"max_bytes": 0}])
def test_senseless_bounds_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Handoff(**bounds)


def test_a_double_buffer_shows_what_was_there_when_the_quantum_began() -> None:
    handoff = DoubleBuffer(max_batches=2)
    handoff.put(0, "a")
    assert handoff.empty, "not published yet"
    handoff.publish()
    handoff.acquire(producer_running=False)
    assert not handoff.empty
    handoff.put(1, "b")
    handoff.put(2, "c")
    assert handoff.full
    handoff.finish()
    handoff.publish()
    assert handoff.take() == (0, "a")
    assert handoff.empty
    assert not handoff.eos, "the other page is still to come"
    handoff.acquire(producer_running=False)
    assert [handoff.take()[1], handoff.take()[1]] == ["b", "c"]
    assert handoff.eos


VALUES = st.one_of(
    st.integers(),
    st.text(),
    st.lists(st.integers(-(2**40), 2**40), max_size=50).map(
        lambda xs: pa.table({"x": pa.array(xs, pa.int64())})
    ),
    st.lists(st.text(), min_size=1, max_size=20).map(
        lambda xs: pa.RecordBatch.from_pydict({"s": pa.array(xs).dictionary_encode()})
    ),
    st.integers(0, 90).map(lambda n: pa.table({"x": list(range(100))}).slice(n, 5)),
)


def test_a_double_buffer_does_not_grow_before_a_stopped_consumer() -> None:
    buffer = DoubleBuffer(max_batches=4)
    most = 0
    for _ in range(20):  # a consumer that is woken, and takes nothing
        while not buffer.full:
            buffer.put(0, "x")
        buffer.publish()
        buffer.acquire(producer_running=False)
        most = max(most, len(buffer))
    assert most == 8
    while not buffer.empty:
        buffer.take()
    buffer.acquire(producer_running=False)
    assert not buffer.full


@given(
    st.lists(st.one_of(st.just("take"), VALUES), max_size=40),
    st.integers(1, 4),
)
def test_a_spilling_handoff_keeps_order(steps: list[Any], bound: int) -> None:
    handoff = SpillingHandoff(max_batches=bound, max_bytes=None)
    model: deque[tuple[int, Any]] = deque()
    for time, step in enumerate(steps):
        if isinstance(step, str) and step == "take":
            if model:
                assert handoff.peek()[0] == model[0][0]
                got_time, got = handoff.take()
                expected_time, expected = model.popleft()
                assert (got_time, type(got)) == (expected_time, type(expected))
                assert got == expected
        else:
            handoff.put(time, step)
            model.append((time, step))
        assert len(handoff) == len(model)
        assert handoff.empty == (not model)
        assert not handoff.full
    handoff.finish()
    assert [time for time, _ in model] == [handoff.take()[0] for _ in range(len(model))]
    assert handoff.eos
    handoff.close()


def test_a_spilling_handoff_holds_little_memory_and_leaves_no_file(tmp_path: Any) -> None:
    table = pa.table({"x": list(range(10_000))})
    handoff = SpillingHandoff(max_bytes=table.nbytes * 2, directory=str(tmp_path))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for n in range(50):
        handoff.put(n, table)
    assert handoff.nbytes <= table.nbytes * 2
    assert handoff.spilled_batches == 48
    assert handoff.spilled_bytes >= 48 * table.nbytes
    assert [handoff.take()[0] for _ in range(25)] == list(range(25))
    handoff.close()
    assert os.listdir(tmp_path) == []
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_slice_is_spilled_without_what_it_was_cut_from() -> None:
    table = pa.table({"x": list(range(100_000))})
    handoff = SpillingHandoff(max_batches=1)
    handoff.put(0, table)
    handoff.put(1, table.slice(10, 5))
    assert handoff.spilled_bytes < 2_000 < len(pickle.dumps(table))
    handoff.close()


# -- the graph


def test_a_stream_may_feed_itself_only_softly() -> None:
    graph = StreamGraph()
    stream = graph.add_stream(Apply("self"))
    with pytest.raises(ValueError, match="soft"):
        graph.connect(stream, stream)
    handoff = graph.connect(stream, stream, Handoff(soft=True))
    with pytest.raises(ValueError, match="already joins"):
        graph.connect(stream, stream, handoff)
    with pytest.raises(KeyError, match="no stream 99"):
        graph.connect(stream, 99)
    with pytest.raises(TypeError, match="not an output"):
        graph.output(stream)


# -- transitions


def started(transitions: Transitions) -> str | None:
    node = transitions.next()
    return None if node is None else node.stream.name


def star(leaves: int) -> tuple[Transitions, int, list[int]]:
    """A sink in the middle and sources around it."""
    graph = StreamGraph()
    middle = graph.add_stream(Collect("middle"), eager=True)
    around = []
    for n in range(leaves):
        around.append(graph.add_stream(Values(f"s{n}", [])))
        graph.connect(around[-1], middle)
    transitions = Transitions(graph)
    transitions.sync()
    return transitions, middle, around


def test_a_running_stream_inhibits_its_neighbours_and_no_other() -> None:
    transitions, middle, around = star(3)
    nodes = transitions.nodes
    assert [started(transitions) for _ in range(3)] == ["s0", "s1", "s2"]
    transitions.wake(middle)
    assert nodes[middle].inhibition == 3
    assert started(transitions) is None
    assert nodes[middle].state is StreamState.INHIBITED
    for left, source in zip((2, 1), around, strict=False):
        transitions.complete(nodes[source], ExecResult.UNDERFLOW)
        transitions.validate()
        assert nodes[middle].inhibition == left
        assert started(transitions) is None
    transitions.complete(nodes[around[2]], ExecResult.UNDERFLOW)
    assert started(transitions) == "middle"
    assert [nodes[source].inhibition for source in around] == [1, 1, 1]
    transitions.validate()


def test_a_wake_while_running_is_not_lost() -> None:
    transitions, _, around = star(1)
    node = transitions.next()
    assert node is not None
    transitions.wake(around[0])
    transitions.complete(node, ExecResult.UNDERFLOW)
    assert started(transitions) == "s0"


def test_an_inhibited_stream_is_not_overtaken_for_ever() -> None:
    """Two busy neighbours that alternate would keep the count above zero; a claim ends that."""
    transitions, middle, around = star(2)
    nodes = transitions.nodes
    running = transitions.next()
    transitions.wake(middle)
    for turn in range(200):
        other = transitions.next()
        if other is None:
            assert running is not None
            transitions.complete(running, ExecResult.QUANTUM_EXPIRED)
            running = transitions.next()
            transitions.validate()
            if running is not None and running.id == middle:
                assert turn < 50
                return
            continue
        assert running is not None
        transitions.complete(running, ExecResult.QUANTUM_EXPIRED)
        running = other
        transitions.validate()
    pytest.fail(f"{nodes[middle]} never ran beside {[nodes[i] for i in around]}")


def test_a_feedback_past_its_bound_is_drained_first() -> None:
    graph = StreamGraph()
    source = graph.add_stream(Values("source", []))
    others = [graph.add_stream(Values(f"other{n}", [])) for n in range(3)]
    target = graph.add_stream(Collect("target"), eager=True)
    feedback = graph.connect(source, target, Handoff(max_batches=1, soft=True))
    for other in others:
        graph.connect(other, target)
    transitions = Transitions(graph)
    transitions.sync()
    node = transitions.next()
    assert node is not None
    assert node.id == source
    for n in range(2):
        feedback.put(n, n)
    transitions.complete(node, ExecResult.UNDERFLOW)
    assert started(transitions) == "target"
