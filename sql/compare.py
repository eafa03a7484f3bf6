"""Comparing two results as multisets.

Values are the same if they are equal, with these rules: NULL equals NULL; numbers are compared as
numbers, whatever their types, decimals and integers exactly, doubles to 12 significant digits;
NaN equals NaN and −0.0 equals 0.0; a date equals the timestamp of its midnight. The order of rows
and the names of columns do not count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

DIGITS = 12
_PAIRS = 1_000_000

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """How two multisets of rows differ.

    `only_left` and `only_right` are (how many more, row) for each row that one side has more often
    than the other; `problem` says why they could not be compared row by row.
    """

    left_rows: int
    right_rows: int
    only_left: list[tuple[int, Row]] = field(default_factory=list)
    only_right: list[tuple[int, Row]] = field(default_factory=list)
    problem: str | None = None

    @property
    def same(self) -> bool:
        """Do both sides have the same rows, each as often?"""
        return not (self.problem or self.only_left or self.only_right)


def compare(left: pa.Table, right: pa.Table, sizes: pa.Table | None = None) -> Comparison:
    """Compares two results column by column, by position.

    `sizes` are rows of the same columns that tell how large the numbers are that a double was
    added up from: two sums are near if they differ by nothing in 12 digits of that.
    """
    counts = left.num_rows, right.num_rows
    if left.num_columns != right.num_columns:
        return Comparison(
            *counts, problem=f"{left.num_columns} columns against {right.num_columns}"
        )
    left, right = _prepared(left), _prepared(right)
    kinds = [_kind(a.type, b.type) for a, b in zip(left.schema, right.schema, strict=True)]
    surplus = _surplus(left, right, kinds)
    if not surplus:
        return Comparison(*counts)
    if "float" in kinds:
        surplus = _without_near(surplus, kinds, {} if sizes is None else _largest(sizes, kinds))
    return Comparison(
        *counts,
        only_left=[(n, row) for n, row in surplus if n > 0],
        only_right=[(-n, row) for n, row in surplus if n < 0],
    )


def _prepared(table: pa.Table) -> pa.Table:
    """Columns named c0, c1 …; what DuckDB cannot group by is made text."""
    arrays: list[pa.ChunkedArray] = []
    for column in table.columns:
        kind = column.type
        if isinstance(kind, pa.ExtensionType):
            column = pa.chunked_array(
                [chunk.storage for chunk in column.chunks], type=kind.storage_type
            )
            kind = column.type
        if pa.types.is_nested(kind):
            texts = [None if v is None else canonical(v) for v in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        arrays.append(column)
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def canonical(value: Any) -> str:
    """A nested value as text, equal for equal values by the rules of this module."""
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        inner = ", ".join(f"{k}: {canonical(v)}" for k, v in value.items())
        return "{" + inner + "}"
    if isinstance(value, tuple):  # an entry of a map
        return "=".join(canonical(v) for v in value)
    if isinstance(value, list):
        parts = [canonical(v) for v in value]
        if value and isinstance(value[0], tuple):
            parts.sort()  # a map has no order
        return "[" + ", ".join(parts) + "]"
    if isinstance(value, float):
        return f"{value + 0.0:.{DIGITS - 1}e}"
    if isinstance(value, (bytes, str)):
        return repr(value)
    return str(value)


def _kind(left: pa.DataType, right: pa.DataType) -> str:
    """What two columns are compared as."""
    both = (left, right)
    if left == right and pa.types.is_string(left):
        return "plain"

    def each(*tests: Callable[[pa.DataType], bool]) -> bool:
        return all(any(test(t) for test in tests) for t in both)

    if each(pa.types.is_integer):
        return "integer"
    if each(pa.types.is_integer, pa.types.is_decimal):
        return "decimal"
    if each(pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating):
        return "float"
    if each(pa.types.is_date, pa.types.is_timestamp):
        return "date" if each(pa.types.is_date) else "timestamp"
    if each(pa.types.is_duration, pa.types.is_interval):
        return "interval"
    if each(pa.types.is_boolean) or each(
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view
    ):
        return "plain"
    return "text"


def _key(name: str, kind: str) -> str:
    """The SQL expression by which a column is grouped."""
    text = f"CAST({name} AS VARCHAR)"
    match kind:
        case "integer":
            return f"CAST({name} AS HUGEINT)"
        case "decimal":
            # As text, since no type holds 38 digits before the point and some behind it.
            return (
                f"CASE WHEN {text} LIKE '%.%' THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
            )
        case "float":
            return f"format('{{:.{DIGITS - 1}e}}', CAST({name} AS DOUBLE) + 0.0)"
        case "timestamp":
            return f"CAST({name} AS TIMESTAMP)"
        case "interval":
            return f"epoch({name})"
        case "text":
            return text
    return name


def _surplus(left: pa.Table, right: pa.Table, kinds: list[str]) -> list[tuple[int, Row]]:
    """(left count − right count, row) for the keys whose counts differ."""
    columns = range(len(kinds))
    keys = "".join(f"{_key(f'c{i}', kinds[i])} AS k{i}, first(c{i}) AS v{i}, " for i in columns)
    groups = ", ".join(f"k{i}" for i in columns) or "()"
    match = " AND ".join(f"l.k{i} IS NOT DISTINCT FROM r.k{i}" for i in columns) or "true"
    # The values shown are those of the side that has more of the row.
    values = ", ".join(f"l.v{i}, r.v{i}" for i in columns)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("__tw_left", left)
        connection.register("__tw_right", right)
        rows = connection.execute(
            f"WITH l AS (SELECT {keys} count(*) AS n FROM __tw_left GROUP BY {groups}), "
            f"r AS (SELECT {keys} count(*) AS n FROM __tw_right GROUP BY {groups}) "
            f"SELECT coalesce(l.n, 0), coalesce(r.n, 0){', ' + values if values else ''} "
            f"FROM l FULL JOIN r ON {match} WHERE coalesce(l.n, 0) <> coalesce(r.n, 0)"
        ).fetchall()
    return [(a - b, tuple(row[0 if a > b else 1 :: 2])) for a, b, *row in rows]


def _largest(sizes: pa.Table, kinds: list[str]) -> dict[Row, list[float]]:
    """The largest value of each column of doubles, by the values of the other columns."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("__tw_sizes", _prepared(sizes))
        rows: list[Row] = connection.execute("FROM __tw_sizes").fetchall()
    found: dict[Row, list[float]] = {}
    for row in rows:
        kept = found.setdefault(_exact(row, kinds), [0.0] * len(kinds))
        for i, kind in enumerate(kinds):
            if kind == "float" and row[i] is not None and math.isfinite(row[i]):
                kept[i] = max(kept[i], abs(float(row[i])))
    return found


