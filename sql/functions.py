"""Which functions a connection has, by DuckDB's own list.

To read the list takes as long as to plan a query, so it is kept until a function may have come or
gone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import duckdb

from .statements import Statement

_LIST = """
SELECT DISTINCT lower(function_name), function_type, macro_definition, internal,
       stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY') AND function_name <> 'error'
FROM duckdb_functions()
WHERE function_type = 'aggregate' OR macro_definition IS NOT NULL
   OR stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY')
"""
_RELATIONS = frozenset({"TABLE", "VIEW", "INDEX", "SEQUENCE", "TYPE"})


@dataclass(frozen=True, slots=True)
class Functions:
    """Names in lower case."""

    aggregates: frozenset[str]
    unstable: frozenset[str]
    """Those whose value is not a function of the tables."""
    macros: dict[str, str]
    """The definitions of the macros that somebody made."""
    aggregating: frozenset[str]
    """The scalar macros, DuckDB's own among them, that use aggregates, subqueries or UNNEST."""


_versions = itertools.count(1)
_version = next(_versions)
_kept: WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[int, Functions]] = WeakKeyDictionary()


def changed() -> None:
    """A function may have come or gone, in any connection of this process."""
    global _version
    _version = next(_versions)


def may_change(statement: Statement) -> bool:
    """May a statement that is not about rows make or drop a function? Never wrongly no."""
    words = set(statement.words)
    if words & {"MACRO", "FUNCTION"} or statement.words[0] not in ("CREATE", "DROP", "ALTER"):
        return True
    return not words & _RELATIONS


def of(connection: duckdb.DuckDBPyConnection) -> Functions:
    """The functions that statements on `connection` can call now."""
    kept = _kept.get(connection)
    version = _version
    if kept is None or kept[0] != version:
        kept = _kept[connection] = (version, _read(connection))
    return kept[1]


def _read(connection: duckdb.DuckDBPyConnection) -> Functions:
    rows = connection.sql(_LIST).fetchall()
    aggregates = frozenset(name for name, kind, *_ in rows if kind == "aggregate")
    macros = [row[:4] for row in rows if row[2] is not None]
    wanted = aggregates | {"select", "unnest"}
    return Functions(
        aggregates=aggregates,
        unstable=frozenset(row[0] for row in rows if row[4]),
        macros={name: text for name, _, text, internal in macros if not internal},
        aggregating=frozenset(
            name
            for name, kind, text, _ in macros
            if kind == "macro" and any(word.lower() in wanted for word in re.findall(r"\w+", text))
        ),
    )
