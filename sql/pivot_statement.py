"""PIVOT and UNPIVOT statements as SELECTs: sqlglot parses no ORDER BY behind one, not all that
stand in parentheses, and keeps a WITH before one out of reach of what it reads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from .statements import tokens

_PIVOTS = frozenset({"PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER"})
_QUERIES = frozenset({"SELECT", "FROM", "VALUES", "TABLE"})
_CLAUSES = frozenset({"ORDER", "LIMIT", "OFFSET"})


@dataclass
class _Group:
    """What stands between two parentheses, or in none: where its statement begins, and ends."""

    behind: str = ""
    first: str = ""
    before: str = ""
    start: int | None = None
    end: int | None = None

    def take(self, word: str, place: int) -> None:
        begins = not self.first or (self.first == "WITH" and self.before == ")")
        if self.start is None and begins and word in _PIVOTS:
            self.start = place
        elif self.start is not None and self.end is None and word in _CLAUSES:
            self.end = place
        if not self.first or (self.first == "WITH" and word in _QUERIES):
            self.first = word
        self.before = word


def as_select(text: str) -> str | None:
    """``[WITH …] SELECT * FROM (PIVOT …) [ORDER BY …]``, also of statements in parentheses; None
    if there is none."""
    groups = [_Group()]
    edits: list[tuple[int, str]] = []

    def close(group: _Group, end: int) -> None:
        bare = group.end is None and group.first in _PIVOTS and group.behind == "FROM"
        if group.start is not None and not bare:
            edits.append((group.start, "SELECT * FROM ("))
            edits.append((end if group.end is None else group.end, "\n) "))

    for token in tokens(text):
        if token.text in ("(", "[", "{"):
            behind = groups[-1].before
            groups[-1].take(token.text, token.start)
            groups.append(_Group(behind))
        elif token.text in (")", "]", "}") and len(groups) > 1:
            close(groups.pop(), token.start)
            groups[-1].take(token.text, token.start)
        else:
            word = token.text.upper() if token.kind == "word" else token.text
            groups[-1].take(word, token.start)
    close(groups[0], len(text.rstrip().rstrip(";")))
    for place, new in sorted(edits, reverse=True):
        text = text[:place] + new + text[place:]
    return text if edits else None


def has_pivot(tree: exp.Expr | None) -> bool:
    """Is a PIVOT statement the query, or a side of a UNION?"""
    unions = [] if tree is None else list(tree.find_all(exp.SetOperation))
    queries = [tree, *(side for u in unions for side in (u.left.unnest(), u.right.unnest()))]
    return any(isinstance(q, exp.Pivot) for q in queries)
