"""Mistakes are refused when the graph is built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tidewheel.engine.dataflow.errors import GraphError
from tidewheel.engine.dataflow.graph import Graph, Kind
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.vertex import Vertex


class Idle(Vertex):
    """Does nothing."""

    def on_recv(self, port: int, batch: object, time: object) -> None:
        pass


def test_cycle_without_feedback() -> None:
    graph = Graph()
    first = graph.stage("first", Idle, [graph.input("in"), None])
    second = graph.stage("second", Idle, [first])
    graph.connect(second, first, 1)
    with pytest.raises(GraphError, match=r"'first' → 'second' → 'first' has no feedback"):
        graph.check()


def test_cycle_through_concat_without_feedback() -> None:
    graph = Graph()
    stage = graph.stage("stage", Idle, [None])
    graph.connect(graph.concat("both", [graph.input("in"), stage]), stage, 0)
    with pytest.raises(GraphError, match="has no feedback"):
        graph.check()


def test_cycle_through_feedback_is_fine() -> None:
    graph = Graph()
    loop = graph.loop("loop")
    feedback = loop.feedback()
    body = graph.stage("body", Idle, [loop.ingress(graph.input("in")), feedback.stream])
    feedback.connect(body)
    graph.output("out", loop.egress(body))
    graph.check()


def test_loop_with_nothing_inside() -> None:
    graph = Graph()
    loop = graph.loop("loop")
    feedback = loop.feedback()
    variable = graph.concat("variable", [loop.ingress(graph.input("in")), feedback.stream])
    feedback.connect(variable)
    graph.output("out", loop.egress(variable))
    with pytest.raises(GraphError, match="has no stage that does anything"):
        graph.check()


@pytest.mark.parametrize(
    "cross",
    [
        lambda graph, loop, outside, inside: graph.stage("bad", Idle, [outside, inside]),
        lambda graph, loop, outside, inside: graph.concat("bad", [outside, inside]),
        lambda graph, loop, outside, inside: loop.feedback().connect(outside),
        lambda graph, loop, outside, inside: graph.output("bad", inside),
        lambda graph, loop, outside, inside: graph.loop("other").egress(inside),
        lambda graph, loop, outside, inside: graph.loop("other").ingress(inside),
    ],
    ids=["stage", "concat", "feedback", "output", "egress", "ingress"],
)
def test_crossing_a_loops_border(cross: Callable[..., object]) -> None:
    graph = Graph()
    outside = graph.input("in")
    loop = graph.loop("loop")
    inside = loop.ingress(outside)
    with pytest.raises(GraphError, match="loop"):
        cross(graph, loop, outside, inside)
    names = {s.name for s in graph.stages.values()}
    assert "bad" not in names, "nothing half-made is left behind"


def test_nested_loops_one_border_at_a_time() -> None:
    graph = Graph()
    outer = graph.loop("outer")
    inner = outer.loop("inner")
    with pytest.raises(GraphError, match=r"outside all loops.*inside loop 'outer'"):
        inner.ingress(graph.input("in"))
    stream = inner.ingress(outer.ingress(graph.input("in2")))
    with pytest.raises(GraphError, match="an egress leads from its loop to the parent"):
        outer.egress(stream)
    assert stream.depth == 2


def test_an_input_joined_twice() -> None:
    graph = Graph()
    loop = graph.loop("loop")
    feedback = loop.feedback()
    inside = loop.ingress(graph.input("in"))
    feedback.connect(inside)
    with pytest.raises(GraphError, match=r"connected twice.*use concat\(\)"):
        feedback.connect(inside)
    stage = graph.stage("stage", Idle, [inside])
    with pytest.raises(GraphError, match="connected twice"):
        graph.connect(inside, stage, 0)


@pytest.mark.parametrize("kind", [Kind.INPUT, Kind.OUTPUT])
def test_names_of_inputs_and_outputs_are_unique(kind: Kind) -> None:
    graph = Graph()
    stream = graph.input("x")
    graph.output("x", stream)
    again = graph.input if kind is Kind.INPUT else partial(graph.output, stream=stream)
    with pytest.raises(GraphError, match=f"already is an {kind.value} 'x'"):
        again("x")


def test_schemas_that_differ() -> None:
    graph = Graph()
    stream = graph.input("in", schema="a int")
    with pytest.raises(GraphError, match=r"(?s)expects the schema\nb text\n.*'in' sends\na int"):
        graph.stage("stage", Idle, [stream], expects=["b text"])
    graph.stage("stage", Idle, [stream], expects=["a int"], schemas=["b text"])
    with pytest.raises(GraphError, match="expects the schema"):
        graph.concat("both", [stream, graph.input("other", schema="c int")])
    loop = graph.loop("loop")
    feedback = loop.feedback(schema="b text")
    with pytest.raises(GraphError, match="expects the schema"):
        feedback.connect(loop.ingress(stream))


def test_what_is_never_connected() -> None:
    graph = Graph()
    loop = graph.loop("loop")
    loop.feedback("back")
    with pytest.raises(GraphError, match="feedback 'back' is never connected"):
        Dataflow(graph)
    graph = Graph()
    graph.stage("join", Idle, [graph.input("in"), None])
    with pytest.raises(GraphError, match="input 1 of stage 'join' is not connected"):
        Dataflow(graph)


def test_streams_of_another_graph() -> None:
    with pytest.raises(GraphError, match="is not part of this graph"):
        Graph().output("out", Graph().input("in"))


def test_wrong_numbers() -> None:
    graph = Graph()
    stream = graph.input("in")
    with pytest.raises(GraphError, match="partition has 2 entries, not 1"):
        graph.stage("stage", Idle, [stream], partition=[None, None])
    two = graph.stage("two", Idle, [stream], outputs=2)
    with pytest.raises(GraphError, match="has 2 outputs"):
        graph.output("out", two)
    with pytest.raises(GraphError, match="has no input 1"):
        graph.connect(stream, two, 1)
    with pytest.raises(GraphError, match="max_iterations is 0"):
        graph.loop("loop").feedback(max_iterations=0)
    with pytest.raises(GraphError, match="has no streams"):
        graph.concat("none", [])


def test_unknown_names_list_the_known_ones() -> None:
    graph = Graph()
    graph.output("out", graph.input("in"))
    with Dataflow(graph) as dataflow:
        with pytest.raises(GraphError, match="no input 'on'; there are: in"):
            dataflow.input("on")
        with pytest.raises(GraphError, match="no output 'in'; there are: out"):
            dataflow.output("in")


def test_remove() -> None:
    graph = Graph()
    stream = graph.input("in")
    first = graph.stage("first", Idle, [stream])
    second = graph.stage("second", Idle, [first])
    with pytest.raises(GraphError, match="cannot remove 'first': 'second' still reads it"):
        graph.remove([first])
    graph.remove([second, first])
    assert [s.name for s in graph.stages.values()] == ["in"]
    assert stream.stage.readers == []
    with pytest.raises(GraphError, match="not part of this graph"):
        graph.remove([first])
