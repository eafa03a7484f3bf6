"""WITH MUTUALLY RECURSIVE where it is SQL's own recursion: its tables are a least fixpoint.

Evaluated again and again from empty tables, queries that are monotone and give each row once come
to the least tables that satisfy them. So does a loop that only looks at the last step's rows.
"""

from __future__ import annotations

from . import errors
from . import recursion_check as check
from .bind_types import is_volatile
from .recursion_branches import Parts, parts
from .recursion_tables import Cte, Scan
from .recursion_whole import is_back

_WIDER = (("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), ("FLOAT", "DOUBLE"))


class NotLeast(errors.Error):
    """The loop would mean something else: the text is to be planned as it is written."""


def taken_apart(scanned: Scan, group: list[Cte]) -> list[Parts] | None:
    """Anchors and steps of the tables, joined by UNION; None if they may mean something else."""
    if group[0].with_.limit is not None:
        return None
    found = []
    for cte in group:
        back = [r for r in scanned.references if is_back(scanned, r, cte, group)]
        query = check.parsed(scanned, cte.body)
        if not back or any(r.recurring for r in back) or query is None or is_volatile(query):
            return None
        if any(w.recursive and cte.body.holds(w.head) for w in scanned.withs):
            return None
        try:
            split = parts(scanned, cte, back)
        except errors.Error:
            return None
        if split.operator != "union":
            return None
        if not cte.with_.improving and not check.is_monotone(scanned, cte, split, group):
            return None
        found.append(split)
    return found


def widens(have: str, want: str) -> bool:
    """Does a cast keep different values different?"""
    if have in (want, '"NULL"'):
        return True
    return any(
        have in types and want in types and types.index(have) < types.index(want)
        for types in _WIDER
    )