def _exact(row: Row, kinds: list[str]) -> Row:
    return tuple(_hashable(v) for v, kind in zip(row, kinds, strict=True) if kind != "float")


def _without_near(
    surplus: list[tuple[int, Row]], kinds: list[str], sizes: dict[Row, list[float]]
) -> list[tuple[int, Row]]:
    """Drops pairs of rows whose doubles agree but were rounded to different keys.

    Two values on both sides of a rounding boundary get different keys, however near they are.
    """
    floats = [i for i, kind in enumerate(kinds) if kind == "float"]
    groups: dict[Row, tuple[list[list[Any]], list[list[Any]]]] = defaultdict(lambda: ([], []))
    for count, row in surplus:
        groups[_exact(row, kinds)][0 if count > 0 else 1].append([abs(count), row])
    rest: list[tuple[int, Row]] = []
    for exact, (more, less) in groups.items():
        size = sizes.get(exact) or [0.0] * len(kinds)
        for side in (more, less):
            side.sort(key=lambda entry: [_order(entry[1][i]) for i in floats])
        pairs = (
            ((a, b) for a in more for b in less)
            if len(more) * len(less) <= _PAIRS
            else zip(more, less, strict=False)
        )
        for a, b in pairs:
            if a[0] and b[0] and all(near(a[1][i], b[1][i], size[i]) for i in floats):
                matched = min(a[0], b[0])
                a[0] -= matched
                b[0] -= matched
        rest += [(n, row) for n, row in more if n]
        rest += [(-n, row) for n, row in less if n]
    return rest


def _hashable(value: Any) -> Any:
    if isinstance(value, int | str | bytes | None):
        return value
    return canonical(value)


def _order(value: Any) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if math.isnan(value) else (1, float(value))


def near(a: Any, b: Any, size: float = 0.0) -> bool:
    """Do two numbers agree to 12 significant digits: differ by at most half a unit of the last?

    Those of `size`, if that is larger.
    """
    if a is None or b is None:
        return a is b
    a, b = float(a), float(b)
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    largest = max(abs(a), abs(b), size)
    unit: float = math.pow(10.0, math.floor(math.log10(largest)) - (DIGITS - 1))
    return bool(abs(a - b) <= 0.5 * unit)
