"""The base tables that views read: what change capture needs to know of them."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import arrow_types
from tidewheel.sql import hidden
from tidewheel.sql.capture import TableInfo, quote


def table_info(connection: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> dict[str, TableInfo]:
    """What change capture needs to know of tables."""
    # Imported here: it takes long to load, and not everybody has views.
    from tidewheel.engine.state.delta import Schema

    found: dict[str, TableInfo] = {}
    triggers = {
        f"{d}.{s}.{t}".lower()
        for d, s, t in connection.execute(
            "SELECT database_name, schema_name, table_name FROM duckdb_triggers()"
        ).fetchall()
    }
    rows = connection.execute(
        "SELECT database_name, schema_name, table_name, "
        "  (SELECT constraint_column_names FROM duckdb_constraints() c "
        "   WHERE c.table_oid = t.table_oid AND c.database_oid = t.database_oid "
        "   AND constraint_type = 'PRIMARY KEY'), "
        "  EXISTS (FROM duckdb_constraints() c WHERE c.database_oid = t.database_oid "
        "   AND c.schema_oid = t.schema_oid AND referenced_table = t.table_name) "
        "FROM duckdb_tables() t"
    ).fetchall()
    wanted = set(keys)
    for database, schema, table, primary, referenced in rows:
        key = f"{database}.{schema}.{table}".lower()
        if key not in wanted:
            continue
        name = ".".join(map(quote, (database, schema, table)))
        labels, types = zip(*hidden.describe(connection, f"FROM {name}", None), strict=True)
        arrow = pa.schema(zip(labels, arrow_types(connection, types), strict=True))
        plain = all(map(_is_plain, arrow.types))
        dates = any(map(pa.types.is_date32, arrow.types))  # Python's last day may be infinity
        found[key] = TableInfo(
            name,
            tuple(arrow.names),
            tuple(primary or ()),
            key in triggers,
            arrow if plain and not dates else None,
            Schema.of(arrow) if plain else None,
            referenced,
        )
    return found


def _is_plain(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_boolean(t)
        or pa.types.is_string(t)
        or pa.types.is_decimal128(t)
        or pa.types.is_date32(t)
    )
