"""What the database holds: relations, their columns, and the version that plans are cached by."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb

_versions = itertools.count(1)
# One number for the whole process: a table may be changed through any connection to its file.
_version = next(_versions)
_settings = next(_versions)
_changing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view: its place, and its columns as (name, DuckDB type)."""

    database: str
    schema: str
    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]


class Catalog:
    """Names and types in one connection's database, asked of DuckDB when they are needed."""

    def __init__(
        self, connection: Callable[[], duckdb.DuckDBPyConnection], lock: threading.RLock
    ) -> None:
        self._connection = connection
        self._lock = lock
        self._names: tuple[int, tuple[str, ...]] = (0, ())
        self._described: dict[str, tuple[tuple[str, str], ...]] = {}
        self._described_at = 0
        self._own_parents: tuple[int, frozenset[str]] = (0, frozenset())

    @property
    def version(self) -> int:
        """Grows with every statement that may have changed a catalog in this process."""
        return _version

    def changed(self) -> tuple[int, int]:
        """Tables, views, types, functions or settings may be others now; the old and new version.

        What was read at the old one is known to have changed in nothing else.
        """
        global _version
        with _changing:
            old, _version = _version, next(_versions)
            return old, _version

    @property
    def settings_version(self) -> int:
        """Grows with every statement that may have changed a setting in this process."""
        return _settings

    def settings_changed(self) -> None:
        """Settings of DuckDB may be others now."""
        global _settings
        _settings = next(_versions)

    def describe(self, query: str) -> Sequence[tuple[str, str]]:
        """Names and DuckDB types of a query's columns, by DuckDB's binder; nothing runs."""
        if self._described_at != self.version:
            self._described.clear()
            self._described_at = self.version
        found = self._described.get(query)
        if found is None:
            with self._lock:
                rows = self._connection().execute(f"DESCRIBE {query}").fetchall()
            found = self._described[query] = tuple((r[0], r[1]) for r in rows)
        return found

    def names(self) -> tuple[str, ...]:
        """Names of all tables and views, qualified where they need it: for near misses."""
        if self._names[0] != self.version:
            with self._lock:
                con = self._connection()
                rows = con.execute(
                    "SELECT CASE WHEN schema_name = current_schema() AND "
                    "database_name = current_database() OR temporary THEN name "
                    "ELSE schema_name || '.' || name END FROM ("
                    "SELECT database_name, schema_name, table_name AS name, temporary "
                    "FROM duckdb_tables() WHERE NOT internal UNION ALL "
                    "SELECT database_name, schema_name, view_name, temporary "
                    "FROM duckdb_views() WHERE NOT internal) WHERE NOT starts_with(name, '__tw_') "
                    "AND schema_name <> '__tidewheel' "
                    "ORDER BY 1"
                ).fetchall()
            self._names = (self.version, tuple(r[0] for r in rows))
        return self._names[1]

    def has_own_parent(self, table: str) -> bool:
        """Is there a table of a name whose rows refer to others of its own?"""
        if self._own_parents[0] != self.version:
            with self._lock:
                rows = self._connection().execute(
                    "SELECT DISTINCT lower(table_name) FROM duckdb_constraints() "
                    "WHERE constraint_type = 'FOREIGN KEY' AND referenced_table = table_name"
                )
                found = frozenset(name for (name,) in rows.fetchall())
            self._own_parents = self.version, found
        return table.lower() in self._own_parents[1]

    def relations(self) -> list[Relation]:
        """All tables and views that are not DuckDB's own, with their columns."""
        with self._lock:
            con = self._connection()
            rows = con.execute(
                "SELECT c.database_name, c.schema_name, c.table_name, "
                "CASE WHEN v.view_name IS NULL THEN 'table' ELSE 'view' END, "
                "list((c.column_name, c.data_type) ORDER BY c.column_index) "
                "FROM duckdb_columns() AS c LEFT JOIN duckdb_views() AS v "
                "ON v.view_oid = c.table_oid AND v.database_oid = c.database_oid "
                "WHERE NOT c.internal GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3"
            ).fetchall()
        return [
            Relation(database, schema, name, kind, tuple(tuple(c) for c in columns))
            for database, schema, name, kind, columns in rows
        ]
