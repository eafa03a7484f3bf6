"""DuckDB's answers, and answers as multisets."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Sequence
from threading import Timer
from typing import Any

import duckdb


class NoOracle(Exception):
    """DuckDB does not tell what is right."""


def answer(
    duck: duckdb.DuckDBPyConnection, query: str, *ends: type[duckdb.Error]
) -> list[tuple[Any, ...]]:
    """Rows of a query; NoOracle for an error of `ends`, or after a minute without an answer."""
    alarm = Timer(60, duck.interrupt)
    alarm.start()
    try:
        return duck.execute(query).fetchall()
    except (duckdb.InterruptException, *ends):
        raise NoOracle from None
    finally:
        alarm.cancel()


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """How often each row is there, lists, maps and structs as tuples."""
    return Counter(tuple(map(_rounded, row)) for row in rows)


def _rounded(v: Any) -> Any:
    """To count by. DuckDB's variance of rows in another order differs in its last digits."""
    if isinstance(v, float):
        return "nan" if math.isnan(v) else float(f"{v:.9g}") + 0.0
    if isinstance(v, list):
        return tuple(map(_rounded, v))
    if isinstance(v, dict):
        return tuple((k, _rounded(x)) for k, x in v.items())
    return v.normalize() + 0 if isinstance(v, decimal.Decimal) else v
