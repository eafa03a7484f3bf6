"""Tables of WITH RECURSIVE that are read before they are defined.

PostgreSQL's WITH RECURSIVE is in no order: a table may read a later one. DuckDB's is, and reads a
table of the catalog where there is one. What DuckDB can run keeps its meaning; the rest is put in
order. Tables that read each other are a recursion in any order, if they can be one.
"""

from __future__ import annotations

from collections.abc import Callable

from .recursion_groups import groups
from .recursion_scan import scan
from .recursion_tables import Cte, Reference, Scan, Span, With
from .recursion_text import Cutter

Group = dict[int, list[Cte]]


def early(scanned: Scan) -> list[tuple[Reference, Cte, Cte]]:
    """References to later tables of their WITH RECURSIVE; who reads and who is read."""
    found = []
    for with_ in scanned.withs:
        if not with_.recursive or with_.mutually or len(with_.ctes) < 2:
            continue
        for reference in scanned.references:
            target = scanned.resolve(reference)
            if target is None or target.with_ is not with_:
                continue
            if reference.name.start < target.definition.start:
                reader = next(c for c in with_.ctes if c.definition.holds(reference.name))
                found.append((reference, reader, target))
    return found


def arranged(
    scanned: Scan, table: Callable[[str], str | None], recursions: bool = False
) -> Scan | None:
    """The statement with its tables in order; None if they are, or if they are a recursion.

    `table` gives the whole name of a table of the catalog, None if there is none. `recursions`:
    what would be a recursion reads the catalog, too.
    """
    if not early(scanned):
        return None
    # Parameters are numbered first, for they keep their numbers when they change their places.
    numbered = scan(Cutter(scanned).part(Span(0, len(scanned.text))).sql)
    again = _in_order(_qualified(numbered, table, recursions))
    return None if again is numbered else again


def _qualified(scanned: Scan, table: Callable[[str], str | None], recursions: bool) -> Scan:
    """`scanned` with the whole names of the catalog's tables that early references mean."""
    own = groups(scanned)
    edits: list[tuple[Span, str]] = []
    for reference, reader, target in early(scanned):
        if target not in own.get(id(reader), []) or recursions:
            name = table(reference.label)
            if name is not None:
                edits.append((reference.name, name))
    text = scanned.text
    for span, name in sorted(edits, key=lambda e: e[0].start, reverse=True):
        text = text[: span.start] + name + text[span.end :]
    return scan(text) if edits else scanned


def _in_order(scanned: Scan) -> Scan:
    """`scanned` with each table behind those that it reads."""
    own = groups(scanned)
    for _, reader, target in early(scanned):
        if target in own.get(id(reader), []):
            continue
        with_ = target.with_
        text, position = "", 0
        for old, new in zip(with_.ctes, _sorted(scanned, with_, own), strict=True):
            text += scanned.text[position : old.definition.start]
            text += scanned.text[new.definition.start : new.definition.end]
            position = old.definition.end
        return _in_order(scan(text + scanned.text[position:]))
    return scanned


def _sorted(scanned: Scan, with_: With, own: Group) -> list[Cte]:
    """The tables of a clause, those that are read first; else in the order they are written in."""
    found: list[Cte] = []
    met: set[int] = set()

    def visit(cte: Cte) -> None:
        group = own.get(id(cte), [cte])
        if id(cte) in met:
            return
        met.update(map(id, group))
        for member in group:
            for reference in scanned.references:
                target = scanned.resolve(reference)
                if member.body.holds(reference.name) and target in with_.ctes:
                    visit(target)
        found.extend(group)

    for cte in with_.ctes:
        visit(cte)
    return found
