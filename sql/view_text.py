"""The statements about maintained views, and the targets of DML, read off the tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tidewheel.engine.quoting import quoted
from tidewheel.sql import errors
from tidewheel.sql.reserved import RESERVED
from tidewheel.sql.statements import Statement, Token, tokens, verb_after_ctes, writing_cte


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] parts [(columns)] AS query.

    `name_at` and `query_at` are offsets into the script.
    """

    parts: tuple[str, ...]
    name_at: int
    name_length: int
    columns: tuple[str, ...]
    query: str
    query_at: int
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class ViewName:
    """DROP MATERIALIZED VIEW, VERIFY VIEW, SUBSCRIBE TO: the view, and what follows it."""

    parts: tuple[str, ...]
    name_at: int
    name_length: int
    if_exists: bool = False
    cascade: bool = False
    rest: tuple[str, ...] = ()


_LEAD = "SELECT * FROM (\n"
_NAMES = re.compile(r'\n\) AS named\((?:"(?:[^"]|"")*"(?:, )?)+\)\Z')


def with_columns(query: str, columns: Iterable[str]) -> str:
    """A view's query with its columns named."""
    return f"{_LEAD}{query}\n) AS named({', '.join(map(quoted, columns))})"


def as_written(sql: str) -> tuple[str, int]:
    """A view's query as the user wrote it, without `with_columns`, and where it begins."""
    end = _NAMES.search(sql) if sql.startswith(_LEAD) else None
    return (sql, 0) if end is None else (sql[len(_LEAD) : end.start()], len(_LEAD))


class _Cursor:
    """Reads the tokens of a statement from left to right."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.parts = list(tokens(statement.text))
        self.at = 0

    def peek(self) -> str:
        return self.parts[self.at].text.upper() if self.at < len(self.parts) else ""

    def accept(self, *words: str) -> bool:
        found = [t.text.upper() for t in self.parts[self.at : self.at + len(words)]]
        if found != list(words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(f"expected {' '.join(words)}")

    def end(self) -> None:
        if self.peek():
            self.fail("expected the end")

    def fail(self, message: str, hint: str | None = None) -> None:
        from tidewheel.sql.wrong_kind import form

        token = self.parts[min(self.at, len(self.parts) - 1)]
        end = self.at >= len(self.parts)
        raise errors.ProgrammingError(
            f"syntax error: {message}" + (" at the end" if end else f" at or near {token.text}"),
            hint=hint or form([t.text.upper() for t in self.parts[:5]]),
            text=self.statement.script,
            position=self.statement.start + token.start + (len(token.text) if end else 0),
            length=1 if end else len(token.text),
        )

    def expect_unreserved(self) -> None:
        """ProgrammingError if the next word is a name in quotes only."""
        word = self.peek()
        if word.lower() in RESERVED:
            text = self.parts[self.at].text
            self.fail("expected a name", f'{text} is a keyword; as a name it is written "{text}"')

    def name(self) -> tuple[tuple[str, ...], int, int]:
        """A qualified name: its parts, its offset in the script, its length."""
        found: list[str] = []
        start = self.parts[self.at].start if self.at < len(self.parts) else 0
        end = start
        while True:
            if self.at >= len(self.parts) or not is_name(self.parts[self.at]):
                self.fail("expected a name")
            token = self.parts[self.at]
            if token.kind == "string" and (len(token.text) == 1 or token.text[0] != token.text[-1]):
                self.fail("unterminated quoted identifier", f"it ends with {token.text[0]}, too")
            found.append(unquoted(token))
            end = token.start + len(token.text)
            self.at += 1
            if not self.accept("."):
                return tuple(found), self.statement.start + start, end - start


def is_name(token: Token) -> bool:
    """Is it an identifier, quoted or not? DuckDB takes single quotes, too."""
    return token.kind == "word" or (token.kind == "string" and token.text[0] in "\"'")


def unquoted(token: Token) -> str:
    """The name that an identifier stands for."""
    text = token.text
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in "\"'" else text


def prepared_name(token: Token) -> str:
    """The name of a prepared statement: the same in any case of ASCII's letters alone."""
    return "".join(c.lower() if c.isascii() else c for c in unquoted(token))


def names_of(parts: Iterable[Token]) -> frozenset[str]:
    """Words and names in lower case, those in quotes of either kind without them."""
    return frozenset(unquoted(token).lower() for token in parts)


QUERIES = frozenset({
    "(", "SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "PIVOT_WIDER", "PIVOT_LONGER",
    "UNPIVOT", "DESCRIBE", "DESC", "SHOW", "SUMMARIZE",
})  # fmt: skip


