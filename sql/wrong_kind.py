"""Statements that take a view for a table, or the other way round, and forms of our own ones."""

from __future__ import annotations

import re

from .other_systems import elsewhere

_KINDS = re.compile(
    r'Existing object "(?P<name>.*)" is of type (?P<there>Table|View), '
    r"trying to (?:drop|replace with) type \w+"
)
_INDEX = "can only create an index on a base table"
_TRIGGER = "CREATE TRIGGER requires a base table"
_UPKEEP = "Can only vacuum or analyze base tables"
BEFORE_NAME = {_INDEX: "ON", _TRIGGER: "ON", _UPKEEP: ""}
"""By what DuckDB says of a view without its place: the word before its name, or the first one."""


def hint(message: str, name: str, maintained: bool) -> str | None:
    """What would be right; None if the message is of something else. `name`: as it is written."""
    if (kinds := _KINDS.match(message)) is not None:
        kind = "MATERIALIZED VIEW" if maintained else kinds["there"].upper()
        return f"DROP {kind} {name}"
    if message.startswith(_INDEX):
        if maintained:
            return "leave it out: reads by values of a column get an index of their own when needed"
        return "the tables that the view reads can have indexes"
    if message.startswith(_TRIGGER):
        return f"SUBSCRIBE TO {name} follows its changes" if maintained else "name a table"
    if message.startswith(_UPKEEP):
        return "leave it out: a view keeps nothing that could be cleared up"
    return None


_FORMS = {
    "CREATE": "CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(column, …)] AS query",
    "DROP": "DROP MATERIALIZED VIEW [IF EXISTS] name [CASCADE]",
    "SUBSCRIBE": "SUBSCRIBE TO view [AS OF EPOCH n]",
    "VERIFY": "VERIFY VIEW view [AGAINST RECOMPUTE | SPARK]",
}


def form(words: list[str]) -> str | None:
    """How a statement about maintained views is written that begins with `words`."""
    found = _FORMS.get(words[0])
    if words[0] == "CREATE" and "MATERIALIZED" not in words:
        found = None
    return elsewhere(words) or found
