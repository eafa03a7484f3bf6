"""A dataflow as something to draw: boxes, arrows, loop contexts around them.

`of_plan` makes it from a query's plan (with the numbers of EXPLAIN ANALYZE, if it was run),
`of_circuit` from a maintained view. `picture_text.py` writes it for Graphviz and Mermaid,
`picture_svg.py` and `picture_html.py` draw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidewheel.engine.operators.circuit import Circuit, Loop, Node
from tidewheel.planner.analyze import Analysis, counted
from tidewheel.planner.execute import Physical
from tidewheel.planner.flow import Loop as PlanLoop
from tidewheel.planner.flow import Operator
from tidewheel.planner.fuse import KernelPlan

Path = tuple[str, ...]
"""The loop contexts around a box, outermost first."""


@dataclass(frozen=True, slots=True)
class Box:
    """A vertex. `kind`: kernel, vertex, ingress, feedback, egress, concat, input or output.

    `detail` is all that can be said of it (a kernel's SQL), `note` its numbers after ANALYZE,
    `share` its part of the run's time, from 0 to 1.
    """

    id: str
    title: str
    kind: str
    loops: Path = ()
    detail: str = ""
    note: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Arrow:
    """A handoff; `back`: it leads to the next iteration. `note`: rows that passed."""

    source: str
    target: str
    back: bool = False
    note: str = ""


@dataclass(slots=True)
class Picture:
    """What is drawn. `loops` names the loop contexts; `iterations` are (counters, new rows)."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    loops: dict[Path, str] = field(default_factory=dict)
    iterations: dict[str, list[tuple[tuple[int, ...], int]]] = field(default_factory=dict)


def of_plan(plan: Physical, analysis: Analysis | None = None) -> Picture:
    """The dataflow that runs a query: a box per kernel, and per vertex that is none."""
    title = "dataflow"
    if analysis is not None:
        title = f"{counted(analysis.rows, 'row')} in {analysis.seconds * 1e3:.2f} ms"
    picture = Picture(title)
    total = sum(w.seconds for w in analysis.work.values()) if analysis is not None else 0.0
    kernel_of: dict[Operator, KernelPlan] = {m: k for k in plan.kernels for m in k.members}
    names: dict[Operator, str] = {}
    numbers: dict[PlanLoop, int] = {}
    shown: list[tuple[Operator, list[Operator], Box]] = []
    for operator in plan.flow.operators:
        kernel = kernel_of.get(operator)
        if kernel is not None and operator is not kernel.root:
            continue
        work = None if analysis is None else analysis.work.get(operator)
        note, share = "", 0.0
        if work is not None:
            note = " · ".join(
                (
                    counted(work.rows, "row"),
                    f"{work.seconds * 1e3:.2f} ms",
                    counted(work.quanta, "quantum", "quanta"),
                )
            )
            share = work.seconds / total if total else 0.0
        inside = operator.inputs[0].loop if operator.kind == "egress" else operator.loop
        loops = _path(inside, picture, numbers)
        name = names[operator] = f"n{operator.id}"
        if kernel is not None:
            parts = " ‹ ".join(m.name for m in reversed(kernel.members))
            box = Box(name, f"{kernel.name}: {parts}", "kernel", loops, kernel.sql, note, share)
            shown.append((operator, kernel.inputs, box))
        else:
            if analysis is not None and work is None:
                note = _rows(operator, analysis)
            title = operator.name if operator.kind == "vertex" else operator.kind
            box = Box(name, title, operator.kind, loops, operator.detail, note, share)
            shown.append((operator, operator.inputs, box))
    for operator, sources, box in shown:
        picture.boxes.append(box)
        for source in sources:
            rows = "" if analysis is None else _rows(source, analysis)
            back = source.kind == "feedback"
            picture.arrows.append(Arrow(names[source], names[operator], back, rows))
    root = plan.flow.root
    if root is not None:
        picture.boxes.append(Box("result", "result", "output"))
        rows = "" if analysis is None else counted(analysis.rows, "row")
        picture.arrows.append(Arrow(names[root], "result", False, rows))
    if analysis is not None:
        picture.iterations = analysis.iterations
    return picture


def _rows(source: Operator, analysis: Analysis) -> str:
    while source.kind in ("ingress", "egress", "feedback") and source.inputs:
        source = source.inputs[0]
    work = analysis.work.get(source)
    return "" if work is None else counted(work.rows, "row")


def _path(loop: PlanLoop | None, picture: Picture, numbers: dict[PlanLoop, int]) -> Path:
    if loop is None:
        return ()
    around = _path(loop.parent, picture, numbers)
    path = (*around, f"loop{numbers.setdefault(loop, len(numbers))}")
    picture.loops[path] = f"loop {loop.name}"
    return path


def of_circuit(circuit: Circuit, title: str) -> Picture:
    """The operators that keep a view up to date, loops among them; numbers since it was filled."""
    picture = Picture(title)
    total = sum(n.seconds for n, _ in _nodes(circuit))
    _add(circuit, (), "c", picture, total)
    return picture


def _nodes(circuit: Circuit) -> Iterator[tuple[Node, Circuit]]:
    for node in circuit.nodes:
        if node is not None:
            yield node, circuit
            if isinstance(node.op, Loop):
                yield from _nodes(node.op.inner)


def _add(circuit: Circuit, path: Path, prefix: str, picture: Picture, total: float) -> None:
    """Boxes for a circuit's nodes; a loop becomes a group, its ports the boxes at its border."""
    for node in circuit.nodes:
        if node is None:
            continue
        if isinstance(node.op, Loop):
            inside = (*path, f"{prefix}{node.index}")
            picture.loops[inside] = f"loop {node.op.name}"
            _add(node.op.inner, inside, f"{prefix}{node.index}.", picture, total)
            continue
        op = node.op
        kind = _KINDS.get(op.name.split(" ")[0], "vertex")
        columns = ", ".join(
            f"{n} {t}" for n, t in zip(op.schema.names, op.schema.types, strict=True)
        )
        note = f"{node.rows_in:,} in · {node.rows_out:,} out · {node.seconds * 1e3:.2f} ms"
        if op.state_rows:
            rows = "1 row" if op.state_rows == 1 else f"{op.state_rows:,} rows"
            note += f" · holds {rows}, {op.state_bytes:,} bytes"
        share = node.seconds / total if total else 0.0
        name = f"{prefix}{node.index}"
        detail = op.detail or columns
        picture.boxes.append(Box(name, op.name, kind, path, detail, note, share))
    for node in circuit.nodes:
        if node is None:
            continue
        for port, readers in enumerate(node.readers):
            for reader, reader_port, delay in readers:
                source, target = _out(node, port, prefix), _in(reader, reader_port, prefix)
                picture.arrows.append(Arrow(source, target, delay > 0))


_KINDS = {
    "sink": "output",
    "ingress": "ingress",
    "egress": "egress",
    "feedback": "feedback",
    "kernel": "kernel",
    "source": "input",
}


def _out(node: Node, port: int, prefix: str) -> str:
    """The box from which an output leaves: in a loop, the one that lets it out."""
    name = f"{prefix}{node.index}"
    if not isinstance(node.op, Loop):
        return name
    return f"{name}.{node.op.leaving[port].index}"


def _in(node: Node, port: int, prefix: str) -> str:
    name = f"{prefix}{node.index}"
    if not isinstance(node.op, Loop):
        return name
    return f"{name}.{node.op.entering[port].index}"
