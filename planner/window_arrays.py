"""Window functions of a few groups in NumPy: a statement of DuckDB's takes longer than they do.

Taken are places, rows at an offset, and aggregates of numbers over frames of rows, of plain columns
in the order of plain columns. Where rows tie on which a function depends, or numbers are large, the
statement decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.exact import integers_to_arrow
from tidewheel.engine.operators.rank import Order, Ranking, rankable
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Array, Col, ColumnType, FixedType, Mask
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema
from tidewheel.planner.structural import plain, position
from tidewheel.planner.text import to_sql
from tidewheel.planner.window_reach import excluded

MANY: Final = 20_000  # rows for which a statement is worth its while
_ORDERED: Final = 100  # times as many, where they stand in order
_GROUPS: Final = 64
_FAR: Final = 1 << 31  # rows: behind all others
_FITS: Final = 1 << 62
_SUM: Final = 1 << 53  # up to here a DOUBLE holds every integer


class Open(Exception):
    """For these rows the statement decides."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order: `start` and `end` of the group of each, `first` and `last` of its peers."""

    cols: Sequence[Col]
    at: Int64s
    start: Int64s
    end: Int64s
    first: Int64s
    last: Int64s
    peers: Int64s
    """Numbers those that are alike."""

    def settled(self) -> None:
        """No two rows of a group are alike."""
        if len(self.at) and self.peers[-1] + 1 < len(self.at):
            raise Open


Frame = Callable[[Rows], tuple[Int64s, Int64s]]
Value = Callable[[Rows], Col]


def in_arrays(
    windows: Sequence[exp.Expr], source: Schema, key: Sequence[int], schema: Schema, sql: Evaluate
) -> Evaluate:
    """`sql`, which adds the values of `windows` (all of one PARTITION BY, `key`), or faster."""
    values = values_of(windows, source, schema)
    return sql if values is None else by_values(windows, source, key, schema, sql, values)


def values_of(
    windows: Sequence[exp.Expr],
    source: Schema,
    schema: Schema,
    numbered: bool = False,
    given: Mapping[int, Value | None] | None = None,
) -> list[Value] | None:
    """What gives the values of all `windows`; None if that of one is not known.

    `numbered`: the last one numbers the rows, those that tie in any order. `given`: what gives the
    values of some windows, by their places.
    """
    kinds = schema.kinds[len(source) :]
    values: list[Value] = []
    for i, (window, kind) in enumerate(zip(windows, kinds, strict=True)):
        value: Value | None = None
        if numbered and i == len(windows) - 1:
            value = _number
        elif given and i in given:
            value = given[i]
        elif isinstance(window, exp.Window):
            value = _value(window, source, kind)
        if value is None:
            return None
        values.append(value)
    return values


def by_values(
    windows: Sequence[exp.Expr],
    source: Schema,
    key: Sequence[int],
    schema: Schema,
    sql: Evaluate,
    values: Sequence[Value],
    in_order: bool = False,
) -> Evaluate:
    """`sql`, or faster what `values` give: rows may have more columns than those of `source`.

    `in_order`: mostly the rows stand in order, so that there may be more of them.
    """
    ordered = [w.args["order"] for w in windows if w.args.get("order")]
    if len({to_sql(order) for order in ordered}) > 1:
        return sql
    order = _order(ordered[0], source) if ordered else []
    if order is None:
        return sql
    spec = KeySpec(source, key)

    def evaluate(rows: Delta) -> Delta:
        if 0 < len(rows) <= MANY * (_ORDERED if in_order else 1):
            try:
                found = _sorted(rows, spec, order)
                added = [value(found) for value in values]
            except Open:
                return sql(rows)
            cols = found.cols[: len(source)]
            return Delta(schema, [*cols, *added], np.ones(len(rows), np.int64))
        return sql(rows)

    return evaluate


