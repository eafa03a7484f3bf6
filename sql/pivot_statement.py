"""PIVOT and UNPIVOT statements as a SELECT: sqlglot parses no ORDER BY behind one, and keeps a WITH
before it out of reach of what it reads."""

from __future__ import annotations

from .statements import tokens

_PIVOTS = frozenset({"PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER"})
_QUERIES = frozenset({"SELECT", "FROM", "VALUES", "TABLE"})
_CLAUSES = frozenset({"ORDER", "LIMIT", "OFFSET"})


def as_select(text: str) -> str | None:
    """``[WITH …] SELECT * FROM (PIVOT …) [ORDER BY …]``; None for what is no such statement."""
    start: int | None = None
    end = len(text.rstrip().rstrip(";"))
    depth, before = 0, ""
    for token in tokens(text):
        word = token.text.upper() if token.kind == "word" else token.text
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
        if depth == 0 and token.kind == "word":
            if start is None and word in _PIVOTS and before in ("", ")"):
                start = token.start
            elif start is None and word in _QUERIES:
                return None
            elif start is not None and word in _CLAUSES:
                end = token.start
                break
        before = word
    if start is None:
        return None
    return f"{text[:start]}SELECT * FROM ({text[start:end]}\n) {text[end:]}"
