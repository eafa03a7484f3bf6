"""The exceptions of PEP 249, each with the place of the mistake and what would be right."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

import duckdb


class Warning(Exception):
    """An important notice; PEP 249 asks for the class, nothing raises it."""


class Error(Exception):
    """Base of all errors of Tidewheel.

    `message` is what is wrong, `hint` what would be right; `line` and `column` (from 1, in
    characters) and `source_line` say where, all None where no place is known. `str()` of the
    error is all of it, with the place underlined.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        text: str | None = None,
        position: int | None = None,
        length: int = 1,
    ) -> None:
        """`position` is an offset in characters into `text`, `length` the extent to underline."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line: int | None = None
        self.column: int | None = None
        self.source_line: str | None = None
        self._length = max(length, 1)
        self._place(text, position)

    def _place(self, text: str | None, position: int | None) -> None:
        if text is None or position is None or not 0 <= position <= len(text):
            return
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", start)
        self.source_line = text[start : end if end >= 0 else len(text)].rstrip("\r")
        self.line = text.count("\n", 0, position) + 1
        self.column = position - start + 1
        self._length = max(1, min(self._length, len(self.source_line) - self.column + 1))

    def __str__(self) -> str:
        parts = [self.message]
        if self.source_line is not None and self.line is not None and self.column is not None:
            parts.append(_underlined(self.source_line, self.line, self.column, self._length))
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


_WIDTH = 100


def _underlined(source: str, line: int, column: int, length: int) -> str:
    """The line with the place underlined; a long line is cut to a window around the place."""
    start = column - 1
    left = 0
    if len(source) > _WIDTH:
        left = max(0, min(start - _WIDTH // 3, len(source) - _WIDTH))
    excerpt = source[left : left + _WIDTH]
    before = "…" if left else ""
    after = "…" if left + _WIDTH < len(source) else ""
    prefix = f"LINE {line}: {before}"
    # Tabs stay tabs, so that the mark stands under the place however wide they are shown.
    lead = "".join("\t" if c == "\t" else " " for c in excerpt[: start - left])
    carets = "^" * max(1, min(length, _WIDTH - (start - left)))
    return f"{prefix}{excerpt}{after}\n{' ' * len(prefix)}{lead}{carets}"


class InterfaceError(Error):
    """The interface was used wrongly, not the database."""


class DatabaseError(Error):
    """Base of the errors that a statement causes."""


class DataError(DatabaseError):
    """A value does not fit: a cast, an overflow, a value out of range."""


class OperationalError(DatabaseError):
    """Something outside the statement's control: a file, memory, an interruption."""


class Interrupted(OperationalError):
    """The statement was stopped by `interrupt()` or Ctrl-C."""


class IntegrityError(DatabaseError):
    """A constraint would be broken."""


class InternalError(DatabaseError):
    """A mistake of ours or DuckDB's."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: syntax, names, types, parameters."""


class NotSupportedError(DatabaseError):
    """It is understood, and cannot be done."""


_CLASSES: tuple[tuple[type[duckdb.Error], type[Error]], ...] = (
    (duckdb.InterruptException, Interrupted),
    (duckdb.DataError, DataError),
    (duckdb.IntegrityError, IntegrityError),
    (duckdb.OperationalError, OperationalError),
    (duckdb.NotSupportedError, NotSupportedError),
    (duckdb.InternalError, InternalError),
    (duckdb.ProgrammingError, ProgrammingError),
)


def from_duckdb(error: duckdb.Error, script: str = "", start: int = 0, statement: str = "") -> Error:
    """Tidewheel's error for one of DuckDB's, raised by `statement` at `start` of `script`.

    The connection has ``errors_as_json`` on: the message then holds the position in bytes.
    """
    found = next((ours for theirs, ours in _CLASSES if isinstance(error, theirs)), DatabaseError)
    details = _details(str(error))
    message = details.get("exception_message", str(error)).strip()
    position, length = _location(details, statement)
    return found(
        message,
        text=script,
        position=None if position is None else start + position,
        length=length,
    )


def _details(text: str) -> dict[str, str]:
    brace = text.find("{")
    if brace >= 0:
        try:
            loaded = json.loads(text[brace:])
        except ValueError:
            return {}
        if isinstance(loaded, dict):
            return {str(k): str(v) for k, v in loaded.items()}
    return {}


def _location(details: dict[str, str], statement: str) -> tuple[int | None, int]:
    span = re.fullmatch(r"\[(\d+),(\d+)\]", details.get("location", ""))
    if span:
        start, length = int(span[1]), int(span[2])
    elif details.get("position", "").isdecimal():
        start, length = int(details["position"]), 1
    else:
        return None, 1
    raw = statement.encode()
    if start > len(raw):
        return None, 1
    begin = len(raw[:start].decode(errors="ignore"))
    return begin, len(raw[start : start + length].decode(errors="ignore"))


def near_miss(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be."""
    by_lower = {c.lower(): c for c in candidates}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None
