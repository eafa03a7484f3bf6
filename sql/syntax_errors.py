"""Syntax errors: a better place than DuckDB's, and what to do."""

from __future__ import annotations

import difflib

from . import other_systems
from .statements import Statement, Token, tokens

_KEYWORDS = """
SELECT FROM WHERE GROUP ORDER HAVING LIMIT OFFSET UNION EXCEPT INTERSECT JOIN LEFT RIGHT FULL
INNER OUTER CROSS NATURAL LATERAL WITH RECURSIVE VALUES INSERT INTO UPDATE DELETE CREATE TABLE
VIEW MATERIALIZED DROP ALTER DISTINCT BETWEEN CASE WHEN THEN ELSE QUALIFY WINDOW PARTITION
USING RETURNING EXPLAIN ANALYZE DESCRIBE SUMMARIZE COPY BEGIN COMMIT ROLLBACK EXISTS PIVOT
REPLACE MERGE ATTACH DETACH PRAGMA SUBSCRIBE VERIFY
"""
_ALSO_RESERVED = """
ALL AND ANY ARRAY ASC BOTH CAST CHECK COLLATE COLUMN CONSTRAINT DEFAULT DESC DO END FALSE FETCH
FOR FOREIGN IN LEADING NOT NULL ON ONLY OR PRIMARY REFERENCES SHOW SOME TO TRAILING TRUE UNIQUE
UNPIVOT
"""
_NOT_MISSPELT = """
AFTER COMMENT COMMITTED DATE DISTANCE EACH EXCLUSIVE FUNCTION GROUPING GROUPS INHERIT INT INT1
INT2 INT4 INT8 JSON OUT PARTITIONED RETURNS STABLE TABLES VIEWS WITHIN
"""
_WORDS = frozenset(_KEYWORDS.split())
_RESERVED = _WORDS | frozenset(_ALSO_RESERVED.split())
# However close to a keyword, these are DuckDB's own words.
_KNOWN = _RESERVED | frozenset(_NOT_MISSPELT.split())
# What stands behind a value; the word before it is one.
_BEHIND_VALUES = {"BETWEEN", "IN", "LIKE", "ILIKE", "IS", "AND", "OR", "::"} | set("=<>+-/%|.")
_BEFORE_NAMES = {"FROM", "JOIN", "INTO", "TABLE", "VIEW", "UPDATE", ".", ",", "AS"}
_CLOSING = {")": "(", "]": "[", "}": "{"}


def told(
    statement: Statement, message: str, position: int | None, length: int, hint: str | None
) -> tuple[str, int | None, int, str | None]:
    """A better place and a hint for a syntax error: an open bracket, a misspelt keyword."""
    parts = list(tokens(statement.text))
    stray, left_open = _brackets(parts)
    if stray is not None:
        return f"syntax error: this {stray.text} closes nothing", stray.start, 1, hint
    at = next((i for i, t in enumerate(parts) if t.start >= (position or 0)), len(parts))
    for i in reversed(range(max(0, at - 2), min(at + 1, len(parts)))):
        token, word = parts[i], parts[i].text.upper()
        known = word in _KNOWN and not (
            word == "INT" and i and parts[i - 1].text.upper() == "INSERT"
        )
        value = "".join(t.text.upper() for t in parts[i + 1 : i + 2]) in _BEHIND_VALUES
        if token.kind == "word" and not known and not value and len(word) > 2:
            close = difflib.get_close_matches(word, _WORDS, n=1, cutoff=0.75)
            if close:
                message = f'syntax error at or near "{token.text}"'
                return message, token.start, len(word), f"did you mean {close[0]}?"
    if left_open is not None:
        what = "has no END" if left_open.kind == "word" else "is never closed"
        message = f"syntax error: this {left_open.text} {what}"
        return message, left_open.start, len(left_open.text), hint
    if at == 0 and parts[:1] and parts[0].text == "." and len(parts) > 1:
        hint = (
            f".{parts[1].text} is the shell's: .read runs files that have such lines, and so does "
        )
        hint += "a pipe into tidewheel"
    elif at == 0 and parts[:1] and parts[0].text == "\\":
        hint = "commands with a backslash are the shell's; SHOW TABLES and DESCRIBE name are SQL"
    elif at == 0 and hint is None and parts and parts[0].text.upper() not in _WORDS:
        hint = "a statement begins with a verb, such as SELECT, FROM, INSERT, CREATE or COPY"
    elif at < len(parts) and (
        found := other_systems.syntax([t.text.upper() for t in parts[: at + 4]], at)
    ):
        hint = found
    elif at < len(parts) and parts[at].text.upper() in _RESERVED:
        word = parts[at].text
        before = parts[at - 1].text.upper()
        if before == "," and word.upper() in _WORDS and parts[0].text.upper() != "CREATE":
            hint = f"there is a comma too many before {word}"
        elif before in _BEFORE_NAMES or at + 1 < len(parts):
            hint = hint or f'{word} is a keyword; as a name it is written "{word}"'
        else:
            hint = f"something is missing after {word}"
    elif 0 < at < len(parts) and parts[at].text == parts[at - 1].text == ",":
        hint = "there is a comma too many"
    return message, position, length, hint


def _brackets(parts: list[Token]) -> tuple[Token | None, Token | None]:
    """A bracket that closes nothing, or the last one (or CASE) that is never closed."""
    stack: list[Token] = []
    for token in parts:
        text = token.text.upper()
        if text in ("(", "[", "{") or (text == "CASE" and token.kind == "word"):
            stack.append(token)
        elif text == "END" and stack and stack[-1].kind == "word":
            stack.pop()
        elif text in _CLOSING:
            if stack and stack[-1].kind == "word":
                return None, stack[-1]
            if not stack or stack[-1].text != _CLOSING[text]:
                return token, None
            stack.pop()
    return None, stack[-1] if stack else None
