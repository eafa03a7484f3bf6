"""Which tables of WITH RECURSIVE refer to each other."""

from __future__ import annotations

from .recursion_tables import Cte, Scan


def groups(scanned: Scan) -> dict[int, list[Cte]]:
    """For each table that is recursive: the tables that it and that refer to each other."""
    found: dict[int, list[Cte]] = {}
    for with_ in scanned.withs:
        if not with_.recursive:
            continue
        if with_.mutually:
            found.update((id(c), with_.ctes) for c in with_.ctes)
            continue
        reads = {
            id(c): {
                id(target)
                for r in scanned.references
                if c.body.holds(r.name)
                and (target := scanned.resolve(r)) is not None
                and target.with_ is with_
            }
            for c in with_.ctes
        }
        reach = {k: set(v) for k, v in reads.items()}
        changed = True
        while changed:
            changed = False
            for met in reach.values():
                more = set().union(*(reach[m] for m in met)) if met else set()
                if not more <= met:
                    met |= more
                    changed = True
        for cte in with_.ctes:
            if id(cte) in reach[id(cte)]:
                found[id(cte)] = [
                    c
                    for c in with_.ctes
                    if c is cte or (id(c) in reach[id(cte)] and id(cte) in reach[id(c)])
                ]
    return found
