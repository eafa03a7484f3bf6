"""UNION ALL recursions that join nothing → one `Repeat` operator."""

from __future__ import annotations

from collections.abc import Callable

from tidewheel.engine.operators.circuit import Circuit
from tidewheel.engine.operators.circuit import Node as Placed
from tidewheel.engine.operators.linear import Map, Rewrite
from tidewheel.engine.operators.operator import Source
from tidewheel.engine.operators.repeat import Repeat
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import Stream, ViewLowering

Watch = Callable[[tuple[int, ...]], object]


def repeat(low: ViewLowering, b: L.Binding, steps: list[L.Node], watch: Watch) -> Placed | None:
    """The recursive table as one operator, None where a step is not filters and projections."""
    if b.kind != "union_all" or b.anchor is None or not all(map(_passes, steps)):
        return None
    anchor = low.place(b.anchor)
    schema = Schema((c.name for c in b.columns), anchor.arrow.types)
    rewrites: list[Rewrite] = []
    saved, entered, variables = low.circuit, low.entered, dict(low.variables)
    for step in steps:
        low.circuit, low.entered = Circuit(), None
        rows = low.circuit.add(Source(schema))
        low.variables[b.variable] = Stream(low.circuit, rows, b.columns)
        try:
            done = low.place(step)
        finally:
            low.circuit, low.entered, low.variables = saved, entered, dict(variables)
        op = done.placed.op
        if not isinstance(op, Map) or done.arrow.types != schema.types:
            return None
        rewrites.append(op.rewrite)
    op = Repeat(schema, rewrites, watch, f"recursion {b.label}")
    return low.circuit.add(op, anchor.placed)


def _passes(step: L.Node) -> bool:
    while isinstance(step, L.Filter | L.Project | L.Unnest):
        step = step.input
    return isinstance(step, L.RecRef)
