"""Errors that are about words of the statement, of which DuckDB tells no place."""

from __future__ import annotations

import re

from .statements import Token

_WORDS = {
    "FOREIGN KEY constraints cannot use": r"ON (?:DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)",
    "Set operations can only apply": "(UNION|EXCEPT|INTERSECT)",
    "More VIEW aliases than columns": "(VIEW)",
    "No support for adding FOREIGN_KEY": "ADD .*?(FOREIGN KEY|REFERENCES)",
}
_CURES = {
    "FOREIGN KEY constraints cannot use": "leave it out, and change or delete first the rows "
    "that refer to another one",
    "Set operations can only apply": "give each side as many columns (NULL AS name); UNION BY "
    "NAME has NULL where a side has no column of a name",
    "More VIEW aliases than columns": "the list behind the name has no more names than the query "
    "has columns",
    "No support for adding FOREIGN_KEY": "a table has its foreign keys from CREATE TABLE",
}


def place(parts: list[Token], message: str) -> tuple[int | None, int] | None:
    """Start and length of the words that `message` is about; (None, 1) if there are several.

    None if it is about something else.
    """
    words = next((w for begin, w in _WORDS.items() if message.startswith(begin)), None)
    if words is None:
        return None
    text, starts = "", {}
    for token in parts:
        starts[len(text)] = token
        text += (token.text.upper() if token.kind == "word" else "?") + " "
    found = [m for m in re.finditer(rf"\b{words}\b", text) if m.start(1) in starts]
    if len(found) != 1:
        return None, 1
    first = starts[found[0].start(1)]
    last = starts[text.rfind(" ", 0, found[0].end(1)) + 1]
    return first.start, last.start + len(last.text) - first.start


def cure(message: str) -> str | None:
    """What may be written in place of these words."""
    return next((c for begin, c in _CURES.items() if message.startswith(begin)), None)
