"""Where the WITH clauses, their tables and the references to them stand in a text.

Works on tokens alone, so that it also reads what sqlglot cannot parse, and so that every part can
be cut out of the text exactly as it was written. It does not judge: a WITH clause that is not well
formed is left out, and DuckDB will say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from . import errors
from .recursion_tables import Cte, Cycle, Limit, Reference, Scan, Search, Span, With
from .reserved import RESERVED
from .statements import Token, tokens

_ENDS_FROM = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "SELECT",
        "QUALIFY",
        "WINDOW",
        "SET",
        "VALUES",
        "RETURNING",
    ]
)
_STARTS_QUERY = frozenset(
    ["SELECT", "WITH", "FROM", "VALUES", "PIVOT", "UNPIVOT", "DESCRIBE", "SUMMARIZE", "TABLE"]
)
_FROM_ARGUMENT = frozenset(["EXTRACT", "SUBSTRING", "TRIM", "OVERLAY", "POSITION"])
_AFTER_TABLE = _ENDS_FROM | frozenset(
    [
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "OUTER",
        "CROSS",
        "NATURAL",
        "ASOF",
        "SEMI",
        "ANTI",
        "POSITIONAL",
        "ON",
        "USING",
        "TABLESAMPLE",
        "PIVOT",
        "UNPIVOT",
        "AT",
        "LATERAL",
    ]
)


def unquote(token: Token) -> str | None:
    """The name that a token spells; None if it is no identifier."""
    if token.kind in ("word", "name"):
        return token.text
    if token.kind == "string" and token.text.startswith('"'):
        return token.text[1:-1].replace('""', '"')
    return None


def scan(text: str) -> Scan:
    """Read `text`: one statement."""
    found = Scan(text, list(_named(t for t in tokens(text) if t.kind != "end")))
    _Scanner(found).group(0, False)
    return found


_BEGINS_NO_QUERY = _AFTER_TABLE - _STARTS_QUERY


def _named(read: Iterable[Token]) -> Iterator[Token]:
    """The tokens; a word that is no keyword behind a point or AS is of the kind "name"."""
    before = ""
    for token in read:
        if token.kind == "word":
            word = token.text.upper()
            if before == "." or (before == "AS" and word in _BEGINS_NO_QUERY):
                token, word = Token("name", token.text, token.start), ""
            before = word
        else:
            before = token.text
        yield token


class _Scanner:
    """A descent over parentheses; `group` reads to the one that closes it."""

    def __init__(self, found: Scan) -> None:
        self.found = found
        self.tokens = found.tokens

    def word(self, i: int) -> str:
        """The token at `i` in upper case if it is a bare word or a symbol, else empty."""
        if 0 <= i < len(self.tokens):
            token = self.tokens[i]
            if token.kind in ("word", "punctuation"):
                return token.text.upper()
        return ""

    def end_of(self, i: int) -> int:
        """The position behind token `i`."""
        token = self.tokens[i]
        return token.start + len(token.text)

    def group(self, i: int, tables: bool, from_is_argument: bool = False) -> int:
        """Read from token `i` to the closing parenthesis; its index, or the number of tokens."""
        expecting, in_from = tables, tables
        withs: list[With] = []
        while i < len(self.tokens):
            word = self.word(i)
            if word == ")":
                break
            if word == "(":
                nested_tables = expecting and self.word(i + 1) not in _STARTS_QUERY
                argument = self.word(i - 1) in _FROM_ARGUMENT
                i = self.group(i + 1, nested_tables, argument) + 1
                expecting = False
            elif word == "WITH" and (read := self.with_clause(i)) is not None:
                with_, i = read
                withs.append(with_)
                expecting = False
            elif word == "FROM" and not self.is_distinct(i) and not from_is_argument:
                expecting = in_from = True
                i += 1
            elif (
                word == "JOIN"
                or (word == "," and in_from)
                or (word in ("PIVOT", "UNPIVOT", "TABLE", "DESCRIBE", "SUMMARIZE") and not in_from)
            ):
                expecting = True
                i += 1
            elif word in _ENDS_FROM:
                expecting = in_from = False
                from_is_argument = False
                i += 1
            elif expecting and word in ("LATERAL", "ONLY"):
                i += 1
            elif expecting:
                i = self.table(i)
                expecting = False
            else:
                i += 1
        end = self.tokens[i].start if i < len(self.tokens) else len(self.found.text)
        for with_ in withs:
            with_.scope = Span(with_.head.start, end)
        return i

    def is_distinct(self, i: int) -> bool:
        """Is the FROM at `i` part of IS [NOT] DISTINCT FROM?"""
        return self.word(i - 1) == "DISTINCT" and self.word(i - 2) in ("IS", "NOT")

    def table(self, i: int) -> int:
        """Read a table's name at token `i`; the index behind it."""
        label = unquote(self.tokens[i])
        if label is None:
            return i + 1
        if self.word(i + 1) == ":" and self.word(i + 2) != ":":
            return self.table(i + 2) if i + 2 < len(self.tokens) else i + 2
        start, last, recurring = i, i, False
        parts = [label]
        while self.word(last + 1) == "." and last + 2 < len(self.tokens):
            part = unquote(self.tokens[last + 2])
            if part is None:
                break
            parts.append(part)
            last += 2
        if self.word(last + 1) == "(":
            return last + 1
        if len(parts) == 2 and parts[0].lower() == "recurring":
            recurring, label = True, parts[1]
        span = Span(self.tokens[start].start, self.end_of(last))
        if len(parts) > 1 and not recurring:
            self.found.qualified[span] = tuple(parts)
            return last + 1
        self.found.references.append(
            Reference(label, span, recurring, aliased=self.alias_follows(last + 1))
        )
        return last + 1

    def alias_follows(self, i: int) -> bool:
        if i >= len(self.tokens):
            return False
        if self.word(i) == "AS":
            return True
        token = self.tokens[i]
        return unquote(token) is not None and self.word(i) not in _AFTER_TABLE

    def with_clause(self, i: int) -> tuple[With, int] | None:
        """The WITH clause at token `i` and the index behind it; None if it is something else."""
        start, i = i, i + 1
        mutually = self.word(i) == "MUTUALLY" and self.word(i + 1) == "RECURSIVE"
        i += mutually
        recursive = self.word(i) == "RECURSIVE"
        i += recursive
        limit: Limit | None = None
        if mutually and self.word(i) == "(":
            limit = self.limit(i)
            i = self.end_at(i) + 1
        head = Span(self.tokens[start].start, self.end_of(i - 1))
        with_ = With(recursive, mutually, limit, head)
        kept = len(self.found.withs), len(self.found.references)
        self.found.withs.append(with_)
        while True:
            read = self.cte(with_, i)
            if read is None:
                if mutually:  # which is ours alone
                    message = "this is no table of WITH MUTUALLY RECURSIVE"
                    at = self.tokens[min(i, len(self.tokens) - 1)]
                    raise self.refused(message, "Write name (column type, …) AS (query).", at, at)
                del self.found.withs[kept[0] :]
                del self.found.references[kept[1] :]
                return None
            cte, i = read
            with_.ctes.append(cte)
            if self.word(i) != ",":
                return with_, i
            i += 1

    def refused(
        self, message: str, hint: str, first: Token, last: Token
    ) -> errors.ProgrammingError:
        """The error of some tokens."""
        return errors.ProgrammingError(
            message,
            hint=hint,
            text=self.found.text,
            position=first.start,
            length=last.start + len(last.text) - first.start,
        )

    def limit(self, i: int) -> Limit:
        """``(RETURN | ERROR AT RECURSION LIMIT n)`` at token `i`; other options are an error."""
        end = self.end_at(i)
        words = [self.word(j) or self.tokens[j].text for j in range(i + 1, end)]
        action: Literal["return", "error"] = "return" if words[:1] == ["RETURN"] else "error"
        if words[:2] in (["RETURN", "AT"], ["ERROR", "AT"]):
            words = words[2:]
        if words[2:3] == ["="]:
            words.pop(2)
        if (
            words[:2] == ["RECURSION", "LIMIT"]
            and len(words) == 3
            and words[2].isdecimal()
            and int(words[2])
        ):
            return Limit(action, int(words[2]))
        raise self.refused(
            "WITH MUTUALLY RECURSIVE has no such option",
            "Write (RETURN AT RECURSION LIMIT n) or (ERROR AT RECURSION LIMIT n), n at least 1.",
            self.tokens[i],
            self.tokens[min(end, len(self.tokens) - 1)],
        )

    def end_at(self, i: int) -> int:
        """The first closing parenthesis from token `i` on, or the end."""
        while i < len(self.tokens) and self.word(i) != ")":
            i += 1
        return i

    def cte(self, with_: With, i: int) -> tuple[Cte, int] | None:
        if i >= len(self.tokens) or (label := unquote(self.tokens[i])) is None:
            return None
        name = Span(self.tokens[i].start, self.end_of(i))
        i += 1
        columns: list[str] = []
        names = [self.tokens[i - 1]]
        types: list[str] = []
        if self.word(i) == "(":
            items, i = self.items(i)
            for item in items:
                column = unquote(item[0]) if item else None
                if column is None:
                    return None
                columns.append(column)
                names.append(item[0])
                if len(item) > 1:
                    end = item[-1].start + len(item[-1].text)
                    types.append(self.found.text[item[1].start : end])
        using_key: tuple[str, ...] | None = None
        if self.word(i) == "USING" and self.word(i + 1) == "KEY" and self.word(i + 2) == "(":
            items, i = self.items(i + 2)
            using_key = tuple(self.slice(item) for item in items if item)
        if self.word(i) != "AS":
            return None
        i += 1
        if self.word(i) == "NOT":
            i += 1
        if self.word(i) == "MATERIALIZED":
            i += 1
        if self.word(i) != "(" or i + 1 >= len(self.tokens):
            return None
        opening = i
        i = self.group(i + 1, False)
        if i >= len(self.tokens):
            return None
        body = Span(self.end_of(opening), self.tokens[i].start)
        i += 1
        search, i = self.search(i)
        cycle, i = self.cycle(i)
        definition = Span(name.start, self.end_of(i - 1))
        if types and len(types) != len(columns):
            return None
        for token in names if with_.recursive else ():
            text = token.text
            if token.kind == "word" and text.lower() in RESERVED:
                hint = f'{text} is a keyword; as a name it is written "{text}"'
                raise self.refused(f'syntax error at or near "{text}"', hint, token, token)
        cte = Cte(
            with_,
            label,
            name,
            tuple(columns),
            tuple(types),
            using_key,
            body,
            definition,
            search,
            cycle,
        )
        return cte, i

    def items(self, i: int) -> tuple[list[list[Token]], int]:
        """A parenthesised, comma-separated list at `i`: its items' tokens; the index behind."""
        found: list[list[Token]] = [[]]
        depth = 0
        while i < len(self.tokens):
            word = self.word(i)
            if word == "(":
                depth += 1
            elif word == ")":
                depth -= 1
                if depth == 0:
                    return found, i + 1
            if word == "," and depth == 1:
                found.append([])
            elif not (word == "(" and depth == 1):
                found[-1].append(self.tokens[i])
            i += 1
        return [[]], i

    def slice(self, item: list[Token]) -> str:
        """An item's text."""
        return self.found.text[item[0].start : item[-1].start + len(item[-1].text)]

    def names(self, i: int) -> tuple[tuple[str, ...], int]:
        """Comma-separated identifiers from `i`; the index behind them."""
        found: list[str] = []
        while i < len(self.tokens) and (name := unquote(self.tokens[i])) is not None:
            found.append(name)
            if self.word(i + 1) != ",":
                return tuple(found), i + 1
            i += 2
        return tuple(found), i

    def search(self, i: int) -> tuple[Search | None, int]:
        order = self.word(i + 1)
        if self.word(i) != "SEARCH" or order not in ("DEPTH", "BREADTH"):
            return None, i
        if self.word(i + 2) != "FIRST" or self.word(i + 3) != "BY":
            return None, i
        by, j = self.names(i + 4)
        column = unquote(self.tokens[j + 1]) if j + 1 < len(self.tokens) else None
        if self.word(j) != "SET" or column is None:
            return None, i
        return Search("depth" if order == "DEPTH" else "breadth", by, column), j + 2

    def cycle(self, i: int) -> tuple[Cycle | None, int]:
        if self.word(i) != "CYCLE":
            return None, i
        columns, j = self.names(i + 1)
        if self.word(j) != "SET" or j + 2 >= len(self.tokens):
            return None, i
        mark = unquote(self.tokens[j + 1])
        j += 2
        value, default = "true", "false"
        if self.word(j) == "TO":
            middle = next((k for k in range(j, len(self.tokens)) if self.word(k) == "DEFAULT"), j)
            last = next((k for k in range(middle, len(self.tokens)) if self.word(k) == "USING"), j)
            if not j + 1 < middle + 1 <= last:
                return None, i
            value = self.slice(self.tokens[j + 1 : middle])
            default = self.slice(self.tokens[middle + 1 : last])
            j = last
        path = unquote(self.tokens[j + 1]) if j + 1 < len(self.tokens) else None
        if mark is None or path is None or self.word(j) != "USING":
            return None, i
        return Cycle(columns, mark, value, default, path), j + 2
