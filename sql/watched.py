"""The base tables that views read: what change capture needs to know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import arrow_types, rows_of, schema_of, states_of
from tidewheel.engine.kernels.duckdb_types import unnamed
from tidewheel.engine.quoting import key_of
from tidewheel.sql import hidden
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.reads import Names

_CONSTRAINTS = """
SELECT database_name, schema_name, table_name, constraint_type, constraint_column_names,
       referenced_table
FROM duckdb_constraints() WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
UNION ALL
SELECT database_name, schema_name, table_name, 'TRIGGER', NULL, NULL FROM duckdb_triggers()
"""


def table_info(
    connection: duckdb.DuckDBPyConnection, names: Names, keys: Iterable[str]
) -> dict[str, TableInfo]:
    """What change capture needs to know of the tables in `keys` and of those with triggers;
    `names`: the catalog as it is now."""
    # Imported here: it takes long to load, and not everybody has views.
    from tidewheel.engine.state.delta import Schema

    found: dict[str, TableInfo] = {}
    primary: dict[str, Sequence[str]] = {}
    referenced: set[str] = set()
    triggers: set[str] = set()
    for database, schema, table, kind, columns, other in rows_of(connection, _CONSTRAINTS):
        key = key_of(database, schema, table)
        if kind == "PRIMARY KEY":
            primary[key] = columns
        elif kind == "FOREIGN KEY":
            referenced.add(key_of(database, schema, other))
        else:
            triggers.add(key)
    wanted = set(keys)
    for relation in names.relations:
        key = relation.key
        if (key not in wanted and key not in triggers) or relation.kind != "table":
            continue
        name = relation.quoted
        labels, types = zip(*hidden.describe(connection, f"FROM {name}", None), strict=True)
        odd = any(map(unnamed, types))
        if odd:
            arrow = schema_of(connection, f"FROM {name} LIMIT 0", {})
        else:
            arrow = pa.schema(zip(labels, arrow_types(connection, types), strict=True))
        plain = not odd and all(map(_is_plain, arrow.types))
        dates = any(map(pa.types.is_date32, arrow.types))  # Python's last day may be infinity
        found[key] = TableInfo(
            name,
            tuple(arrow.names),
            tuple(primary.get(key, ())),
            key in triggers,
            arrow if plain and not dates else None,
            Schema.of(arrow) if not odd and all(map(_is_held, arrow.types)) else None,
            key in referenced,
            key in wanted,
            tuple(i for i, t in enumerate(arrow.types) if _has_alike(t)),
            states=states_of(connection, name) if odd else {},
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


def _is_held(t: pa.DataType) -> bool:
    """Is it plain, a BOOLEAN, or a TIMESTAMP? (Python has not all of these.)"""
    if _is_plain(t) or isinstance(t, pa.Bool8Type):
        return True
    return bool(pa.types.is_timestamp(t) and t.unit == "us" and t.tz is None)


def _has_alike(t: pa.DataType) -> bool:
    """Has a type values that are equal and yet not the same, and that are updated in place?"""
    if pa.types.is_struct(t):
        return any(_has_alike(t.field(i).type) for i in range(t.num_fields))
    return bool(pa.types.is_floating(t) or pa.types.is_interval(t))
