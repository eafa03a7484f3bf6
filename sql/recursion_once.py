"""Tables of a WITH clause that are to be evaluated once, though several parts read them.

A statement is cut into parts (anchors, steps, what remains), each of which has the definitions of
the tables that it reads. A table that calls random(), or takes the first rows that come, would
have other rows in each.
"""

from __future__ import annotations

from collections.abc import Mapping

from .functions import is_steady
from .recursion_branches import parts
from .recursion_describe import Describer
from .recursion_tables import Cte, Scan
from .recursion_whole import is_back

_UNSURE = {"TABLESAMPLE", "SAMPLE", "LIMIT", "OFFSET", "FETCH"}


def read_again(
    scanned: Scan, describe: Describer, groups: Mapping[int, list[Cte]], cte: Cte
) -> bool:
    """May a table that is no recursive one have other rows in two parts that read it?

    `groups` are the recursive ones, by the id of each table.
    """
    text = scanned.text[cte.body.start : cte.body.end]
    words = {t.text.upper() for t in scanned.within(cte.body) if t.kind == "word"}
    if not words & _UNSURE and is_steady(text):
        return False
    if not _is_read_again(scanned, groups, cte):
        return False
    return bool(words & _UNSURE) or not describe.is_steady(text)


def _is_read_again(scanned: Scan, groups: Mapping[int, list[Cte]], cte: Cte) -> bool:
    """Is it read by a loop, and by more than one part, or by one that runs more than once?"""
    through = {id(cte)}  # tables whose definitions are put in with it
    count, in_loop, todo = 0, False, [cte]
    while todo:
        table = todo.pop()
        for reference in scanned.references:
            if scanned.resolve(reference) is not table:
                continue
            around = [c for w in scanned.withs for c in w.ctes if c.body.holds(reference.name)]
            member = next((c for c in around if id(c) in groups), None)
            if member is not None:
                in_loop = True
                count += _readings(scanned, groups[id(member)], member, reference.name.start)
            elif not around:
                count += 1
            for other in around if member is None else ():
                if id(other) not in through:
                    through.add(id(other))
                    todo.append(other)
    return in_loop and count > 1


def _readings(scanned: Scan, group: list[Cte], member: Cte, start: int) -> int:
    """One for an anchor, two for what may be evaluated more often."""
    if member.with_.mutually:
        return 2
    back = [r for r in scanned.references if is_back(scanned, r, member, group)]
    anchors = parts(scanned, member, back).anchors
    return 1 if any(a.span.start <= start < a.span.end for a in anchors) else 2
