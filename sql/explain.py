"""EXPLAIN of a query or of a maintained view: DuckDB's own plan, or one of Tidewheel's stages.

EXPLAIN query                                    what runs as one kernel is DuckDB's to explain
EXPLAIN ANALYZE query                            runs it; vertices, iterations, DuckDB's profile
EXPLAIN (LOGICAL | DATAFLOW | KERNELS) query     a stage as text
EXPLAIN ([ANALYZE,] FORMAT f) query              text, svg, html, dot, mermaid; trace (ANALYZE)
EXPLAIN [(FORMAT f)] VIEW v                      the operators that keep v up to date
EXPLAIN [(FORMAT f)] CREATE MATERIALIZED VIEW …  those that would; nothing is made
EXPLAIN ROW (v, value, …)                        the proof that the row belongs to a view
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine.arrow import pa
from ..planner import explain as stages
from ..planner.context import Context
from ..planner.execute import Physical
from ..planner.logical import Block
from . import errors, view_text
from .parameters import refuse
from .planning import logical
from .statements import Kind, Statement, Token, mentions_recursion, mistake, split, tokens

if TYPE_CHECKING:
    from ..engine.operators.circuit import Circuit
    from ..planner.maintain import Maintainer
    from ..planner.picture import Picture
    from .views import Views

_STAGES = ("LOGICAL", "DATAFLOW", "KERNELS")
_FORMATS = ("TEXT", "SVG", "HTML", "DOT", "MERMAID", "TRACE")
_DUCKDB_FORMATS = ("JSON", "GRAPHVIZ", "YAML")


@dataclass(slots=True)
class _Wish:
    """What an EXPLAIN asks for; `at` is the first token of what is explained."""

    at: int = 1
    stage: str | None = None
    format: str | None = None
    analyze: bool = False
    duckdb: bool = False  # in a form that is DuckDB's alone


def explain(
    statement: Statement,
    context: Context,
    views: Views,
    planned: Callable[[Statement], Physical],
) -> tuple[str, str] | None:
    """``(stage, text)``; None where DuckDB's EXPLAIN says all there is.

    `planned` gives the plan that would run a query, with what is known from its last runs.

    A plain EXPLAIN shows the dataflow of a query that Tidewheel runs as more than one kernel.
    """
    parts = list(tokens(statement.text))
    wish = _read(statement, parts)
    if wish.at >= len(parts):
        if wish.duckdb:
            return None
        raise mistake(
            statement, parts[0], "EXPLAIN needs a query", "EXPLAIN SELECT …, or EXPLAIN VIEW name"
        )
    first = parts[wish.at]
    if first.text.upper() in ("VIEW", "MATERIALIZED"):
        return _view(statement, wish, first, views)
    if not wish.duckdb and [t.text.upper() for t in parts[wish.at : wish.at + 2]] == ["ROW", "("]:
        # Imported here: few ask for it, and it needs all of the front end.
        from .explain_row import explain_row

        return "row", explain_row(statement, parts, wish.at, context, views)
    text = statement.text[first.start :]
    inner = split(text)[0]
    # places of errors stay those of the whole script
    inner = dataclasses.replace(inner, script=statement.script, start=statement.start + first.start)
    if inner.kind is Kind.OURS and inner.words[0] == "CREATE":
        return _unmade(statement, wish, first, inner, views)
    if wish.duckdb:
        return None
    plain = wish.stage is None and wish.format is None
    if plain and not wish.analyze and not mentions_recursion(text):
        return None
    if inner.kind is not Kind.QUERY:
        if plain:
            return None
        shown = wish.stage or f"FORMAT {wish.format}"
        raise mistake(
            statement, first, f"EXPLAIN ({shown}) is for queries", kind=errors.NotSupportedError
        )
    if wish.stage == "LOGICAL":
        node = logical(inner, context)
        if isinstance(node, Block) and not mentions_recursion(text):
            from .binder import bind

            node = bind(text, context)
        return "logical", stages.logical(node)
    plan = planned(inner)
    if wish.analyze:
        return _analyzed(wish, plan, context)
    if wish.stage == "KERNELS":
        return "kernels", stages.kernels(plan)
    if wish.format in (None, "TEXT"):
        return "dataflow", stages.dataflow(plan)
    from ..planner import picture

    return _drawn(wish, picture.of_plan(plan))


def _read(statement: Statement, parts: list[Token]) -> _Wish:
    """The options, which stand in parentheses, or ANALYZE alone."""
    wish = _Wish()
    words = [t.text.upper() for t in parts]
    if words[1:2] == ["ANALYZE"]:
        wish.analyze = True
        wish.at = 2
        return wish
    if words[1:2] != ["("] or words[2:3] == [] or words[2] in view_text.QUERIES:
        return wish
    at = 2
    while True:
        word = words[at] if at < len(words) else ""
        if word in _STAGES:
            wish.stage = word
        elif word in ("ANALYZE", "ANALYSE"):
            wish.analyze = True
        elif word == "FORMAT":
            at += 1
            value = words[at].strip("'\"") if at < len(words) else ""
            if value in _DUCKDB_FORMATS:
                wish.duckdb = True
            elif value not in _FORMATS:
                there = ", ".join(f.lower() for f in (*_FORMATS, *_DUCKDB_FORMATS))
                message = f"there is no EXPLAIN format {value.lower()}; there are {there}"
                if value in ("", ")"):
                    message = f"EXPLAIN (FORMAT …) needs a format: {there}"
                raise mistake(statement, parts[min(at, len(parts) - 1)], message)
            wish.format = value
        else:
            message = "EXPLAIN takes LOGICAL, DATAFLOW, KERNELS, ANALYZE and FORMAT here"
            hint = "EXPLAIN (ANALYZE) SELECT …, EXPLAIN (FORMAT svg) VIEW name"
            raise mistake(statement, parts[min(at, len(parts) - 1)], message, hint)
        at += 1
        if words[at : at + 1] == [","]:
            at += 1
        elif words[at : at + 1] == [")"]:
            wish.at = at + 1
            break
    if wish.format == "TRACE" and not wish.analyze:
        raise mistake(
            statement, parts[0], "a trace is of a run: EXPLAIN (ANALYZE, FORMAT trace) query"
        )
    return wish


def _analyzed(wish: _Wish, plan: Physical, context: Context) -> tuple[str, str]:
    from ..planner import analyze, picture

    found = analyze.analyze(plan, context)
    if wish.format == "TRACE":
        return "trace", analyze.trace(found)
    if wish.format in (None, "TEXT"):
        return "analyze", analyze.text(found)
    return _drawn(wish, picture.of_plan(plan, found))


def _drawn(wish: _Wish, drawing: Any) -> tuple[str, str]:
    # Imported here: nobody else needs them.
    if wish.format == "SVG":
        from ..planner.picture_svg import svg

        return "svg", svg(drawing)
    if wish.format == "HTML":
        from ..planner.picture_html import html

        return "html", html(drawing)
    from ..planner import picture_text

    if wish.format == "MERMAID":
        return "mermaid", picture_text.mermaid(drawing)
    if wish.format == "DOT":
        return "dot", picture_text.dot(drawing)
    return "dataflow", picture_text.plain(drawing)


def _view(statement: Statement, wish: _Wish, first: Token, views: Views) -> tuple[str, str]:
    """The operators that keep a view; they have been counting since it was filled."""
    named = view_text.parse_explained(statement, wish.at)
    key = views.resolve(named.parts, statement, named.name_at)
    found = views.circuit(key)
    _check_form(statement, wish, first)
    choice = views.registry.views[key].choice
    anew = f" (computed anew in the last epoch: {choice})" if choice else ""
    return _drawn(wish, _kept(f"view {'.'.join(named.parts)}", anew, *found))


def _unmade(
    statement: Statement, wish: _Wish, first: Token, create: Statement, views: Views
) -> tuple[str, str]:
    """The operators that would keep a view; what they would hold and count is not known."""
    if wish.analyze:
        raise mistake(
            statement,
            first,
            "EXPLAIN ANALYZE would make the view",
            "make it, then EXPLAIN VIEW shows what its operators took, "
            "and tidewheel_views() the time to fill it",
            errors.NotSupportedError,
        )
    _check_form(statement, wish, first)
    refuse(create)
    name, found = views.draft(create)
    from ..planner import picture

    if found is None:
        drawing = picture.Picture(f"view {name}")
        drawing.boxes.append(
            picture.Box("exists", "already", "output", note="nothing would be made")
        )
    else:
        drawing = _kept(f"view {name}", " (not made)", *found)
        if found[0] is not None:
            drawing.boxes = [dataclasses.replace(box, note="") for box in drawing.boxes]
    return _drawn(wish, drawing)


def _check_form(statement: Statement, wish: _Wish, first: Token) -> None:
    if wish.duckdb or wish.format == "TRACE" or wish.stage in ("LOGICAL", "KERNELS"):
        shown = wish.stage or f"FORMAT {str(wish.format).lower()}"
        message = f"EXPLAIN ({shown}) is for queries; a view has a dataflow"
        hint = "FORMAT text, svg, html, dot or mermaid"
        raise mistake(statement, first, message, hint, errors.NotSupportedError)


def _kept(title: str, more: str, circuit: Circuit | None, reason: str) -> Picture:
    """How a view is kept; `more` follows the title if that is by operators."""
    from ..planner import picture

    if circuit is not None:
        return picture.of_circuit(circuit, title + more)
    drawing = picture.Picture(title)
    drawing.boxes.append(picture.Box("query", "recompute", "kernel", note=reason))
    return drawing


def told(rows: pa.Table, maintainer: Maintainer, epoch: int) -> pa.Table:
    """What EXPLAIN ANALYZE of a change gives, and behind it what the epoch did to the views."""
    lines = []
    for view in maintainer.ordered():
        if view.plan is not None and view.last_epoch == epoch:
            how = "by its operators"
            if view.choice or view.plan.reason:
                how = f"computed anew: {view.choice or view.plan.reason}"
            name = view.key.split(".", 1)[1]
            seconds = view.last_seconds * 1000
            many = "rows"
            if view.last_rows is not None:
                many = "1 row" if view.last_rows == 1 else f"{view.last_rows:,} rows"
            lines.append(f"{name}: {many} changed in {seconds:.2f} ms, {how}")
    if not lines:
        return rows
    more = pa.table([["maintained_views"], ["\n".join(lines)]], schema=rows.schema)
    return pa.concat_tables([rows, more])
