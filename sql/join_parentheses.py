"""The parentheses around joins, which DuckDB writes into the text of a plain view.

``FROM ((a CROSS JOIN b) INNER JOIN c ON (…))`` is ``FROM a CROSS JOIN b INNER JOIN c ON (…)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from .statements import tokens

_QUERIES = frozenset(
    {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SHOW",
     "SUMMARIZE", "INSERT", "UPDATE", "DELETE", "MERGE"}
)  # fmt: skip


def without(text: str) -> str:
    """The text without those that begin a FROM clause and have no alias."""
    found = list(tokens(text))
    words = [t.text.upper() if t.kind == "word" else t.text for t in found]
    ends = _ends(words)
    gone: list[int] = []
    for at, word in enumerate(words):
        first = at + 1
        while word == "FROM" and first in ends and _joins(words, first, ends):
            after = ends[first] + 1
            if after < len(words) and not _goes_on(words[after]):
                break
            gone += (first, ends[first])
            first += 1
    for place in sorted((found[i].start for i in gone), reverse=True):
        text = f"{text[:place]} {text[place + 1 :]}"
    return text


def _ends(words: Sequence[str]) -> dict[int, int]:
    """Where each parenthesis is closed."""
    found: dict[int, int] = {}
    open_: list[int] = []
    for at, word in enumerate(words):
        if word == "(":
            open_.append(at)
        elif word == ")" and open_:
            found[open_.pop()] = at
    return found


def _joins(words: Sequence[str], first: int, ends: dict[int, int]) -> bool:
    """Are there joins in the parentheses, and no query?"""
    if words[first + 1] in _QUERIES:
        return False
    at = first + 1
    while at < ends[first]:
        if words[at] == "JOIN":
            return True
        at = ends.get(at, at) + 1
    return False


def _goes_on(word: str) -> bool:
    """May the FROM clause go on with a word, or end before it, if what is before has no alias?"""
    return word in (")", ",", ";") or word in _AFTER


_AFTER = frozenset(
    {"WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT",
     "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF",
     "POSITIONAL", "WINDOW"}
)  # fmt: skip
