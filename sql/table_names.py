"""The names in a query's text that may mean tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tidewheel.sql.recursion_outline import MUTUALLY, outline
from tidewheel.sql.statements import tokens

if TYPE_CHECKING:
    from sqlglot import exp


class Named(NamedTuple):
    """A table reference: the parts of its name, `is_cte` maybe and `surely`, and is it no call?"""

    parts: tuple[str, ...]
    cte: bool
    surely: bool
    plain: bool


@lru_cache(maxsize=256)
def tables_in(text: str) -> list[Named] | None:
    """The table references of a query. None if sqlglot can't parse it."""
    # Imported here: sqlglot takes long to load, and not everybody has views.
    import sqlglot
    from sqlglot import exp

    from tidewheel.planner.dialect import Plain

    try:
        tables = list(sqlglot.parse_one(text, dialect=Plain).find_all(exp.Table))
    except sqlglot.errors.SqlglotError:
        less = outline(text)
        return None if less is None else tables_in(less)
    return [
        Named(
            tuple(p.name for p in t.parts),
            is_cte(t),
            is_cte(t, surely=True),
            isinstance(t.this, (exp.Identifier, exp.Dot)),
        )
        for t in tables
        if t.parts  # PostgreSQL's ROWS FROM (…), which DuckDB has not, has no name
    ]


def names_in(text: str) -> list[tuple[str, ...]]:
    """The names that may be tables in a text; every word of it if it can't be parsed."""
    found = tables_in(text)
    if found is None:
        words = (t for t in tokens(text) if t.kind in ("word", "string"))
        named: list[tuple[str, ...]] = [(t.word,) for t in words]
    else:
        named = [table.parts for table in found if not table.surely]
    return [parts for parts in named if all(parts)]


def relations_in(text: str) -> Sequence[tuple[str, ...]]:
    """The names in a text that are surely no CTEs, nor calls; none if it can't be parsed."""
    named = [t.parts for t in tables_in(text) or () if t.plain and not t.cte]
    return [parts for parts in named if parts[0].lower() != "recurring"]


def is_cte(table: exp.Table, surely: bool = False) -> bool:
    """Does the name mean a CTE of an enclosing query?

    `surely`: no if it may be a table, as one that only a later CTE of WITH RECURSIVE has.
    """
    from sqlglot import exp

    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    name = table.name.lower()
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        with_ = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(with_, exp.With):
            visible = list(with_.expressions)
            mutually = visible[0].alias == MUTUALLY
            if inside in visible and not mutually and (surely or not with_.args.get("recursive")):
                own = bool(with_.args.get("recursive"))
                visible = visible[: visible.index(inside) + own]
            if any(cte.alias.lower() == name for cte in visible):
                return True
        if isinstance(node, exp.With):
            inside, node = node, node.parent.parent if node.parent else None
            continue
        inside, node = node, node.parent
    return False
