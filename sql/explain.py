"""EXPLAIN of a query: DuckDB's own plan, or a stage of Tidewheel's."""

from __future__ import annotations

import dataclasses

from ..planner import execute
from ..planner import explain as stages
from ..planner.context import Context
from ..planner.logical import Block
from . import errors, recursion
from .planning import logical
from .statements import Kind, Statement, split, tokens

_STAGES = ("LOGICAL", "DATAFLOW", "KERNELS")


def explain(statement: Statement, context: Context) -> tuple[str, str] | None:
    """``(stage, text)``; None where DuckDB's EXPLAIN says all there is.

    ``EXPLAIN (LOGICAL | DATAFLOW | KERNELS) query`` shows that stage. A plain EXPLAIN shows the
    dataflow of a query that Tidewheel runs as more than one kernel.
    """
    parts = list(tokens(statement.text))
    words = [t.text.upper() for t in parts]
    stage, at = None, 1
    if words[1:2] == ["("] and words[2:3] and words[2] in _STAGES and words[3:4] == [")"]:
        stage, at = words[2], 4
    if at >= len(parts):
        raise errors.ProgrammingError(
            "EXPLAIN needs a query",
            text=statement.script,
            position=statement.start,
            length=len("EXPLAIN"),
        )
    if (stage is None and not recursion.mentions(statement.text)) or words[1:2] == ["ANALYZE"]:
        return None
    text = statement.text[parts[at].start :]
    inner = split(text)[0]
    if inner.kind is not Kind.QUERY:
        if stage is None:
            return None
        raise errors.NotSupportedError(
            f"EXPLAIN ({stage}) is for queries",
            text=statement.script,
            position=statement.start + parts[at].start,
            length=len(parts[at].text),
        )
    # places of errors stay those of the whole script
    inner = dataclasses.replace(
        inner, script=statement.script, start=statement.start + parts[at].start
    )
    node = logical(inner, context)
    if stage == "LOGICAL":
        if isinstance(node, Block) and not recursion.mentions(text):
            from .binder import bind

            node = bind(text, context)
        return "logical", stages.logical(node)
    plan = execute.physical(node, context.settings)
    if stage == "KERNELS":
        return "kernels", stages.kernels(plan)
    return "dataflow", stages.dataflow(plan)