def _order(order: exp.Expr, source: Schema) -> list[Ranking] | None:
    found = []
    for item in order.expressions:
        at = position(item.this, source)
        if at is None or not rankable(source.types[at]):
            return None
        place = Order(at, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
        found.append(Ranking(source, place))
    return found


def _sorted(rows: Delta, spec: KeySpec, order: Sequence[Ranking]) -> Rows:
    n = len(rows)
    groups = spec.keys(rows.cols, n)
    by: list[Array] = []
    for ranking in order:
        nulls = columns_.is_null(rows.cols[ranking.order.column])
        if nulls is not None:  # the last place may be a value's, too
            by.append(nulls != ranking.order.nulls_first)
        by.append(ranking(rows.cols, n))
    cols: Sequence[Col] = rows.cols
    if not _in_order([groups, *by]):
        at = np.lexsort([*reversed(by), groups])
        groups, by = groups[at], [b[at] for b in by]
        cols = [columns_.take(col, at) for col in rows.cols]
    begins = _changes([groups])
    if not spec.exact(cols):
        for i, kind in zip(spec.indices, spec.kinds, strict=True):
            if not (kind.equal(cols[i][1:], cols[i][:-1]) | begins[1:]).all():
                raise Open  # two groups of one hash
    if begins.sum() > _GROUPS:
        raise Open
    start, end, _ = _runs(begins)
    first, last, peers = _runs(_changes([groups, *by]))
    return Rows(cols, np.arange(n), start, end, first, last, peers)


def _in_order(by: Sequence[Array]) -> bool:
    alike = np.ones(max(len(by[0]) - 1, 0), bool)
    for keys in by:
        if (alike & (keys[1:] < keys[:-1])).any():
            return False
        alike &= keys[1:] == keys[:-1]
    return True


def _changes(by: Sequence[Array]) -> Mask:
    """The rows that are not like the row before."""
    found = np.ones(len(by[0]), bool)
    found[1:] = np.logical_or.reduce([b[1:] != b[:-1] for b in by])
    return found


def _runs(begins: Mask) -> tuple[Int64s, Int64s, Int64s]:
    """For each row where its run begins and ends, and the number of the run."""
    starts = begins.nonzero()[0]
    ends = np.append(starts[1:], len(begins))
    number = begins.cumsum() - 1
    return starts[number], ends[number], number


def _value(window: exp.Expr, source: Schema, kind: ColumnType) -> Value | None:
    """What gives a function's values, of the type `kind`."""
    call, ordered = window.this, bool(window.args.get("order"))
    if not isinstance(call, exp.Func):
        return None
    name = to_sql(call).split("(", 1)[0].strip().lower()
    given = [v for k, v in call.args.items() if v and k not in ("big_int", "offset")]
    if name in _PLACES:
        return _PLACES[name] if ordered and not given and kind.dtype == np.int64 else None
    frame = frame_of(window.args.get("spec"), ordered)
    if len(given) != 1 or frame is None or isinstance(given[0], list):
        return None
    if name == "count" and isinstance(given[0], exp.Star):
        return lambda rows: np.subtract(*reversed(frame(rows)))
    at = position(given[0], source)
    if at is None:
        return None
    if name in ("lag", "lead"):
        offset = call.args.get("offset")
        if offset is not None and not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
            return None
        away = 1 if offset is None else int(offset.name)
        return _away(at, source.kinds[at], -away if name == "lag" else away) if ordered else None
    if name in ("first_value", "last_value"):
        return _end(at, source.kinds[at], frame, name == "first_value")
    if name == "count":
        return lambda rows: _counted(rows.cols[at], frame(rows))
    column = source.kinds[at]
    if not plain(column) or not isinstance(column, FixedType):
        return None
    if name in ("min", "max") and column.arrow == kind.arrow:
        return _extreme(at, column, frame, name == "min")
    number = pa.types.is_integer(column.arrow) or pa.types.is_decimal(column.arrow)
    if name not in ("sum", "avg") or not number:
        return None
    return _sum(at, column, kind, frame, name == "avg")


def _number(rows: Rows) -> Col:
    return rows.at - rows.start + 1


def _row_number(rows: Rows) -> Col:
    rows.settled()
    return _number(rows)


_PLACES: Final[dict[str, Value]] = {
    "row_number": _row_number,
    "rank": lambda rows: rows.first - rows.start + 1,
    "dense_rank": lambda rows: rows.peers - rows.peers[rows.start] + 1,
}


def frame_of(spec: exp.Expr | None, ordered: bool) -> Frame | None:
    """The rows from one place to another that a row's value is of."""
    if spec is None:
        return _to_peers if ordered else lambda rows: (rows.start, rows.end)
    given = spec.args
    if excluded(spec) or not ordered:
        return None
    ends = []
    for at, side in (("start", "start_side"), ("end", "end_side")):
        limit = given.get(at) or "CURRENT ROW"
        text = str(limit.unnest() if isinstance(limit, exp.Expr) else limit).upper()
        ends.append((text, str(given.get(side) or "").upper()))
    if ends == [("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING")]:
        return lambda rows: (rows.start, rows.end)
    kind = str(given.get("kind")).upper()
    if kind == "RANGE":
        current = [("UNBOUNDED", "PRECEDING"), ("CURRENT ROW", "")]
        return _to_peers if [ends[0], (ends[1][0], "")] == current else None
    if kind != "ROWS":
        return None
    offsets: list[int | None] = []
    for text, side in ends:
        if text == "UNBOUNDED":
            offsets.append(None)
        elif text == "CURRENT ROW" or text.isdigit():
            away = 0 if text == "CURRENT ROW" else min(int(text), _FAR)
            offsets.append(-away if side == "PRECEDING" else away)
        else:
            return None
    before, after = offsets
    if ends[0] == ("UNBOUNDED", "FOLLOWING") or ends[1] == ("UNBOUNDED", "PRECEDING"):
        return None

    def rows_of(rows: Rows) -> tuple[Int64s, Int64s]:
        rows.settled()
        low = rows.start if before is None else np.clip(rows.at + before, rows.start, rows.end)
        high = rows.end if after is None else np.minimum(rows.at + after + 1, rows.end)
        return low, np.maximum(low, high)

    return rows_of


def _to_peers(rows: Rows) -> tuple[Int64s, Int64s]:
    return rows.start, rows.last


def _picked(col: Col, kind: ColumnType, index: Int64s, there: Mask) -> Col:
    """Rows of a column, NULL where there is none."""
    if there.all():
        return columns_.take(col, index)
    more = columns_.concat([col, kind.load(kind.nulls(1))], kind)
    return columns_.take(more, np.where(there, index, len(col)))


def _away(at: int, kind: ColumnType, away: int) -> Value:
    def value(rows: Rows) -> Col:
        rows.settled()
        index = rows.at + away
        return _picked(rows.cols[at], kind, index, (rows.start <= index) & (index < rows.end))

    return value


def _end(at: int, kind: ColumnType, frame: Frame, first: bool) -> Value:
    def value(rows: Rows) -> Col:
        rows.settled()
        low, high = frame(rows)
        return _picked(rows.cols[at], kind, low if first else high - 1, low < high)

    return value


def _running(values: Array) -> Int64s:
    """Sums of the values before each place."""
    return np.concatenate([np.zeros(1, np.int64), values.cumsum(dtype=np.int64)])


def _counted(col: Col, frame: tuple[Int64s, Int64s]) -> Int64s:
    """How many values of a frame are not NULL."""
    low, high = frame
    nulls = columns_.is_null(col)
    if nulls is None:
        return high - low
    counts = _running(~nulls)
    return counts[high] - counts[low]


def _sum(at: int, column: FixedType, kind: ColumnType, frame: Frame, mean: bool) -> Value:
    one = 10**column.arrow.scale if pa.types.is_decimal(column.arrow) else 1

    def value(rows: Rows) -> Col:
        values, nulls = column.split(rows.cols[at])
        values = values.astype(np.int64)
        if nulls is not None:
            values = np.where(nulls, 0, values)
        most = max(int(values.max()), -int(values.min()))
        if most * len(values) >= (_SUM if mean else _FITS):
            raise Open
        places = frame(rows)
        counts, sums = _counted(rows.cols[at], places), _running(values)
        found, there = sums[places[1]] - sums[places[0]], counts > 0
        if not mean:
            valid = None if there.all() else there
            return kind.load(integers_to_arrow(found, valid, kind.arrow))
        # DuckDB divides long doubles, which rounds twice
        by = np.where(there, counts, 1).astype(np.longdouble) * np.longdouble(one)
        means = (found.astype(np.longdouble) / by).astype(np.float64)
        return kind.join(means, None if there.all() else ~there)  # type: ignore[attr-defined]

    return value


def _extreme(at: int, column: FixedType, frame: Frame, least: bool) -> Value:
    accumulate: Any = (np.minimum if least else np.maximum).accumulate

    def value(rows: Rows) -> Col:
        low, high = frame(rows)
        if not (low == rows.start).all():
            raise Open
        values, nulls = column.split(rows.cols[at])
        if nulls is not None:
            ends = np.iinfo(values.dtype)
            values = np.where(nulls, ends.max if least else ends.min, values).astype(values.dtype)
        found = np.concatenate(
            [accumulate(values[a:b]) for a, b in zip(*_each(rows), strict=True)]
        )[np.maximum(high - 1, low)]
        empty = _counted(rows.cols[at], (low, high)) == 0
        return column.join(found, empty if empty.any() else None)

    return value


def _each(rows: Rows) -> tuple[list[int], list[int]]:
    """Where each group begins and ends."""
    begins = rows.at == rows.start
    return rows.start[begins].tolist(), rows.end[begins].tolist()
