"""The text of a DML statement, cut into clauses, and the parameters that a part of it names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tidewheel.sql.reserved import RESERVED
from tidewheel.sql.statements import Token, respelled, tokens
from tidewheel.sql.view_text import unquoted

_VOLATILE = {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "setseed"}
_VOLATILE |= {"currval", "setval", "current_query", "current_query_id"}
_VOLATILE |= {"query", "query_table"}  # the text that they read is not looked at
_ENDS_SET = {"WHEN", "WHERE", "RETURNING"}
_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


class Text:
    """A statement cut into its clauses at parenthesis depth 0."""

    def __init__(self, text: str) -> None:
        self.tokens = [t for t in tokens(text) if t.kind != "end"]
        last = self.tokens[-1]
        self.end = last.start + len(last.text)
        self.text = text[: self.end]
        self.top: list[Token] = []
        depth, before = 0, ""
        for token in self.tokens:
            depth += _DEPTH.get(token.text, 0)
            named = before in (".", "AS")  # keywords are names there: `t.where`, `AS from`
            if depth == 0 and token.text not in _DEPTH and not named:
                self.top.append(token)
            before = token.text.upper()

    def find(self, word: str, after: int = -1) -> int | None:
        """Where keyword `word` stands at depth 0 behind offset `after`, and something behind it."""
        previous = ""
        for token in self.top:
            here = token.text.upper() if token.kind == "word" else ""
            # `a IS DISTINCT FROM b` is no FROM clause
            other = word == "FROM" and previous == "DISTINCT"
            last = token is self.tokens[-1]
            if here == word and token.start > after and not (other or last):
                return token.start
            previous = here
        return None

    def names(self, name: str, begin: int, end: int) -> bool:
        """Is a table between two offsets called `name`, in lower case? Not one with an alias."""
        parts = [t for t in self.tokens if begin <= t.start < end]
        for token, behind in zip(parts, [*parts[1:], None], strict=True):
            if unquoted(token).lower() == name:
                word = "," if behind is None else behind.text.lower()
                if word in RESERVED - {"as"} or not (word[0].isalpha() or word[0] in '._"'):
                    return True
        return False

    def volatile(self) -> bool:
        """Does it call, or read, what may be another each time?"""
        before = ""
        for token in self.tokens:
            word = token.word
            if word in _VOLATILE or word == "tablesample" or (before, word) == ("using", "sample"):
                return True
            before = word
        return False

    def returning(self, extra: str) -> tuple[str, bool]:
        """The statement with `extra` in front of its RETURNING list, and whether it had one."""
        at = self.find("RETURNING")
        if at is None:
            return f"{self.text} RETURNING {extra}", False
        split = at + len("RETURNING")
        return f"{self.text[:split]} {extra},{self.text[split:]}", True

    def assigned(self) -> set[str] | None:
        """The columns that the SET lists assign, in lower case; None where that is not plain."""
        found: set[str] = set()
        parts = self.tokens
        words = [t.text.upper() for t in parts]
        for i, token in enumerate(parts):
            after = words[i + 1 : i + 2]
            if words[i - 1 : i + 1] == ["THEN", "UPDATE"] and after != ["SET"]:
                return None  # a branch of MERGE (BY NAME, or no more) that assigns every column
            if token.kind != "word" or words[i] != "SET" or words[i - 1] == ".":
                continue
            if not after or after[0] in _DEPTH or after == ["*"]:
                return None
            depth, start, before = 0, True, ""
            for part in parts[i + 1 :]:
                depth += _DEPTH.get(part.text, 0)
                named, before = before == ".", part.text
                if depth == 0 and start:
                    found.add(part.word)
                    start = False
                elif depth == 0 and part.text == ",":
                    start = True
                elif depth == 0 and not named and part.text.upper() in _ENDS_SET:
                    break
        return found


@lru_cache(maxsize=64)
def cut_apart(text: str) -> Text:
    """`Text` of a statement, kept for the next time."""
    return Text(text)


def named_parameters(text: str, params: Any) -> tuple[str, dict[str, Any] | None]:
    """`text` with every parameter as ``$name``: a part of it can then be run with some of them."""
    if not params:
        return text, None
    if isinstance(params, Mapping):
        return text, dict(params)
    return _numbered(text), {f"tw{i + 1}": v for i, v in enumerate(params)}


@lru_cache(maxsize=64)
def _numbered(text: str) -> str:
    return respelled(text, lambda name: f"$tw{name}")


def used(text: str, params: dict[str, Any] | None) -> dict[str, Any] | None:
    """Those of `params` that `text` names: DuckDB refuses parameters that are not used."""
    if params is None:
        return None
    names = {t.text[1:] for t in tokens(text) if t.kind == "parameter"}
    return {k: v for k, v in params.items() if k in names} or None
