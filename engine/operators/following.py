"""Window functions that look back: a change of a row costs the rows from it on, not its group.

    rows of a group, in order     . . . . . . . . . . x . . . .
    `before` rows, to look at           - - -
    changed row                               x
    evaluated anew                            x . . . .     (or as far as `before` rows behind it)

What running totals are where the evaluation begins is read from the last row before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.operator import Emission, emit
from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.operators.replaced import difference, settled
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.columns import Col
from tidewheel.engine.state.delta import Delta, Int64s, Schema, concat, consolidate, unique
from tidewheel.engine.state.order import begins
from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import sort_rows

_MIN, _MAX = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
SMALL = 1000  # rows of a group that take no longer than looking at it by itself
_SAMPLE: Final = 16  # groups that say how large the changed ones are
MANY = 4096  # rows that take the place of others, if all are no more than
_PART: Final = 32  # times as many
_HEAD: Final = 64  # rows that need not be sorted
APART = 1000  # rows between two changed ones that take longer than another piece does


@dataclass(frozen=True, slots=True)
class Reach:
    """Which rows a row's values depend on: so many `before` it, and so many `after` it.

    `total`: on all before it, too, but by the values of the row before it only. And on all
    whose places are at most `span_before` less than its own, and `span_after` more; and on those
    of so many places (peers share one) before it, and after it.
    """

    before: int = 0
    after: int = 0
    total: bool = False
    span_before: int = 0
    span_after: int = 0
    places_before: int = 0
    places_after: int = 0

    def __or__(self, other: Reach) -> Reach:
        """What both depend on."""
        return Reach(
            max(self.before, other.before),
            max(self.after, other.after),
            self.total or other.total,
            max(self.span_before, other.span_before),
            max(self.span_after, other.span_after),
            max(self.places_before, other.places_before),
            max(self.places_after, other.places_after),
        )

    def first(self, stored: Sequence[Rows], place: int) -> int:
        """Where the rows begin that the row at a place depends on."""
        return min(
            _before(stored, place, self.before),
            _away(stored, place, self.places_before, -1, places=True),
            max(place - self.span_before, _MIN),
        )

    def last(self, stored: Sequence[Rows], place: int) -> int:
        """Where the rows end that the row at a place depends on."""
        return max(
            _after(stored, place, self.after),
            _away(stored, place, self.places_after, 1, places=True),
            min(place + self.span_after, _MAX),
        )

    def turned(self) -> Reach:
        """Which rows depend on a row."""
        return replace(
            self,
            before=self.after,
            after=self.before,
            span_before=self.span_after,
            span_after=self.span_before,
            places_before=self.places_after,
            places_after=self.places_before,
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a group to be evaluated, and the places from and to which their values are new."""

    rows: Delta
    first: int
    last: int
    old: Rows | None
    before: Rows | None
    """The row before `rows`, with what it was given; None if there is none."""


