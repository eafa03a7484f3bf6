"""Window functions and set-returning functions of a SELECT: computed below what they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Column, Named, Node, Unnest, Window
from tidewheel.planner.text import column, to_sql

from .bind_clauses import Clauses
from .bind_names import rebuilt, windows_taken_out
from .bind_scope import NotTaken
from .bind_types import function_name, is_volatile

if TYPE_CHECKING:
    from .bind_correlated import Correlation
    from .binder import Binder


def with_windows(node: Node, clauses: Clauses, correlation: Correlation, binder: Binder) -> Node:
    """`node` with the window functions of `clauses`, which then read them as columns."""
    calls: dict[str, exp.Window] = {}

    def register(window: exp.Window) -> exp.Expr:
        text = to_sql(window)
        if text not in calls:
            if is_volatile(window):
                raise NotTaken("a window over random values")
            calls[text] = window
        return exp.Placeholder(this=text)

    clauses.change(lambda e: windows_taken_out(e, register))
    if not calls:
        return node
    each = correlation.split("a window function")
    for window in calls.values():
        inner = next(window.find_all(exp.Window))
        inner.set("partition_by", [*each, *(inner.args.get("partition_by") or ())])
    places = _places(node, calls, "window", binder)
    clauses.change(lambda e: _put(e, places))
    return Window(node, tuple(Named(places[t], w) for t, w in calls.items()))


def unnested(node: Node, clauses: Clauses, binder: Binder) -> Node:
    """`node` with the set-returning calls of the SELECT list, which become columns."""
    calls: dict[str, exp.Expr] = {}

    def walk(e: exp.Expr) -> exp.Expr:
        if isinstance(e, (exp.Unnest, exp.Explode)) or function_name(e) == "unnest":
            text = to_sql(e)
            if len(list(e.iter_expressions())) != 1 or any(
                n is not e and isinstance(n, (exp.Unnest, exp.Explode)) for n in e.walk()
            ):
                raise NotTaken("UNNEST with options, or inside another")
            calls.setdefault(text, e)
            return exp.Placeholder(this=text)
        return rebuilt(e, walk)

    clauses.change(walk)
    if not calls:
        return node
    places = _places(node, calls, "unnest", binder)
    clauses.change(lambda e: _put(e, places))
    return Unnest(node, tuple(Named(places[t], c) for t, c in calls.items()))


def _places(
    node: Node, calls: Mapping[str, exp.Expr], label: str, binder: Binder
) -> dict[str, Column]:
    types = binder.oracle.types(list(calls.values()), node.schema)
    return {t: binder.names.fresh(label, y) for t, y in zip(calls, types, strict=True)}


def _put(e: exp.Expr, places: Mapping[str, Column]) -> exp.Expr:
    if isinstance(e, exp.Placeholder) and e.this in places:
        return column(places[e.this].name)
    return rebuilt(e, lambda child: _put(child, places))
