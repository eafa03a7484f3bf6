"""The steps of a recursive view: which of them are one, and which no loop can keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from tidewheel.engine.operators.budget import RecursionLimitError
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import NoDeltaRule
from tidewheel.planner.rewrites.children import every
from tidewheel.planner.text import column, to_sql


def check(b: L.Binding) -> None:
    """NoDeltaRule where the changes of a variable can't go round by themselves."""
    if any((how or "").startswith("arg_") for how in b.merge):
        raise NoDeltaRule(
            "arg_min or arg_max in a recursive step: of equal ones it takes the first"
        )
    if b.kind == "using_key":
        raise NoDeltaRule("USING KEY, where a later row replaces an earlier one")
    if b.by_turns:
        raise NoDeltaRule("recurring rows in a step whose result depends on when they were found")
    if b.together and b.kind == "union_all":
        raise NoDeltaRule("a step of UNION ALL that may have rows where the last step has none")
    if b.together or (b.kind == "union" and any(_summed(s, b.variable) for s in b.steps)):
        raise NoDeltaRule("a step of UNION that looks at the rows of the step before it together")
    if b.kind == "union_all":
        for step in b.steps:
            _check_linear(step, b.variable)


def _summed(node: L.Node, variable: str) -> bool:
    """Does an aggregate stand over the last step's rows? (sqlglot does not know all of them.)"""
    sums = (n for n in every(node) if isinstance(n, L.Aggregate) and n.aggregates)
    return any((variable, "delta") in _parts(n) for n in sums)


def _parts(*nodes: L.Node) -> set[tuple[str, L.RecPart]]:
    """Which parts of which variables plans read."""
    return {(n.variable, n.part) for n in every(*nodes) if isinstance(n, L.RecRef)}


def reads_all(b: L.Binding) -> bool:
    """Does a step read all rows so far (`recurring.t`), besides those of the last step?"""
    return any(v == b.variable and part != "delta" for v, part in _parts(*b.steps))


def reads_old(*nodes: L.Node) -> bool:
    """Does a part of them read all rows but the last step's, as terms but the last one do?"""
    return any(part == "old" for _, part in _parts(*nodes))


def check_ends(bindings: Sequence[L.Binding]) -> None:
    """Refuse at once a recursion that surely goes on for ever, where its anchor has a row."""
    follows = {
        b.variable: set().union(*map(_always, b.steps)) if b.kind == "union_all" else set()
        for b in bindings
    }
    for b in bindings:
        reached: set[str] = set()
        new = follows[b.variable]
        while new:
            reached |= new
            new = set().union(*(follows.get(v, set()) for v in new)) - reached
        if b.variable in reached:
            raise RecursionLimitError(
                f'recursive table "{b.label}" of a maintained view has no end: each row of a step '
                "gives another one. A condition that ends it is missing. A LIMIT ends it only "
                f"where the query reads it as SELECT … FROM {b.label} LIMIT n.",
                b.label,
            )


def _always(node: L.Node) -> set[str]:
    """The variables of which each row surely gives a row."""
    if isinstance(node, L.Project):
        return _always(node.input)
    if isinstance(node, L.SetOp) and node.op == "union" and node.all:
        return set().union(*map(_always, node.children))
    return {node.variable} if isinstance(node, L.RecRef) else set()


def _check_linear(node: L.Node, variable: str) -> bool:
    """Does `node` read the variable? NoDeltaRule where it does other than linearly."""
    reads = isinstance(node, L.RecRef) and node.variable == variable
    found = [_check_linear(c, variable) for c in node.children]
    if any(found):
        linear = isinstance(node, L.Filter | L.Project | L.Unnest)
        linear |= isinstance(node, L.Join) and node.kind in ("inner", "cross") and sum(found) == 1
        linear |= (
            isinstance(node, L.Join)
            and node.kind in ("semi", "anti", "left")
            and (found == [True, False] and node.residual is None)
        )
        linear |= isinstance(node, L.SetOp) and node.op == "union" and node.all
        if not linear:
            raise NoDeltaRule(f"{type(node).__name__} over the rows of one step of UNION ALL")
    return reads or any(found)


def check_limit(node: L.LetRec, action: str, iterations: int, depth: int) -> None:
    if iterations < 1 or (action == "error" and depth):
        raise NoDeltaRule("a recursion inside of another one with a limit that is an error")
    if any(c.type in ("DOUBLE", "FLOAT") for b in node.bindings for c in b.columns):
        # Ranks and means: one change moves every row of every iteration.
        raise NoDeltaRule("a recursion over floating-point numbers with a limit on its iterations")


def distinct_steps(b: L.Binding) -> list[L.Node]:
    """Steps up to the parts that they read."""
    seen: dict[str, L.Node] = {}
    for step in map(_one_term, b.steps):
        if b.kind == "union_all" and reads_old(step):
            raise NoDeltaRule("a step of UNION ALL that reads recursive tables more than once")
        whole = reading(step, lambda r: replace(r, part="all"))
        seen.setdefault(_shape(whole), step)
    return list(seen.values())


def _one_term(step: L.Node) -> L.Node:
    """The last of a step's terms, which differ in the parts that they read (docs/recursion.md)."""
    if not reads_old(step):
        return step
    if isinstance(step, L.Project | L.Filter):
        return replace(step, input=_one_term(step.input))
    if isinstance(step, L.LetRec):
        return replace(step, body=_one_term(step.body))
    if (
        isinstance(step, L.SetOp)
        and (step.op, step.all) == ("union", True)
        and not reads_old(step.right)
    ):
        pairs = zip(step.columns, step.right.schema, strict=True)
        return L.Project(step.right, tuple(L.Named(to, column(c.name)) for to, c in pairs))
    return step


def reading(node: L.Node, change: Callable[[L.RecRef], L.Node]) -> L.Node:
    """`node` with `change` made to each recursive table that it reads, nested ones included."""

    def changed(value: Any) -> Any:
        if isinstance(value, L.Node):
            return reading(value, change)
        if isinstance(value, L.Binding):
            anchor = value.anchor and reading(value.anchor, change)
            return replace(value, anchor=anchor, steps=tuple(map(changed, value.steps)))
        if isinstance(value, tuple) and value and isinstance(value[0], L.Node | L.Binding):
            return tuple(map(changed, value))
        return value

    if isinstance(node, L.RecRef):
        return change(node)
    given = {f.name: getattr(node, f.name) for f in fields(node) if f.init}
    found = {name: changed(value) for name, value in given.items()}
    changes = {name: value for name, value in found.items() if value is not given[name]}
    return replace(node, **changes) if changes else node


def _shape(node: L.Node) -> str:
    """A text that is equal for equal plans."""
    parts = [type(node).__name__]
    for f in fields(node):
        value = getattr(node, f.name) if f.name != "schema" else None
        if isinstance(value, L.Node):
            parts.append(_shape(value))
        elif isinstance(value, tuple) and value and all(isinstance(v, L.Node) for v in value):
            parts.extend(_shape(v) for v in value)
        else:
            parts.append(_text(value))
    return "(" + " ".join(parts) + ")"


def _text(value: object) -> str:
    if isinstance(value, exp.Expr):
        return to_sql(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, L.Named):
        return f"{value.column}={to_sql(value.expr)}"
    return repr(value)