class Following(Keyed):
    """Functions of the rows around each row of a group, by an order. Law: keyed.

    The output is the input's columns and the values. `whole` gives it for all rows of some groups;
    `rest` for those from some place on: its input has the columns `carried` of the output as well,
    those of the last row before, or NULL. The last of them numbers the rows. Outside loops only.
    What it begins with is completed by `later` when something first changes.
    """

    as_they_come = True

    def __init__(
        self,
        input_schema: Schema,
        key: Sequence[int],
        order: Order,
        reach: Reach,
        schema: Schema,
        whole: Evaluate,
        rest: Evaluate,
        carried: Sequence[int],
    ) -> None:
        self.ranking = Ranking(input_schema, order)
        super().__init__(input_schema, key, schema, key, 0, "window")
        self.output = Arrangement(schema, key, 0, self.ranking, name="window output")
        self.reach = reach
        self._whole = whole
        self._rest = rest
        self._carried = carried
        names = [f"{i}" for i in range(len(carried))]
        types = [*input_schema.types, *(schema.types[i] for i in carried)]
        self.later: Callable[[Delta], Delta] | None = None
        self._given = Schema([*input_schema.names, *names], types)

    def _arrange(self, schema: Schema, key: Sequence[int], depth: int) -> Arrangement:
        return Arrangement(schema, key, depth, self.ranking, name=f"{self.name} input")

    def evaluated(self, rows: Delta) -> Delta:
        """The values of all rows of the touched groups."""
        if not len(rows):
            return Delta.empty(self.schema)
        out = self._whole(rows.repeated())
        return Delta(self.schema, out.cols, out.weights)

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New values − values so far, of all rows that the change reaches."""
        if self.later is not None and self.output.posted is not None:
            self.output.posted = self.later(self.output.posted)
        self.later = None
        delta, waiting = deltas[0], self.input.waiting
        if delta is not None and self._begins(delta):
            return self._first(delta)
        if self._agenda or delta is None or (waiting and self.input.key.indices):
            return super().step(counters, deltas)
        keys = self.input.key.keys(delta.cols, len(delta))
        touched = unique(keys)
        if waiting:  # all rows are one group: the tables are read once
            self.input.post(delta)
        few = 2 * len(delta) <= len(self.input.spine) and not self._small(touched)
        if not (few or waiting):
            return super().step(counters, deltas)
        if not waiting:
            self.input.insert(delta, counters, keys)
        found: list[list[_Piece]] = []
        if few:
            by_key = keys.argsort(kind="stable")
            ranks = self.ranking(delta.cols, len(delta))[by_key]
            changed = np.split(ranks, keys[by_key].searchsorted(touched[1:]))
            found = list(map(self._pieces, touched.tolist(), changed))
        pieces = [piece for some in found for piece in some]
        if not few or not all(map(self._one_group, pieces)):
            self._agenda.put(counters, touched)
            return super().step(counters, [None])
        of = touched.repeat([len(some) for some in found])
        new = self._values(of, pieces)
        size = len(new) + sum(len(p.old) for p in pieces if p.old is not None)
        if size >= MANY and size * _PART >= len(self.output.spine) * len(pieces):
            change = self._replaced(of, pieces, new)
        else:
            parts = [p.old.delta().negate() for p in pieces if p.old is not None]
            change = consolidate(concat([new, *parts]))
            self.output.insert(change, counters)
        return emit(counters, change)

    def _replaced(self, of: Int64s, pieces: Sequence[_Piece], new: Delta) -> Delta:
        """What changes, where many rows do: the output has new ones in place of the old ones."""
        spine, rows = self.output.spine, sort_rows(self.output.layout.rows(new))
        found: list[Delta] = []
        for key, piece in zip(of.tolist(), pieces, strict=True):
            begin, end = (int(rows.keys.searchsorted(key, side)) for side in ("left", "right"))
            mine = _between(rows.slice(begin, end), piece.first, piece.last)
            spine.replace(key, piece.first, piece.last, mine)
            found.append(difference(mine, piece.old))
        change = concat(found)
        change.distinct = all(part.distinct for part in found)
        return change

    def _small(self, keys: Int64s) -> bool:
        """Have these groups few rows? Some of them tell."""
        spine = self.input.spine
        if len(spine) < SMALL * len(keys):
            return True
        some = keys[:: -(-len(keys) // _SAMPLE)]
        sizes = (len(rows) for key in some.tolist() for rows in spine.rows_of(key))
        return sum(sizes) < SMALL * len(some)

    def _pieces(self, key: int, changed: Int64s) -> list[_Piece]:
        """What is to be evaluated in one group: parts of it that lie apart, in order."""
        stored = _few_parts(self.input.spine.rows_of(key))
        known = _few_parts(self.output.spine.rows_of(key))
        reach, turned = self.reach, self.reach.turned()
        found: list[tuple[int, int, int, int]] = []
        for least, greatest in [_ends(changed)] if reach.total else _apart(stored, changed):
            first = turned.first(stored, least)
            begin = reach.first(stored, first)
            last = end = _MAX
            if not reach.total:
                last = turned.last(stored, greatest)
                end = reach.last(stored, last)
            if found and begin <= found[-1][-1]:
                begin, first, *_ = found.pop()
            found.append((begin, first, last, end))
        return [self._piece(stored, known, *ends) for ends in found]

    def _piece(
        self, stored: Sequence[Rows], known: Sequence[Rows], begin: int, first: int,
        last: int, end: int,
    ) -> _Piece:  # fmt: skip
        """Rows from `begin` to `end`, of which those from `first` to `last` have new values."""
        rows = _within(stored, begin, end)
        delta = Delta.empty(self.input.schema) if rows is None else rows.delta().repeated()
        before = None
        if self.reach.total and begin > _MIN:
            place = _before(known, begin, 1)
            before = None if place >= begin else _within(known, place, place)
            if before is not None:
                numbers, _ = before.layout.schema.kinds[self._carried[-1]].split(  # type: ignore[attr-defined]
                    before.cols[self._carried[-1]]
                )
                at = int(numbers.argmax())
                before = before.slice(at, at + 1)
        return _Piece(delta, first, last, _within(known, first, last), before)

    def _one_group(self, piece: _Piece) -> bool:
        """Have all rows of a piece the same key, not only the same hash of it?"""
        key = self.input.key
        parts = [p for p in (piece.rows, piece.before) if p is not None and len(p)]
        if not parts or all(key.exact(p.cols) for p in parts):
            return True
        for i in key.indices:
            kind = self.input.schema.kinds[i]
            col = columns_.concat([p.cols[i] for p in parts], kind)
            if not kind.equal(col[1:], col[:-1]).all():
                return False
        return True

    def _values(self, of: Int64s, pieces: Sequence[_Piece]) -> Delta:
        """The output's rows that are new, or may be. `of`: the group of each piece, in order."""
        rows = concat([p.rows for p in pieces])
        if not len(rows):
            return Delta.empty(self.schema)
        carried = [self._column(i, pieces) for i in self._carried]
        given = Delta(self._given, [*rows.cols, *carried], np.ones(len(rows), np.int64))
        out = self._rest(given)
        keys = self.output.key.keys(out.cols, len(out))
        ranks = self.ranking(out.cols, len(out))
        at = of.searchsorted(keys)
        first, last = (np.array(ends) for ends in zip(*((p.first, p.last) for p in pieces),
                                                      strict=True))  # fmt: skip
        # of the pieces of its group, the last one that does not begin behind the row
        for _ in range(int(np.diff(of.searchsorted(unique(of)), append=len(of)).max()) - 1):
            behind = np.minimum(at + 1, len(of) - 1)
            at = np.where((of[behind] == keys) & (first[behind] <= ranks), behind, at)
        new = out.where((first[at] <= ranks) & (ranks <= last[at]))
        return Delta(self.schema, new.cols, new.weights)

    def _column(self, position: int, pieces: Sequence[_Piece]) -> Col:
        """For each row, the value of the row before its piece."""
        kind = self.schema.kinds[position]
        parts: list[Col] = []
        for p in pieces:
            if p.before is None:
                parts.append(kind.load(kind.nulls(len(p.rows))))
            else:
                parts.append(
                    columns_.take(p.before.cols[position], np.zeros(len(p.rows), np.int64))
                )
        return columns_.concat(parts, kind)


