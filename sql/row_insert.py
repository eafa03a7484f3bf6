"""One row inserted in autocommit mode, by a statement that DuckDB has planned before.

Where the row is known before DuckDB has it, it goes through the views first: then DuckDB's whole
part is one statement, without BEGIN, RETURNING and COMMIT around it. Should DuckDB refuse the row,
its negation goes through the views. They are seen by nobody in the meantime.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from tidewheel.engine.state.change import Change
from tidewheel.engine.state.columns import ColumnType
from tidewheel.engine.state.delta import Delta
from tidewheel.engine.state.rowwise import PLUS
from tidewheel.engine.state.rowwise import Row as HeldRow
from tidewheel.sql.capture import TableInfo, weighted
from tidewheel.sql.key_indexes import index_of

if TYPE_CHECKING:
    from tidewheel.sql.repeated import Repeated, Row
    from tidewheel.sql.view_rows import RowEpochs


class _AsWritten(Exception):
    """The statement failed in a form that is not its own: it is undone, and run as written."""


def insert(views: RowEpochs, key: str, info: TableInfo, row: Row, plans: Repeated) -> int | None:
    """Insert a row into a table that views read; how many that were.

    None: nothing is done, run the statement as written.
    """
    if info.has_triggers:
        return None
    known = _known(views, key, row, info) if views.registry.incremental(key, one=True) else None
    if known is not None:
        write = _write(views, key, info, known, lambda: plans.run(row, False).fetchall())
        return 1 if views.step_ahead(key, _change(known, info), write) else None
    try:
        with views.implicitly():
            try:
                done = plans.run(row, returning=True)
            except duckdb.Error as refused:
                if row.refuses(refused):
                    raise
                raise _AsWritten from None
            views.note(key, weighted(info.fetched(done), 1))
    except _AsWritten:
        return None
    return 1


def _write(
    views: RowEpochs, key: str, info: TableInfo, row: HeldRow, once: Callable[[], object]
) -> Callable[[], object]:
    """How DuckDB gets a row: by `once`, or behind if it is known to take it."""
    rules = views.rules(key, info) if views.database.private else None
    if rules is None or not rules.may_wait or rules.lacks(row):
        return once
    if rules.key:
        index = index_of(views, key, info, rules)
        if index is None or index.find(tuple([row[i] for i in rules.key])) is not None:
            return once
    return lambda: views.behind.insert(info, rules.key, [row], once)


def _change(row: HeldRow, info: TableInfo) -> Change:
    return Change.of(Delta.of_rows(info.known, [row], PLUS, True), info.columns)


def _known(views: RowEpochs, key: str, row: Row, info: TableInfo) -> HeldRow | None:
    """The row as DuckDB will have it; None where only DuckDB can tell."""
    if info.layout is None:
        return None
    values: list[object] | None = row.values()
    if row.form.columns and values is not None:
        rules = views.rules(key, info)
        values = None if rules is None else rules.whole(row.form.columns, values)
    if values is None:
        return None
    try:
        return tuple([held(v, kind) for v, kind in zip(values, info.layout.kinds, strict=True)])
    except (ValueError, TypeError, ArithmeticError):
        return None


def held(value: Any, column: ColumnType) -> object:
    """A value as a column holds it, where DuckDB's cast does no more than that."""
    given = type(value)
    if given is str and column.dtype is not None and _WHOLE.fullmatch(value):
        value, given = int(value), int
    if given is int and (limits := _limits(column)) is not None:
        if limits[0] <= value <= limits[1]:
            return value
        raise OverflowError(f"{value!r} is no {column.arrow}")
    return None if value is None else _taken(value, given, column.arrow)


@functools.cache
def _limits(column: ColumnType) -> tuple[int, int] | None:
    """The least and the greatest integer that a column of integers can hold."""
    if not pa.types.is_integer(column.arrow):
        return None
    assert column.dtype is not None
    found = np.iinfo(column.dtype)
    return int(found.min), int(found.max)


def _taken(value: Any, given: type, kind: pa.DataType) -> object:
    t = pa.types
    if given is str and t.is_string(kind):
        if not value.isascii():
            value.encode()  # half of a surrogate pair is no text: a ValueError
        return value
    if given is str:
        return _read(value, kind)
    if given is bool and t.is_boolean(kind):
        return value
    if given is bool and isinstance(kind, pa.Bool8Type):
        return int(value)
    if given is datetime.date and t.is_date32(kind):
        return (value - _DAY_0).days
    if given is datetime.datetime and value.tzinfo is None and t.is_timestamp(kind):
        return (value - _TIME_0) // _MICROSECOND
    if t.is_decimal128(kind) and given in (int, decimal.Decimal):
        return _unscaled(decimal.Decimal(value), kind)
    if t.is_float64(kind):
        if given is float or (given is int and abs(value) <= 2**53):
            return float(value)
        if given is decimal.Decimal and len(value.as_tuple().digits) <= 15:
            return float(value) + 0.0  # no decimal is -0
    raise ValueError(f"{value!r} is not plainly {kind}")


def _read(text: str, kind: pa.DataType) -> object:
    """What DuckDB reads in a text that is written as it would write the value itself."""
    t = pa.types
    if t.is_date32(kind) and _DAY.fullmatch(text):
        return (datetime.date.fromisoformat(text) - _DAY_0).days
    if t.is_timestamp(kind) and _TIME.fullmatch(text):
        return (datetime.datetime.fromisoformat(text) - _TIME_0) // _MICROSECOND
    if _NUMBER.fullmatch(text):
        if t.is_decimal128(kind):
            return _unscaled(decimal.Decimal(text), kind)
        if t.is_float64(kind):
            return float(text)
    raise ValueError(f"{text!r} is not plainly {kind}")


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(rf"{_DAY.pattern}( ([01][0-9]|2[0-3])(:[0-5][0-9]){{2}}(\.[0-9]{{1,6}})?)?")
_WHOLE = re.compile(r"-?[1-9][0-9]{0,18}|0")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def _unscaled(value: decimal.Decimal, kind: pa.DataType) -> int:
    sign, digits, exponent = value.as_tuple()
    places: Any = kind.scale + exponent
    if places < 0 or len(digits) + places > kind.precision:
        raise ValueError(f"{value} is not plainly {kind}")
    whole = int("".join(map(str, digits)) + "0" * places)
    return -whole if sign else whole


@functools.cache
def number_limits(column: ColumnType) -> tuple[int, int] | None:
    """The least and the greatest value, unscaled, of a column of integers or decimals."""
    kind = column.arrow
    if pa.types.is_decimal128(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return _limits(column)


_DAY_0 = datetime.date(1970, 1, 1)
_TIME_0 = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
