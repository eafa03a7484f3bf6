"""What DuckDB calls the types of Arrow."""

from __future__ import annotations

import functools
import re

from tidewheel.engine.arrow import is_tuple, pa
from tidewheel.engine.keywords import KEYWORDS
from tidewheel.engine.quoting import quoted


@functools.cache
def _names() -> dict[pa.DataType, str]:
    return {
        pa.null(): "NULL",
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.uint8(): "UTINYINT",
        pa.uint16(): "USMALLINT",
        pa.uint32(): "UINTEGER",
        pa.uint64(): "UBIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.string(): "VARCHAR",
        pa.large_string(): "VARCHAR",
        pa.string_view(): "VARCHAR",
        pa.binary(): "BLOB",
        pa.large_binary(): "BLOB",
        pa.binary_view(): "BLOB",
        pa.date32(): "DATE",
        pa.time64("us"): "TIME",
        pa.time64("ns"): "TIME_NS",
        pa.timestamp("s"): "TIMESTAMP_S",
        pa.timestamp("ms"): "TIMESTAMP_MS",
        pa.timestamp("us"): "TIMESTAMP",
        pa.timestamp("ns"): "TIMESTAMP_NS",
        pa.month_day_nano_interval(): "INTERVAL",
        pa.duration("us"): "INTERVAL",
    }


_OPAQUE = {"time_tz": "TIME WITH TIME ZONE"}


def is_variant(field: pa.Field) -> bool:
    """Is a field a VARIANT, or has it one inside? Only the metadata tell it from a STRUCT."""
    told = (field.metadata or {}).get(b"ARROW:extension:name")
    inner = (field.type.field(i) for i in range(field.type.num_fields))
    return told == b"arrow.parquet.variant" or any(map(is_variant, inner))


def sql_name_of(field: pa.Field) -> str:
    """DuckDB's name of the type of a result's column."""
    told = (field.metadata or {}).get(b"ARROW:extension:name")
    return _TOLD.get(told or b"") or sql_name(field.type)


_TOLD = {b"arrow.parquet.variant": "VARIANT", b"geoarrow.wkb": "GEOMETRY"}


def sql_name(t: pa.DataType) -> str:
    """DuckDB's name of a type in its lossless Arrow form; an ENUM's values are not part of it."""
    if t in (names := _names()):
        return names[t]
    if isinstance(t, pa.OpaqueType):
        return _OPAQUE.get(t.type_name) or str(t.type_name).upper()
    if isinstance(t, pa.UuidType):
        return "UUID"
    if isinstance(t, pa.Bool8Type):
        return "BOOLEAN"
    if isinstance(t, pa.BaseExtensionType):
        name: str = t.extension_name
        return name.rpartition(".")[2].upper()
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return "TIMESTAMPTZ_NS" if t.unit == "ns" else "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_dictionary(t):
        return "ENUM"
    if pa.types.is_fixed_size_list(t):
        return f"{sql_name_of(t.value_field)}[{t.list_size}]"
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return f"{sql_name_of(t.value_field)}[]"
    if pa.types.is_map(t):
        return f"MAP({sql_name(t.key_type)}, {sql_name_of(t.item_field)})"
    if is_tuple(t):
        return f"TUPLE({', '.join(map(sql_name_of, t))})"
    if pa.types.is_struct(t) or pa.types.is_union(t):
        word = "STRUCT" if pa.types.is_struct(t) else "UNION"
        fields = (f"{_quoted(f.name)} {sql_name_of(f)}".strip() for f in t)
        return f"{word}({', '.join(fields)})" if t.num_fields else word
    return str(t)


@functools.lru_cache(maxsize=4096)
def _quoted(name: str) -> str:
    """A field's name as DuckDB shows it: in quotes if it is a word of the grammar."""
    plain = _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS
    return name if plain or not name else quoted(name)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
