"""What DuckDB asks of a row of a table, where that can be told without DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.quoting import parts_of_key
from tidewheel.sql.capture import TableInfo

_PLACE = "database_name, schema_name, table_name"
_QUERY = f"""
SELECT what, names FROM (
    SELECT {_PLACE}, constraint_type AS what, constraint_column_names AS names
    FROM duckdb_constraints()
    UNION ALL SELECT {_PLACE}, 'INDEX', [] FROM duckdb_indexes()
    UNION ALL SELECT {_PLACE}, 'DEFAULT', [column_name] FROM duckdb_columns()
    WHERE column_default IS NOT NULL
    UNION ALL SELECT {_PLACE}, 'GENERATED', [] FROM duckdb_columns() WHERE is_generated
    UNION ALL SELECT {_PLACE}, 'COLLATED', [] FROM duckdb_tables()
    WHERE sql ILIKE '%collate%' OR current_setting('default_collation') <> ''
) WHERE (lower(database_name), lower(schema_name), lower(table_name)) = ($1, $2, $3)
UNION ALL SELECT CASE WHEN readonly THEN 'READONLY' ELSE 'MEMORY' END, [] FROM duckdb_databases()
WHERE lower(database_name) = $1 AND (readonly OR path IS NULL)
"""
_UNKNOWN = {"CHECK", "UNIQUE", "FOREIGN KEY", "INDEX", "GENERATED", "COLLATED", "READONLY"}


@dataclass(frozen=True, slots=True)
class Rules:
    """Columns are positions. A row that is of the columns' types is taken if none of those that are
    `required` is NULL, and no other row has its values in those of the `key`."""

    required: frozenset[int]
    key: tuple[int, ...]
    may_wait: bool
    """Is the database in memory, and nobody else's?"""
    place: Mapping[str, int]
    """Of each column, by its name in lower case."""
    defaults: frozenset[int]
    """Columns that are not NULL where a row says nothing."""

    def whole(self, names: Sequence[str], values: Sequence[object]) -> list[object] | None:
        """A row of which some columns are given; None if only DuckDB can tell the others."""
        given = {self.place.get(name): value for name, value in zip(names, values, strict=False)}
        others = set(range(len(self.place))) - given.keys()
        if None in given or len(given) < max(len(names), len(values)) or others & self.defaults:
            return None
        return [given.get(i) for i in range(len(self.place))]

    def lacks(self, row: Sequence[object]) -> bool:
        """Is a value NULL that must not be?"""
        return any(row[i] is None for i in self.required)


def rules(
    connection: duckdb.DuckDBPyConnection, key: str, info: TableInfo, private: bool
) -> Rules | None:
    """Those of the table that `key` names; None if only DuckDB can tell what it takes.

    `private`: can nobody but this session reach the database that it has opened?
    """
    if info.layout is None or info.has_triggers or info.referenced:
        return None
    place = {name.lower(): i for i, name in enumerate(info.columns)}
    if len(place) < len(info.columns):
        return None
    found = connection.execute(_QUERY, [part.lower() for part in parts_of_key(key)]).fetchall()
    if _UNKNOWN & {what for what, _ in found}:
        return None
    primary = tuple(place[name.lower()] for name in info.key)
    if not all(names_rows(info.layout.types[i]) for i in primary):
        return None
    required, defaults = (
        {place[n.lower()] for what, names in found if what == wanted for n in names}
        for wanted in ("NOT NULL", "DEFAULT")
    )
    may_wait = private and any(what == "MEMORY" for what, _ in found)
    return Rules(frozenset(required | set(primary)), primary, may_wait, place, frozenset(defaults))


def names_rows(kind: pa.DataType) -> bool:
    """Is a key of this type one by what equals it in Python?"""
    t = pa.types
    return bool(t.is_integer(kind) or t.is_string(kind) or t.is_date32(kind))
