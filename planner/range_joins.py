"""Joins without an equality whose condition says that a point lies in a range."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.operators.ranged import ArrangePoints, ArrangeRanges, Ends
from tidewheel.engine.operators.rank import Order
from tidewheel.planner.logical import references
from tidewheel.planner.rewrites.join_graph import conjuncts
from tidewheel.planner.text import cast_to, to_sql
from tidewheel.planner.view_kernels import common_type

if TYPE_CHECKING:
    from tidewheel.planner.lower_view import Stream, ViewLowering


@dataclass(frozen=True, slots=True)
class Within:
    """`low` ≤ `point` ≤ `high` in every pair, where there are such; `side` has the point."""

    side: int
    point: exp.Expr
    low: exp.Expr | None
    high: exp.Expr | None

    @property
    def ends(self) -> list[exp.Expr]:
        """Those that there are."""
        return [e for e in (self.low, self.high) if e is not None]


def found_in(condition: exp.Expr, left: Set[str], right: Set[str]) -> Iterator[Within]:
    """The points and ranges of a condition over columns of two sides, those with two ends first."""
    lows: dict[tuple[int, str], exp.Expr] = {}
    highs: dict[tuple[int, str], exp.Expr] = {}
    points: dict[tuple[int, str], exp.Expr] = {}
    for small, large in _ordered_pairs(condition):
        one, other = (_side(e, left, right) for e in (small, large))
        if one is None or other is None or one == other:
            continue
        for side, point, end, ends in ((one, small, large, highs), (other, large, small, lows)):
            key = side, to_sql(point)
            points.setdefault(key, point)
            ends.setdefault(key, end)
    both = [key for key in points if key in lows and key in highs]
    for key in [*both, *(k for k in points if k not in both)]:
        yield Within(key[0], points[key], lows.get(key), highs.get(key))


def _ordered_pairs(condition: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """What is at most what wherever the condition holds."""
    for p in conjuncts(condition):
        if isinstance(p, exp.LT | exp.LTE):
            yield p.this, p.expression
        elif isinstance(p, exp.GT | exp.GTE):
            yield p.expression, p.this
        elif isinstance(p, exp.Between) and not p.args.get("symmetric"):
            yield p.args["low"], p.this
            yield p.this, p.args["high"]


def _side(e: exp.Expr, left: Set[str], right: Set[str]) -> int | None:
    read = references(e)
    if not read:
        return None
    return 0 if read <= left else 1 if read <= right else None


def compared_as(types: list[str]) -> str | None:
    """A type in which values of these types keep the order in which they compare."""
    kind = types[0] if len(set(types)) == 1 else _widest(types)
    plain = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER",
             "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP")  # fmt: skip
    return kind if kind is not None and kind.startswith(plain) and kind[-1] != "]" else None


def _widest(types: list[str]) -> str | None:
    """One type for several, which each comparison of two of them could use as well."""
    if set(types) == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    kind: str | None = types[0] if "VARCHAR" not in types else None
    for other in types[1:]:
        kind = None if kind is None else common_type([kind, other])
    # A decimal that has room for three kinds of decimals may have none for some values of each.
    decimal = kind is not None and kind.startswith("DECIMAL")
    return None if decimal and len(types) > 2 else kind


Side = tuple[ArrangePoints | ArrangeRanges, Node]


def arranged(
    low: ViewLowering, left: Stream, right: Stream, condition: exp.Expr
) -> tuple[Stream, Stream, Side, Side] | None:
    """Both sides for a `RangeJoin`, with what it compares as columns; None where it has none."""
    streams = [left, right]
    names = [{c.name for c in s.schema} for s in streams]
    for found in found_in(condition, *names):
        point, ends = streams[found.side], streams[1 - found.side]
        types = [low.type_of(found.point, point), *(low.type_of(e, ends) for e in found.ends)]
        kind = compared_as(types)
        if kind is None:
            continue
        exprs = [
            e if t == kind else cast_to(e.copy(), kind)
            for e, t in zip([found.point, *found.ends], types, strict=True)
        ]
        point, (at,) = low.columns_for(point, exprs[:1])
        ends, places = low.columns_for(ends, exprs[1:])
        columns = Ends(
            None if found.low is None else places[0], None if found.high is None else places[-1]
        )
        sides = low.arrange_points(point, Order(at)), low.arrange_ranges(ends, columns)
        if found.side == 0:
            return point, ends, *sides
        return ends, point, sides[1], sides[0]
    return None