def parse_create(statement: Statement, plain: bool = False) -> CreateView:
    """Read CREATE MATERIALIZED VIEW; ProgrammingError with the place if it is malformed.

    `plain`: CREATE [TEMP] [RECURSIVE] VIEW. The query of a recursive one is given with the WITH
    RECURSIVE that it stands for.
    """
    cursor = _Cursor(statement)
    cursor.expect("CREATE")
    replace = cursor.accept("OR", "REPLACE")
    recursive = False
    if not plain:
        cursor.expect("MATERIALIZED")
    else:
        if not cursor.accept("LOCAL"):
            cursor.accept("GLOBAL")
        if not cursor.accept("TEMP"):
            cursor.accept("TEMPORARY")
        recursive = cursor.accept("RECURSIVE")
    cursor.expect("VIEW")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.expect_unreserved()
    parts, name_at, name_length = cursor.name()
    columns: list[str] = []
    listed = cursor.at
    if recursive and cursor.peek() != "(":
        cursor.fail("expected the columns of the recursive view")
    if cursor.accept("("):
        while True:
            if not is_name(cursor.parts[min(cursor.at, len(cursor.parts) - 1)]):
                cursor.fail("expected a column name")
            cursor.expect_unreserved()
            columns.append(unquoted(cursor.parts[cursor.at]))
            cursor.at += 1
            if cursor.accept(")"):
                break
            if cursor.peek() != "," and cursor.at < len(cursor.parts):
                cursor.fail("expected ,", "a view's columns have the types of its query")
            cursor.expect(",")
    listed_end = cursor.at - 1
    if cursor.peek() != "AS" and any(t.text.upper() == "AS" for t in cursor.parts[cursor.at :]):
        # Where it is kept, how, and when it is brought up to date.
        cursor.fail("expected AS", "leave out what stands before AS: a view has no options")
    cursor.expect("AS")
    if cursor.peek() not in QUERIES:
        cursor.fail("expected a query")
    query_at = cursor.at
    if cursor.peek() == "WITH":
        _skip_ctes(cursor)
        if cursor.peek() in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            cursor.fail("expected a query")
    cursor.at = query_at
    start = cursor.parts[cursor.at].start
    last = cursor.parts[-1 if plain else _without_data(cursor)]
    end = last.start + len(last.text)
    query = statement.text[start:end]
    lead = ""
    if recursive:
        table, opened, closed = (cursor.parts[i] for i in (listed - 1, listed, listed_end))
        names = statement.text[opened.start : closed.start + 1]
        lead = f"WITH RECURSIVE {table.text}{names} AS ("
        query = f"{lead}{query}\n) SELECT * FROM {table.text}"
    return CreateView(
        parts,
        name_at,
        name_length,
        tuple(columns),
        query,
        statement.start + start - len(lead),
        replace,
        if_not_exists,
    )


def _without_data(cursor: _Cursor) -> int:
    """Where the query ends, counted from the end: before PostgreSQL's WITH DATA, if it is there.

    NotSupportedError for WITH NO DATA.
    """
    words = [t.text.upper() for t in cursor.parts[-3:]]
    if words == ["WITH", "NO", "DATA"]:
        raise errors.NotSupportedError(
            "a maintained view always has its rows",
            hint="leave WITH NO DATA out",
            text=cursor.statement.script,
            position=cursor.statement.start + cursor.parts[-3].start,
            length=len("WITH"),
        )
    return -3 if words[-2:] == ["WITH", "DATA"] else -1


def parse_drop(statement: Statement, plain: bool = False) -> ViewName:
    """Read DROP MATERIALIZED VIEW, or DROP VIEW if `plain`."""
    cursor = _Cursor(statement)
    cursor.expect("DROP")
    if not plain:
        cursor.expect("MATERIALIZED")
    cursor.expect("VIEW")
    if_exists = cursor.accept("IF", "EXISTS")
    parts, at, length = cursor.name()
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    cursor.end()
    return ViewName(parts, at, length, if_exists, cascade)


def parse_altered(statement: Statement) -> ViewName:
    """Read ALTER [MATERIALIZED] VIEW name; `rest` holds the new name of RENAME TO, else nothing.

    And ALTER TABLE, which DuckDB takes for views, too.
    """
    cursor = _Cursor(statement)
    cursor.expect("ALTER")
    if not cursor.accept("TABLE"):
        cursor.accept("MATERIALIZED")
        cursor.expect("VIEW")
    if_exists = cursor.accept("IF", "EXISTS")
    parts, at, length = cursor.name()
    rest: tuple[str, ...] = ()
    if cursor.accept("RENAME", "TO"):
        rest, _, _ = cursor.name()
    return ViewName(parts, at, length, if_exists, rest=() if cursor.peek() else rest)


def parse_verify(statement: Statement) -> ViewName:
    """Read VERIFY VIEW v [AGAINST RECOMPUTE | SPARK]; `rest` is what it is compared with."""
    cursor = _Cursor(statement)
    cursor.expect("VERIFY")
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    parts, at, length = cursor.name()
    against = "RECOMPUTE"
    if cursor.accept("AGAINST"):
        against = cursor.peek()
        if against not in ("RECOMPUTE", "SPARK"):
            cursor.fail("expected RECOMPUTE or SPARK")
        cursor.at += 1
    cursor.end()
    return ViewName(parts, at, length, rest=(against,))


