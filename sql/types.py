"""Types: from Arrow to DuckDB's names, and the type objects of PEP 249."""

from __future__ import annotations

import datetime
import functools
import re
import time
from collections.abc import Iterable
from typing import Any

from tidewheel.engine.arrow import is_tuple, pa
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
        return "TIMESTAMP WITH TIME ZONE"
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
        return f"{word}({', '.join(fields)})"
    return str(t)


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name == name.lower()
    return name if plain or not name else quoted(name)


class TypeCode(str):
    """The type of a column in `Cursor.description`: DuckDB's name, equal to its type object."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == self if isinstance(other, TypeObject) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class TypeObject:
    """A type object of PEP 249: equal to the type code of every type of its kind."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self is other
        if not isinstance(other, str) or other.endswith("]"):
            return False
        return other.partition("(")[0] in self._types

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"tidewheel.{self._name}"


STRING = TypeObject("STRING", "VARCHAR", "CHAR", "TEXT", "ENUM", "JSON", "UUID")
BINARY = TypeObject("BINARY", "BLOB", "BIT")
_INTEGERS = """
TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT BIGNUM
"""
_TIMES = """
DATE TIME TIME_NS TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL
"""
NUMBER = TypeObject("NUMBER", *_INTEGERS.split(), "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
DATETIME = TypeObject(
    "DATETIME", *_TIMES.split(), "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"
)
ROWID = TypeObject("ROWID")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date at `ticks` seconds since 1970."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day at `ticks` seconds since 1970."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time at `ticks` seconds since 1970."""
    return datetime.datetime(*time.localtime(ticks)[:6])


def describe(columns: Iterable[tuple[str, str]]) -> list[tuple[Any, ...]]:
    """PEP 249's description of columns, given as names and DuckDB's names of their types.

    That is name and type code; of a DECIMAL precision and scale. All else is None, which PEP 249
    allows.
    """
    return [(name, TypeCode(type_), None, None, *_digits(type_), None) for name, type_ in columns]


def _digits(type_: str) -> tuple[int | None, int | None]:
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else (None, None)


_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