def _few_parts(parts: Sequence[Rows]) -> Sequence[Rows]:
    """The same rows, those of small parts in one."""
    small = [rows for rows in parts if len(rows) <= _HEAD]
    if len(small) < 2:
        return parts
    return [*(rows for rows in parts if len(rows) > _HEAD), sort_rows(concat_rows(small))]


def _ends(places: Int64s) -> tuple[int, int]:
    """The least and the greatest place."""
    return int(places.min()), int(places.max())


def _apart(parts: Sequence[Rows], places: Int64s) -> list[tuple[int, int]]:
    """The ends of such places as have few rows between them, in order."""
    most = max(parts, key=len, default=None)
    if most is None or len(most) < max(APART, _HEAD):
        return [_ends(places)]
    assert most.rank is not None
    places = np.sort(places)
    gaps = np.diff(most.rank.searchsorted(places)) > APART
    return [_ends(some) for some in np.split(places, gaps.nonzero()[0] + 1)]


def _before(parts: Sequence[Rows], place: int, wanted: int) -> int:
    """The place of the last but so many rows before a place; the least one if there are fewer."""
    return _away(parts, place, wanted, -1)


def _after(parts: Sequence[Rows], place: int, wanted: int) -> int:
    """The place of the `wanted`-th row behind a place; the greatest one if there are fewer."""
    return _away(parts, place, wanted, 1)


def _away(parts: Sequence[Rows], place: int, wanted: int, way: int, places: bool = False) -> int:
    """The place of the `wanted`-th row, or place, on one side of a place."""
    if not wanted:
        return place
    many = 4 * wanted + 16
    while True:
        found: list[Rows] = []
        bound: int | None = None  # from there on some rows may be missing
        for rows in parts:
            ranks = rows.rank
            assert ranks is not None
            if len(rows) <= _HEAD:
                found.append(rows.where(ranks < place if way < 0 else ranks > place))
                continue
            if way < 0:
                end = int(ranks.searchsorted(place))
                begin = max(end - many, 0)
                missing = begin - 1 if begin else None
            else:
                begin = int(ranks.searchsorted(place, "right"))
                end = min(begin + many, len(rows))
                missing = end if end < len(rows) else None
            if missing is not None:
                at = int(ranks[missing])
                bound = at if bound is None else max(at * -way, bound * -way) * -way
            found.append(rows.slice(begin, end))
        if found:
            near = concat_rows(found)
            assert near.rank is not None
            if bound is not None:
                near = near.where(near.rank > bound if way < 0 else near.rank < bound)
            near = sort_rows(near)
            assert near.rank is not None
            each = begins(near.rank[::way]) if places else near.weights[::way]
            counts = each.cumsum()
            if len(counts) and counts[-1] >= wanted:
                return int(near.rank[::way][counts.searchsorted(wanted)])
        if bound is None:
            return _MIN if way < 0 else _MAX
        many *= 4


def _between(rows: Rows, first: int, last: int) -> Rows:
    """Of sorted rows of one key, those from one place to another."""
    assert rows.rank is not None
    return rows.slice(
        int(rows.rank.searchsorted(first)), int(rows.rank.searchsorted(last, "right"))
    )


def _within(parts: Sequence[Rows], first: int, last: int) -> Rows | None:
    """The rows from one place to another."""
    found: list[Rows] = []
    for rows in parts:
        ranks = rows.rank
        assert ranks is not None
        if len(rows) <= _HEAD:
            found.append(rows.where((first <= ranks) & (ranks <= last)))
        else:
            found.append(_between(rows, first, last))
    found = [f for f in found if len(f)]
    if not found:
        return None
    rows = concat_rows(found)
    if len(found) > 1 or not settled(rows):
        rows = sort_rows(rows)
    return rows if len(rows) else None
