"""Python values as parameters: what DuckDB does not take by itself, in a form that it takes."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import duckdb

from . import errors

if TYPE_CHECKING:
    import numpy as np

_TAKEN = frozenset(
    {
        type(None), bool, int, float, str, bytes, bytearray, memoryview, decimal.Decimal, uuid.UUID,
        datetime.date, datetime.time, datetime.datetime, datetime.timedelta,
    }
)  # fmt: skip
_PARTS = {"Timestamp": ("nanosecond", "datetime"), "Timedelta": ("nanoseconds", "timedelta")}
"""What pandas has more exactly than Python."""
_INTEGERS = range(-(2**127), 2**128)


def adapt(value: Any) -> Any:
    """`value` as DuckDB takes it; `errors.DataError` where no type of DuckDB's holds it.

    NumPy's scalars and arrays become Python's, at any depth. A dict is a STRUCT, or a MAP if its
    keys are not all strings (or its target is one).
    """
    kind = type(value)
    if kind in _TAKEN:
        if kind is int and value not in _INTEGERS:
            raise errors.DataError(
                f"the integer {_short(value)} has more than 128 bits",
                hint="pass it as text and cast it to BIGNUM",
            )
        if kind is memoryview:
            return _bytes(value)
        return _time(value) if kind is datetime.time and value.tzinfo is not None else value
    if isinstance(value, (list, tuple)):
        return [adapt(v) for v in value]
    if isinstance(value, dict):
        if value and not all(isinstance(k, str) for k in value):
            # the form in which DuckDB takes a MAP
            keys = [adapt(k) for k in value]
            return {"key": keys, "value": [adapt(v) for v in value.values()]}
        return {k: adapt(v) for k, v in value.items()}
    if "numpy" in sys.modules:  # else no value is one of NumPy's
        import numpy as np

        if isinstance(value, (np.datetime64, np.timedelta64)):
            return _numpy_time(value)
        if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
            return adapt(value.item())
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "mM":
                return adapt(value.tolist())
            return adapt(list(value) if value.ndim else value[()])
    module = kind.__module__.split(".")[0]
    # (pandas.NA; Timestamp, Timedelta and NaT are Python's as well)
    missing = module == "pandas" and kind.__name__ == "NAType"
    if module == "pandas" and kind.__name__ in _PARTS:
        part, fits = _PARTS[kind.__name__]
        if getattr(value, part):
            raise _too_exact(value, fits)
    if isinstance(value, tuple(_TAKEN)) or module == "duckdb" or missing:
        return value
    cure = "text"
    if isinstance(value, Mapping):
        cure = "a dict"
    elif isinstance(value, Iterable):
        cure = "a list"
    raise errors.ProgrammingError(
        f"a value of type {kind.__qualname__} cannot be a parameter", hint=f"pass {cure}"
    )


def _time(value: datetime.time) -> Any:
    """A TIMETZ: a time west of Greenwich DuckDB takes as text only."""
    if value.utcoffset() is None:
        raise errors.ProgrammingError(
            f"{value!r} has no offset from UTC without a date",
            hint="pass a datetime, or a time in a datetime.timezone",
        )
    return duckdb.Value(value.isoformat(), duckdb.sqltypes.TIME_TZ)


def _numpy_time(value: np.datetime64 | np.timedelta64) -> Any:
    """As Python's type, which counts microseconds."""
    import numpy as np

    if np.isnat(value):
        return None
    given = np.datetime_data(value.dtype)[0]
    if isinstance(value, np.datetime64):
        unit, fits = ("D", "date") if given in "YMWD" else ("us", "datetime")
        exact: Any = value.astype(f"datetime64[{unit}]")
    else:
        fits = "timedelta"
        # months have no length
        exact = value if given in "YM" else value.astype("timedelta64[us]")
    found = exact.item()
    if exact != value or isinstance(found, int):
        raise _too_exact(value, fits)
    return found


def _too_exact(value: object, kind: str) -> errors.Error:
    return errors.DataError(
        f"{value!r} does not fit Python's {kind}",
        hint="round it to microseconds, or pass it as text and cast it",
    )


def _bytes(value: memoryview) -> memoryview | bytes:
    """What DuckDB takes: a part of every second byte, or so, is copied."""
    try:
        return value if value.c_contiguous else value.tobytes()
    except ValueError as error:  # it is released
        raise errors.ProgrammingError(str(error)) from None


def _short(value: int) -> str:
    return f"2^{value.bit_length() - 1} or more" if value > 0 else "below -2^127"
