"""The planner's dataflow graph: one operator per logical node, before fusion.

An operator is either *sql* (it can write itself out as a query over its inputs, so it can be fused
with its neighbours into one kernel), a *vertex* of its own, or one of the stages that only change
time or merge streams: ingress, feedback, egress, concat. `fuse.py` cuts the graph into kernels,
`build.py` turns the result into stages of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.kernels.connection import KernelConnection
from tidewheel.planner.logical import Column, PlanError

Build = Callable[[Sequence[exp.Expr]], exp.Query]
"""Writes an operator as a query. It is given one FROM item per input, whose columns have their
plan-unique names, and selects the operator's columns under theirs, in order."""

Kind = Literal["sql", "vertex", "ingress", "feedback", "egress", "concat"]


@dataclass(eq=False, slots=True)
class Loop:
    """A loop context of the graph; `variables` are the recursive variables that live in it.

    `replaces`: each counter replaces their rows, by the same ones where they rest.
    """

    name: str
    parent: Loop | None = None
    variables: frozenset[str] = frozenset()
    replaces: bool = False

    @property
    def depth(self) -> int:
        """Counters in the timestamps inside."""
        return 1 if self.parent is None else self.parent.depth + 1


@dataclass(eq=False, slots=True)
class Operator:
    """A vertex of the planner's graph; its one output has `columns`.

    `text`: SQL that is the whole operator as the user wrote it, used as it stands where the
    operator is a kernel by itself. `detail` is what EXPLAIN prints behind the name. `options` are
    keyword arguments for the engine's stage or feedback.
    """

    id: int
    kind: Kind
    name: str
    columns: tuple[Column, ...]
    inputs: list[Operator]
    loop: Loop | None
    build: Build | None = None
    factory: Callable[[], Vertex] | None = None
    text: str | None = None
    detail: str = ""
    fusible: bool = True
    is_scan: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    # A factory that is given the execution's Context and the connection of its kernels.
    make: Callable[[Any, KernelConnection], Vertex] | None = None


class Flow:
    """The graph. Operators are kept in the order in which they were added: inputs come first,
    except that a feedback's input is connected when the loop's body is there."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.root: Operator | None = None

    def _add(self, kind: Kind, name: str, *args: Any, **more: Any) -> Operator:
        operator = Operator(len(self.operators), kind, name, *args, **more)
        self.operators.append(operator)
        return operator

    def sql(
        self,
        name: str,
        inputs: Sequence[Operator],
        columns: tuple[Column, ...],
        build: Build,
        *,
        text: str | None = None,
        detail: str = "",
        is_scan: bool = False,
    ) -> Operator:
        """An operator that is a query over its inputs."""
        return self._add(
            "sql",
            name,
            columns,
            list(inputs),
            _place(name, inputs),
            build=build,
            text=text,
            detail=detail,
            is_scan=is_scan,
        )

    def vertex(
        self,
        name: str,
        inputs: Sequence[Operator],
        columns: tuple[Column, ...],
        factory: Callable[[], Vertex] | None,
        *,
        detail: str = "",
        **options: Any,
    ) -> Operator:
        """An operator of the engine; `factory` makes its vertex, `options` go to `Graph.stage`."""
        place = _place(name, inputs)
        return self._add(
            "vertex",
            name,
            columns,
            list(inputs),
            place,
            factory=factory,
            detail=detail,
            options=options,
        )

    def concat(self, name: str, inputs: Sequence[Operator]) -> Operator:
        """The union of streams with equal columns (names of the first)."""
        return self._add("concat", name, inputs[0].columns, list(inputs), _place(name, inputs))

    def ingress(self, loop: Loop, source: Operator) -> Operator:
        """`source`, which lies in the loop's parent, brought into the loop."""
        if source.loop is not loop.parent:
            raise PlanError(f"ingress of {loop.name}: {source.name} lies in another loop")
        return self._add("ingress", f"{loop.name}.ingress", source.columns, [source], loop)

    def egress(self, loop: Loop, source: Operator) -> Operator:
        """`source`, which lies in the loop, taken out to the loop's parent."""
        if source.loop is not loop:
            raise PlanError(f"egress of {loop.name}: {source.name} lies in another loop")
        return self._add("egress", f"{loop.name}.egress", source.columns, [source], loop.parent)

    def feedback(self, loop: Loop, columns: tuple[Column, ...], **options: Any) -> Operator:
        """What is fed back, one iteration later; `options` go to `LoopContext.feedback`."""
        return self._add("feedback", f"{loop.name}.feedback", columns, [], loop, options=options)

    def connect(self, feedback: Operator, source: Operator) -> None:
        """Feed `source` back."""
        if feedback.kind != "feedback" or feedback.inputs or source.loop is not feedback.loop:
            raise PlanError(f"cannot connect {source.name} to {feedback.name}")
        feedback.inputs.append(source)

    def readers(self) -> dict[Operator, list[Operator]]:
        """Who reads whom, once per edge."""
        found: dict[Operator, list[Operator]] = {o: [] for o in self.operators}
        for operator in self.operators:
            for source in operator.inputs:
                found[source].append(operator)
        return found


def _place(name: str, inputs: Sequence[Operator]) -> Loop | None:
    places = {o.loop for o in inputs}
    if len(places) > 1:
        raise PlanError(f"{name} reads streams of several loops: {[o.name for o in inputs]}")
    return next(iter(places), None)
