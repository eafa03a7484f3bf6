"""executemany of a plain INSERT: its rows as one Arrow table instead of a statement each.

Measured: 5,000 rows of two columns in 0.05 s instead of 4.8 s. Whatever is not plainly the same
(values of several types in a column, an expression in VALUES, ON CONFLICT) is left to the long way.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..planner.context import Parameters
from .statements import Statement, Token, tokens

NAME = "__tw_many"
"""The name under which the rows are registered."""
LEAST = 8
"""Fewer rows are not worth it."""

_TYPES: dict[type, pa.DataType | None] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.datetime: pa.timestamp("us"),
    decimal.Decimal: None,  # precision and scale are those of the values
}


def insert(statement: Statement, sets: Sequence[Parameters]) -> tuple[str, pa.Table] | None:
    """An INSERT that reads `NAME`, and the table; None if it must be run once for each set."""
    if len(sets) < LEAST:
        return None
    found = _placeholders(statement)
    if found is None:
        return None
    head, names = found
    columns = _columns(names, sets)
    if columns is None:
        return None
    arrays = [_array(column) for column in columns]
    if any(a is None for a in arrays):
        return None
    labels = [f"c{i}" for i in range(len(arrays))]
    return f"{head} SELECT * FROM {NAME}", pa.table(arrays, names=labels)


def _placeholders(statement: Statement) -> tuple[str, list[str]] | None:
    """What stands before VALUES, and the parameters, if VALUES is one row of nothing else."""
    parts = list(tokens(statement.text))
    if [t.text.upper() for t in parts[:2]] != ["INSERT", "INTO"]:
        return None
    at = next((i for i, t in enumerate(parts) if t.text.upper() == "VALUES"), None)
    if at is None or any(t.kind == "parameter" for t in parts[:at]):
        return None
    row = parts[at + 1 :]
    if len(row) < 3 or row[0].text != "(" or row[-1].text != ")" or len(row) % 2 == 0:
        return None
    values, commas = row[1:-1:2], row[2:-1:2]
    if not all(map(_is_plain, values)) or any(t.text != "," for t in commas):
        return None
    names = [t.text[1:] for t in values]
    if len({bool(n) for n in names}) > 1:
        return None
    return statement.text[: parts[at].start].rstrip(), names


def _is_plain(token: Token) -> bool:
    """``?`` or ``$name``; numbered ones may stand in another order."""
    return token.kind == "parameter" and not token.text[1:].isdecimal()


def _columns(names: list[str], sets: Sequence[Parameters]) -> list[list[Any]] | None:
    if names[0]:
        wanted = set(names)
        if not all(isinstance(s, Mapping) and s.keys() == wanted for s in sets):
            return None
        return [[s[n] for s in sets] for n in names]  # type: ignore[index, call-overload]
    for given in sets:
        if not isinstance(given, (list, tuple)) or len(given) != len(names):
            return None
    return [list(column) for column in zip(*sets, strict=True)]


def _array(values: list[Any]) -> pa.Array | None:
    """The values as Arrow, if they are of one type that means the same there."""
    kinds = {type(v) for v in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    kind = kinds.pop()
    if kinds or kind not in _TYPES:
        return None
    target = _TYPES[kind]
    if kind in (dt.time, dt.datetime):
        aware = {v.tzinfo is not None for v in values if v is not None}
        if len(aware) > 1 or (kind is dt.time and True in aware):
            return None
        if True in aware:
            target = pa.timestamp("us", tz="UTC")
    if kind is decimal.Decimal:
        given = [v.as_tuple() for v in values if v is not None]
        scales = {v.exponent for v in given}
        if len(scales) > 1:
            return None  # in a VARCHAR 1.5 and 1.50 are two texts
        scale = scales.pop()
        if isinstance(scale, int) and scale <= -38:
            return None  # which DuckDB takes for doubles
        if isinstance(scale, int) and scale < 0 and all(len(v.digits) < -scale for v in given):
            target = pa.decimal128(1 - scale, -scale)  # DuckDB's type of such parameters
    if kind is int and all(v is None or -(2**31) <= v < 2**31 for v in values):
        target = pa.int32()  # DuckDB's type of such a parameter
    try:
        return pa.array(values, target)
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None
