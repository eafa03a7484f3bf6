"""The type objects of PEP 249."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable
from typing import Any


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
DATE TIME TIME_NS TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMPTZ_NS INTERVAL
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
