"""What `Connection.append` writes for a value of one type into a column of another.

A value must fit its column without losing anything: numbers go into numbers (a fraction not into an
integer, and into a DECIMAL none that is too long), dates and timestamps into each other where
nothing is cut off, text into types that Arrow has no name for (ENUM, UUID, JSON …). So it is with
what lists, structs and maps hold. Anything else is refused before a row is written. Only floating
point is rounded: into it, and from it into a DECIMAL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.quoting import quoted

from . import errors

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
             "UINTEGER", "UBIGINT", "UHUGEINT", "BIGNUM"}  # fmt: skip
_NUMBERS = _INTEGERS | {"DECIMAL", "FLOAT", "DOUBLE"}
_AS_TEXT = {"ENUM", "UUID", "JSON", "BIT", "BIGNUM", "INTERVAL", "TIME WITH TIME ZONE"}
_COARSER = {
    "TIMESTAMP_NS": ("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S", "DATE"),
    "TIMESTAMP": ("TIMESTAMP_MS", "TIMESTAMP_S", "DATE"),
    "TIMESTAMP_MS": ("TIMESTAMP_S", "DATE"),
    "TIMESTAMP_S": ("DATE",),
    "TIMESTAMPTZ_NS": ("TIMESTAMP WITH TIME ZONE",),
    "TIME_NS": ("TIME",),
}
"""What may be cut off a moment, which is then looked at."""
_NESTED = ("list", "array", "struct", "map")


class Values:
    """Finds what is inserted; `connection` knows the types."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def of(self, name: str, given: str, column: str, wanted: str, depth: int = 0) -> str:
        """What is inserted for `name` of type `given`; ProgrammingError if it cannot fit."""
        a, b = _base(given), _base(wanted)
        if a == b == "DECIMAL" and given != wanted:
            return _exact(name, f"TRY_CAST({name} AS {wanted})", column, wanted)
        if a == b or (a == '"NULL"'):
            return name
        if a in _NUMBERS and b in _NUMBERS:
            if b in _INTEGERS and a not in _INTEGERS:
                return _exact(name, f"trunc({name})", column, wanted)
            return name
        if b in _COARSER.get(a, ()):
            # (nanoseconds DuckDB casts to seconds by way of microseconds only)
            micros = f"CAST({name} AS TIMESTAMP)" if "TIMESTAMP" in _COARSER[a] else name
            return _exact(name, f"CAST({micros} AS {b})", column, wanted)
        if a == "VARCHAR" and b in _AS_TEXT:
            return name
        nested = all(t.endswith("]") or t.startswith(("STRUCT", "MAP", "UNION")) for t in (a, b))
        if nested:
            return self._nested(name, given, column, wanted, depth)
        if self._implicit(given, wanted):
            return name
        raise _unfit(given, column, wanted)

    def _nested(self, name: str, given: str, column: str, wanted: str, depth: int) -> str:
        """The same of every value within; just `name` where DuckDB's cast loses nothing."""
        here, there = self._parsed(given), self._parsed(wanted)
        if here is None or there is None or not {here.id, there.id} <= set(_NESTED):
            return name
        inner = f"v{depth}"
        within = {label: str(kind) for label, kind in here.children}
        target = {label: str(kind) for label, kind in there.children}
        lists = ("list", "array")
        if here.id in lists and there.id in lists:
            element = self.of(inner, within["child"], f"{column}[]", target["child"], depth + 1)
            return (
                name if element == inner else f"list_transform({name}, lambda {inner}: {element})"
            )
        if here.id == "struct" and there.id in ("struct", "map"):
            known = {label.lower(): kind for label, kind in target.items()}
            fields = []
            for label, kind in within.items():
                wants = target["value"] if there.id == "map" else known.get(label.lower())
                if wants is None:
                    raise errors.ProgrammingError(
                        f"column {column} has no field {label}", hint=f"it has {', '.join(target)}"
                    )
                part, place = f"{name}.{quoted(label)}", f"{column}.{label}"
                fields.append((label, part, self.of(part, kind, place, wants, depth + 1)))
            if all(part == value for _, part, value in fields):
                return name
            packed = ", ".join(f"{quoted(label)} := {value}" for label, _, value in fields)
            return f"CASE WHEN {name} IS NOT NULL THEN struct_pack({packed}) END"
        if here.id == there.id == "map":
            parts = [(f"{inner}.{p}", within[p], target[p]) for p in ("key", "value")]
            key, value = (self.of(p, k, f"{column}[]", wants, depth + 1) for p, k, wants in parts)
            if (key, value) == (parts[0][0], parts[1][0]):
                return name
            entry = f"struct_pack(key := {key}, value := {value})"
            entries = f"list_transform(map_entries({name}), lambda {inner}: {entry})"
            return f"map_from_entries({entries})"
        return name

    def _parsed(self, kind: str) -> DuckDBPyType | None:
        try:
            return self._connection.type(kind)
        except duckdb.Error:  # a row of no names
            return None

    def _implicit(self, given: str, wanted: str) -> bool:
        query = f"SELECT can_cast_implicitly(NULL::{given}, NULL::{wanted})"
        return bool(self._connection.execute(query).fetchall()[0][0])


def _unfit(given: str, column: str, wanted: str) -> errors.Error:
    return errors.ProgrammingError(
        f"column {column} is {wanted}, the data have {given}",
        hint="convert the column before it is appended",
    )


def _exact(name: str, converted: str, column: str, wanted: str) -> str:
    message = f"column {column} is {wanted}, which does not hold ".replace("'", "''")
    failed = f"error('{message}' || {name})"
    return f"CASE WHEN {name} IS DISTINCT FROM {converted} THEN {failed} ELSE {converted} END"


def _base(kind: str) -> str:
    """A type without its parameters; nested ones as they are."""
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
        return kind
    return kind.partition("(")[0]
