"""sqllogictest files as records.

One record per block of lines; blocks are separated by blank lines, and ``#`` starts a comment
between them. The dialects differ little: SQLite writes one value per line, DuckDB one row per
line with tabs and the expected error below ``----``; both are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Sort = Literal["nosort", "rowsort", "valuesort"]
SORTS: tuple[Sort, ...] = ("nosort", "rowsort", "valuesort")

HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")


class FormatError(Exception):
    """A file that is not sqllogictest; the message holds the path and the line."""


@dataclass(frozen=True)
class Condition:
    """``skipif engine`` or ``onlyif engine``."""

    only: bool
    engine: str

    def admits(self, engines: frozenset[str]) -> bool:
        """Whether the record runs on an engine that goes by these names."""
        return (self.engine in engines) == self.only


@dataclass(frozen=True)
class Record:
    """What every record has: `line` and `end` are 1-based, `end` is exclusive."""

    line: int
    end: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Statement(Record):
    """``statement ok|error|maybe``; `pattern` is a regular expression, or None for any error."""

    sql: str
    expect: Literal["ok", "error", "maybe"]
    pattern: str | None
    connection: str | None


@dataclass(frozen=True)
class Query(Record):
    """``query TYPES [SORT] [LABEL]``; `expected` is None where no ``----`` follows."""

    sql: str
    types: str
    sort: Sort
    label: str | None
    connection: str | None
    expected: tuple[str, ...] | None


@dataclass(frozen=True)
class Control(Record):
    """Anything else: loop, foreach, endloop, require, halt, mode, hash-threshold, load, …"""

    word: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """A file: its records, its lines, and the ``# name:``, ``# description:`` headers."""

    path: Path
    records: tuple[Record, ...]
    lines: tuple[str, ...]
    headers: dict[str, str]


def parse(path: Path, text: str | None = None) -> Script:
    """Read a file (or `text` in its place). Raises FormatError with the place."""
    if text is None:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return Script(path, tuple(_Reader(path, lines).records()), tuple(lines), _headers(lines))


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if not line.startswith("#"):
            break
        if match := re.match(r"#\s*(name|description|group):\s*(.*)", line):
            found[match[1]] = match[2].strip()
    return found


class _Reader:
    def __init__(self, path: Path, lines: list[str]) -> None:
        self.path, self.lines, self.at = path, lines, 0

    def fail(self, line: int, message: str) -> FormatError:
        return FormatError(f"{self.path}:{line}: {message}")

    def records(self) -> list[Record]:
        found: list[Record] = []
        conditions: list[Condition] = []
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if not line or line.startswith("#"):
                self.at += 1
                continue
            word, *args = line.split()
            if word in ("skipif", "onlyif"):
                if not args:
                    raise self.fail(self.at + 1, f"{word} names no engine")
                conditions.append(Condition(word == "onlyif", args[0].lower()))
                self.at += 1
                continue
            found.append(self.record(word, args, tuple(conditions)))
            conditions = []
        return found

    def record(self, word: str, args: list[str], conditions: tuple[Condition, ...]) -> Record:
        if word == "statement":
            return self.statement(args, conditions)
        if word == "query":
            return self.query(args, conditions)
        start = self.at + 1
        self.at += 1
        return Control(start, self.at + 1, conditions, word, tuple(args))

    def body(self) -> tuple[str, list[str] | None]:
        """The SQL below a header line, and the lines below ``----`` if there are any."""
        self.at += 1
        sql: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].strip():
            if self.lines[self.at].strip() == "----":
                self.at += 1
                below: list[str] = []
                while self.at < len(self.lines) and self.lines[self.at]:
                    below.append(self.lines[self.at])
                    self.at += 1
                return "\n".join(sql), below
            sql.append(self.lines[self.at])
            self.at += 1
        return "\n".join(sql), None

    def statement(self, args: list[str], conditions: tuple[Condition, ...]) -> Statement:
        start = self.at + 1
        header = self.lines[self.at].strip()
        if not args or args[0] not in ("ok", "error", "maybe"):
            raise self.fail(start, f"statement is ok, error or maybe, not {header!r}")
        sql, below = self.body()
        if not sql:
            raise self.fail(start, "a statement without SQL")
        pattern: str | None = None
        connection: str | None = None
        if args[0] == "ok" or below is not None:
            connection = args[1] if len(args) > 1 else None
        elif len(args) > 1:  # our form and sqllogictest-rs's: the pattern on the header line
            pattern = header.split(None, 2)[2]
        if below:
            message = "\n".join(below)
            is_regex = message.startswith("<REGEX>:")
            pattern = message[8:] if is_regex else re.escape(message)
        expect: Literal["ok", "error", "maybe"] = args[0]  # type: ignore[assignment]
        return Statement(start, self.at + 1, conditions, sql, expect, pattern, connection)

    def query(self, args: list[str], conditions: tuple[Condition, ...]) -> Query:
        start = self.at + 1
        types = args.pop(0) if args and args[0] not in SORTS else ""
        sort: Sort = "nosort"
        connection = label = None
        for i, word in enumerate(args):
            if word in SORTS:
                sort = word
            elif i == 0:  # DuckDB's: a connection where the sort mode would stand
                connection = word
            else:
                label = word
        sql, below = self.body()
        if not sql:
            raise self.fail(start, "a query without SQL")
        expected = None if below is None else tuple(below)
        return Query(start, self.at + 1, conditions, sql, types, sort, label, connection, expected)
