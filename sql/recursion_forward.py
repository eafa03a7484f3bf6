"""WITH RECURSIVE tables in an order in which each stands behind those that it reads.

In PostgreSQL the tables of a WITH RECURSIVE see each other in any order; DuckDB knows those alone
that stand before. (Tables that refer to each other are a group: see recursion_groups.)
"""

from __future__ import annotations

from collections.abc import Callable

from .recursion_groups import groups
from .recursion_scan import scan
from .recursion_tables import Cte, Scan, Span, With
from .recursion_text import Cutter, Splice


def in_order(scanned: Scan, exists: Callable[[str], bool]) -> Scan | None:
    """The statement with its tables in order; None if they are.

    `exists`: is there a table of that name in the catalog? That is what DuckDB reads then.
    """
    found = None
    for _ in scanned.withs:
        changed = _first(found or scanned, exists)
        if changed is None:
            break
        found = scan(changed)
    return found


def _first(scanned: Scan, exists: Callable[[str], bool]) -> str | None:
    """The text with one more of its WITH clauses in order."""
    for with_ in scanned.withs:
        if not with_.recursive or with_.mutually:
            continue
        order = _order(scanned, with_, exists)
        if order != with_.ctes:
            cutter = Cutter(scanned)
            texts = [cutter.part(c.definition).sql for c in order]
            for cte, text in zip(with_.ctes, texts, strict=True):
                cutter.splices[cte.definition] = Splice(cte.definition, text)
            return cutter.part(Span(0, len(scanned.text))).sql
    return None


def _order(scanned: Scan, with_: With, exists: Callable[[str], bool]) -> list[Cte]:
    """The tables of a clause, each behind what it reads and else where it stands."""
    together = groups(scanned)
    position = {id(c): i for i, c in enumerate(with_.ctes)}
    reads: dict[int, list[Cte]] = {id(c): [] for c in with_.ctes}
    for reference in scanned.references:
        target = scanned.resolve(reference)
        if target is None or target.with_ is not with_:
            continue
        for cte in with_.ctes:
            if not cte.body.holds(reference.name) or target in together.get(id(cte), [cte]):
                continue
            ahead = position[id(target)] > position[id(cte)]
            if not ahead or not exists(target.label):
                reads[id(cte)].append(target)
    found: list[Cte] = []

    def place(cte: Cte) -> None:
        if cte in found:
            return
        for other in together.get(id(cte), [cte]):
            for needed in reads[id(other)]:
                place(needed)
        if cte not in found:
            found.append(cte)

    for cte in with_.ctes:
        place(cte)
    return found
