"""The line editor: several lines, history, highlighting, completion (prompt_toolkit, pygments)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from ..engine.quoting import quoted
from ..sql import errors
from ..sql.reserved import RESERVED
from .dot_commands import COMMANDS
from .shell import complete, meant

if TYPE_CHECKING:
    from .shell import Shell

_WORD = re.compile(r"[^\W\d][\w$]*$")
_BARE = re.compile(r"[^\W\d][\w$]*")
_FILES = (".read", ".open", ".output", ".once", ".import", ".save")
_NAMES = (".schema", ".dump", ".watch", ".verify")
_RELATIONS = ("table", "view", "maintained view")


class SqlCompleter(Completer):
    """Keywords, tables, columns and functions of the database; dot-commands and files.

    The catalog is read anew when a statement may have changed it, never in the midst of typing.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._files = PathCompleter(expanduser=True)
        self._fixed: list[tuple[str, str]] = []
        self._catalog: list[tuple[str, str]] = []

    def refresh(self) -> None:
        """Read the catalog; a transaction that failed is left alone."""
        if self._shell.connection.in_transaction:
            return
        try:
            if not self._fixed:
                words = self._shell.query("SELECT keyword_name FROM duckdb_keywords()")
                own = ("MATERIALIZED", "SUBSCRIBE", "VERIFY", "MUTUALLY")
                functions = self._shell.query(
                    "SELECT DISTINCT function_name FROM duckdb_functions() "
                    "WHERE regexp_full_match(function_name, '[a-z]\\w*')"
                )
                self._fixed = [(w.upper(), "keyword") for (w,) in words]
                self._fixed += [(w, "keyword") for w in own]
                self._fixed += [(f, "function") for (f,) in functions]
            self._catalog = [
                (name, kind)
                for name, kind in self._shell.query(
                    "SELECT table_name, 'table' FROM duckdb_tables() WHERE NOT internal "
                    "AND NOT starts_with(table_name, '__tw_') AND schema_name <> '__tidewheel' "
                    "UNION SELECT view_name, 'maintained view' FROM tidewheel_views() "
                    "UNION SELECT view_name, 'view' FROM duckdb_views() WHERE NOT internal "
                    "AND NOT starts_with(view_name, '__tw_') AND schema_name <> '__tidewheel' "
                    "AND (database_name, schema_name, view_name) NOT IN "
                    "(SELECT (database_name, schema_name, view_name) FROM tidewheel_views()) "
                    "UNION SELECT column_name, 'column of ' || table_name FROM duckdb_columns() "
                    "WHERE NOT internal AND NOT starts_with(table_name, '__tw_') "
                    "AND schema_name <> '__tidewheel'"
                )
            ]
        except errors.Error:
            return

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """What may stand at the cursor."""
        text = document.text_before_cursor
        if text.lstrip().startswith("."):
            yield from self._command(text.lstrip(), document, event)
            return
        opened = text.count('"') % 2 == 1
        found = None if opened else _WORD.search(text)
        typed = text[text.rindex('"') :] if opened else found[0] if found else ""
        if not typed:
            return
        seen: set[str] = set()
        lower = typed.lstrip('"').lower()
        for name, kind in self._catalog if opened else (*self._catalog, *self._fixed):
            if name.lower().startswith(lower) and name.lower() not in seen:
                seen.add(name.lower())
                shown = name.lower() if kind == "keyword" and typed.islower() else name
                if kind not in ("keyword", "function") and (opened or not _is_bare(name)):
                    shown = quoted(name)
                yield Completion(shown, -len(typed), display_meta=kind)

    def _command(self, text: str, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        word, space, rest = text.partition(" ")
        if not space:
            for name, found in COMMANDS.items():
                if name.startswith(word[1:]):
                    yield Completion(name, -len(word) + 1, display_meta=found.about)
        elif word in _FILES:
            yield from self._files.get_completions(Document(rest, len(rest)), event)
        elif word in _NAMES:
            for name, kind in self._catalog:
                if kind in _RELATIONS and name.lower().startswith(rest.lstrip('"').lower()):
                    yield Completion(name if _is_bare(name) else quoted(name), -len(rest))


def _is_bare(name: str) -> bool:
    """Is it a name without quotes?"""
    return _BARE.fullmatch(name) is not None and name.lower() not in RESERVED


def _history() -> History:
    path = Path(os.environ.get("TIDEWHEEL_HISTORY", "~/.tidewheel_history")).expanduser()
    try:
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def make_session(shell: Shell) -> PromptSession[str]:
    """The editor: Enter runs a dot-command or a statement that ends with a semicolon."""
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = meant(buffer.text)
        if not text.strip() or text.lstrip().startswith(".") or complete(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    completer = SqlCompleter(shell)
    session: PromptSession[str] = PromptSession(
        "tidewheel> ",
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "." * (width - 2) + "> ",
        key_bindings=keys,
        completer=completer,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        history=_history(),
        enable_history_search=True,
    )
    shell.before_prompt = completer.refresh
    return session
