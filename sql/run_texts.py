"""The names in the texts that a statement hands to `query` and `query_table`, which run them."""

from __future__ import annotations

from itertools import pairwise

from .statements import Token, tokens
from .view_text import names_of, unquoted

RUNNERS = frozenset({"query", "query_table"})
_LISTED = frozenset({"[", "]", ",", "TRUE", "FALSE"})


def words(text: str) -> frozenset[str] | None:
    """The words of a text in lower case; None: any, as a text that it runs is computed."""
    parts = list(tokens(text))
    found = names_of(parts)
    for at in () if found.isdisjoint(RUNNERS) else _calls(parts):
        for token in parts[at + 2 :]:
            if token.text == ")":
                break
            if token.text[0] == "'":
                within = words(unquoted(token))
                if within is None:
                    return None
                found |= within
            elif token.text.upper() not in _LISTED:
                return None
    return found


def runs_texts(text: str) -> bool:
    """Does it call one of these functions?"""
    return bool(_calls(list(tokens(text))))


def _calls(parts: list[Token]) -> list[int]:
    return [
        at
        for at, (token, behind) in enumerate(pairwise(parts))
        if behind.text == "(" and unquoted(token).lower() in RUNNERS
    ]
