"""What a connection knows about the texts that are cut out of a statement with recursions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import duckdb

from tidewheel.engine.quoting import quoted

from ..engine.kernels.duckdb import relation
from ..planner.text import numbered_parameters
from . import functions, hidden
from .search_path import search_path
from .statements import tokens


class Describer:
    """A `Describe` that asks a connection; nothing runs."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, parameters: object = None) -> None:
        self._connection = connection
        self._parameters = parameters

    def __call__(self, sql: str) -> Sequence[tuple[str, str]]:
        given = numbered(sql, self._parameters)
        known = None if given else hidden.bound(self._connection, sql)
        if known is not None:
            return known
        found = relation(self._connection, sql, params=given)
        return list(zip(found.columns, (str(t) for t in found.types), strict=True))

    def table(self, name: str) -> str | None:
        """The whole name of the table that a name means.

        Views do not count: one may be made by the very text that is read.
        """
        query = (
            "SELECT database_name, schema_name, table_name FROM duckdb_tables() "
            "WHERE lower(table_name) = lower(?)"
        )
        found = self._connection.execute(query, [name]).fetchall()
        if not found:
            return None
        known = {tuple(map(str.lower, parts)): parts for parts in found}
        _, path = search_path(self._connection)
        first = next((full for full in path.candidates([name], ()) if full in known), None)
        return None if first is None else ".".join(map(quoted, known[first]))

    def is_steady(self, text: str) -> bool:
        """Does what a query calls, macros included, give the same each time?"""
        known = functions.of(self._connection)
        return not any(functions.is_unstable(word, known) for _, word in functions.calls(text))

    @cached_property
    def collated(self) -> bool:
        """May text that is read have a collation? DuckDB's types do not tell."""
        query = (
            "SELECT current_setting('default_collation') <> '' OR EXISTS "
            "(FROM duckdb_tables() WHERE NOT internal AND sql ILIKE '%collate%')"
        )
        return bool(self._connection.execute(query).fetchall()[0][0])


def numbered(sql: str, parameters: Any) -> Any:
    """The parameters that a text needs which was cut from a statement, or is one itself."""
    positional = isinstance(parameters, Sequence)
    if positional and any(t.kind == "parameter" and t.text == "?" for t in tokens(sql)):
        return parameters
    return numbered_parameters(sql, parameters)
