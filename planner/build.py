"""The planner's graph and its kernels as stages of the engine's dataflow graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidewheel.engine.dataflow.graph import Graph, Stream
from tidewheel.engine.dataflow.loop_context import Feedback, LoopContext
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.kernels.connection import KernelConnection
from tidewheel.engine.kernels.duckdb import Parameters, input_name
from tidewheel.engine.operators.kernel import Kernel, KernelInput
from tidewheel.planner.flow import Flow, Loop, Operator
from tidewheel.planner.fuse import KernelPlan
from tidewheel.planner.logical import Column
from tidewheel.planner.text import VOLATILE, typed_nulls, used_parameters

OUTPUT = "result"


def build(
    flow: Flow,
    kernels: Sequence[KernelPlan],
    connection: KernelConnection,
    parameters: Parameters = None,
    context: Any = None,
    apart: Mapping[str, KernelConnection] | None = None,
    places: dict[Operator, Stream] | None = None,
) -> Graph:
    """A graph whose output `OUTPUT` is the flow's root. `connection` and `context` are given to
    `Operator.make`.

    `apart`: kernels, by name, with connections of their own. `places` is filled with the stream
    that each operator became; a fused one has none.
    """
    graph = Graph()
    builder = _Builder(graph, connection, parameters, context, apart or {})
    if places is not None:
        builder.streams = places
    by_root = {k.root: k for k in kernels}
    for operator in flow.operators:
        if operator.kind == "feedback":
            builder.feedback(operator)
    assert flow.root is not None
    for operator in flow.operators:
        if operator.kind == "sql":
            if operator in by_root:
                builder.kernel(by_root[operator], operator is flow.root)
        elif operator.kind != "feedback":
            builder.other(operator)
    for operator, feedback in builder.feedbacks.items():
        feedback.connect(builder.streams[operator.inputs[0]])
    graph.output(OUTPUT, builder.streams[flow.root])
    return graph


class _Builder:
    def __init__(
        self,
        graph: Graph,
        connection: KernelConnection,
        parameters: Parameters,
        context: Any = None,
        apart: Mapping[str, KernelConnection] | None = None,
    ) -> None:
        self.apart = apart or {}
        self.graph = graph
        self.context = context
        self.connection = connection
        self.parameters = parameters
        self.streams: dict[Operator, Stream] = {}
        self.feedbacks: dict[Operator, Feedback] = {}
        self.loops: dict[Loop, LoopContext] = {}

    def loop(self, loop: Loop) -> LoopContext:
        if loop not in self.loops:
            if loop.parent is None:
                self.loops[loop] = self.graph.loop(loop.name)
            else:
                self.loops[loop] = self.loop(loop.parent).loop(loop.name)
        return self.loops[loop]

    def feedback(self, operator: Operator) -> None:
        assert operator.loop is not None
        feedback = self.loop(operator.loop).feedback(
            operator.name, schema=_types(operator.columns), **operator.options
        )
        self.feedbacks[operator] = feedback
        self.streams[operator] = feedback.stream

    def kernel(self, plan: KernelPlan, is_root: bool) -> None:
        inputs = [
            KernelInput(input_name(port), typed_nulls(source.columns), _depth(source))
            for port, source in enumerate(plan.inputs)
        ]
        stage = self.graph.stage(
            plan.name,
            self._factory(plan, inputs, is_root),
            [self.streams[i] for i in plan.inputs],
            expects=[_types(i.columns) for i in plan.inputs],
            schemas=[_types(plan.root.columns)],
            buffer=None,  # a kernel reads everything of a time before it can run
        )
        self.streams[plan.root] = stage.stream

    def _factory(
        self, plan: KernelPlan, inputs: Sequence[KernelInput], is_root: bool
    ) -> Callable[[], Vertex]:
        parameters = used_parameters(plan.sql, self.parameters)
        connection = self.apart.get(plan.name, self.connection)
        loop = plan.root.loop
        rests = loop is not None and loop.replaces and VOLATILE.search(plan.sql) is None
        return lambda: Kernel(plan.sql, inputs, connection, parameters, is_root, rests)

    def _made(self, operator: Operator) -> Callable[[], Vertex]:
        make, context, connection = operator.make, self.context, self.connection
        assert make is not None
        return lambda: make(context, connection)

    def other(self, operator: Operator) -> None:
        sources = [self.streams[i] for i in operator.inputs]
        if operator.kind == "ingress":
            assert operator.loop is not None
            stream = self.loop(operator.loop).ingress(sources[0], operator.name)
        elif operator.kind == "egress":
            inner = operator.inputs[0].loop
            assert inner is not None
            stream = self.loop(inner).egress(sources[0], operator.name)
        elif operator.kind == "concat":
            stream = self.graph.concat(operator.name, sources)
        else:
            factory = operator.factory
            if factory is None:
                factory = self._made(operator)
            stream = self.graph.stage(
                operator.name,
                factory,
                sources,
                schemas=[_types(operator.columns)],
                **operator.options,
            ).stream
        self.streams[operator] = stream


def _depth(source: Operator) -> int | None:
    """What enters a loop holds for all its counters, unless its operator says otherwise."""
    if source.kind != "ingress" or source.options.get("per_time"):
        return None
    while source.kind == "ingress":
        source = source.inputs[0]
    return source.loop.depth if source.loop is not None else 0


def _types(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(c.type for c in columns)
