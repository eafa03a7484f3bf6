"""Queries that ask for all of a maintained view: its rows are there, DuckDB need not read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.sql import errors
from tidewheel.sql.reads import Names

if TYPE_CHECKING:
    from tidewheel.sql.view_reading import Reading

_WHOLE = re.compile(r"\s*(?:SELECT\s+\*\s+)?FROM\s+(\w+(?:\.\w+){0,2})\s*", re.IGNORECASE)
_KEPT = 256


@dataclass
class _Known:
    """What a text means in a version of the catalog; found out when it comes a second time.

    (Of a view that was just made it is known.)
    """

    version: object
    asked: bool = False
    key: str | None = None
    schema: pa.Schema | None = None


class WholeViews:
    """The texts of one connection that may be such queries."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def find(self, text: str, views: Reading) -> tuple[str, pa.Schema] | None:
        """The view that a text asks for, and the schema of DuckDB's answer; None: ask DuckDB."""
        match = _WHOLE.fullmatch(text)
        if match is None:
            return None
        version = views.host.version
        known = self._known.get(text)
        if known is None or known.version != version:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[text] = _Known(version)
            made = views.answer(match[1].split("."))
            if made is None:
                return None
            known.asked, (known.key, known.schema) = True, made
        if not known.asked:
            known.asked = True
            _learn(known, text, match[1].split("."), views)
        if known.key is None or known.schema is None:
            return None
        return known.key, known.schema


def _learn(known: _Known, text: str, parts: list[str], views: Reading) -> None:
    relation = Names(views.host.connection).find(parts)
    if relation is None or relation.key not in views.registry.views:
        return
    try:
        known.schema = views.host.table(f"{text} LIMIT 0").schema
    except (errors.Error, duckdb.Error):
        return  # the text itself will tell what is wrong
    known.key = relation.key
