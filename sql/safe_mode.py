"""Safe mode: SQL that reaches nothing but the database that was opened.

DuckDB enforces it: external access is off for the life of the process's database and the
configuration is locked, so no text that gets past `check` opens a file. `check` comes first to say
it plainly, and to cover what is ours: settings, Spark, and the tables in which views are kept. What
changes those must name them; `query_table` and `query` compute the name of what they read, and that
is no more than `tidewheel_views()` tells.
"""

from __future__ import annotations

from typing import Any

from ..planner import meaning
from . import errors
from .statements import Kind, Statement, tokens

CONFIG: dict[str, Any] = {
    "enable_external_access": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    # What sessions set on their connections otherwise: the lock forbids it.
    "errors_as_json": True,
    "arrow_lossless_conversion": True,
    # What a view needs that was made under other settings; `check` refuses SET all the same.
    "allowed_configs": list(meaning.DEFAULTS),
}
"""DuckDB's settings, given when the database is opened."""

_VERBS = {
    "ATTACH": "other databases are out of reach",
    "DETACH": "other databases are out of reach",
    "COPY": "files are out of reach",
    "EXPORT": "files are out of reach",
    "IMPORT": "files are out of reach",
    "INSTALL": "extensions are out of reach",
    "FORCE": "extensions are out of reach",
    "LOAD": "extensions are out of reach",
    "SET": "settings cannot be changed",
    "RESET": "settings cannot be changed",
}
_PRAGMAS = {
    "COLLATIONS", "DATABASE_LIST", "DATABASE_SIZE", "FUNCTIONS", "SHOW", "SHOW_DATABASES",
    "SHOW_TABLES", "SHOW_TABLES_EXPANDED", "STORAGE_INFO", "TABLE_INFO", "VERSION",
}  # fmt: skip
_OWN_TABLES = "__tidewheel"
_HINT = "the database was opened with safe_mode=True (--safe)"


def config(given: dict[str, Any]) -> dict[str, Any]:
    """DuckDB's configuration for a safe database; ProgrammingError if `given` contradicts it."""
    for name in given.keys() & CONFIG.keys():
        if str(given[name]).lower() != str(CONFIG[name]).lower():
            raise errors.ProgrammingError(
                f"{name} = {given[name]} contradicts safe_mode", hint="leave one of them out"
            )
    return {**given, **CONFIG}


def _own_tables(text: str) -> int | None:
    """Where it names the tables that keep the views' definitions; to leave them out does not."""
    for token in tokens(text):
        at = token.text.lower().find(_OWN_TABLES)
        compared = text[: token.start].rstrip().endswith(("<>", "!="))
        if at >= 0 and not (compared and token.text == f"'{_OWN_TABLES}'"):
            return token.start + at
    return None


def check(statement: Statement) -> None:
    """Raise `NotSupportedError` for a statement that has no place in safe mode."""
    parts = list(tokens(statement.text))
    words = [t.text.upper() for t in parts[:8]]
    verb, second = words[0], words[1] if len(words) > 1 else ""
    reason = None
    if verb in ("SET", "RESET") and second == "VARIABLE":
        return
    if verb in _VERBS:
        reason = _VERBS[verb]
    elif verb == "UPDATE" and second == "EXTENSIONS":
        reason = "extensions are out of reach"
    elif verb in ("CREATE", "DROP") and "SECRET" in words[1:5]:
        reason = "secrets are out of reach"
    elif verb == "PRAGMA" and second not in _PRAGMAS:
        reason = "settings cannot be changed"
    elif statement.kind is Kind.OURS and verb == "VERIFY" and "SPARK" in words:
        reason = "Spark is out of reach"
    if reason is not None:
        raise _refused(f"safe mode: {verb} is not allowed, {reason}", statement, 0, len(verb))
    at = _own_tables(statement.text)
    if at is not None:
        message = f"safe mode: the schema {_OWN_TABLES} is out of reach"
        raise _refused(message, statement, at, len(_OWN_TABLES))


def _refused(message: str, statement: Statement, at: int, length: int) -> errors.Error:
    return errors.NotSupportedError(
        message, hint=_HINT, text=statement.script, position=statement.start + at, length=length
    )


def explain(error: errors.Error) -> None:
    """Say in DuckDB's refusal whose will it is."""
    if "by configuration" in error.message or "disabled through configuration" in error.message:
        error.message, error.hint = f"safe mode: {error.message}", _HINT
    elif "the configuration has been locked" in error.message:
        error.message, error.hint = "safe mode: settings cannot be changed", _HINT
