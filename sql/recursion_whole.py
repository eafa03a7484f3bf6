"""A query with recursions as DuckDB runs it by itself, where it means the same there."""

from __future__ import annotations

from ..planner.logical import Block
from . import recursion_check as check
from .recursion_branches import parts
from .recursion_groups import groups
from .recursion_native import ends
from .recursion_tables import Cte, Reference, Scan, Span
from .recursion_text import Cutter


def whole(scanned: Scan) -> tuple[Block, bool] | None:
    """The query as DuckDB can run it, if all its recursions are plainly SQL's own.

    Also: do they surely come to an end? Raises ProgrammingError as `Planner` does.
    """
    found = groups(scanned)
    end = True
    if not found or mentions(scanned, "LIMIT"):
        return None
    for group in found.values():
        cte = group[0]
        if len(group) > 1 or cte.with_.mutually or cte.using_key is not None:
            return None
        back = [r for r in scanned.references if is_back(scanned, r, cte, group)]
        split = parts(scanned, cte, back)
        style = check.judge(scanned, cte, split, group)
        if not (style.native and style.kind in ("union", "union_all")):
            return None
        end = end and style.kind == "union" and ends(check.parsed(scanned, split.step), cte.label)
    return whole_text(scanned), end


def whole_text(scanned: Scan) -> Block:
    """The query as it is written, with the names of what it reads."""
    text = Cutter(scanned).part(Span(0, len(scanned.text)))
    read = {r.key for r in scanned.references if scanned.resolve(r) is None}
    return Block(text.sql, (), (), (), "DuckDB runs it whole", tuple(sorted(read)))


def mentions(scanned: Scan, word: str) -> bool:
    """Does a word (in upper case) stand somewhere in the text?"""
    return any(t.kind == "word" and t.text.upper() == word for t in scanned.tokens)


def is_back(scanned: Scan, reference: Reference, cte: Cte, group: list[Cte]) -> bool:
    """Is it a reference by which a table reads its group?"""
    return cte.body.holds(reference.name) and scanned.resolve(reference) in group
