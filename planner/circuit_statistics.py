"""What the operators of a circuit did and hold."""

from __future__ import annotations

from typing import Any

from tidewheel.engine.operators.circuit import Circuit, Loop


def statistics(circuit: Circuit, within: str = "") -> list[dict[str, Any]]:
    """One record per operator, those in loops behind the loop."""
    out: list[dict[str, Any]] = []
    for node in circuit.nodes:
        if node is None:
            continue
        name = f"{within}{node.index} {node.op.name}"
        inner = isinstance(node.op, Loop)
        out.append(
            {
                "vertex": name,
                "kind": type(node.op).__name__.lower().lstrip("_"),
                "detail": node.op.detail,
                "rows": 0 if inner else node.op.state_rows,
                "bytes": 0 if inner else node.op.state_bytes,
                "rows_in": node.rows_in,
                "rows_out": node.rows_out,
                "steps": node.steps,
                "seconds": node.seconds,
            }
        )
        if isinstance(node.op, Loop):
            out.extend(statistics(node.op.inner, f"{name} / "))
    return out
