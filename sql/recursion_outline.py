"""A query without the forms of recursion that sqlglot cannot parse: it names the same tables."""

from __future__ import annotations

from . import errors
from .recursion_scan import scan

MUTUALLY = "__tw_mutually"
"""A table in front of those of WITH MUTUALLY RECURSIVE, which all see each other."""


def outline(text: str) -> str | None:
    """`text` without MUTUALLY, column types, USING KEY, SEARCH and CYCLE; None if it has none."""
    try:
        found = scan(text)
    except errors.Error:
        return None
    cuts: list[tuple[int, int, str]] = []
    for with_ in found.withs:
        if with_.mutually:
            cuts.append(
                (with_.head.start, with_.head.end, f"WITH RECURSIVE {MUTUALLY} AS (SELECT 1), ")
            )
        for cte in with_.ctes:
            if with_.mutually or cte.using_key or cte.search or cte.cycle:
                cuts.append((cte.name.end, cte.body.start, " AS ("))
                cuts.append((cte.body.end, cte.definition.end, ")"))
    if not cuts:
        return None
    for start, end, instead in sorted(cuts, reverse=True):
        text = text[:start] + instead + text[end:]
    return text
