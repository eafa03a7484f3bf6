"""Every stage of a plan as text: the logical tree, the dataflow graph, the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from textwrap import indent
from typing import Any, Literal

from sqlglot import exp

from tidewheel.planner.flow import Loop, Operator
from tidewheel.planner.logical import Binding, Column, EquiKey, Named, Node, SortKey
from tidewheel.planner.text import to_sql

Stage = Literal["logical", "dataflow", "kernels"]


def logical(node: Node) -> str:
    """One line per node, inputs indented below it; a kept piece of SQL stands below its reason."""
    return "\n".join(_tree(node, 0))


def _tree(node: Node, depth: int) -> Iterator[str]:
    details = [d for d in map(_detail, *_values(node)) if d]
    pad = "  " * depth
    yield f"{pad}{type(node).__name__}{': ' if details else ''}{'; '.join(details)}"
    text = getattr(node, "sql", None)
    if isinstance(text, str):
        yield indent(text.strip(), pad + "  | ")
    bindings = getattr(node, "bindings", ())
    for binding in bindings:
        yield f"{pad}  {binding.variable} ({binding.kind})"
        for part, child in (("anchor", binding.anchor), *(("step", s) for s in binding.steps)):
            if child is not None:
                yield f"{pad}    {part}:"
                yield from _tree(child, depth + 3)
    children = [node.body] if bindings else node.children  # type: ignore[attr-defined]
    for child in children:
        yield from _tree(child, depth + 1)


def _values(node: Node) -> tuple[list[str], list[Any]]:
    skipped = {"schema", "columns", "source_columns", "aliases", "sql", "scans", "bindings"}
    shown = [f.name for f in fields(node) if f.name not in skipped]
    return shown, [getattr(node, name) for name in shown]


def _detail(name: str, value: Any) -> str:
    if value is None or value == () or isinstance(value, (Node, Binding)):
        return ""
    if isinstance(value, tuple):
        parts = [_item(v) for v in value if not isinstance(v, (Node, Binding))]
        return f"{name} [{', '.join(parts)}]" if parts else ""
    return f"{name} {_item(value)}"


def _item(value: Any) -> str:
    if isinstance(value, Named):
        made, name = _item(value.expr), value.column.name
        return name if made.strip('"') == name else f"{made} AS {name}"
    if isinstance(value, EquiKey):
        sign = "IS NOT DISTINCT FROM" if value.null_safe else "="
        return f"{_item(value.left)} {sign} {_item(value.right)}"
    if isinstance(value, SortKey):
        nulls = "FIRST" if value.nulls_first else "LAST"
        return f"{_item(value.expr)}{' DESC' if value.descending else ''} NULLS {nulls}"
    if isinstance(value, Column):
        return value.name
    if isinstance(value, exp.Expr):
        return to_sql(value)
    return str(value)


def dataflow(plan: Any) -> str:
    """One line per vertex, in the order of the flow: number, name, kernel, loop, inputs.

    `plan` is an `execute.Physical`.
    """
    head = [] if plan.choice is None else [plan.choice.text()]
    return "\n".join([*head, *(line for _, line in vertex_lines(plan))])


def vertex_lines(plan: Any) -> Iterator[tuple[Operator | None, str]]:
    """The lines of `dataflow`, each with its operator."""
    kernel_of = {member: k.name for k in plan.kernels for member in k.members}
    for operator in plan.flow.operators:
        kind = kernel_of.get(operator, operator.kind)
        inputs = ", ".join(f"#{i.id}" for i in operator.inputs)
        detail = f" {operator.detail}" if operator.detail else ""
        arrow = f" <- {inputs}" if inputs else ""
        place = "  " * _depth(operator.loop)
        yield operator, f"{place}#{operator.id} {operator.name}{detail} [{kind}]{arrow}"
    if plan.flow.root is not None:
        yield None, f"result <- #{plan.flow.root.id}"


def _depth(loop: Loop | None) -> int:
    return 0 if loop is None else loop.depth


def kernels(plan: Any) -> str:
    """Every kernel's statement, and what its inputs are; then the vertices that are no kernels."""
    lines = []
    for kernel in plan.kernels:
        inputs = [f"__tw_in{n} = #{i.id} {i.name}" for n, i in enumerate(kernel.inputs)]
        behind = f" ({'; '.join(inputs)})" if inputs else ""
        lines += [f"{kernel.name} -> #{kernel.root.id}{behind}", indent(kernel.sql.strip(), "  ")]
    rest: list[Operator] = [o for o in plan.flow.operators if o.kind == "vertex"]
    lines += [f"#{o.id} {o.name}{' ' + o.detail if o.detail else ''}: no SQL" for o in rest]
    return "\n".join(lines)
