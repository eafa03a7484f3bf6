"""One row inserted in autocommit mode, by a statement that DuckDB has planned before.

Where the row is known before DuckDB has it, it goes through the views first: then DuckDB's whole
part is one statement, without BEGIN, RETURNING and COMMIT around it. Should DuckDB refuse the row,
its negation goes through the views. They are seen by nobody in the meantime.
"""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from tidewheel.engine.state.change import Change
from tidewheel.engine.state.columns import Col, ColumnType
from tidewheel.engine.state.delta import Delta
from tidewheel.sql.capture import TableInfo, weighted

if TYPE_CHECKING:
    from tidewheel.sql.repeated import Repeated, Row
    from tidewheel.sql.view_epochs import Epochs


class _AsWritten(Exception):
    """The statement failed in a form that is not its own: it is undone, and run as written."""


def insert(views: Epochs, key: str, info: TableInfo, row: Row, plans: Repeated) -> int | None:
    """Insert a row into a table that views read; how many that were.

    None: nothing is done, run the statement as written.
    """
    if info.has_triggers:
        return None
    known = _known(row, info) if views.registry.incremental(key) else None
    if known is not None:
        return 1 if views.step_ahead(key, known, lambda: plans.run(row, False).fetchall()) else None
    try:
        with views.implicitly():
            try:
                done = plans.run(row, returning=True)
            except duckdb.Error:
                raise _AsWritten from None
            views.note(key, weighted(info.fetched(done), 1))
    except _AsWritten:
        return None
    return 1


def _known(row: Row, info: TableInfo) -> Change | None:
    """The row as DuckDB will have it; None where only DuckDB can tell."""
    if row.form.named or info.layout is None:
        return None
    try:
        cols = [
            _column(value, kind, column)
            for value, kind, column in zip(
                row.values(), info.layout.types, info.layout.kinds, strict=True
            )
        ]
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None
    return Change.of(Delta(info.layout, cols, np.ones(1, np.int64)), info.columns)


def _column(value: object, kind: pa.DataType, column: ColumnType) -> Col:
    value = _converted(value, kind)
    if type(value) is int and pa.types.is_integer(kind):
        return np.array([value], column.dtype)
    return column.load(pa.array([value], kind))


def _converted(value: object, kind: pa.DataType) -> object:
    """A value in the type of its column, where DuckDB's cast does no more than that."""
    given, t = type(value), pa.types
    if value is None or (given is bool and t.is_boolean(kind)):
        return value
    if (given is str and t.is_string(kind)) or (given is datetime.date and t.is_date32(kind)):
        return value
    if given is float and t.is_float64(kind):
        return value
    if given is int and (t.is_integer(kind) or t.is_decimal128(kind)):
        return value
    if given is int and t.is_float64(kind) and abs(value) <= 2**53:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    if given is decimal.Decimal:
        _, digits, exponent = value.as_tuple()  # type: ignore[attr-defined]
        if t.is_decimal128(kind) and -exponent <= kind.scale:
            return value
        if t.is_float64(kind) and len(digits) <= 15:
            return float(value) + 0.0  # type: ignore[arg-type]  # no decimal is -0
    raise ValueError(f"{value!r} is not plainly {kind}")
