"""The exceptions of PEP 249, each with the place of the mistake and what would be right.

`sql/diagnose.py` makes them from what DuckDB and sqlglot raise.
"""

from __future__ import annotations


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
        self.length = max(length, 1)
        self._place(text, position)

    def _place(self, text: str | None, position: int | None) -> None:
        self._text, self._position = text, position
        if text is None or position is None or not 0 <= position <= len(text):
            return
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", start)
        self.source_line = text[start : end if end >= 0 else len(text)].rstrip("\r")
        self.line = text.count("\n", 0, position) + 1
        self.column = position - start + 1
        self.length = max(1, min(self.length, len(self.source_line) - self.column + 1))

    def offset_in(self, text: str) -> int | None:
        """Where in `text` the error is, if that is the text that it knows a place of."""
        return self._position if self._text == text else None

    def replace(self, text: str, position: int | None, length: int) -> None:
        """Another place; None: no place is known."""
        self.line = self.column = self.source_line = None
        self.length = max(length, 1)
        self._place(text, position)

    def move(self, text: str, script: str, start: int) -> None:
        """A place in `text` becomes one in `script`, which has it at `start`."""
        if self._text == text and self._position is not None:
            self._place(script, start + self._position)

    @property
    def place(self) -> str | None:
        """The line with the place underlined, if one is known."""
        if self.source_line is None or self.line is None or self.column is None:
            return None
        return _underlined(self.source_line, self.line, self.column, self.length)

    def __str__(self) -> str:
        hint = f"Hint: {self.hint}" if self.hint else None
        return "\n".join(filter(None, (self.message, self.place, hint)))


_WIDTH = 100


def _columns(character: str) -> int:
    """How many columns of a terminal it takes."""
    if character.isascii():
        return 1
    from rich.cells import cell_len  # few need it

    return cell_len(character)


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
    at = start - left
    lead = "".join("\t" if c == "\t" else " " * _columns(c) for c in excerpt[:at])
    carets = "^" * max(1, sum(map(_columns, excerpt[at : at + length])))
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