def parse_comment(statement: Statement) -> ViewName:
    """Read COMMENT ON MATERIALIZED VIEW v IS …"""
    cursor = _Cursor(statement)
    cursor.expect("COMMENT", "ON", "MATERIALIZED", "VIEW")
    parts, at, length = cursor.name()
    return ViewName(parts, at, length)


def without_materialized(text: str) -> str:
    """COMMENT ON MATERIALIZED VIEW in DuckDB's words, with all else where it was."""
    word = next(t for t in tokens(text) if t.text.upper() == "MATERIALIZED")
    return text[: word.start] + " " * len(word.text) + text[word.start + len(word.text) :]


def parse_subscribe(statement: Statement) -> ViewName:
    """Read SUBSCRIBE TO v [AS OF EPOCH n]; `rest` holds n if it is given."""
    cursor = _Cursor(statement)
    cursor.expect("SUBSCRIBE")
    cursor.accept("TO")
    if cursor.peek() == "(":
        how = "CREATE MATERIALIZED VIEW name AS query; SUBSCRIBE TO name"
        cursor.fail("expected the name of a view", how)
    parts, at, length = cursor.name()
    rest: tuple[str, ...] = ()
    if cursor.accept("AS", "OF", "EPOCH") or cursor.accept("FROM", "EPOCH"):
        if not cursor.peek().isdecimal():
            cursor.fail("expected the number of an epoch")
        rest = (cursor.peek(),)
        cursor.at += 1
    cursor.end()
    return ViewName(parts, at, length, rest=rest)


def parse_explained(statement: Statement, at: int) -> ViewName:
    """Read [MATERIALIZED] VIEW v, the end of an EXPLAIN, from token `at` on."""
    cursor = _Cursor(statement)
    cursor.at = at
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    parts, start, length = cursor.name()
    cursor.end()
    return ViewName(parts, start, length)


@lru_cache(maxsize=64)
def target(statement: Statement) -> tuple[str, tuple[str, ...], int]:
    """What a DML statement does (the kinds of `Capture.run`), to which table, and where it says so.

    No parts: the table is not known (EXECUTE, or a form that is not recognised). The kind
    "several": EXPLAIN ANALYZE, COPY FROM DATABASE, and data-modifying CTEs, which may each write
    another table.
    """
    cursor = _Cursor(statement)
    words = [t.text.upper() for t in cursor.parts]
    copies_all = words[:3] == ["COPY", "FROM", "DATABASE"]
    if copies_all or words[0] == "EXPLAIN" or writing_cte(cursor.parts) is not None:
        return "several", (), statement.start
    if cursor.peek() == "WITH":
        _skip_ctes(cursor)
    verb = cursor.peek()
    start = cursor.at
    cursor.at += 1
    kind = verb.lower()
    if verb == "INSERT":
        if cursor.accept("OR", "REPLACE"):
            kind = "upsert"
        elif not cursor.accept("OR", "IGNORE"):
            rest = words[start:]
            conflict = rest.index("CONFLICT") if "CONFLICT" in rest else len(rest)
            if "UPDATE" in rest[conflict:]:
                kind = "upsert"
        cursor.accept("INTO")
    elif verb == "DELETE":
        cursor.accept("FROM")
    elif verb == "MERGE":
        cursor.accept("INTO")
    elif verb == "TRUNCATE":
        cursor.accept("TABLE")
    elif verb not in ("UPDATE", "COPY"):
        return "other", (), statement.start
    if cursor.at >= len(cursor.parts) or not is_name(cursor.parts[cursor.at]):
        return "other", (), statement.start
    parts, at, _ = cursor.name()
    if verb == "COPY" and "FROM" not in _behind_list(words[cursor.at :])[:1]:
        return "copy_out", parts, at
    return kind, parts, at


def _behind_list(words: list[str]) -> list[str]:
    """What follows a list of columns, if there is one."""
    return words[words.index(")") + 1 :] if words[:1] == ["("] and ")" in words else words


def _skip_ctes(cursor: _Cursor) -> None:
    """Move from WITH to the verb behind its clause, or to the end."""
    verb = verb_after_ctes(cursor.parts[cursor.at :])
    cursor.at = len(cursor.parts) if verb is None else cursor.parts.index(verb, cursor.at)


def bare_lambdas(text: str) -> str:
    """SQL of DuckDB's catalog without the parentheses around its lambdas: sqlglot knows none."""
    if "(lambda " not in text:
        return text
    parts, begun = list(tokens(text)), list[int]()
    characters = list(text)
    for i, token in enumerate(parts[:-1]):
        if token.text == "(":
            begun.append(i)
        elif token.text == ")" and begun:
            at = begun.pop()
            alone = parts[at - 1].text in ("(", ",") and parts[i + 1].text in (")", ",")
            if alone and parts[at + 1].text == "lambda":
                characters[parts[at].start] = characters[token.start] = " "
    return "".join(characters)
