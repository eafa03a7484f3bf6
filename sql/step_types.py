"""Where a step of a recursion gives what has no place in its table.

The first rows of a recursive table say its columns' types; what a step gives is cast to these, by a
text of ours. So DuckDB's error tells of no place, and names a column that nobody wrote.
"""

from __future__ import annotations

import re

from .recursion_scan import scan
from .recursion_tables import Cte, Scan, Span
from .statements import Token

_NATIVE = re.compile(r"when casting from source column __tw_v(\d+)")
_SHOWN = re.compile(r"^LINE \d+: (.*)\n( *)\^", re.MULTILINE)
_CAST = re.compile(r'CAST\(.+?\) AS "+\w+_\d+_(\d+)"')


def misfit(text: str, told: str) -> tuple[int, int, str] | None:
    """Start and length in `text` of what does not fit, and a hint; None for any other error.

    `told`: all that DuckDB says of it. Only if one table is recursive, and has one step.
    """
    at = _column(told)
    if at is None:
        return None
    scanned = scan(text)
    inside = [
        (cte, scanned.within(cte.body))
        for with_ in scanned.withs
        for cte in with_.ctes
        if any(cte.body.holds(r.name) and scanned.resolve(r) is cte for r in scanned.references)
    ]
    if len(inside) != 1:
        return None
    ((cte, tokens),) = inside
    steps = [part for part in _branches(tokens) if _reads(scanned, cte, part)]
    items = _items(steps[0]) if len(steps) == 1 else []
    hint = f"the first rows of {cte.label} say what type it has: cast it in these, or here"
    if at >= len(items) or any(item[-1].text == "*" for item in items if item):
        return cte.name.start, cte.name.end - cte.name.start, hint
    first, last = items[at][0], items[at][-1]
    return first.start, last.start + len(last.text) - first.start, hint


def _column(told: str) -> int | None:
    if native := _NATIVE.search(told):
        return int(native[1])
    shown = _SHOWN.search(told)
    cast = shown and _CAST.match(shown[1], max(0, len(shown[2]) - len("LINE 1: ")))
    return int(cast[1]) if cast else None


def _branches(tokens: list[Token]) -> list[list[Token]]:
    """The queries of a UNION, not those within them."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.text.upper() == "UNION":
            found.append([])
        else:
            found[-1].append(token)
    return found


def _reads(scanned: Scan, cte: Cte, part: list[Token]) -> bool:
    if not part:
        return False
    span = Span(part[0].start, part[-1].start + len(part[-1].text))
    return any(span.holds(r.name) and scanned.resolve(r) is cte for r in scanned.references)


def _items(query: list[Token]) -> list[list[Token]]:
    """The items of a SELECT's list; empty where it is not plain."""
    words = [t.text.upper() for t in query]
    start = 1 if words[:1] in (["ALL"], ["BY"]) else 0
    if words[start : start + 1] != ["SELECT"]:
        return []
    start += 2 if words[start + 1 : start + 2] == ["DISTINCT"] else 1
    found: list[list[Token]] = [[]]
    depth = 0
    for token, word in zip(query[start:], words[start:], strict=True):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
        if depth == 0 and word in ("FROM", "WHERE"):
            break
        if depth == 0 and word == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found if all(found) else []
