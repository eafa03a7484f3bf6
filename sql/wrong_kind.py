"""Statements that take a view for a table, or the other way round, and words of other systems."""

from __future__ import annotations

import re

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


ELSEWHERE = {
    "SAVEPOINT": "there are no savepoints: BEGIN … COMMIT is all or nothing",
    "RELEASE": "there are no savepoints: BEGIN … COMMIT is all or nothing",
    "GRANT": "there are no users and rights: who opens the file may do everything",
    "REVOKE": "there are no users and rights: who opens the file may do everything",
    "LOCK": "leave it out: writers take turns by themselves, and readers never wait",
    "LISTEN": "SUBSCRIBE TO view follows what commits change",
    "TAIL": "SUBSCRIBE TO view follows what commits change",
    "DECLARE": "leave it out: the rows of every SELECT are computed as they are read",
}
"""By the verb that other systems have: what is here."""
