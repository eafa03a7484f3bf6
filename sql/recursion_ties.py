"""DISTINCT ON in WITH MUTUALLY RECURSIVE: rows that tie are settled by all that is selected.

Its tables are computed until nothing changes. A first row among several that tie could be another
one each time, of later origin than the last (a path once more around a circle), and so for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from .recursion_tables import Cte, Scan
from .statements import Token

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_COMBINED = frozenset(("UNION", "EXCEPT", "INTERSECT"))
_BEHIND = frozenset(("LIMIT", "OFFSET", "FETCH"))


def open_orders(scan: Scan) -> Iterator[tuple[int, str]]:
    """Ends of ORDER BY lists, and what is to be written there."""
    for with_ in scan.withs:
        for cte in with_.ctes if with_.mutually else ():
            found = scan.within(cte.body)
            words = [t.text.upper() if t.kind == "word" else t.text for t in found]
            for i in range(len(words) - 2):
                if words[i : i + 3] == ["DISTINCT", "ON", "("]:
                    yield from _order_of(cte, found, words, i + 2)


def _order_of(
    cte: Cte, found: list[Token], words: list[str], keys: int
) -> Iterator[tuple[int, str]]:
    """That of the SELECT whose DISTINCT ON has its parenthesis at `keys`."""
    level = list(_level(words, keys))  # the parenthesis is the first
    start = next((n for n, i in enumerate(level) if i > keys and words[i] not in _CLOSE), None)
    if start is None:
        return
    here = level[start:]
    ends = next((n for n, i in enumerate(here) if words[i] == "FROM"), len(here))
    items = here[:ends]
    columns = 1 + sum(words[i] == "," for i in items)
    if any(words[i] == "*" and words[i - 1] in (",", ")", ".") for i in items):
        if _depth(words, keys):
            return  # how many columns that is cannot be seen here
        columns = len(cte.columns)
    order = next((n for n, i in enumerate(here) if words[i : i + 2] == ["ORDER", "BY"]), None)
    if order is None or _COMBINED & {words[i] for i in here[:order]}:
        return
    behind = next((i for i in here[order + 2 :] if words[i] in _BEHIND), here[-1] + 1)
    last = found[behind - 1]
    if words[here[order] + 2] != "ALL":
        yield last.start + len(last.text), "".join(f", {n + 1}" for n in range(columns))


def _level(words: list[str], start: int) -> Iterator[int]:
    """Where the words of one level of parentheses are, up to its end; brackets are of it."""
    depth = 0
    for i in range(start, len(words)):
        depth -= words[i] in _CLOSE
        if depth < 0:
            return
        if not depth:
            yield i
        depth += words[i] in _OPEN


def _depth(words: list[str], end: int) -> int:
    return sum((w in _OPEN) - (w in _CLOSE) for w in words[:end])
