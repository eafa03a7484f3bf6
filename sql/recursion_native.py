"""Can DuckDB run a recursion alone, and does it surely come to an end?

UNION ends where its rows are made of values that are there from the start, or that a condition
bounds. UNION ALL may go on for ever, so its rows are given their iteration as one more column, and
the step stops at a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidewheel.engine.quoting import quoted

from ..planner.lower_recursion import ITERATIONS
from . import errors
from .recursion_branches import Parts
from .recursion_search import carry
from .recursion_tables import Cte, Reference, Scan, Span
from .recursion_text import Cutter

COUNTER = "__tw_iteration"


def counted(
    scanned: Scan, cte: Cte, split: Parts, own: Sequence[Reference], labels: Sequence[str]
) -> str | None:
    """The definition of a UNION ALL table with its iteration as the last column, or None."""
    if len(own) != 1 or len(split.steps) != 1 or split.anchor is None or own[0].recurring:
        return None
    if not split.step.holds(own[0].name) or split.anchor.end > split.step.start:
        return None
    try:
        step = carry(
            scanned,
            split.steps[0],
            own[0],
            cte,
            [COUNTER],
            f" WHERE {COUNTER} <= {ITERATIONS}",
            True,
        )
    except errors.ProgrammingError:
        return None
    cutter = Cutter(scanned)
    names = [f"__tw_v{i}" for i in range(len(labels))]
    inner = ", ".join(names)
    lead = cutter.part(Span(cte.body.start, split.anchor.start)).sql
    anchor = cutter.part(split.anchor).sql
    columns = ", ".join([*(quoted(label) for label in labels), COUNTER])
    return (
        f"{quoted(cte.label)}({columns}) AS ({lead}SELECT {inner}, 0 FROM (\n{anchor}\n) "
        f"AS __tw_a({inner})\nUNION ALL\nSELECT {inner}, __tw_n + 1 FROM (\n{step}\n) "
        f"AS __tw_m({inner}, __tw_n))"
    )


def ends(select: exp.Expr | None, name: str) -> bool:
    """Does a UNION step surely end: are its values old ones, or bounded?"""
    if not isinstance(select, exp.Select):
        return False
    source = select.args.get("from_") or select.args.get("from")
    if source is None or select.args.get("laterals"):
        return False
    items = [source.this, *(j.this for j in select.args.get("joins") or ())]
    own = ""
    for item in items:
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            if item.name.lower() == name.lower() and not item.db:
                own = item.alias_or_name.lower()
            continue
        if not isinstance(item, exp.Subquery) or item.find(exp.Table, bfs=True) is None:
            return False
        if any(t.name.lower() == name.lower() for t in item.find_all(exp.Table)):
            return False
    if not own:
        return False
    return all(_old(item, select, own) for item in select.expressions)


def _old(item: exp.Expr, select: exp.Select, own: str) -> bool:
    while isinstance(item, (exp.Alias, exp.Paren)):
        item = item.this
    if isinstance(item, (exp.Column, exp.Literal, exp.Star, exp.Null, exp.Boolean)):
        return True
    if not (
        isinstance(item, exp.Add)
        and isinstance(item.this, exp.Column)
        and isinstance(item.expression, exp.Literal)
        and not item.expression.is_string
    ):
        return False
    where = select.args.get("where")
    if where is None:
        return False
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    return any(
        isinstance(p, (exp.LT, exp.LTE))
        and isinstance(p.expression, exp.Literal)
        and isinstance(p.this, exp.Column)
        and p.this.name.lower() == item.this.name.lower()
        and (p.this.table or own).lower() == (item.this.table or own).lower() == own
        for p in parts
    )
