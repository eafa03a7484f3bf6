"""How far window functions look, and what a running one is if the rows before are left out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import duckdb
from sqlglot import exp

from tidewheel.engine.operators.following import Reach
from tidewheel.planner import logical as L
from tidewheel.planner.order_of_rows import call_of
from tidewheel.planner.text import OWN, to_sql
from tidewheel.planner.view_kernels import statements

TypeOf = Callable[[exp.Expr], str]

RUNNING = {
    "row_number": "coalesce({before}, 0) + {now}",
    "dense_rank": "coalesce({before}, 0) + {now}",
    "rank": "coalesce({number}, 0) + {now}",
    "count": "coalesce({before}, 0) + {now}",
    "sum": "coalesce({before} + {now}, {before}, {now})",
    "min": "least({before}, {now})",
    "max": "greatest({before}, {now})",
    "bool_and": "coalesce({before} AND {now}, {before}, {now})",
    "bool_or": "coalesce({before} OR {now}, {before}, {now})",
    "first_value": "CASE WHEN {number} IS NULL THEN {now} ELSE {before} END",
}
"""What the value over all rows is, of that over the rows `before` and that over the others."""

_PLACES = {"row_number", "rank", "dense_rank"}
_EXACT = {
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
}
FLOATING: Final = ("DOUBLE", "FLOAT")
_WHOLE: Final = _EXACT - {"HUGEINT"}
_TICKS: Final = {
    "DATE": Decimal(1) / 86_400_000_000,
    "TIMESTAMP_S": Decimal(1) / 1_000_000,
    "TIMESTAMP_MS": Decimal(1) / 1000,
    "TIMESTAMP": Decimal(1),
    "TIMESTAMP WITH TIME ZONE": Decimal(1),
    "TIMESTAMP_NS": Decimal(1000),
}
"""What a microsecond is in places of these types."""
_DIGITS: Final = 4  # behind the point: what means are divided by stays a small integer
_SUMS: Final = ("sum", "avg")
_SQUARED: Final = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
_FRAMED: Final = ("count", "min", "max", "bool_and", "bool_or", "first_value", "last_value")
_MIRRORED: Final = (*_FRAMED, *_SUMS, *_SQUARED)


@dataclass(frozen=True, slots=True)
class Looking:
    """How far a window function looks; `running`: its form if it looks at all rows before.

    `floating`: it is of exact sums (see `window_doubles`).
    """

    reach: Reach
    running: str = ""
    floating: bool = False


def looking(named: L.Named, type_of: TypeOf) -> Looking | None:
    """How a window function looks back; None if it may look at its whole partition."""
    window = named.expr
    if not isinstance(window, exp.Window) or window.args.get("order") is None:
        return None
    call = window.this
    if isinstance(call, exp.Filter):
        call = call.this
    if not isinstance(call, exp.Func) or call.find(exp.Distinct, exp.Order, exp.Window):
        return None
    name = name_of(window)
    if name in _PLACES:
        return Looking(Reach(total=True), RUNNING[name]) if not call.expressions else None
    if name in ("lag", "lead"):
        offset = call.args.get("offset")
        rows = 1 if offset is None else _number(offset)
        if rows is None:
            return None
        return Looking(Reach(before=rows) if name == "lag" else Reach(after=rows))
    spec = window.args.get("spec")
    frame = _frame(spec, window.args["order"].expressions[0].this, type_of)
    if frame is None or name not in (*_FRAMED, *_SUMS, *_SQUARED):
        return None
    if name in _SQUARED and len([v for v in call.args.values() if v]) > 1:
        return None
    if name in _SUMS or name in _SQUARED:
        kind = type_of(call.this)
        scale = 0 if kind in _WHOLE else _scale(kind)
        mean = name == "avg" and frame.total and scale is not None and scale <= _DIGITS
        if kind in FLOATING or mean or (name in _SQUARED and _exact(kind)):
            return None if excluded(spec) else Looking(frame, floating=True)
        if not _exact(kind):
            return None
    if frame.total and name == "last_value" and not by_rows(window):
        return Looking(Reach())
    if frame.total:
        listed = name in ("min", "max") and call.args.get("count")  # max(x, 3): three in a list
        return Looking(frame, RUNNING[name]) if name in RUNNING and not listed else None
    # (which of the rows that tie at an end of a RANGE is the first one, or the last, is open)
    return None if name.endswith("_value") and not by_rows(window) else Looking(frame)


def name_of(window: exp.Expr) -> str:
    """What the function over a window is called."""
    return to_sql(call_of(window.this)).split("(", 1)[0].strip().lower()


def _exact(kind: str) -> bool:
    return kind in _EXACT or (kind.startswith("DECIMAL(") and kind.endswith(")"))


def _number(literal: exp.Expr) -> int | None:
    at = literal.unnest() if isinstance(literal, exp.Expr) else None
    if isinstance(at, exp.Literal) and not at.is_string and at.name.isdigit():
        return int(at.name) if int(at.name) <= _FAR else None
    return None


_FAR = 10_000


def _frame(spec: exp.Expr | None, by: exp.Expr, type_of: TypeOf) -> Reach | None:
    """The rows of a frame; None for one that is neither of those near a row nor of all before.

    `by`: what the first item of ORDER BY says.
    """
    if spec is None:
        return Reach(total=True)
    given = spec.args
    ends = [
        (given.get("start"), given.get("start_side")),
        (given.get("end"), given.get("end_side")),
    ]
    kind = str(given.get("kind")).upper()
    (start, side), (end, _) = ends
    if str(start).upper() == "UNBOUNDED" and str(side).upper() == "PRECEDING":
        whole = end is None or str(end).upper() == "CURRENT ROW"
        return Reach(total=True) if whole and not excluded(spec) else None
    if kind == "ROWS" and excluded(spec) in ("GROUP", "TIES"):
        return None  # rows that tie are told apart, so that the frame is the same each time
    order_type = type_of(by) if kind == "RANGE" else ""
    before, after = 0, 0
    for at, towards in ends:
        if at is None or str(at).upper() == "CURRENT ROW":
            continue
        if not isinstance(at, exp.Expr):
            return None
        away = _span(at, order_type) if kind == "RANGE" else _number(at)
        if away is None:
            return None
        if str(towards).upper() == "PRECEDING":
            before = max(before, away)
        else:
            after = max(after, away)
    if kind == "ROWS":
        return Reach(before, after)
    if kind == "GROUPS":
        return Reach(places_before=before, places_after=after)
    return Reach(span_before=before, span_after=after) if _spanned(order_type) else None


def excluded(spec: exp.Expr | None) -> str:
    """What a frame leaves out; empty if nothing."""
    found = "" if spec is None else str(spec.args.get("exclude") or "").upper()
    return "" if found == "NO OTHERS" else found


def _spanned(kind: str) -> bool:
    """Are places of values of a type as far from each other as the values are?"""
    return kind in _WHOLE or kind in _TICKS or _scale(kind) is not None


def _scale(kind: str) -> int | None:
    """The digits behind the point of a decimal that is kept as 64 bits."""
    if not (kind.startswith("DECIMAL(") and kind.endswith(")")):
        return None
    width, scale = map(int, kind[len("DECIMAL(") : -1].split(","))
    return scale if width <= 18 else None


def _span(at: exp.Expr, kind: str) -> int | None:
    """How far the places of two values are from each other, at most, that lie `at` apart."""
    if kind in _TICKS:
        return _ticks(at, kind)
    scale = 0 if kind in _WHOLE else _scale(kind)
    at = at.unnest()
    if scale is None or not isinstance(at, exp.Literal) or at.is_string:
        return None
    return math.ceil(Decimal(at.name).scaleb(scale))


def mirrored(named: L.Named) -> L.Named:
    """A function of all rows from the current one on, as one of all rows up to it."""
    window = named.expr
    spec = window.args.get("spec") if isinstance(window, exp.Window) else None
    order = window.args.get("order")
    if spec is None or order is None or excluded(spec) or name_of(window) not in _MIRRORED:
        return named
    ends = [str(spec.args.get(at)).upper() for at in ("start", "end", "end_side")]
    if ends != ["CURRENT ROW", "UNBOUNDED", "FOLLOWING"]:
        return named
    if call_of(window.this).find(exp.Order) is not None:  # the first one by an order of its own
        return named
    window = window.copy()
    if name_of(window).endswith("_value"):
        call = call_of(window.this)
        other = exp.LastValue if isinstance(call, exp.FirstValue) else exp.FirstValue
        call.replace(other(this=call.this))
    for item in window.args["order"].expressions:
        item.set("desc", not item.args.get("desc"))
        item.set("nulls_first", not item.args.get("nulls_first"))
    window.args["spec"].args.update(
        start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW", end_side=None
    )
    return L.Named(named.column, window)


def by_rows(window: exp.Expr) -> bool:
    """Is the frame of a window one of rows (ROWS), not of values?"""
    spec = window.args.get("spec")
    return spec is not None and spec.text("kind").upper() == "ROWS"


def current_rows(named: L.Named) -> L.Named:
    """The function, with CURRENT ROW for ``0 PRECEDING`` at the end of a RANGE.

    DuckDB 2.0.1 counts at random where RANGE BETWEEN UNBOUNDED PRECEDING AND 0 PRECEDING ends.
    """
    expression: exp.Expr = named.expr.copy()
    for window in expression.find_all(exp.Window):
        spec = window.args.get("spec")
        if spec is None or spec.text("kind").upper() != "RANGE":
            continue
        side = str(spec.args.get("end_side")).upper()
        if side == "PRECEDING" and _none(spec.args["end"]):
            spec.args.update(end="CURRENT ROW", end_side=None)
    return L.Named(named.column, expression)


def _none(at: exp.Expr | str) -> bool:
    """Is an offset 0, or an interval without length?"""
    if not isinstance(at, exp.Expr) or at.find(exp.Column, exp.Query):
        return False
    text = to_sql(at)
    try:
        return statements().value(f"({text}) = ({text}) - ({text})") is True
    except duckdb.Error:
        return False


def _ticks(at: exp.Expr, kind: str) -> int | None:
    if at.find(exp.Column, exp.Query):
        return None
    text = to_sql(at)
    try:
        found = statements().value(text)
        if not isinstance(found, datetime.timedelta) or found < datetime.timedelta():
            return None
        parts = statements().value(f"{OWN}date_part(['year', 'month', 'day'], {text})")
    except duckdb.Error:
        return None
    if parts["year"] or parts["month"] or (parts["day"] and "ZONE" in kind):
        found = found * 31 / 30 + datetime.timedelta(days=1)  # days of months, hours of days
    micros = Decimal(found // datetime.timedelta(microseconds=1))
    return math.ceil(micros * _TICKS[kind])


def combined(text: str, before: str, number: str, now: str, kind: str) -> str:
    """A running value, where the rows `before` are given by what they come to."""
    return f"CAST({text.format(before=before, number=number, now=now)} AS {kind})"
