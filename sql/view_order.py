"""An order for lists over rows that have none.

DuckDB gives `list(x)` over one table in the order of the table, and so do maintained views. Over a
join, a set operation, several grouping sets or another view the order follows from how DuckDB runs
the query, and may be another one tomorrow; so does which of several most frequent values is the
`mode`. A view keeps these lists in the order of their values, and says so in its text:

    SELECT k, list(x) FROM a JOIN b USING (k) GROUP BY k            -- list(x ORDER BY x)
    SELECT k, string_agg(s, ',' ORDER BY day) FROM t GROUP BY k     -- … ORDER BY day, s)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from typing import Final

from tidewheel.planner.order_of_rows import NAMED
from tidewheel.sql.statements import Token, tokens

Parts = tuple[str, ...]
_CALL = re.compile(rf"\b(?:{'|'.join(sorted(NAMED))})\s*\(", re.IGNORECASE)
_SETS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_SETS_OF_GROUPS: Final = frozenset({"ROLLUP", "CUBE", "GROUPING"})
_ENDS: Final = frozenset({
    "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "SELECT",
})  # fmt: skip
_BEFORE: Final = frozenset({
    "SELECT", "DISTINCT", "ALL", "BY", "HAVING", "WHERE", "AND", "OR", "NOT", "CASE", "WHEN",
    "THEN", "ELSE", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "FROM", "QUALIFY", "ON",
})  # fmt: skip
"""Words behind which a call may stand; behind others stands an alias with columns."""


class Order(Enum):
    """What the rows of a query stand in the order of."""

    TABLE = 1
    NOTHING = 2
    OTHER = 3


def with_orders(query: str, is_view: Callable[[Parts], bool]) -> str:
    """A view's query whose lists have an order where it gives them none.

    `is_view`: does a name mean a maintained view?
    """
    if not _CALL.search(query):
        return query
    added = sorted(_Text(query, is_view).orders(), reverse=True)
    for at, text in added:
        query = f"{query[:at]}{text}{query[at:]}"
    return query


class _Text:
    """The tokens of a query and how they nest."""

    def __init__(self, query: str, is_view: Callable[[Parts], bool]) -> None:
        self._query = query
        self._is_view = is_view
        self._tokens: list[Token] = list(tokens(query))
        self._words = [t.text.upper() for t in self._tokens]
        n = len(self._tokens)
        self._outer = [-1] * n
        """Per token the bracket that it stands in."""
        self._close = {-1: n}
        opened = [-1]
        for i, word in enumerate(self._words):
            if word in (")", "]", "}") and len(opened) > 1:
                self._close[opened.pop()] = i
            self._outer[i] = opened[-1]
            if word in ("(", "[", "{"):
                opened.append(i)
        for i in opened[1:]:
            self._close[i] = n
        self._tables = dict(self._ctes())

    def _ctes(self) -> Iterator[tuple[str, int]]:
        """The names in WITH and the brackets around their queries."""
        words = self._words
        for i, word in enumerate(words):
            if word != "AS" or not i:
                continue
            at = i + 1
            while at < len(words) and words[at] in ("NOT", "MATERIALIZED"):
                at += 1
            if at >= len(words) or words[at] != "(":
                continue
            before = i - 1
            if words[before] == ")":
                before = self._outer_open(before) - 1
            if before >= 0:
                yield _unquoted(self._tokens[before].text), at

    def _outer_open(self, close: int) -> int:
        return next((a for a, b in self._close.items() if b == close), 0)

    def _inside(self, bracket: int) -> list[int]:
        """The tokens directly in a bracket."""
        end = self._close[bracket]
        return [i for i in range(bracket + 1, end) if self._outer[i] == bracket]

    def orders(self) -> Iterator[tuple[int, str]]:
        """What to write, and where."""
        for i, word in enumerate(self._words[:-1]):
            if word.lower() not in NAMED or self._words[i + 1] != "(" or not self._calls(i):
                continue
            inside = self._inside(i + 1)
            words = [self._words[j] for j in inside]
            if not inside or "IGNORE" in words or "RESPECT" in words:
                continue
            distinct = words[0] == "DISTINCT"
            first = inside[1:] if distinct else inside
            end = next((j for j in first if self._words[j] in (",", "ORDER")), self._close[i + 1])
            start = first[0] if first else end
            if start >= end or not any(t.kind != "number" for t in self._tokens[start:end]):
                continue
            last = self._tokens[end - 1]
            value = self._query[self._tokens[start].start : last.start + len(last.text)]
            at = self._tokens[self._close[i + 1] - 1]
            place = at.start + len(at.text)
            if "ORDER" in words:
                if word.lower() != "mode" and self._words[self._close[i + 1] - 1] != "ALL":
                    yield place, f", {value}"
            elif distinct or word == "MODE" or self._order_at(i) is Order.NOTHING:
                yield place, f" ORDER BY {value}"

    def _calls(self, i: int) -> bool:
        """Is the name at `i` that of an aggregate, not of a table, an alias or a window?"""
        before = self._words[i - 1] if i else ""
        if before == "." or (before[:1].isalpha() and before not in _BEFORE) or before[:1] == '"':
            return False
        after = self._words[self._close[i + 1] + 1 :][:2] if i + 1 in self._close else []
        if before == "FROM" and not self._distinct_from(i - 1):
            return False
        end = self._close[i + 1] + 1
        if after[:2] == ["FILTER", "("]:
            end = self._close[end + 1] + 1
        follows = self._words[end : end + 2]
        return follows[:1] not in (["OVER"], ["WITHIN"]) and follows != ["AS", "("]

    def _distinct_from(self, i: int) -> bool:
        """Does the FROM at `i` belong to IS [NOT] DISTINCT FROM?"""
        return i > 1 and self._words[i - 1] == "DISTINCT" and self._words[i - 2] in ("IS", "NOT")

    def _order_at(self, i: int) -> Order:
        """Of the rows that a call at `i` gets."""
        call = range(i + 1, self._close[i + 1])
        if any(self._queries(j) for j in call):
            return Order.NOTHING
        bracket = self._outer[i]
        while bracket >= 0 and not self._is_query(bracket):
            bracket = self._outer[bracket]
        return self._rows(bracket, i)

    def _is_query(self, bracket: int) -> bool:
        words = [self._words[j] for j in self._inside(bracket)]
        return words[:1] == ["FROM"] or "SELECT" in words

    def _queries(self, i: int) -> bool:
        """Does a subquery begin at `i`?"""
        return self._words[i] == "SELECT" or (
            self._words[i] == "FROM" and self._words[i - 1] == "("
        )

    def _rows(self, bracket: int, i: int | None = None) -> Order:
        """Of the rows behind WHERE in the query in a bracket; the part of a UNION that `i` is in.

        Without `i`, of the query's own rows.
        """
        part: list[int] = []
        for j in self._inside(bracket):
            if self._words[j] in _SETS:
                if i is None:
                    return Order.NOTHING
                if part and part[0] <= i < j:
                    break
                part = []
            else:
                part.append(j)
        words = [self._words[j] for j in part]
        if i is None:
            if "ORDER" in words or "LIMIT" in words or "VALUES" in words[:1]:
                return Order.OTHER
            if {"GROUP", "OVER", "QUALIFY"} & set(words) or self._is_distinct(part):
                return Order.NOTHING
        if _SETS_OF_GROUPS & set(words):
            return Order.NOTHING  # DuckDB makes groups of groups
        read = next(
            (k for k, j in enumerate(part) if words[k] == "FROM" and not self._distinct_from(j)),
            None,
        )
        if read is None:
            return Order.OTHER
        end = next((k for k in range(read + 1, len(part)) if words[k] in _ENDS), len(part))
        item = part[read + 1 : end]
        if not item:
            return Order.OTHER
        if "," in words[read + 1 : end] or "JOIN" in words[read + 1 : end]:
            return Order.NOTHING
        if "WHERE" in words:
            where = part[words.index("WHERE")]
            stop = part[-1] + 1
            if any(self._queries(j) for j in range(where, self._close.get(stop - 1, stop))):
                return Order.NOTHING
        return self._read(item)

    def _is_distinct(self, part: list[int]) -> bool:
        return any(
            self._words[a] == "SELECT" and self._words[b] == "DISTINCT" for a, b in pairwise(part)
        )

    def _read(self, item: list[int]) -> Order:
        """Of the rows of the only thing in FROM."""
        if self._words[item[0]] == "(":
            return self._rows(item[0])
        named: list[str] = []
        for j in item:
            if len(named) % 2 == (self._words[j] == "."):
                named.append(_unquoted(self._tokens[j].text))
            else:
                break
        parts = tuple(named[::2])
        if item[len(named) :] and self._words[item[len(named)]] == "(":
            return Order.OTHER
        bracket = self._tables.get(parts[0]) if len(parts) == 1 else None
        if bracket is not None:
            del self._tables[parts[0]]  # (should it read itself)
            try:
                return self._rows(bracket)
            finally:
                self._tables[parts[0]] = bracket
        return Order.NOTHING if self._is_view(parts) else Order.TABLE


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"').lower() if text.startswith('"') else text.lower()
